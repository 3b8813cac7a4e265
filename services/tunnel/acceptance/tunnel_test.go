package acceptance

import (
	"bufio"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/consoletest"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/identity/identitytest"
	"fairlead.dev/platform/mux"
	"fairlead.dev/platform/mux/muxhttp"
)

func TestRequestReachesTheClusterAsTheCaller(t *testing.T) {
	t.Parallel()
	h := newHub(t, "edge-1")
	h.connect("edge-1", func(w http.ResponseWriter, r *http.Request) {
		caller, _ := muxhttp.CallerFrom(r.Context())
		w.Header().Set("Warning", `299 - "old API"`)
		w.Header().Set("Set-Cookie", "hub=stolen")
		w.Header().Set("Alt-Svc", `h3=":443"`)
		fmt.Fprintf(w, "%s %s as %s %q trace %t", r.Method, r.RequestURI, caller.User, caller.Groups,
			caller.TraceParent != "")
	})
	resp, body := h.do(h.request("GET", "/clusters/edge-1/api/v1/namespaces?limit=500&labelSelector=a%3Db", nil))
	want := `GET /api/v1/namespaces?limit=500&labelSelector=a%3Db as alice ["dev" "fairlead:admins"] trace true`
	if resp.StatusCode != http.StatusOK || body != want {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	if resp.Header.Get("Warning") == "" || resp.Header.Get("Set-Cookie") != "" || resp.Header.Get("Alt-Svc") != "" {
		t.Errorf("header %v", resp.Header)
	}
	if _, body := h.do(h.request("GET", "/clusters/edge-1", nil)); !strings.HasPrefix(body, "GET / as") {
		t.Errorf("root: %s", body)
	}
}

func TestEscapesReachTheClusterAsTheyCame(t *testing.T) {
	t.Parallel()
	h := newHub(t, "edge-1")
	h.connect("edge-1", func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.RequestURI) })
	for _, path := range []string{
		"/api/v1/namespaces/x/services/https:web:443/proxy/a%2Fb%20c", "//twice//", "/%E2%82%AC", "/a..b/...",
		"/100%25", "/a?", "/a?x=%2e%2e/%2e%2e",
	} {
		if _, body := h.do(h.request("GET", "/clusters/edge-1"+path, nil)); body != path {
			t.Errorf("%s arrives as %s", path, body)
		}
	}
}

// Each header is an attempt to pass for somebody else; none of it may reach the agent.
func TestHeaderSmuggling(t *testing.T) {
	t.Parallel()
	h := newHub(t, "edge-1")
	h.connect("edge-1", func(w http.ResponseWriter, r *http.Request) {
		caller, _ := muxhttp.CallerFrom(r.Context())
		_ = r.Header.Write(w)
		fmt.Fprintf(w, "caller=%s", caller.User)
	})
	attacks := map[string][2]string{
		"cookie":                              {"Cookie", "session=evil"},
		"front proxy user":                    {"X-Remote-User", "evil"},
		"front proxy group":                   {"X-Remote-Group", "evil"},
		"front proxy extra":                   {"X-Remote-Extra-Foo", "evil"},
		"forwarded":                           {"X-Forwarded-For", "evil"},
		"forwarded host":                      {"X-Forwarded-Host", "evil"},
		"forwarded, standard":                 {"Forwarded", "for=evil"},
		"proxy authorization":                 {"Proxy-Authorization", "evil"},
		"hop by hop":                          {"Keep-Alive", "evil"},
		"trailer announcing an impersonation": {"Trailer", "Impersonate-User"},
	}
	for name, attack := range attacks {
		t.Run(name, func(t *testing.T) {
			req := h.request("GET", "/clusters/edge-1/api", nil)
			req.Header[attack[0]] = []string{attack[1]}
			_, body := h.do(req)
			if strings.Contains(body, "evil") || strings.Contains(strings.ToLower(body), "impersonate") ||
				!strings.Contains(body, "caller=alice") {
				t.Errorf("the agent gets:\n%s", body)
			}
			if strings.Contains(body, "Bearer") || strings.Contains(body, "Authorization") {
				t.Errorf("the hub's token reaches the cluster:\n%s", body)
			}
		})
	}
}

