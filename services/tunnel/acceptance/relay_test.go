package acceptance

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"fairlead.dev/platform/consoletest"
	"fairlead.dev/platform/coordination"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/identity/identitytest"
	"fairlead.dev/platform/mux"
	"fairlead.dev/platform/mux/muxhttp"
)

// echoServer says everything back, until its client has ended; then it ends.
func echoServer(t *testing.T) func() io.ReadWriteCloser {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(c, c)
				_ = c.Close()
			}()
		}
	}()
	return func() io.ReadWriteCloser {
		c, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", l.Addr().String())
		if err != nil {
			t.Error(err)
		}
		return c
	}
}

// apiServer answers so that its caller sees what arrived.
func apiServer(t *testing.T) http.HandlerFunc {
	t.Helper()
	shell := echoServer(t)
	return func(w http.ResponseWriter, r *http.Request) {
		caller, _ := muxhttp.CallerFrom(r.Context())
		switch {
		case muxhttp.IsUpgrade(r.Header):
			if strings.HasSuffix(r.URL.Path, "/forbidden") {
				http.Error(w, "you may not exec", http.StatusForbidden)
				return
			}
			resp := &http.Response{StatusCode: 101, Header: http.Header{
				"Upgrade":                   r.Header["Upgrade"],
				"X-Stream-Protocol-Version": {caller.User},
			}, Body: shell()}
			if _, _, err := muxhttp.Splice(r.Context(), w, resp); err != nil {
				panic(http.ErrAbortHandler)
			}
		case r.URL.Path == "/moved":
			w.Header().Set("Location", "/api/v1/")
			w.Header().Set("Fairlead-Relay", "no session")
			w.WriteHeader(http.StatusMovedPermanently)
		default:
			body, err := io.ReadAll(r.Body)
			w.Header().Set("Link", "</hint>")
			w.WriteHeader(http.StatusEarlyHints)
			w.Header().Del("Link")
			w.Header().Set("Trailer", "X-Sum")
			w.Header().Set("Warning", `299 - "old"`)
			fmt.Fprintf(w, "%s %s as %s %q: %s %v %v", r.Method, r.RequestURI, caller.User, caller.Groups, body, err,
				r.Header["Fairlead-User"])
			w.Header().Set("X-Sum", "42")
		}
	}
}

func TestAnyReplicaTakesAnyRequest(t *testing.T) {
	t.Parallel()
	here := newHub(t, "edge-1")
	there := here.another()
	here.connect("edge-1", apiServer(t))
	for name, h := range map[string]*hub{"the replica with the session": here, "another replica": there} {
		resp, body := h.do(h.request("GET", "/clusters/edge-1/api/v1/x%2Fy?a=%2F&a=b", nil))
		want := `GET /api/v1/x%2Fy?a=%2F&a=b as alice ["dev" "fairlead:admins"]:  <nil> []`
		if resp.StatusCode != 200 || body != want || resp.Header.Get("Warning") == "" ||
			resp.Trailer.Get("X-Sum") != "42" || resp.Header.Get("Link") != "" {
			t.Errorf("%s: %s %s %v %v", name, resp.Status, body, resp.Header, resp.Trailer)
		}
		upload := strings.Repeat("x", 1<<20)
		resp, body = h.do(h.request("PUT", "/clusters/edge-1/upload", strings.NewReader(upload)))
		if resp.StatusCode != 200 || !strings.Contains(body, "alice") || !strings.Contains(body, ": "+upload+" <nil>") {
			t.Errorf("%s: upload: %s, %d bytes", name, resp.Status, len(body))
		}
		if resp, body = h.do(h.request("HEAD", "/clusters/edge-1/api", nil)); resp.StatusCode != 200 || body != "" {
			t.Errorf("%s: HEAD: %s %q", name, resp.Status, body)
		}
		if resp, _ = h.do(h.request("GET", "/clusters/edge-1/moved", nil)); resp.StatusCode != 301 ||
			resp.Header.Get("Location") != "/clusters/edge-1/api/v1/" || resp.Header.Get("Fairlead-Relay") != "" {
			t.Errorf("%s: redirect: %s %v", name, resp.Status, resp.Header)
		}
		if resp, _ = h.do(h.request("GET", "/clusters/edge-2/api", nil)); resp.StatusCode != http.StatusNotFound {
			t.Errorf("%s: unknown cluster: %s", name, resp.Status)
		}
	}
}

func TestRelayedRequestsAreCounted(t *testing.T) {
	t.Parallel()
	here := newHub(t, "edge-1")
	there := here.another()
	here.connect("edge-1", apiServer(t))
	for _, h := range []*hub{here, there} {
		if resp, body := h.do(h.request("GET", "/clusters/edge-1/api", nil)); resp.StatusCode != 200 {
			t.Fatalf("%s %s", resp.Status, body)
		}
	}
	for line, h := range map[string]*hub{
		`fairlead_tunnel_relayed_total{direction="to"} 1`:   there,
		`fairlead_tunnel_relayed_total{direction="from"} 1`: here,
	} {
		if _, text := h.do(h.request("GET", "/metrics", nil)); !strings.Contains(text, line+"\n") {
			t.Errorf("no %s among the metrics", line)
		}
	}
}

