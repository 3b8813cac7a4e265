package tunnelclient_test

import (
	"compress/gzip"
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"go.uber.org/goleak"

	tunnelv1 "fairlead.dev/gen/fairlead/tunnel/v1"
	"fairlead.dev/gen/fairlead/tunnel/v1/tunnelv1connect"
	"fairlead.dev/platform/await"
	"fairlead.dev/platform/client"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/mux"
	"fairlead.dev/platform/mux/muxhttp"
	"fairlead.dev/platform/tunnelclient"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long what has to happen may take on a machine that is busy.
const patience = 5 * time.Minute

var alice = muxhttp.Caller{User: "alice", Groups: []string{"dev", "fairlead:admins"}}

// hub is a tunnel that trusts everybody and strips nothing, so that what the agent does by itself shows.
type hub struct {
	tunnelv1connect.UnimplementedTunnelServiceHandler
	url      string
	ca       []byte
	sessions chan *mux.Session // each that has shaken hands
	refuse   error
	stop     chan struct{} // ends all sessions
}

func newHub(t *testing.T) *hub {
	t.Helper()
	h := &hub{sessions: make(chan *mux.Session, 10), stop: make(chan struct{})}
	m := http.NewServeMux()
	m.Handle(tunnelv1connect.NewTunnelServiceHandler(h))
	s := httptest.NewUnstartedServer(m)
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(func() { close(h.stop); s.CloseClientConnections(); s.Close() })
	h.url = s.URL
	h.ca = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	return h
}

func (h *hub) Connect(ctx context.Context,
	stream *connect.BidiStream[tunnelv1.ConnectRequest, tunnelv1.ConnectResponse],
) error {
	if h.refuse != nil {
		return h.refuse
	}
	if stream.RequestHeader().Get("Authorization") != "Bearer agent-token" {
		return connect.NewError(connect.CodeUnauthenticated, errors.New("no token"))
	}
	c := &hubCarrier{stream: stream, batches: make(chan []byte), closed: make(chan struct{})}
	go c.receive()
	session, err := mux.NewOpener(c, nil)
	if err != nil {
		return err
	}
	var around sync.WaitGroup
	defer around.Wait()
	around.Go(func() {
		select {
		case <-session.Ready():
			h.sessions <- session
		case <-session.Done():
		}
		select {
		case <-session.Done():
		case <-h.stop:
			session.Close(mux.CodeNone, "test over")
		}
	})
	return session.Run(ctx)
}

// hubCarrier receives in a goroutine that ends with the handler.
type hubCarrier struct {
	stream  *connect.BidiStream[tunnelv1.ConnectRequest, tunnelv1.ConnectResponse]
	batches chan []byte
	closed  chan struct{}
	err     error
}

func (c *hubCarrier) receive() {
	defer close(c.batches)
	for {
		m, err := c.stream.Receive()
		if err != nil {
			c.err = err
			return
		}
		select {
		case c.batches <- m.GetFrames():
		case <-c.closed:
			return
		}
	}
}

func (c *hubCarrier) Send(b []byte) error { return c.stream.Send(&tunnelv1.ConnectResponse{Frames: b}) }
func (c *hubCarrier) Close() error        { close(c.closed); return nil }
func (c *hubCarrier) Receive() ([]byte, error) {
	select {
	case b, ok := <-c.batches:
		if !ok {
			return nil, c.err
		}
		return b, nil
	case <-c.closed:
		return nil, io.ErrClosedPipe
	}
}

// agent is a running Client.
type agent struct {
	*tunnelclient.Client
	stop func() // ends it and waits; more than once is fine
}

// kubeTransport puts the agent's own credential on, as client-go's does: only where there is none.
type kubeTransport struct{ http.RoundTripper }

func (k kubeTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Header.Get("Authorization") == "" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer kube-token")
	}
	return k.RoundTripper.RoundTrip(r)
}

func start(t *testing.T, h *hub, kube string) *agent {
	t.Helper()
	return startWith(t, h, kube, tunnelclient.Policy{})
}