// HTTP/1.1 as written by hand, which Go's client would refuse to send.
func TestRawSmuggling(t *testing.T) {
	t.Parallel()
	h := newHub(t, "edge-1")
	h.connect("edge-1", func(w http.ResponseWriter, r *http.Request) {
		caller, _ := muxhttp.CallerFrom(r.Context())
		_ = r.Header.Write(w)
		fmt.Fprintf(w, "caller=%s", caller.User)
	})
	attacks := map[string]string{
		// CVE-2021-31999: a proxy that sets the identity and then obeys Connection removes it again.
		"connection names the identity": "Connection: Impersonate-User, Impersonate-Group\r\nImpersonate-User: evil\r\n",
		"connection names any header":   "Connection: close, X-Evil\r\nX-Evil: evil\r\n",
		"identity twice":                "Impersonate-User: evil\r\nimpersonate-user: evil2\r\n",
		"folded header":                 "X-A: b\r\n Impersonate-User: evil\r\n",
		"blank before the colon":        "Impersonate-User : evil\r\n",
		"second authorization":          "Authorization: Bearer evil\r\n",
	}
	for name, lines := range attacks {
		t.Run(name, func(t *testing.T) {
			resp := h.raw(t, "GET /clusters/edge-1/api HTTP/1.1\r\nHost: hub\r\nAuthorization: Bearer "+h.user()+"\r\n"+
				lines+"\r\n")
			body, _ := io.ReadAll(resp.Body)
			if resp.StatusCode == http.StatusOK &&
				(strings.Contains(string(body), "evil") && name != "folded header" ||
					!strings.Contains(string(body), "caller=alice")) {
				t.Errorf("the agent gets:\n%s", body)
			}
			if strings.Contains(strings.ToLower(string(body)), "\nimpersonate") {
				t.Errorf("the agent gets:\n%s", body)
			}
		})
	}
}

