package session_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"fairlead.dev/platform/coordination"
	"fairlead.dev/platform/mux"
	"fairlead.dev/platform/mux/muxtest"
	"fairlead.dev/services/tunnel/internal/session"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type replica struct {
	*session.Registry
	t        *testing.T
	running  sync.WaitGroup
	draining chan struct{}
}

func newReplica(t *testing.T, c coordination.Coordinator, url string) *replica {
	t.Helper()
	r := &replica{t: t, draining: make(chan struct{}), Registry: session.New(session.Deps{
		Membership: c, Replica: func() string { return url }, Ended: func(error) {}, Log: slog.New(slog.DiscardHandler),
	})}
	t.Cleanup(r.running.Wait)
	return r
}

func memory(t *testing.T) coordination.Coordinator {
	t.Helper()
	c, err := coordination.Open("")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
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
	r.running.Go(func() { _ = r.Serve(context.Background(), cluster, hub, r.draining) })
	r.running.Go(func() { _ = agent.Run(context.Background()) })
	r.t.Cleanup(func() { agent.Close(mux.CodeNone, "") })
	r.await(func() bool { return len(r.List()) > before })
	return agent
}

func (r *replica) await(ok func() bool) {
	r.t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(10 * time.Second); !ok(); {
		select {
		case <-deadline:
			r.t.Fatal("not within 10 s")
		case <-tick.C:
		}
	}
}

func (r *replica) pick(cluster string, tried ...*session.Session) *session.Session {
	r.t.Helper()
	s, err := r.Pick(r.t.Context(), cluster, tried)
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

func TestLeastLoadedSessionIsPicked(t *testing.T) {
	t.Parallel()
	r := newReplica(t, memory(t), "https://a")
	r.connect("edge-1")
	r.connect("edge-1")
	r.connect("edge-2")
	used := map[string]int{}
	for range 10 {
		s := r.pick("edge-1")
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
	first := r.pick("edge-1")
	if second := r.pick("edge-1", first); second == first {
		t.Error("a session that was tried is picked again")
	}
}

func TestMissingSessionSaysWhereAndSinceWhen(t *testing.T) {
	t.Parallel()
	c := memory(t)
	a, b := newReplica(t, c, "https://a"), newReplica(t, c, "https://b")
	var missing *session.NotConnectedError
	if _, err := a.Pick(t.Context(), "edge-1", nil); !errors.As(err, &missing) || !missing.Since.IsZero() || missing.Elsewhere != "" {
		t.Errorf("never seen: %+v, %v", missing, err)
	}
	agent := a.connect("edge-1")
	agent.Close(mux.CodeNone, "")
	a.await(func() bool { return len(a.List()) == 0 })
	if _, err := a.Pick(t.Context(), "edge-1", nil); !errors.As(err, &missing) || missing.Since.IsZero() {
		t.Errorf("gone: %+v, %v", missing, err)
	}
	b.connect("edge-1")
	a.await(func() bool {
		_, err := a.Pick(t.Context(), "edge-1", nil)
		return errors.As(err, &missing) && missing.Elsewhere == "https://b"
	})
}

func TestSessionsOfOneClusterAreBounded(t *testing.T) {
	t.Parallel()
	r := newReplica(t, memory(t), "https://a")
	other := r.connect("edge-2")
	for range 8 {
		r.connect("edge-1")
	}
	hub, line := muxtest.Pipe()
	agent, err := mux.NewAcceptor(line, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.running.Go(func() { _ = r.Serve(context.Background(), "edge-1", hub, r.draining) })
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
	r := newReplica(t, memory(t), "https://a")
	agent := r.connect("edge-1")
	close(r.draining)
	<-agent.Gone()
	<-agent.Done()
	hub, _ := muxtest.Pipe()
	if err := r.Serve(t.Context(), "edge-1", hub, r.draining); !errors.Is(err, session.ErrDraining) {
		t.Errorf("a session while draining: %v", err)
	}
}