func startWith(t *testing.T, h *hub, kube string, policy tunnelclient.Policy) *agent {
	t.Helper()
	return startAlso(t, h, kube, policy, nil)
}

// startAlso is startWith and more policies.
func startAlso(t *testing.T, h *hub, kube string, policy tunnelclient.Policy, also func() []tunnelclient.Policy) *agent {
	t.Helper()
	hc, err := client.New(client.Config{CAPEM: h.ca})
	if err != nil {
		t.Fatal(err)
	}
	base, err := url.Parse(kube)
	if err != nil {
		t.Fatal(err)
	}
	rt := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}
	r, err := tunnelclient.New(tunnelclient.Config{
		Endpoints: func() []string { return []string{h.url} }, HTTPClient: hc,
		Token: identity.StaticToken("agent-token"),
		Kube:  base, Transport: kubeTransport{rt}, Policy: policy, Also: also, Version: "v-test",
		Log: slog.New(slog.DiscardHandler),
		Own: func(w http.ResponseWriter, _ *http.Request, as muxhttp.Impersonated) {
			fmt.Fprint(w, "own ", as.User, as.Groups)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := r.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	}()
	a := &agent{Client: r, stop: func() { cancel(); <-done }}
	t.Cleanup(func() { a.stop(); rt.CloseIdleConnections() })
	return a
}

// reachable starts hub, agent and API server, and returns a session to ask through.
func reachable(t *testing.T, api http.HandlerFunc) *mux.Session {
	t.Helper()
	h := newHub(t)
	start(t, h, newAPI(t, api).URL)
	return next(t, h)
}

func newAPI(t *testing.T, api http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(api)
	s.EnableHTTP2 = true
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.StartTLS()
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s
}

func next(t *testing.T, h *hub) *mux.Session {
	t.Helper()
	select {
	case s := <-h.sessions:
		return s
	case <-time.After(patience):
		t.Fatal("the agent does not connect")
		return nil
	}
}

func ask(t *testing.T, s *mux.Session, caller muxhttp.Caller, target string,
	header http.Header,
) (*http.Response, error) {
	t.Helper()
	req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	u, err := url.ParseRequestURI(target)
	if err != nil {
		t.Fatal(err)
	}
	req.URL = u
	if header != nil {
		req.Header = header
	}
	resp, err := muxhttp.Transport{Session: s, Caller: caller}.RoundTrip(req)
	if err == nil {
		t.Cleanup(func() { _ = resp.Body.Close() })
	}
	return resp, err
}

func get(t *testing.T, s *mux.Session, caller muxhttp.Caller, target string,
	header http.Header,
) (*http.Response, string) {
	t.Helper()
	resp, err := ask(t, s, caller, target, header)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(b)
}

// echo tells what the API server gets.
func echo(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintf(w, "%s %s\n", r.Method, r.RequestURI)
	_ = r.Header.Write(w)
}

func TestCallerIsImpersonated(t *testing.T) {
	t.Parallel()
	s := reachable(t, func(w http.ResponseWriter, r *http.Request) {
		want := http.Header{
			"Impersonate-User": {"alice"}, "Impersonate-Group": {"dev", "fairlead:admins"},
			"Impersonate-Extra-Example.com%2fteam": {"a", "b"}, "Authorization": {"Bearer kube-token"},
			"Accept": {"application/json"}, "Accept-Encoding": {"identity"},
		}
		if !reflect.DeepEqual(r.Header, want) {
			t.Errorf("API server gets %v", r.Header)
		}
	})
	caller := alice
	caller.Extra = map[string][]string{"example.com/team": {"a", "b"}}
	if resp, _ := get(t, s, caller, "/api", http.Header{
		"Accept": {"application/json"},
	}); resp.StatusCode != http.StatusOK {
		t.Errorf("status %d", resp.StatusCode)
	}
}

// The hub strips all of this as well; the agent does not rely on it.
// The agent's own answers are for those whom the policy lets through, as the cluster knows them; the API server is not
// asked.
func TestTheAgentsOwnAnswersKnowTheCaller(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	startWith(t, h, newAPI(t, func(http.ResponseWriter, *http.Request) { t.Error("the API server was asked") }).URL,
		tunnelclient.Policy{GroupPrefix: "corp:", Groups: []string{"corp:dev"}})
	s := next(t, h)
	const path = tunnelclient.OwnPrefix + "v1/services/web/diff"
	resp, body := get(t, s, muxhttp.Caller{
		User: "alice", Groups: []string{"dev", "admins"},
	}, path, http.Header{"Impersonate-User": {"evil"}})
	if resp.StatusCode != http.StatusOK || body != "own alice[corp:dev]" {
		t.Errorf("got %d %s", resp.StatusCode, body)
	}
	for _, user := range []string{"", "system:admin"} {
		if resp, body := get(t, s, muxhttp.Caller{User: user}, path, nil); resp.StatusCode != http.StatusForbidden {
			t.Errorf("%q: got %d %s", user, resp.StatusCode, body)
		}
	}
}

func TestForgedIdentityIsRemoved(t *testing.T) {
	t.Parallel()
	s := reachable(t, echo)
	attacks := map[string]http.Header{
		"impersonate": {
			"Impersonate-User": {"evil"}, "Impersonate-Group": {"evil"}, "Impersonate-Uid": {"evil"},
			"Impersonate-Extra-X": {"evil"},
		},
		"authorization":       {"Authorization": {"Bearer evil"}},
		"front proxy":         {"X-Remote-User": {"evil"}, "X-Remote-Group": {"evil"}},
		"cookie":              {"Cookie": {"evil"}},
		"named by connection": {"Connection": {"Impersonate-User, Impersonate-Group, X-Evil"}, "X-Evil": {"evil"}},
		"proxy":               {"Proxy-Authorization": {"evil"}, "X-Forwarded-User": {"evil"}},
	}
	for name, header := range attacks {
		t.Run(name, func(t *testing.T) {
			_, body := get(t, s, alice, "/api", header)
			if strings.Contains(body, "evil") || !strings.Contains(body, "Impersonate-User: alice") ||
				!strings.Contains(body, "Impersonate-Group: dev") || !strings.Contains(body, "Bearer kube-token") {
				t.Errorf("API server gets\n%s", body)
			}
		})
	}
}

func TestUnsafeCallersAreRefused(t *testing.T) {
	t.Parallel()
	s := reachable(t, func(_ http.ResponseWriter, r *http.Request) { t.Errorf("asked as %v", r.Header) })
	callers := map[string]muxhttp.Caller{
		"nobody":                {},
		"groups without a user": {Groups: []string{"dev"}},
		"system user":           {User: "system:admin"},
		"system group":          {User: "alice", Groups: []string{"dev", "system:masters"}},
		// blanks are cut off by HTTP servers
		"system group after a blank": {User: "alice", Groups: []string{" system:masters"}},
		"system user after a tab":    {User: "\tsystem:admin"},
		"line break":                 {User: "alice\r\nImpersonate-Group: system:masters"},
		"empty group":                {User: "alice", Groups: []string{""}},
		"extra with a line break":    {User: "alice", Extra: map[string][]string{"k": {"a\r\nb"}}},
	}
	for name, caller := range callers {
		t.Run(name, func(t *testing.T) {
			resp, body := get(t, s, caller, "/api", nil)
			if resp.StatusCode != http.StatusForbidden || !strings.Contains(body, `"kind":"Status"`) {
				t.Errorf("%d %s", resp.StatusCode, body)
			}
		})
	}
}

func TestPathTricksAreRefused(t *testing.T) {
	t.Parallel()
	s := reachable(t, func(_ http.ResponseWriter, r *http.Request) { t.Errorf("asked for %s", r.RequestURI) })
	for _, path := range []string{"/a/../b", "/%2e%2e/b", "/%252e%252e/b", "/a%2f..%2fb", "/a%00"} {
		if resp, body := get(t, s, alice, path, nil); resp.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %d %s", path, resp.StatusCode, body)
		}
	}
}