func (h *hub) raw(t *testing.T, request string) *http.Response {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(h.ca)
	d := tls.Dialer{Config: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}
	conn, err := d.DialContext(t.Context(), "tcp", strings.TrimPrefix(h.url, "https://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

func TestPathAttacks(t *testing.T) {
	t.Parallel()
	h := newHub(t, "edge-1", "edge-2")
	reached := func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "reached %s", r.RequestURI) }
	h.connect("edge-1", reached)
	h.connect("edge-2", reached)
	for _, path := range []string{
		"/clusters/edge-1/../edge-2/api", "/clusters/edge-1/%2e%2e/edge-2/api", "/clusters/edge-1/.%2E/edge-2",
		"/clusters/edge-1/..%2fedge-2",
		"/clusters/edge-1/%252e%252e/edge-2", "/clusters/edge-1/a/..;/b", "/clusters/edge-1/a%5c..%5cb",
		"/clusters/edge-1/./api", "/clusters/edge-1/..",
		"/clusters/%65dge-1/api", "/clusters/../clusters/edge-1/api", "/clusters//edge-1/api", "/clusters/.",
		"/clusters/..", "/clusters/EDGE-1/api",
		"/clusters/edge-1%2fapi", "/clusters/edge-1%00/api", "/clusters/edge-1/%00", "/clusters/edge-1/a%0d%0aX: y",
		"/clusters/edge_1/x", "/clusters/", "/clusters%2fedge-1/api",
	} {
		resp, body := h.do(h.request("GET", path, nil))
		if resp.StatusCode/100 != 4 || strings.Contains(body, "reached") {
			t.Errorf("%s: %d %s", path, resp.StatusCode, body)
		}
	}
}

func TestErrorsTellWhatToDo(t *testing.T) {
	t.Parallel()
	h := newHub(t, "edge-1", "quiet")
	a := h.connect("edge-1", func(http.ResponseWriter, *http.Request) {})
	resp, body := h.do(h.request("GET", "/clusters/nowhere/api", nil))
	if resp.StatusCode != http.StatusNotFound || !hasAll(body, `"kind":"Status"`, `"reason":"NotFound"`, `nowhere`, "fairlead get clusters") {
		t.Errorf("unknown cluster: %d %s", resp.StatusCode, body)
	}
	resp, body = h.do(h.request("GET", "/clusters/quiet/api", nil))
	if resp.StatusCode != http.StatusServiceUnavailable ||
		!hasAll(body, `"reason":"ServiceUnavailable"`, "is not connected", "no agent of it has connected",
			"agent runs") {
		t.Errorf("never connected: %d %s", resp.StatusCode, body)
	}
	if resp.Header.Get("Retry-After") != "" {
		t.Error("kubectl would wait and try again in silence")
	}
	a.kill()
	if err := <-a.done; err == nil {
		t.Error("a session that was cut ended well")
	}
	h.await("session is gone", func() bool { return len(h.sessions()) == 0 })
	resp, body = h.do(h.request("GET", "/clusters/edge-1/api", nil))
	if resp.StatusCode != http.StatusServiceUnavailable || !hasAll(body, "is not connected since 20", "ago)") {
		t.Errorf("not connected any more: %d %s", resp.StatusCode, body)
	}
}

// The first request after the last session broke says so, and waits no longer than an agent that is there takes to dial
// again.
func TestRequestAfterTheSessionBrokeSaysSinceWhen(t *testing.T) {
	t.Parallel()
	h := newHub(t, "edge-1")
	asked := make(chan struct{}, 10)
	a := h.connect("edge-1", func(_ http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-r.Context().Done()
	})
	type answer struct {
		resp *http.Response
		body string
	}
	answers := make(chan answer, 1)
	go func() {
		resp, body := h.do(h.request("GET", "/clusters/edge-1/api", nil))
		answers <- answer{resp, body}
	}()
	<-asked
	a.kill()
	got := <-answers
	if got.resp.StatusCode != http.StatusServiceUnavailable ||
		!hasAll(got.body, `"kind":"Status"`, "is not connected since 20") {
		t.Errorf("the request that it broke under: %s %s", got.resp.Status, got.body)
	}
	if resp, body := h.do(h.request("GET", "/clusters/edge-1/api", nil)); resp.StatusCode != http.StatusServiceUnavailable || !hasAll(body, "is not connected since 20") {
		t.Errorf("the next one: %s %s", resp.Status, body)
	}
}

func TestHubSaysInAStatusWhatItRefuses(t *testing.T) {
	t.Parallel()
	h := newHub(t, "edge-1")
	h.connect("edge-1", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, len(r.URL.RawQuery)) })
	long := func(n int) string { return "/clusters/edge-1/api?" + strings.Repeat("a", n-len("/api?")) }
	for name, tt := range map[string]struct {
		target, accept, token string
		code                  int
		words                 []string
	}{
		"no token":               {"/clusters/edge-1/api", "", "", 401, []string{`"reason":"Unauthorized"`, "fairlead login"}},
		"no token, a WebSocket":  {"/clusters/edge-1/api", "*/*", "", 401, []string{`"reason":"Unauthorized"`}},
		"a wrong token, kubectl": {"/clusters/edge-1/api", "application/vnd.kubernetes.protobuf", "x", 401, []string{`"reason":"Unauthorized"`}},
		"a long target":          {long(64<<10 + 1), "", h.user(), 414, []string{`"reason":"RequestURITooLong"`, "65537 bytes", "65536"}},
		"a very long target":     {long(100 << 10), "", h.user(), 414, []string{"102400 bytes"}},
		"no cluster":             {"/api/v1/namespaces", "", h.user(), 404, []string{`"reason":"NotFound"`, "--append-server-path"}},
		"no cluster either":      {"/apis", "application/json", h.user(), 404, []string{`"reason":"NotFound"`, "/clusters/NAME/"}},
	} {
		req := h.request("GET", tt.target, nil)
		if req.Header.Del("Authorization"); tt.token != "" {
			req.Header.Set("Authorization", "Bearer "+tt.token)
		}
		if tt.accept != "" {
			req.Header.Set("Accept", tt.accept)
		}
		if resp, body := h.do(req); resp.StatusCode != tt.code ||
			!hasAll(body, append(tt.words, `"kind":"Status"`)...) {
			t.Errorf("%s: %s %s", name, resp.Status, body)
		}
	}
	if resp, body := h.do(h.request("GET", long(64<<10), nil)); resp.StatusCode != http.StatusOK {
		t.Errorf("the longest target: %s %s", resp.Status, body)
	}
}

