package mux_test

import (
	"context"
	"errors"
	"io"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"fairlead.dev/platform/mux"
	"fairlead.dev/platform/mux/muxtest"
)

// sharing is newPair with a bound on what the hub's side holds.
func sharing(t *testing.T, most int64) (*pair, *mux.Shared) {
	t.Helper()
	shared := mux.NewShared(most)
	p := &pair{}
	p.hubLine, p.agentLine = muxtest.Pipe()
	var err error
	if p.hub, err = shared.NewOpener(p.hubLine, nil); err != nil {
		t.Fatal(err)
	}
	if p.agent, err = mux.NewAcceptor(p.agentLine, nil); err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	for _, s := range []*mux.Session{p.hub, p.agent} {
		running.Go(func() { _ = s.Run(context.Background()) }) // ends with Close
	}
	t.Cleanup(func() {
		p.hub.Close(mux.CodeNone, "")
		running.Wait()
	})
	<-p.hub.Ready()
	<-p.agent.Ready()
	return p, shared
}

func TestReplicaHoldsNoMoreThanItsBound(t *testing.T) {
	t.Parallel()
	const most = 1 << 20
	p, shared := sharing(t, most)
	var open []*mux.Stream
	refused := 0
	for range 100 {
		st, err := p.hub.Open(nil, mux.Part{})
		if errors.Is(err, mux.ErrTooManyStreams) {
			refused++
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, st)
		agent, err := p.agent.Accept(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(agent.Close)
		// As much as its window takes. The bytes are not read.
		_, _ = agent.Write(make([]byte, 64<<10)) // fails if the stream was reset meanwhile
		for st.Buffered() < 64<<10 && st.Context().Err() == nil {
			runtime.Gosched()
		}
		if st.Context().Err() != nil {
			refused++
		}
		// Little is taken beyond the bound: a chunk of each stream.
		if held := shared.Held(); held > most+int64(len(open))*(4<<10)+(32<<10) {
			t.Fatalf("%d bytes are held, more than %d", held, most)
		}
	}
	if refused < 50 {
		t.Errorf("%d of 100 streams were refused or reset: the bound is for 16", refused)
	}
	for _, st := range open {
		st.Close()
	}
	if held := shared.Held(); held != 0 {
		t.Errorf("%d bytes are held for nobody", held)
	}
	st, err := p.hub.Open(nil, mux.Part{})
	if err != nil {
		t.Fatalf("after there is room again: %v", err)
	}
	st.Close()
}

// A hundred thousand requests that somebody gives up leave nothing behind. (Goroutines: see TestMain.)
func TestAbortedRequestsLeaveNothing(t *testing.T) {
	t.Parallel()
	p, shared := sharing(t, 1<<30)
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			st, err := p.agent.Accept(context.Background())
			if err != nil {
				return
			}
			serving.Go(func() {
				defer st.Close()
				_, _ = st.Write(make([]byte, 3000))
				<-st.Context().Done()
			})
		}
	})
	var asking sync.WaitGroup
	for range 8 {
		asking.Go(func() {
			for i := 0; i < 12_500; {
				st, err := p.hub.Open([]byte("x"), mux.Part{Headers: []byte("h"), Data: make([]byte, i%100)})
				if errors.Is(err, mux.ErrTooManyStreams) {
					runtime.Gosched()
					continue
				}
				if err != nil {
					t.Errorf("open: %v", err)
					return
				}
				if i%7 == 0 {
					_, _ = io.ReadFull(st, make([]byte, 1))
				}
				st.Close()
				i++
			}
		})
	}
	asking.Wait()
	waitStreams(t, p)
	if held := shared.Held(); held != 0 {
		t.Errorf("%d bytes are held", held)
	}
	p.hub.Close(mux.CodeNone, "done")
	serving.Wait()
}

// The agent's PINGs tell both sides that the other lives; the hub, which has thousands of sessions, asks seldom.
func TestOneHeartbeatOfASession(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, _ := sharing(t, 1<<20)
		const minute = time.Minute
		<-time.After(10 * minute)
		if !p.hub.Stats().Usable {
			t.Fatal("an idle session died")
		}
		// In ten minutes the agent sends 120 PINGs and the hub 20; each is answered.
		if hub, agent := p.hubLine.Sent(), p.agentLine.Sent(); hub+agent > 300 {
			t.Errorf("idle sessions send %d and %d batches in ten minutes", hub, agent)
		}
	})
}
