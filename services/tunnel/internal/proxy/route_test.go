package proxy

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"fairlead.dev/platform/mux"
	"fairlead.dev/platform/mux/muxhttp"
	"fairlead.dev/platform/mux/muxtest"
	"fairlead.dev/services/tunnel/internal/session"
)

// News get lost, and a replica that did not answer may answer again: who waits looks without news, too.
func TestWhoWaitsLooksAgainWithoutNews(t *testing.T) {
	t.Parallel()
	rt := &route{out: httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/clusters/edge-1/api", nil)}
	if !rt.waitForChange(nil, nil) {
		t.Error("gave up")
	}
}

// sessions are given in turn.
type sessions []*session.Session

func (s sessions) Pick(_ string, tried []*session.Session) (*session.Session, error) {
	for _, one := range s {
		if !slices.Contains(tried, one) {
			return one, nil
		}
	}
	return nil, &session.NotConnectedError{}
}

// alone has no other replicas.
type alone struct{ Peers }

func (alone) News() <-chan struct{} { return nil }

// connected returns a session, and its agent's end.
func connected(t *testing.T) (*session.Session, *mux.Session) {
	t.Helper()
	here, there := muxtest.Pipe()
	opener, err := mux.NewOpener(here, nil)
	if err != nil {
		t.Fatal(err)
	}
	acceptor, err := mux.NewAcceptor(there, nil)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = opener.Run(t.Context()) }()
	go func() { _ = acceptor.Run(t.Context()) }()
	<-opener.Ready()
	return &session.Session{Session: opener}, acceptor
}

// noting notes that somebody reads.
type noting struct {
	io.Reader

	reads chan struct{}
}

func (n noting) Read(p []byte) (int, error) {
	select {
	case n.reads <- struct{}{}:
	default:
	}
	return n.Reader.Read(p)
}

// An agent that goes away refuses a request of which the body is still to come: the next session gets all of it.
func TestARefusedRequestLosesNothingOfABodyThatComesLate(t *testing.T) {
	t.Parallel()
	first, refuses := connected(t)
	second, serves := connected(t)
	body, come := io.Pipe()
	reads, served := make(chan struct{}, 1), make(chan struct{})
	go func() {
		st, err := refuses.Accept(t.Context())
		if err != nil {
			return
		}
		<-reads
		st.Reset(mux.CodeRefused, "the agent is going away")
		st.Close()
	}()
	go func() {
		_ = muxhttp.Serve(t.Context(), serves, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			close(served)
			_, _ = io.Copy(w, r.Body)
		}), slog.New(slog.DiscardHandler))
	}()
	go func() {
		<-served
		for _, part := range []string{"all ", "of ", "it"} {
			_, _ = io.WriteString(come, part)
		}
		_ = come.Close()
	}()
	h := New(Deps{Sessions: sessions{first, second}, Peers: alone{}, Log: slog.New(slog.DiscardHandler)})
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/clusters/edge-1/api", noting{body, reads})
	x := h.newExchange(Prefix, r)
	resp, failed := x.askCluster(x.clusterRequest(context.WithoutCancel(t.Context()), r))
	if failed != nil {
		t.Fatal(failed)
	}
	defer func() { _ = resp.Body.Close() }()
	got, err := io.ReadAll(resp.Body)
	if counted := x.sent.n.Load(); err != nil || string(got) != "all of it" || counted != int64(len(got)) {
		t.Errorf("the second agent got %q, %v, of which %d bytes were counted", got, err, counted)
	}
}
