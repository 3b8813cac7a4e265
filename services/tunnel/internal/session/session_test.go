package session_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"fairlead.dev/platform/mux"
	"fairlead.dev/platform/mux/muxtest"
	"fairlead.dev/platform/refusal"
	"fairlead.dev/services/tunnel/internal/session"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type replica struct {
	*session.Registry
	t       *testing.T
	running sync.WaitGroup
	mu      sync.Mutex
	told    map[string]string // clusters by session, as the directory was told
}

func (r *replica) Add(cluster, session string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.told[session] = cluster
}

func (r *replica) Remove(session string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.told, session)
}

func newReplica(t *testing.T) *replica {
	t.Helper()
	r := &replica{t: t, told: make(map[string]string)}
	r.Registry = session.New(session.Deps{
		Directory: r, Properties: func() map[string]string { return nil }, Ended: func(error) {},
		Log: slog.New(slog.DiscardHandler),
	})
	t.Cleanup(r.running.Wait)
	return r
}

// connect returns the agent's end of a new session, once the registry has it.
func (r *replica) connect(cluster string) *mux.Session {
	r.t.Helper()
	before := len(r.List())
	hub, line := muxtest.Pipe()
	agent, err := mux.NewAcceptor(line, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	r.running.Go(func() { _ = r.Serve(context.Background(), cluster, over(hub)) })
	r.running.Go(func() { _ = agent.Run(context.Background()) })
	r.t.Cleanup(func() { agent.Close(mux.CodeNone, "") })
	r.await(func() bool { return len(r.List()) > before })
	return agent
}

func over(c mux.Carrier) func() (mux.Carrier, error) {
	return func() (mux.Carrier, error) { return c, nil }
}

func (r *replica) await(ok func() bool) {
	r.t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(time.Minute); !ok(); {
		select {
		case <-deadline:
			r.t.Fatal("not within a minute")
		case <-tick.C:
		}
	}
}

func (r *replica) pick(tried ...*session.Session) *session.Session {
	r.t.Helper()
	s, err := r.Pick("edge-1", tried)
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

func TestLeastLoadedSessionIsPicked(t *testing.T) {
	t.Parallel()
	r := newReplica(t)
	r.connect("edge-1")
	r.connect("edge-1")
	r.connect("edge-2")
	used := map[string]int{}
	for range 10 {
		s := r.pick()
		if s.Cluster != "edge-1" {
			t.Fatalf("session of %s", s.Cluster)
		}
		st, err := s.Open(nil, mux.Part{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(st.Close)
		used[s.ID]++
	}
	if len(used) != 2 {
		t.Fatalf("one session takes all: %v", used)
	}
	for _, n := range used {
		if n != 5 {
			t.Errorf("streams by session: %v", used)
		}
	}
	first := r.pick()
	if second := r.pick(first); second == first {
		t.Error("a session that was tried is picked again")
	}
}

func TestMissingSessionSaysSinceWhen(t *testing.T) {
	t.Parallel()
	r := newReplica(t)
	var missing *session.NotConnectedError
	if _, err := r.Pick("edge-1", nil); !errors.As(err, &missing) || !missing.Since.IsZero() || missing.Ending {
		t.Errorf("never seen: %+v, %v", missing, err)
	}
	agent := r.connect("edge-1")
	r.await(func() bool { r.mu.Lock(); defer r.mu.Unlock(); return len(r.told) == 1 })
	agent.Close(mux.CodeNone, "")
	r.await(func() bool { return len(r.List()) == 0 })
	if _, err := r.Pick("edge-1", nil); !errors.As(err, &missing) || missing.Since.IsZero() {
		t.Errorf("gone: %+v, %v", missing, err)
	}
	r.await(func() bool { r.mu.Lock(); defer r.mu.Unlock(); return len(r.told) == 0 })
}

func TestSessionsOfOneClusterAreBounded(t *testing.T) {
	t.Parallel()
	r := newReplica(t)
	other := r.connect("edge-2")
	for range 8 {
		r.connect("edge-1")
	}
	hub, line := muxtest.Pipe()
	agent, err := mux.NewAcceptor(line, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.running.Go(func() { _ = r.Serve(context.Background(), "edge-1", over(hub)) })
	r.running.Go(func() { _ = agent.Run(context.Background()) })
	t.Cleanup(func() { agent.Close(mux.CodeNone, "") })
	<-agent.Ready()
	r.await(func() bool { return len(r.List()) == 9 })
	select {
	case <-agent.Done():
		t.Error("the newest session was cut instead of the one that was silent longest")
	case <-other.Done():
		t.Error("another cluster's session was cut")
	default:
	}
}

func TestDrainTellsAgentsAndTakesNoMore(t *testing.T) {
	t.Parallel()
	r := newReplica(t)
	agent := r.connect("edge-1")
	st, err := r.pick().Open(nil, mux.Part{})
	if err != nil {
		t.Fatal(err)
	}
	drained := make(chan struct{})
	go func() { r.Drain(t.Context()); close(drained) }()
	<-agent.Gone()
	var missing *session.NotConnectedError
	if _, err := r.Pick("edge-1", nil); !errors.As(err, &missing) || !missing.Ending {
		t.Errorf("while it ends: %+v, %v", missing, err)
	}
	hub, _ := muxtest.Pipe()
	if err := r.Serve(t.Context(), "edge-1", over(hub)); !errors.Is(err, session.ErrDraining) {
		t.Errorf("a session while draining: %v", err)
	}
	select {
	case <-agent.Done():
		t.Error("the session ended before its stream")
	default:
	}
	st.Close()
	<-drained
	<-agent.Done()
}

func TestDrainHasALimit(t *testing.T) {
	t.Parallel()
	r := newReplica(t)
	agent := r.connect("edge-1")
	st, err := r.pick().Open(nil, mux.Part{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r.Drain(ctx)
	<-agent.Done()
}

// Agents that come all at once wait for their handshake; those that waited for too long are told when to come again.
func TestHandshakesAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newReplica(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer r.running.Wait()
		defer cancel()
		var greeting, refused atomic.Int32
		agents := make(chan *muxtest.Carrier, 300)
		for range 300 {
			r.running.Go(func() {
				err := r.Serve(ctx, "edge-1", func() (mux.Carrier, error) {
					greeting.Add(1)
					hub, agent := muxtest.Pipe() // nobody greets
					agents <- agent
					return hub, nil
				})
				if busy, ok := errors.AsType[*refusal.Error](err); ok && busy.RetryAfter > 0 {
					refused.Add(1)
				}
			})
		}
		synctest.Wait()
		if n := greeting.Load(); n != 256 {
			t.Errorf("%d handshakes run at once", n)
		}
		for range 10 {
			_ = (<-agents).Close()
		}
		synctest.Wait()
		if n := greeting.Load(); n != 266 || refused.Load() != 0 {
			t.Errorf("%d handshakes were begun when 10 had ended, and %d agents were refused", n, refused.Load())
		}
		time.Sleep(6 * time.Second) //nolint:forbidigo // fake time
		synctest.Wait()
		if n := refused.Load(); n != 300-266 {
			t.Errorf("%d agents were refused", n)
		}
	})
}
