package front_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"fairlead.dev/cli/internal/front"
	"fairlead.dev/platform/localca"
)

// patience is for a busy machine.
const patience = time.Minute

// world is a front before three services.
type world struct {
	addr   string
	client *http.Client
	roots  *x509.CertPool
}

// service serves with the certificate, and returns its URL.
func service(t *testing.T, files localca.Files, handler http.HandlerFunc) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: handler, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)}
	go func() { _ = server.ServeTLS(listener, files.CertFile, files.KeyFile) }()
	t.Cleanup(func() { _ = server.Close() })
	return "https://" + listener.Addr().String()
}

// echo says which service was reached with what.
func echo(name string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if name == "console" && r.URL.Path == "/leads" {
			http.Redirect(w, r, "https://login.example.com/", http.StatusSeeOther)
			return
		}
		fmt.Fprintf(w, "%s HTTP/%d %s host=%s cookie=%s origin=%s site=%s for=%s", name, r.ProtoMajor, r.RequestURI, r.Host,
			r.Header.Get("Cookie"), r.Header.Get("Origin"), r.Header.Get("Sec-Fetch-Site"),
			r.Header.Get("X-Forwarded-For"))
	}
}

func start(t *testing.T, console, gitcache, tunnel http.HandlerFunc) world {
	t.Helper()
	files, err := localca.Ensure(t.TempDir(), "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	f, err := front.New(front.Config{
		Listen: "127.0.0.1:0", CertFile: files.CertFile, KeyFile: files.KeyFile, CAFile: files.CAFile,
		Console: service(t, files, console), Gitcache: service(t, files, gitcache), Tunnel: service(t, files, tunnel),
	}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Listen(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	authority, err := os.ReadFile(files.CAFile)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true,
	}
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the front ended with %v", err)
		}
		transport.CloseIdleConnections()
	})
	return world{addr: f.Addr(), roots: roots, client: &http.Client{
		Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
	}}
}

func (w world) get(t *testing.T, path string, fields ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+w.addr+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(fields); i += 2 {
		req.Header.Set(fields[i], fields[i+1])
	}
	resp, err := w.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}

func TestPathsLeadToTheirServiceAsTheyWereSent(t *testing.T) {
	t.Parallel()
	w := start(t, echo("console"), echo("gitcache"), echo("tunnel"))
	for path, service := range map[string]string{
		"/":                                   "console",
		"/cluster/edge-1":                     "console",
		"/clustersx":                          "console",
		"/fairlead.console.v1.Service/Get":    "console",
		"/x/../clusters/edge-1/api":           "console",
		"/%63lusters/edge-1/api":              "console",
		"/clusters/edge-1/api/v1?a=b;c&d=%zz": "tunnel",
		"/clusters/edge-1/a%2Fb/../c//d":      "tunnel",
		"/fairlead.tunnel.v1.TunnelService/ListSessions":     "tunnel",
		"/fairlead.gitcache.v1.GitCacheService/WatchSources": "gitcache",
	} {
		resp, body := w.get(t, path, "Cookie", "a=b", "Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site",
			"X-Forwarded-For", "6.6.6.6")
		want := fmt.Sprintf("%s HTTP/2 %s host=%s cookie=a=b origin=https://evil.example site=cross-site for=127.0.0.1",
			service, path, w.addr)
		if resp.StatusCode != http.StatusOK || body != want {
			t.Errorf("%s: %d\n%s\nwant\n%s", path, resp.StatusCode, body, want)
		}
	}
	if resp, _ := w.get(t, "/leads"); resp.Header.Get("Location") != "https://login.example.com/" {
		t.Errorf("a redirect of the console: %d %v", resp.StatusCode, resp.Header)
	}
}