func TestEscapesAndBasePathAreKept(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	api := newAPI(t, echo)
	start(t, h, api.URL+"/k8s/clusters/c%2D1/")
	s := next(t, h)
	for _, path := range []string{"/api/v1?limit=500&x=%2F", "/a%2Fb%20c", "/a?", "/"} {
		if _, body := get(t, s, alice, path, nil); !strings.HasPrefix(body, "GET /k8s/clusters/c%2D1"+path+"\n") {
			t.Errorf("%s arrives as %s", path, body)
		}
	}
}

func TestWatchAndCancel(t *testing.T) {
	t.Parallel()
	events, ended := make(chan string), make(chan struct{})
	s := reachable(t, func(w http.ResponseWriter, r *http.Request) {
		defer close(ended)
		w.(http.Flusher).Flush()
		for {
			select {
			case e := <-events:
				_, _ = io.WriteString(w, e)
				w.(http.Flusher).Flush()
			case <-r.Context().Done():
				return
			}
		}
	})
	resp, err := ask(t, s, alice, "/api/v1/pods?watch=true", nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		want := fmt.Sprintf("event %d\n", i)
		events <- want
		got := make([]byte, len(want))
		if _, err := io.ReadFull(resp.Body, got); err != nil || string(got) != want {
			t.Fatalf("%q, %v", got, err)
		}
	}
	_ = resp.Body.Close()
	select {
	case <-ended:
	case <-time.After(patience):
		t.Error("the API server still watches for nobody")
	}
}