func TestWhoMayNotReachClusters(t *testing.T) {
	t.Parallel()
	h := newHub(t, "edge-1")
	h.connect("edge-1", func(http.ResponseWriter, *http.Request) { t.Error("reached") })
	tests := map[string]struct {
		authorization string
		code          int
	}{
		"no token":        {"", 401},
		"garbage":         {"Bearer garbage", 401},
		"agent":           {"Bearer " + h.sign(t, identity.Identity{Kind: identity.KindAgent, Name: "edge-1"}), 403},
		"service":         {"Bearer " + h.sign(t, identity.Identity{Kind: identity.KindService, Name: "console"}), 403},
		"basic":           {"Basic YTpi", 401},
		"token in cookie": {"", 401},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			req := h.request("GET", "/clusters/edge-1/api", nil)
			req.Header.Set("Accept", "application/json")
			req.Header.Del("Authorization")
			if tt.authorization != "" {
				req.Header.Set("Authorization", tt.authorization)
			}
			if token, ok := strings.CutPrefix(tt.authorization, "Bearer "); ok {
				maps.Copy(req.Header, identitytest.Header(t, identity.ServiceTunnel, token, consoletest.HubSecret))
			}
			if name == "token in cookie" {
				req.Header.Set("Cookie", "token="+h.user())
			}
			resp, body := h.do(req)
			if resp.StatusCode != tt.code || !strings.Contains(body, `"kind":"Status"`) {
				t.Errorf("%d %s", resp.StatusCode, body)
			}
		})
	}
}

func TestWhoMayNotOpenSessions(t *testing.T) {
	t.Parallel()
	h := newHub(t, "edge-1")
	tests := map[string]struct {
		token string
		code  connect.Code
	}{
		"user":               {h.user(), connect.CodePermissionDenied},
		"nobody":             {"nonsense", connect.CodeUnauthenticated},
		"cluster not known":  {h.sign(t, identity.Identity{Kind: identity.KindAgent, Name: "edge-9"}), connect.CodeNotFound},
		"service of the hub": {h.sign(t, identity.Identity{Kind: identity.KindService, Name: "tunnel"}), connect.CodePermissionDenied},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			a := h.dial(h.url, tt.token, func(http.ResponseWriter, *http.Request) {})
			if err := <-a.done; connect.CodeOf(err) != tt.code {
				t.Errorf("ended with %v (%v), want %v", err, connect.CodeOf(err), tt.code)
			}
		})
	}
}

func TestBigListKeepsItsBytes(t *testing.T) {
	t.Parallel()
	h := newHub(t, "edge-1")
	const size = 64 << 20
	block := make([]byte, 1<<16)
	for i := range block {
		block[i] = byte(i * 7 >> 3)
	}
	sum := sha256.New()
	for range size / len(block) {
		sum.Write(block)
	}
	h.connect("edge-1", func(w http.ResponseWriter, _ *http.Request) {
		for range size / len(block) {
			if _, err := w.Write(block); err != nil {
				t.Error(err)
				return
			}
		}
	})
	resp, err := h.client().Do(h.request("GET", "/clusters/edge-1/api/v1/pods", nil))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got := sha256.New()
	n, err := io.Copy(got, resp.Body)
	if err != nil || n != size || !slices.Equal(got.Sum(nil), sum.Sum(nil)) {
		t.Errorf("%d bytes, %v", n, err)
	}
}

func TestUploadKeepsItsBytes(t *testing.T) {
	t.Parallel()
	h := newHub(t, "edge-1")
	const size = 8 << 20
	h.connect("edge-1", func(w http.ResponseWriter, r *http.Request) {
		sum := sha256.New()
		n, err := io.Copy(sum, r.Body)
		fmt.Fprintf(w, "%d %v %x", n, err, sum.Sum(nil))
	})
	body := strings.Repeat("0123456789abcdef", size/16)
	_, got := h.do(h.request("PUT", "/clusters/edge-1/upload", strings.NewReader(body)))
	if want := fmt.Sprintf("%d <nil> %x", size, sha256.Sum256([]byte(body))); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestWatchShowsEachEventAtOnce(t *testing.T) {
	t.Parallel()
	h := newHub(t, "edge-1")
	events := make(chan string)
	h.connect("edge-1", func(w http.ResponseWriter, _ *http.Request) {
		w.(http.Flusher).Flush()
		for e := range events {
			_, _ = io.WriteString(w, e)
		}
	})
	resp, err := h.client().Do(h.request("GET", "/clusters/edge-1/api/v1/pods?watch=true", nil))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	for i := range 50 {
		want := fmt.Sprintf("{\"type\":\"ADDED\",\"n\":%d}\n", i)
		events <- want
		got := make([]byte, len(want))
		if _, err := io.ReadFull(resp.Body, got); err != nil || string(got) != want {
			t.Fatalf("%q, %v", got, err)
		}
	}
	close(events)
	if b, err := io.ReadAll(resp.Body); err != nil || len(b) > 0 {
		t.Errorf("end of the watch: %q, %v", b, err)
	}
}

// Its reader sees whole events and then the end, and comes again by itself.
func TestWatchEndsBetweenTwoEventsWhenItsTokenIsRevoked(t *testing.T) {
	t.Parallel()
	h := newHub(t, "edge-1")
	half := make(chan struct{})
	h.connect("edge-1", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, "{\"type\":\"ADDED\"}\n")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		close(half)
	})
	resp, err := h.client().Do(h.request("GET", "/clusters/edge-1/api/v1/pods?watch=true", nil))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	h.revoke("user:alice")
	if b, err := io.ReadAll(resp.Body); err != nil || string(b) != "{\"type\":\"ADDED\"}\n" {
		t.Errorf("end of the watch: %q, %v", b, err)
	}
	<-half // the cluster's end is over, too
}