func TestWebSocketsAndStreamsPass(t *testing.T) {
	t.Parallel()
	next := make(chan struct{})
	w := start(t, echo("console"), echo("gitcache"), func(rw http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "websocket" {
			conn, both, err := http.NewResponseController(rw).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			fmt.Fprintf(both, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Protocol: %s\r\n\r\n", r.Header.Get("Sec-Websocket-Protocol"))
			_ = both.Flush()
			line, _ := both.ReadString('\n')
			fmt.Fprintf(both, "%s, you said %s", r.Header.Get("Origin"), line)
			_ = both.Flush()
			return
		}
		for range 2 {
			fmt.Fprintln(rw, "event")
			rw.(http.Flusher).Flush()
			<-next
		}
	})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
		"https://"+w.addr+"/clusters/edge-1/api/v1/pods?watch=1", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := w.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	events := bufio.NewScanner(resp.Body)
	for range 2 { // the second one is sent when the first was read
		if !events.Scan() || events.Text() != "event" {
			t.Fatal("no event", events.Err())
		}
		next <- struct{}{}
	}

	conn, err := (&tls.Dialer{
		Config: &tls.Config{RootCAs: w.roots, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}},
	}).DialContext(t.Context(), "tcp", w.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET /clusters/edge-1/exec HTTP/1.1\r\nHost: %s\r\nOrigin: https://here\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: v5.channel.k8s.io\r\n\r\n", w.addr)
	reader := bufio.NewReader(conn)
	switched, err := http.ReadResponse(reader, nil)
	if err != nil || switched.StatusCode != http.StatusSwitchingProtocols ||
		switched.Header.Get("Sec-Websocket-Protocol") != "v5.channel.k8s.io" {
		t.Fatal(switched, err)
	}
	fmt.Fprintln(conn, "hello")
	if line, err := reader.ReadString('\n'); err != nil || line != "https://here, you said hello\n" {
		t.Errorf("%q, %v", line, err)
	}
}

// Answers that nobody reads, here of 20 browsers, stop nobody else, though all share one connection to the service.
func TestUnreadAnswersStopNoOthers(t *testing.T) {
	t.Parallel()
	const unread, size = 20, 2 << 20
	filled := make(chan struct{}, unread)
	w := start(t, echo("console"), echo("gitcache"), func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/clusters/edge-1/large" {
			_, _ = rw.Write(make([]byte, size))
			return
		}
		_, _ = rw.Write(make([]byte, size/4))
		rw.(http.Flusher).Flush()
		filled <- struct{}{}
		_, _ = rw.Write(make([]byte, size-size/4))
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for range unread {
		transport := &http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: w.roots, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true,
			HTTP2: &http.HTTP2Config{MaxReceiveBufferPerStream: 1 << 16},
		}
		defer transport.CloseIdleConnections()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+w.addr+"/clusters/edge-1/large", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := (&http.Client{Transport: transport}).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
	}
	for range unread {
		select {
		case <-filled:
		case <-ctx.Done():
			t.Fatal("the answers that nobody reads stop each other")
		}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+w.addr+"/clusters/edge-1/api", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := w.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if got, err := io.Copy(io.Discard, resp.Body); err != nil || got != size {
		t.Errorf("read %d bytes, %v", got, err)
	}
}

// One service that is gone takes no other with it, and the answer says which one it is.
func TestAnswerNamesTheServiceThatIsGone(t *testing.T) {
	t.Parallel()
	gone := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	w := start(t, gone, echo("gitcache"), echo("tunnel"))
	resp, body := w.get(t, "/services")
	if resp.StatusCode != http.StatusBadGateway || !strings.Contains(body, "console") {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	if resp, body := w.get(t, "/clusters/edge-1/api"); resp.StatusCode != http.StatusOK {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
}

// Streams without an end don't hold the front up: start sees that Run returns.
func TestEndCutsStreams(t *testing.T) {
	t.Parallel()
	w := start(t, echo("console"), echo("gitcache"), func(rw http.ResponseWriter, r *http.Request) {
		rw.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	req, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodGet,
		"https://"+w.addr+"/clusters/edge-1/api/v1/pods?watch=1", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := w.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
}

func TestURLsOfServicesAreChecked(t *testing.T) {
	t.Parallel()
	files, err := localca.Ensure(t.TempDir(), "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	good := front.Config{
		Listen: "127.0.0.1:0", CertFile: files.CertFile, KeyFile: files.KeyFile, CAFile: files.CAFile,
		Console: "https://a:1", Gitcache: "https://b:2", Tunnel: "https://c:3/",
	}
	if _, err := front.New(good, slog.New(slog.DiscardHandler)); err != nil {
		t.Error(err)
	}
	for _, url := range []string{"", "http://c:3", "https://c:3/path", "c:3"} {
		bad := good
		bad.Tunnel = url
		if _, err := front.New(bad, slog.New(slog.DiscardHandler)); err == nil ||
			!strings.Contains(err.Error(), "tunnel") {
			t.Errorf("%q: %v", url, err)
		}
	}
}