func TestGzipIsUntouched(t *testing.T) {
	t.Parallel()
	s := reachable(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept-Encoding") != "gzip" {
			_, _ = io.WriteString(w, "plain")
			return
		}
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		_, _ = io.WriteString(z, "zipped")
		_ = z.Close()
	})
	resp, body := get(t, s, alice, "/", http.Header{"Accept-Encoding": {"gzip"}})
	if resp.Header.Get("Content-Encoding") != "gzip" || !strings.HasPrefix(body, "\x1f\x8b") {
		t.Errorf("%v %q", resp.Header, body)
	}
	if resp, body := get(t, s, alice, "/", nil); resp.Header.Get("Content-Encoding") != "" || body != "plain" {
		t.Errorf("%v %q", resp.Header, body)
	}
}

func TestAPIServerThatBreaksOffIsAnError(t *testing.T) {
	t.Parallel()
	read := make(chan struct{})
	s := reachable(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"items":[`)
		w.(http.Flusher).Flush()
		<-read
		panic(http.ErrAbortHandler)
	})
	resp, err := ask(t, s, alice, "/api/v1/pods", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(resp.Body, make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	close(read)
	var reset *mux.ResetError
	if _, err := io.ReadAll(resp.Body); !errors.As(err, &reset) || reset.Code != mux.CodeUpstream ||
		!strings.Contains(reset.Text, "API server") {
		t.Errorf("half a list ends with %v", err)
	}
}

func TestErrorsOfTheAPIServer(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	api := newAPI(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/401":
			w.WriteHeader(http.StatusUnauthorized)
		case "/moved":
			w.Header().Set("Location", "https://"+r.Host+"/new?x=y")
			w.WriteHeader(http.StatusFound)
		case "/away":
			w.Header().Set("Location", "https://elsewhere.example.com/")
			w.WriteHeader(http.StatusFound)
		default:
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
		}
	})
	start(t, h, api.URL)
	s := next(t, h)
	if resp, body := get(t, s, alice, "/401", nil); resp.StatusCode != http.StatusBadGateway ||
		!strings.Contains(body, "own credential") {
		t.Errorf("401: %d %s", resp.StatusCode, body)
	}
	if resp, _ := get(t, s, alice, "/429", nil); resp.StatusCode != http.StatusTooManyRequests ||
		resp.Header.Get("Retry-After") != "1" {
		t.Errorf("429: %d", resp.StatusCode)
	}
	if resp, _ := get(t, s, alice, "/moved", nil); resp.Header.Get("Location") != "/new?x=y" {
		t.Errorf("redirect to %s", resp.Header.Get("Location"))
	}
	if resp, _ := get(t, s, alice, "/away", nil); resp.Header.Get("Location") != "https://elsewhere.example.com/" {
		t.Errorf("redirect to %s", resp.Header.Get("Location"))
	}
	api.CloseClientConnections()
	api.Close()
	if resp, body := get(t, s, alice, "/", nil); resp.StatusCode != http.StatusBadGateway ||
		!strings.Contains(body, "can't reach its API server") {
		t.Errorf("down: %d %s", resp.StatusCode, body)
	}
}

func TestLostSessionIsDialledAgain(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	a := start(t, h, newAPI(t, echo).URL)
	for range 3 {
		s := next(t, h)
		if v := s.Peer().Properties["version"]; v != "v-test" {
			t.Errorf("version %q", v)
		}
		s.Close(mux.CodeInternal, "test cuts it")
	}
	s := next(t, h)
	if resp, _ := get(t, s, alice, "/", nil); resp.StatusCode != http.StatusOK {
		t.Errorf("status %d", resp.StatusCode)
	}
	// A session serves requests a moment before its state says so.
	await.True(t, "the state says that the session is there", func() bool { return a.States()[0].Connected })
	if st := a.States(); len(st) != 1 || st[0].Endpoint != h.url {
		t.Errorf("states %+v", st)
	}
}

func TestReplacementIsDialledWhileOldStreamsFinish(t *testing.T) {
	t.Parallel()
	finish := make(chan struct{})
	h := newHub(t)
	start(t, h, newAPI(t, func(w http.ResponseWriter, _ *http.Request) {
		w.(http.Flusher).Flush()
		<-finish
		_, _ = io.WriteString(w, "whole")
	}).URL)
	old := next(t, h)
	resp, err := ask(t, old, alice, "/slow", nil)
	if err != nil {
		t.Fatal(err)
	}
	old.GoAway("replica restarts")
	next(t, h) // while the answer is still on its way
	close(finish)
	if b, err := io.ReadAll(resp.Body); err != nil || string(b) != "whole" {
		t.Errorf("%q, %v", b, err)
	}
	old.Close(mux.CodeNone, "")
}

func TestStopLetsRequestsFinish(t *testing.T) {
	t.Parallel()
	began, finish := make(chan struct{}), make(chan struct{})
	h := newHub(t)
	a := start(t, h, newAPI(t, func(w http.ResponseWriter, _ *http.Request) {
		w.(http.Flusher).Flush()
		close(began)
		<-finish
		_, _ = io.WriteString(w, "whole")
	}).URL)
	s := next(t, h)
	resp, err := ask(t, s, alice, "/slow", nil)
	if err != nil {
		t.Fatal(err)
	}
	<-began
	stopped := make(chan struct{})
	go func() { defer close(stopped); a.stop() }()
	<-s.Gone()
	close(finish)
	if b, err := io.ReadAll(resp.Body); err != nil || string(b) != "whole" {
		t.Errorf("%q, %v", b, err)
	}
	<-stopped
}

func TestRefusalIsTold(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	h.refuse = connect.NewError(connect.CodeNotFound, errors.New(`cluster "edge-1" is not in the catalog`))
	a := start(t, h, "https://127.0.0.1:1")
	deadline := time.After(patience)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if st := a.States(); len(st) == 1 && st[0].Err != nil {
			if st[0].Connected || !strings.Contains(st[0].Err.Error(), "not in the catalog") {
				t.Errorf("state %+v", st[0])
			}
			return
		}
		select {
		case <-deadline:
			t.Fatal("no state")
		case <-tick.C:
		}
	}
}

func TestNewNeedsItsParts(t *testing.T) {
	t.Parallel()
	if _, err := tunnelclient.New(tunnelclient.Config{}); err == nil {
		t.Error("an empty configuration passes")
	}
}