func TestCancelReachesTheCluster(t *testing.T) {
	t.Parallel()
	h := newHub(t, "edge-1")
	ended := make(chan struct{})
	h.connect("edge-1", func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		close(ended)
	})
	ctx, cancel := context.WithCancel(t.Context())
	resp, err := h.client().Do(h.request("GET", "/clusters/edge-1/api/v1/pods?watch=true", nil).WithContext(ctx))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	cancel()
	select {
	case <-ended:
	case <-time.After(patience):
		t.Error("the cluster still works for nobody")
	}
}

func TestAgentKilledMidResponseIsAnError(t *testing.T) {
	t.Parallel()
	for _, protocol := range []string{"HTTP/2.0", "HTTP/1.1"} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			h := newHub(t, "edge-1")
			a := h.connect("edge-1", func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.WriteString(w, `{"items":[`)
				<-r.Context().Done()
			})
			c := h.client()
			if protocol == "HTTP/1.1" {
				rt := c.Transport.(*http.Transport)
				rt.ForceAttemptHTTP2 = false
			}
			resp, err := c.Do(h.request("GET", "/clusters/edge-1/api/v1/pods", nil))
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if resp.Proto != protocol {
				t.Fatalf("protocol %s", resp.Proto)
			}
			if _, err := io.ReadFull(resp.Body, make([]byte, 10)); err != nil {
				t.Fatal(err)
			}
			a.kill()
			if b, err := io.ReadAll(resp.Body); err == nil {
				t.Errorf("half a list looks whole: %q", b)
			}
		})
	}
}

func TestStalledWatchDoesNotSlowOthers(t *testing.T) {
	t.Parallel()
	h := newHub(t, "edge-1")
	var stuck sync.WaitGroup
	stuck.Add(5)
	h.connect("edge-1", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/watch" {
			_, _ = io.WriteString(w, "quick")
			return
		}
		buf := make([]byte, 64<<10)
		once := sync.OnceFunc(stuck.Done)
		for {
			timer := time.AfterFunc(time.Second, once) // a write that takes so long waits for credit
			_, err := w.Write(buf)
			timer.Stop()
			if err != nil {
				once()
				return
			}
		}
	})
	c := h.client()
	for range 5 {
		resp, err := c.Do(h.request("GET", "/clusters/edge-1/watch", nil))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close() // never read
	}
	stuck.Wait()
	other := h.client()
	for range 12 {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		resp, err := other.Do(h.request("GET", "/clusters/edge-1/api", nil).WithContext(ctx))
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		cancel()
		if err != nil || string(b) != "quick" {
			t.Fatalf("%q, %v", b, err)
		}
	}
}

func TestClustersAreNeverMixed(t *testing.T) {
	t.Parallel()
	names := []string{"edge-1", "edge-2", "edge-3"}
	h := newHub(t, names...)
	for _, name := range names {
		for range 2 { // two sessions each
			h.connect(name, func(w http.ResponseWriter, r *http.Request) {
				caller, _ := muxhttp.CallerFrom(r.Context())
				fmt.Fprintf(w, "%s %s %s", name, caller.User, r.URL.Path)
			})
		}
	}
	c := h.client()
	var wg sync.WaitGroup
	for i := range 8 {
		user := fmt.Sprintf("user-%d", i)
		token := h.sign(t, identity.Identity{
			Kind: identity.KindUser, Name: user,
			Groups: []string{identity.AdminsGroup},
		})
		wg.Go(func() {
			for j := range 50 {
				name := names[(i+j)%len(names)]
				path := fmt.Sprintf("/n/%d/%d", i, j)
				req := h.request("GET", "/clusters/"+name+path, nil)
				req.Header.Set("Authorization", "Bearer "+token)
				resp, err := c.Do(req)
				if err != nil {
					t.Error(err)
					return
				}
				b, err := io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				if want := name + " " + user + " " + path; err != nil || string(b) != want {
					t.Errorf("got %q, want %q, %v", b, want, err)
				}
			}
		})
	}
	wg.Wait()
}