// Hints come before the answer, over both versions of HTTP, and leave nothing in its header.
func TestInformationalAnswersReachTheClient(t *testing.T) {
	t.Parallel()
	here := newHub(t, "edge-1")
	there := here.another()
	here.connect("edge-1", apiServer(t))
	for name, h := range map[string]*hub{"the replica with the session": here, "another replica": there} {
		for _, version := range []int{1, 2} {
			c := h.client()
			if version == 1 {
				only1 := c.Transport.(*http.Transport).Clone()
				only1.Protocols = new(http.Protocols)
				only1.Protocols.SetHTTP1(true)
				only1.TLSClientConfig.NextProtos = nil
				t.Cleanup(only1.CloseIdleConnections)
				c = &http.Client{Transport: only1}
			}
			var hints []string
			trace := &httptrace.ClientTrace{Got1xxResponse: func(code int, header textproto.MIMEHeader) error {
				hints = append(hints, fmt.Sprint(code, header["Link"]))
				return nil
			}}
			req := h.request("GET", "/clusters/edge-1/api", nil)
			resp, err := c.Do(req.WithContext(httptrace.WithClientTrace(t.Context(), trace)))
			if err != nil {
				t.Fatal(err)
			}
			_, err = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
			if err != nil || resp.ProtoMajor != version || resp.StatusCode != 200 || resp.Header["Link"] != nil ||
				!slices.Equal(hints, []string{"103 []"}) {
				t.Errorf("%s, HTTP/%d: %s over %s %v, hints %q, %v", name, version, resp.Status, resp.Proto,
					resp.Header, hints, err)
			}
		}
	}
}

func TestUpgradesReachTheClusterFromAnyReplica(t *testing.T) {
	t.Parallel()
	here := newHub(t, "edge-1")
	there := here.another()
	here.connect("edge-1", apiServer(t))
	for name, h := range map[string]*hub{"the replica with the session": here, "another replica": there} {
		conn, resp := h.upgrade("/clusters/edge-1/api/v1/namespaces/x/pods/y/exec?command=sh")
		if resp.StatusCode != 101 || resp.Header.Get("Upgrade") != "SPDY/3.1" ||
			resp.Header.Get("X-Stream-Protocol-Version") != "alice" {
			t.Fatalf("%s: %s %v", name, resp.Status, resp.Header)
		}
		buf := make([]byte, 100)
		for i := range 100 {
			line := fmt.Sprintf("line %d\n", i)
			if _, err := io.WriteString(conn, line); err != nil {
				t.Fatal(err)
			}
			if n, err := io.ReadFull(conn, buf[:len(line)]); err != nil || string(buf[:n]) != line {
				t.Fatalf("%s: %q, %v", name, buf[:n], err)
			}
		}
		big := strings.Repeat("0123456789", 300_000)
		go func() {
			_, _ = io.WriteString(conn, big)
			_ = conn.CloseWrite()
		}()
		if b, err := io.ReadAll(conn); err != nil || string(b) != big {
			t.Errorf("%s: %d bytes after the end of the question, %v", name, len(b), err)
		}
		_, resp = h.upgrade("/clusters/edge-1/forbidden")
		if b, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusForbidden || string(b) != "you may not exec\n" {
			t.Errorf("%s: %s %s", name, resp.Status, b)
		}
	}
}

