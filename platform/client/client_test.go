package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"connectrpc.com/connect"

	tunnelv1 "fairlead.dev/gen/fairlead/tunnel/v1"
	"fairlead.dev/gen/fairlead/tunnel/v1/tunnelv1connect"
	"fairlead.dev/platform/client"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/telemetry"
)

func newClient(t *testing.T, cfg client.Config) *http.Client {
	t.Helper()
	hc, err := client.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(hc.CloseIdleConnections)
	return hc
}

func newServer(t *testing.T, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	srv := httptest.NewUnstartedServer(h)
	srv.Config.Protocols = new(http.Protocols)
	srv.Config.Protocols.SetHTTP1(true)
	srv.Config.Protocols.SetUnencryptedHTTP2(true)
	srv.Start()
	t.Cleanup(srv.Close)
	return srv
}

// noToken is a source that has none.
type noToken struct{}

func (noToken) Token(context.Context) (string, error) { return "", errors.New("not logged in") }

func TestClearTextIsHTTP2AndTracesFollow(t *testing.T) {
	t.Parallel()
	srv := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Proto, " ", r.Header.Get("Traceparent"))
	})
	ctx, span := telemetry.Discard().Tracer.Tracer("test").Start(t.Context(), "x")
	defer span.End()
	req, _ := http.NewRequestWithContext(ctx, "GET", srv.URL, nil)
	resp, err := newClient(t, client.Config{}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 200)
	n, _ := resp.Body.Read(got)
	resp.Body.Close()
	if s := string(got[:n]); !strings.HasPrefix(s, "HTTP/2.0 00-"+span.SpanContext().TraceID().String()) {
		t.Errorf("server saw %q", s)
	}
	if req.Header.Get("Traceparent") != "" {
		t.Error("the caller's request was changed")
	}
}

func TestCredentialDoesNotFollowARedirect(t *testing.T) {
	t.Parallel()
	followed := false
	other := newServer(t, func(http.ResponseWriter, *http.Request) { followed = true })
	srv := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, strings.Replace(other.URL, "http://", "http://u:pa55@", 1), http.StatusTemporaryRedirect)
	})
	hc := newClient(t, client.Config{})
	hc.Transport = client.Authorize(hc.Transport, identity.StaticToken("t"))
	resp, err := hc.Get(srv.URL)
	if err == nil {
		resp.Body.Close()
		t.Fatal("the redirect was followed")
	}
	if followed || strings.Contains(err.Error(), "pa55") {
		t.Errorf("followed: %v, error: %v", followed, err)
	}
}

func TestTokenIsSentWithCallsStreamsAndPlainRequests(t *testing.T) {
	t.Parallel()
	seen := make(chan string, 3)
	srv := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		seen <- r.URL.Path + " " + r.Header.Get("Authorization")
		w.WriteHeader(http.StatusNotFound)
	})
	hc := newClient(t, client.Config{})
	opts := append(client.Options(), client.WithToken(identity.StaticToken("t0k")))
	c := tunnelv1connect.NewTunnelServiceClient(hc, srv.URL, opts...)
	_, _ = c.ListSessions(t.Context(), &tunnelv1.ListSessionsRequest{})
	stream, err := c.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_ = stream.Send(&tunnelv1.ConnectRequest{})
	_, _ = stream.Receive()
	plain := &http.Client{Transport: client.Authorize(hc.Transport, identity.StaticToken("t0k"))}
	resp, err := plain.Get(srv.URL + "/plain")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	for _, want := range []string{
		tunnelv1connect.TunnelServiceListSessionsProcedure, tunnelv1connect.TunnelServiceConnectProcedure, "/plain",
	} {
		if got := <-seen; got != want+" Bearer t0k" {
			t.Errorf("got %q, want %s", got, want)
		}
	}
}

func TestNothingIsSentWithoutToken(t *testing.T) {
	t.Parallel()
	srv := newServer(t, func(_ http.ResponseWriter, r *http.Request) { t.Errorf("%s was called", r.URL.Path) })
	hc := newClient(t, client.Config{})
	c := tunnelv1connect.NewTunnelServiceClient(hc, srv.URL, client.WithToken(noToken{}))
	_, err := c.ListSessions(t.Context(), &tunnelv1.ListSessionsRequest{})
	if connect.CodeOf(err) != connect.CodeUnauthenticated || !strings.Contains(err.Error(), "not logged in") {
		t.Errorf("call: %v", err)
	}
	stream, err := c.Connect(t.Context())
	if err == nil {
		_, err = stream.Receive()
	}
	if connect.CodeOf(err) != connect.CodeUnauthenticated || !strings.Contains(err.Error(), "not logged in") {
		t.Errorf("stream: %v", err)
	}
	plain := &http.Client{Transport: client.Authorize(hc.Transport, noToken{})}
	resp, err := plain.Post(srv.URL, "text/plain", strings.NewReader("x"))
	if err == nil {
		resp.Body.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "not logged in") {
		t.Errorf("request: %v", err)
	}
}

func TestCAFileMistakesAreNamed(t *testing.T) {
	t.Parallel()
	empty := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(empty, []byte("no pem"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, cfg := range []client.Config{{CAFile: empty}, {CAFile: empty + ".none"}} {
		if _, err := client.New(cfg); err == nil || !strings.Contains(err.Error(), cfg.CAFile) {
			t.Errorf("got %v", err)
		}
	}
	if _, err := client.New(client.Config{CAPEM: []byte("no pem")}); err == nil {
		t.Error("no error for bytes that are no certificate")
	}
}