func TestSessionsAreListed(t *testing.T) {
	t.Parallel()
	h := newHub(t, "edge-1")
	h.connect("edge-1", func(http.ResponseWriter, *http.Request) {})
	h.await("round trip", func() bool { return h.sessions()[0].GetRoundTripMicros() > 0 })
	s := h.sessions()[0]
	if s.GetCluster() != "edge-1" || s.GetAgentVersion() != "v-test" || s.GetReplica() != h.url || s.GetId() == "" ||
		time.Since(s.GetConnectTime().AsTime()) > time.Minute {
		t.Errorf("session %v", s)
	}
}

func TestHalfOpenSessionIsFound(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes 15 s")
	}
	h := newHub(t, "edge-1")
	relay := newDarkRelay(t, h.url)
	a := h.dial(relay.url, h.sign(t, identity.Identity{Kind: identity.KindAgent, Name: "edge-1"}),
		func(http.ResponseWriter, *http.Request) {})
	h.await("session", func() bool { return len(h.sessions()) == 1 })
	<-a.session.Ready() // the hub's greeting has arrived: from here on silence is the only sign
	began := time.Now()
	close(relay.dark)
	if err := <-a.done; !errors.Is(err, mux.ErrDead) {
		t.Errorf("the agent's session ended with %v", err)
	}
	h.await("the hub gives it up", func() bool { return len(h.sessions()) == 0 })
	t.Logf("found after %v", time.Since(began)) // that these are 15 s a test of the session's says, in a time of its own
}

func TestDrainLetsRequestsFinish(t *testing.T) {
	t.Parallel()
	h := newHub(t, "edge-1")
	began, finish := make(chan struct{}), make(chan struct{})
	a := h.connect("edge-1", func(w http.ResponseWriter, _ *http.Request) {
		w.(http.Flusher).Flush()
		close(began)
		<-finish
		_, _ = io.WriteString(w, "in time")
	})
	resp, err := h.client().Do(h.request("GET", "/clusters/edge-1/slow", nil))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	<-began
	stopped := make(chan error, 1)
	go func() { stopped <- h.stop() }()
	<-a.session.Gone() // told to go elsewhere, with the request still running
	close(finish)
	if b, err := io.ReadAll(resp.Body); err != nil || string(b) != "in time" {
		t.Errorf("%q, %v", b, err)
	}
	if err := <-stopped; err != nil {
		t.Errorf("Run: %v", err)
	}
	var gone *mux.GoAwayError
	if err := <-a.done; !errors.As(err, &gone) || !strings.Contains(gone.Text, "dial again") {
		t.Errorf("the agent's session ended with %v", err)
	}
}

func TestDrainHasADeadline(t *testing.T) {
	t.Parallel()
	h := newHub(t, "edge-1")
	h.config.DrainTimeout = 100 * time.Millisecond
	h = h.another()
	h.connect("edge-1", func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	resp, err := h.client().Do(h.request("GET", "/clusters/edge-1/api/v1/namespaces/x/pods/y/log?follow=true", nil))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := h.stop(); err != nil {
		t.Errorf("Run: %v", err)
	}
	if b, err := io.ReadAll(resp.Body); err == nil {
		t.Errorf("what was cut looks complete: %q", b)
	}
}

func TestClusterTakenOutOfTheCatalogIsCut(t *testing.T) {
	t.Parallel()
	h := newHub(t, "edge-1", "edge-2")
	a := h.connect("edge-1", func(http.ResponseWriter, *http.Request) {})
	h.connect("edge-2", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "still here") })
	h.Put(consoletest.Deleted(consolev1.Kind_KIND_CLUSTER, "edge-1"))
	if err := <-a.done; err == nil || !strings.Contains(err.Error(), "catalog") {
		t.Errorf("session ended with %v", err)
	}
	if resp, _ := h.do(h.request("GET", "/clusters/edge-1/api", nil)); resp.StatusCode != http.StatusNotFound {
		t.Errorf("status %d", resp.StatusCode)
	}
	if _, body := h.do(h.request("GET", "/clusters/edge-2/api", nil)); body != "still here" {
		t.Errorf("the other cluster: %s", body)
	}
}