// The tunnel's replicas may say who asks, and only for sessions of the one that is asked.
func TestWhoMayRelay(t *testing.T) {
	t.Parallel()
	h := newHub(t, "edge-1", "edge-2")
	other := h.another()
	h.connect("edge-1", apiServer(t))
	other.connect("edge-2", apiServer(t))
	service := h.sign(t, identity.Identity{Kind: identity.KindService, Name: identity.ServiceTunnel})
	as := func(user string) []string { return []string{base64.StdEncoding.EncodeToString([]byte(user))} }
	alice := as(`{"name":"alice"}`)
	tests := map[string]struct {
		token, cluster string
		user           []string
		want           int
	}{
		"the tunnel":               {service, "edge-1", alice, 200},
		"a user":                   {h.user(), "edge-1", alice, 403},
		"an agent":                 {h.sign(t, identity.Identity{Kind: identity.KindAgent, Name: "edge-1"}), "edge-1", alice, 403},
		"another hub service":      {h.sign(t, identity.Identity{Kind: identity.KindService, Name: identity.ServiceGitcache}), "edge-1", alice, 403},
		"nobody":                   {"", "edge-1", alice, 401},
		"nobody asks":              {service, "edge-1", nil, 400},
		"two ask":                  {service, "edge-1", append(as(`{"name":"bob"}`), alice...), 400},
		"no JSON":                  {service, "edge-1", as("alice"), 400},
		"no base64":                {service, "edge-1", []string{"{}"}, 400},
		"Kubernetes itself asks":   {service, "edge-1", as(`{"name":"system:admin"}`), 400},
		"a group of Kubernetes":    {service, "edge-1", as(`{"name":"alice","groups":["system:masters"]}`), 400},
		"a second hop":             {service, "edge-2", alice, http.StatusMisdirectedRequest},
		"a path with dot segments": {service, "edge-1/../edge-2", alice, 400},
	}
	for name, tt := range tests {
		req := h.request("GET", "/relay/"+tt.cluster+"/api", nil)
		if req.Header.Del("Authorization"); tt.token != "" {
			maps.Copy(req.Header, identitytest.Header(t, identity.ServiceTunnel, tt.token, consoletest.HubSecret))
		}
		req.Header["Fairlead-User"] = tt.user
		if resp, body := h.do(req); resp.StatusCode != tt.want {
			t.Errorf("%s: %s %s", name, resp.Status, body)
		}
	}
	// A user who says to be somebody else stays who it is.
	for _, at := range []*hub{h, other} {
		req := at.request("GET", "/clusters/edge-1/api", nil)
		req.Header["Fairlead-User"] = as(`{"name":"evil"}`)
		req.Header["fairlead-user"] = as(`{"name":"evil"}`)
		if _, body := at.do(req); !strings.Contains(body, "as alice") || strings.Contains(body, "ZXZpb") {
			t.Errorf("the cluster gets %s", body)
		}
	}
}

// counting counts what coordination is asked about single clusters.
type counting struct {
	coordination.Coordinator
	lookups atomic.Int64
	down    atomic.Bool
}

func (c *counting) Members(ctx context.Context, group string) ([]coordination.Member, error) {
	if c.down.Load() {
		return nil, errors.New("coordination is down")
	}
	c.lookups.Add(1)
	return c.Coordinator.Members(ctx, group)
}

func TestRequestsAskCoordinationForNothing(t *testing.T) {
	t.Parallel()
	memory, err := coordination.Open("")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = memory.Close() })
	c := &counting{Coordinator: memory}
	here := newHubWith(t, func() coordination.Coordinator { return c }, "edge-1", "edge-2")
	there := here.another()
	here.connect("edge-1", apiServer(t))
	there.await("a relayed request", func() bool {
		resp, _ := there.do(there.request("GET", "/clusters/edge-1/api", nil))
		return resp.StatusCode == 200
	})
	before, began := c.lookups.Load(), time.Now()
	const requests = 300
	for _, h := range []*hub{here, there} {
		client := h.client()
		for range requests {
			resp, err := client.Do(h.request("GET", "/clusters/edge-1/api", nil))
			if err != nil || resp.StatusCode != 200 {
				t.Fatalf("%v %v", resp, err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
	}
	// The heartbeats of two replicas go on meanwhile, on a busy machine for minutes.
	if asked, most := c.lookups.Load()-before, requests/10+2*int64(time.Since(began).Seconds()); asked > most {
		t.Errorf("coordination was asked %d times for %d requests, more than %d", asked, 2*requests, most)
	}
	c.down.Store(true)
	for _, h := range []*hub{here, there} {
		if resp, body := h.do(h.request("GET", "/clusters/edge-1/api", nil)); resp.StatusCode != 200 {
			t.Errorf("with coordination down: %s %s", resp.Status, body)
		}
	}
	// A session that came while nobody could be told: the replicas that are known are asked.
	here.connect("edge-2", apiServer(t))
	if resp, body := there.do(there.request("GET", "/clusters/edge-2/api", nil)); resp.StatusCode != 200 {
		t.Errorf("a new session, with coordination down: %s %s", resp.Status, body)
	}
}

// A wrong entry of the directory costs a try, and no request is carried out twice.
func TestStaleEntriesCostATry(t *testing.T) {
	t.Parallel()
	memory, err := coordination.Open("")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = memory.Close() })
	h := newHubWith(t, func() coordination.Coordinator { return memory }, "edge-1")
	stale, there := h.another(), h.another()
	var carried atomic.Int64
	there.connect("edge-1", func(w http.ResponseWriter, r *http.Request) {
		carried.Add(1)
		b, err := io.ReadAll(r.Body)
		fmt.Fprint(w, len(b), err)
	})
	id := stale.id()
	if err := memory.Join(t.Context(), "tunnel/edge-1", coordination.Member{ID: "forged", Meta: map[string]string{"replica": id}}, coordination.MaxTTL); err != nil {
		t.Fatal(err)
	}
	if err := memory.Join(t.Context(), "tunnel/edge-1", coordination.Member{ID: "dead", Meta: map[string]string{"replica": "of an earlier life"}}, coordination.MaxTTL); err != nil {
		t.Fatal(err)
	}
	if err := memory.Publish(t.Context(), "tunnel/changes", []byte("edge-1")); err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		resp, body := h.do(h.request("POST", "/clusters/edge-1/api", strings.NewReader(strings.Repeat("x", 100_000))))
		if resp.StatusCode != 200 || body != "100000 <nil>" {
			t.Errorf("request %d: %s %s", i, resp.Status, body)
		}
	}
	// A replica that was killed does not answer at all, and is still listed.
	if err := memory.Join(t.Context(), "tunnel", coordination.Member{ID: id[:len(id)-1], URL: "https://127.0.0.1:1"}, coordination.MaxTTL); err != nil {
		t.Fatal(err)
	}
	if err := memory.Join(t.Context(), "tunnel/edge-1", coordination.Member{ID: "killed", Meta: map[string]string{"replica": id[:len(id)-1]}}, coordination.MaxTTL); err != nil {
		t.Fatal(err)
	}
	if err := memory.Publish(t.Context(), "tunnel/changes", nil); err != nil {
		t.Fatal(err)
	}
	if err := memory.Publish(t.Context(), "tunnel/changes", []byte("edge-1")); err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		if resp, body := h.do(h.request("POST", "/clusters/edge-1/api", strings.NewReader("x"))); resp.StatusCode != 200 {
			t.Errorf("request %d: %s %s", i, resp.Status, body)
		}
	}
	if n := carried.Load(); n != 20 {
		t.Errorf("20 requests were carried out %d times", n)
	}
}

