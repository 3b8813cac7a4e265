package acceptance

import (
	"context"
	"net/http"
	"sync"
	"testing"

	"fairlead.dev/platform/await"
	"fairlead.dev/platform/mux"
	"fairlead.dev/platform/mux/muxws"
)

// testTunnel is the hub's end of the sessions of agents.
type testTunnel struct {
	sockets muxws.Acceptor

	mu     sync.Mutex   // guards newest
	newest *mux.Session // The last one that has begun.
}

func (tt *testTunnel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	conn, err := tt.sockets.Accept(w, r)
	if err != nil {
		return // The answer says why.
	}
	defer conn.CloseWith(muxws.CodeBase, "the session is over")
	session, err := mux.NewOpener(conn, nil)
	if err != nil {
		return
	}
	var around sync.WaitGroup
	defer around.Wait()
	around.Go(func() {
		select {
		case <-session.Ready():
			tt.mu.Lock()
			defer tt.mu.Unlock()
			tt.newest = session
		case <-session.Done():
		}
	})
	_ = session.Run(context.WithoutCancel(r.Context())) // The agent ends it.
}

// session is the one that goes on.
func (tt *testTunnel) session(t *testing.T) (open *mux.Session) {
	t.Helper()
	await.True(t, "the agent has a session", func() bool {
		tt.mu.Lock()
		defer tt.mu.Unlock()
		if open = tt.newest; open == nil {
			return false
		}
		select {
		case <-open.Gone():
			return false
		default:
			return true
		}
	})
	return open
}