// A client follows a redirect with the hub's credential, and repeats a request after a 307.
func TestRedirectsStayBelowTheCluster(t *testing.T) {
	t.Parallel()
	here := newHub(t, "edge-1")
	here.connect("edge-1", func(w http.ResponseWriter, r *http.Request) {
		code, _ := strconv.Atoi(r.Header.Get("X-Code"))
		w.Header()["Location"] = r.Header["X-Location"]
		w.WriteHeader(code)
	})
	for name, h := range map[string]*hub{"the replica with the session": here, "another replica": here.another()} {
		ask := func(code string, locations ...string) (*http.Response, string) {
			req := h.request("DELETE", "/clusters/edge-1/api/v1", nil)
			req.Header.Set("X-Code", code)
			req.Header["X-Location"] = locations
			return h.do(req)
		}
		for location, want := range map[string]string{
			"/api/v1/": "/clusters/edge-1/api/v1/", "/a?b=%2F..": "/clusters/edge-1/a?b=%2F..",
			"v1/": "/clusters/edge-1/api/v1/", "?a=b": "/clusters/edge-1/api/v1?a=b",
			"../../../edge-2/api": "/clusters/edge-1/edge-2/api", "/../edge-2/api": "/clusters/edge-1/edge-2/api",
			"": "/clusters/edge-1/api/v1",
		} {
			if resp, body := ask("307", location); resp.StatusCode != http.StatusTemporaryRedirect ||
				resp.Header.Get("Location") != want {
				t.Errorf("%s: %q becomes %d %q, want %q: %s", name, location, resp.StatusCode,
					resp.Header.Get("Location"), want, body)
			}
		}
		for _, location := range []string{
			"https://evil.example/", "http://evil.example/api", "//evil.example/", `/\evil.example/..\..\edge-2`,
			"///evil.example", "/%2e%2e/%2e%2e/edge-2/api", "/%2e%2e%2fedge-2",
			"/..%5cedge-2", "javascript:alert(1)", "data:text/html,x", "mailto:a", here.url + "/clusters/edge-2/api",
			"/..;/edge-2", "https:/evil.example", "/a/./%2e./b", ":",
		} {
			for _, code := range []string{"301", "302", "303", "307", "308"} {
				if resp, body := ask(code, location); resp.StatusCode != http.StatusBadGateway ||
					resp.Header["Location"] != nil || !strings.Contains(body, "redirect out of the cluster") {
					t.Errorf("%s: %s to %q becomes %d %q: %s", name, code, location, resp.StatusCode,
						resp.Header["Location"], body)
				}
			}
		}
		if resp, _ := ask("201", "https://evil.example/"); resp.StatusCode != http.StatusCreated ||
			resp.Header["Location"] != nil {
			t.Errorf("%s: a 201: %d %q", name, resp.StatusCode, resp.Header["Location"])
		}
		if resp, _ := ask("302", "/a", "https://evil.example/"); resp.StatusCode != http.StatusBadGateway ||
			resp.Header["Location"] != nil {
			t.Errorf("%s: two of them: %d %q", name, resp.StatusCode, resp.Header["Location"])
		}
	}
}

// Browsers, and proxies before the hub, take these for the hub's own.
func TestFieldsThatAreNotAboutTheAnswerStayInTheCluster(t *testing.T) {
	t.Parallel()
	h := newHub(t, "edge-1")
	kept := map[string]string{
		"Content-Type": "application/json", "Etag": `"a"`, "Warning": `299 - "old"`, "Retry-After": "7",
		"Audit-Id": "1", "X-Kubernetes-Pf-Flowschema-Uid": "2", "Content-Disposition": "attachment",
	}
	dropped := []string{
		"Nel", "Report-To", "Reporting-Endpoints", "Link", "Refresh", "Www-Authenticate", "Proxy-Authenticate",
		"Set-Cookie", "Clear-Site-Data", "Strict-Transport-Security", "Alt-Svc",
		"Access-Control-Allow-Origin", "Service-Worker-Allowed", "X-Accel-Redirect", "X-Sendfile", "Content-Location",
		"Sourcemap", "Origin-Agent-Cluster", "Public-Key-Pins", "X-New-Power",
	}
	h.connect("edge-1", func(w http.ResponseWriter, _ *http.Request) {
		for range 12 {
			w.Header().Set("Link", "</evil>; rel=preload")
			w.WriteHeader(http.StatusEarlyHints)
		}
		for name, value := range kept {
			w.Header().Set(name, value)
		}
		for _, name := range dropped {
			w.Header().Set(name, "evil")
		}
		w.WriteHeader(http.StatusUnauthorized)
	})
	hints := 0
	req := h.request("GET", "/clusters/edge-1/api", nil)
	req = req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{Got1xxResponse: func(_ int, header textproto.MIMEHeader) error {
		if hints++; len(header) > 0 {
			t.Errorf("a 1xx answer has %v", header)
		}
		return nil
	}}))
	resp, _ := h.do(req)
	for name, value := range kept {
		if got := resp.Header.Get(name); got != value {
			t.Errorf("%s is %q", name, got)
		}
	}
	for _, name := range dropped {
		if resp.Header[name] != nil {
			t.Errorf("%s passes", name)
		}
	}
	if hints > 8 {
		t.Errorf("%d answers before the answer", hints)
	}
}