// A request that changes nothing is asked again when its session is lost; another one is not.
func TestLostRequestsAreRepeatedOnlyIfSafe(t *testing.T) {
	t.Parallel()
	h := newHub(t, "edge-1")
	other := h.another()
	came := make(chan *http.Request)
	first := h.connect("edge-1", func(_ http.ResponseWriter, r *http.Request) {
		came <- r
		<-r.Context().Done()
	})
	other.connect("edge-1", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "the other") })
	for _, method := range []string{"POST", "GET"} {
		got := make(chan string)
		go func() {
			resp, body := h.do(h.request(method, "/clusters/edge-1/api", nil))
			got <- fmt.Sprint(resp.StatusCode, " ", body)
		}()
		<-came
		if first.kill(); method == "GET" {
			if answer := <-got; answer != "200 the other" {
				t.Errorf("GET: %s", answer)
			}
			return
		}
		if answer := <-got; !strings.HasPrefix(answer, "502 ") || !strings.Contains(answer, "not known") {
			t.Errorf("POST: %s", answer)
		}
		first = h.connect("edge-1", func(_ http.ResponseWriter, r *http.Request) {
			came <- r
			<-r.Context().Done()
		})
	}
}

func TestSessionsOfAllReplicasAreListed(t *testing.T) {
	t.Parallel()
	h := newHub(t, "edge-1", "edge-2")
	other := h.another()
	h.connect("edge-1", func(http.ResponseWriter, *http.Request) {})
	a := other.connect("edge-2", func(http.ResponseWriter, *http.Request) {})
	for _, at := range []*hub{h, other} {
		list := at.sessions()
		if len(list) != 2 || list[0].GetCluster() != "edge-1" || list[0].GetReplica() != h.url ||
			list[1].GetReplica() != other.url {
			t.Errorf("sessions: %v", list)
		}
	}
	watch := h.watchSessions()
	seen := map[string]string{}
	for {
		m := watch()
		for _, s := range m.GetSessions() {
			seen[s.GetId()] = s.GetCluster()
		}
		if m.GetComplete() {
			break
		}
	}
	if len(seen) != 2 {
		t.Errorf("the watch begins with %v", seen)
	}
	a.session.Close(mux.CodeNone, "")
	for ended := false; !ended; {
		for _, id := range watch().GetEndedIds() {
			ended = seen[id] == "edge-2"
		}
	}
	other.connect("edge-2", func(http.ResponseWriter, *http.Request) {})
	for came := false; !came; {
		for _, s := range watch().GetSessions() {
			came = s.GetCluster() == "edge-2" && seen[s.GetId()] == ""
		}
	}
}

// upgrade asks as kubectl does for another protocol.
func (h *hub) upgrade(target string) (*upgradedConn, *http.Response) {
	h.t.Helper()
	conn := h.dialTLS()
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: hub\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\nContent-Length: 0\r\nAuthorization: Bearer %s\r\n\r\n", target, h.user())
	br := bufio.NewReader(conn)
	resp, err := http.ReadResponse(br, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	return &upgradedConn{conn, br}, resp
}