func TestLogsHoldNoSecrets(t *testing.T) {
	t.Parallel()
	h := newHub(t, "edge-1")
	h.connect("edge-1", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hunter2-response") })
	req := h.request("POST", "/clusters/edge-1/api/v1/namespaces/x/secrets?token=hunter2-query",
		strings.NewReader("hunter2-body"))
	req.Header.Set("X-Api-Key", "hunter2-header")
	h.do(req)
	logs := h.logs.String()
	if strings.Contains(logs, "hunter2") || strings.Contains(logs, req.Header.Get("Authorization")[7:]) {
		t.Errorf("logs:\n%s", logs)
	}
	h.await("its end in the audit trail", func() bool { return len(h.audited("tunnel.request.end")) == 1 })
	if trail := fmt.Sprint(h.audited("tunnel.request.begin"), h.audited("tunnel.request.end")); strings.Contains(trail, "hunter2") {
		t.Errorf("audit trail:\n%s", trail)
	}
}

// Watches that nobody ends are the least that a person may leave behind.
func TestOnePersonLeavesStreamsForOthers(t *testing.T) {
	t.Parallel()
	here := newHub(t, "edge-1")
	var under atomic.Int64
	full := make(chan struct{})
	end := make(chan struct{})
	const most = 512
	here.connect("edge-1", func(w http.ResponseWriter, r *http.Request) {
		if caller, _ := muxhttp.CallerFrom(r.Context()); caller.User != "alice" {
			_, _ = io.WriteString(w, "served")
			return
		}
		if under.Add(1) == most {
			close(full)
		}
		select {
		case <-end:
		case <-r.Context().Done():
		}
	})
	there := here.another()
	var asked sync.WaitGroup
	for i := range most {
		h := here
		if i%2 == 1 {
			h = there
		}
		req := h.request("GET", "/clusters/edge-1/api/v1/pods?watch=true", nil)
		asked.Go(func() {
			resp, err := h.client().Do(req)
			if err != nil {
				t.Error(err)
				return
			}
			if _ = resp.Body.Close(); resp.StatusCode != http.StatusOK {
				t.Errorf("one of them: %d", resp.StatusCode)
			}
		})
	}
	select {
	case <-full:
	case <-time.After(patience):
		t.Fatalf("%d requests are under way", under.Load())
	}
	for name, h := range map[string]*hub{"the replica with the session": here, "another replica": there} {
		resp, body := h.do(h.request("GET", "/clusters/edge-1/api", nil))
		if resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") == "" ||
			!strings.Contains(body, "requests of yours are under way") {
			t.Errorf("%s: one more: %d %s", name, resp.StatusCode, body)
		}
		req := h.request("GET", "/clusters/edge-1/api", nil)
		req.Header.Set("Authorization", "Bearer "+
			h.sign(t, identity.Identity{Kind: identity.KindUser, Name: "bob", Groups: []string{"fairlead:admins"}}))
		if resp, body := h.do(req); resp.StatusCode != http.StatusOK || body != "served" {
			t.Errorf("%s: somebody else: %d %s", name, resp.StatusCode, body)
		}
	}
	close(end)
	asked.Wait()
	if resp, _ := here.do(here.request("GET", "/clusters/edge-1/api", nil)); resp.StatusCode != http.StatusOK {
		t.Errorf("after all: %d", resp.StatusCode)
	}
}
