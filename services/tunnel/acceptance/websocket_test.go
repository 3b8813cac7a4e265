package acceptance

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/pem"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"fairlead.dev/gen/fairlead/tunnel/v1/tunnelv1connect"
	"fairlead.dev/platform/client"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/identity/identitytest"
	"fairlead.dev/platform/mux/muxws"
	"fairlead.dev/platform/tunnelclient"
)

// front is something before the tunnel that agents dial. The front has TLS and speaks the protocols that are named; to
// the hub it speaks HTTP/2 if that is among them.
func (h *hub) front(next func(pass http.Handler) http.Handler, protocols ...string) *httptest.Server {
	target, err := url.Parse(h.url)
	if err != nil {
		h.t.Fatal(err)
	}
	behind := h.client().Transport.(*http.Transport)
	behind.ForceAttemptHTTP2 = slices.Contains(protocols, "h2")
	p := httptest.NewUnstartedServer(next(&httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport: behind, FlushInterval: -1, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug),
	}))
	p.TLS = &tls.Config{NextProtos: protocols}
	p.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
	p.Config.Protocols = new(http.Protocols)
	p.Config.Protocols.SetHTTP1(slices.Contains(protocols, "http/1.1"))
	p.Config.Protocols.SetHTTP2(slices.Contains(protocols, "h2"))
	p.StartTLS()
	h.t.Cleanup(p.Close)
	return p
}

func asItIs(pass http.Handler) http.Handler { return pass }

// oldProxy is a reverse proxy before the tunnel that speaks HTTP/1.1 only, on both sides.
func (h *hub) oldProxy() *httptest.Server { return h.front(asItIs, "http/1.1") }

// throughProxy runs a real agent that knows the tunnel by the proxy's address.
func (h *hub) throughProxy(cluster string, p *httptest.Server, api http.HandlerFunc) *tunnelclient.Client {
	h.t.Helper()
	var trust client.Config
	if ca := p.Certificate(); ca != nil {
		trust.CAPEM = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Raw})
	}
	hc, err := client.New(trust)
	if err != nil {
		h.t.Fatal(err)
	}
	apiServer := httptest.NewServer(api)
	h.t.Cleanup(apiServer.Close)
	kube, err := url.Parse(apiServer.URL)
	if err != nil {
		h.t.Fatal(err)
	}
	token := h.sign(h.t, identity.Identity{Kind: identity.KindAgent, Name: cluster})
	r, err := tunnelclient.New(tunnelclient.Config{
		Endpoints: func() []string { return []string{p.URL} }, HTTPClient: hc,
		Token: identitytest.Source(token, identity.ServiceTunnel),
		Kube:  kube, Transport: apiServer.Client().Transport, Version: "test",
		Tracer: h.telemetry().Tracer.Tracer("agent"), Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		h.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = r.Run(ctx) // nil, by contract
	}()
	h.t.Cleanup(func() { cancel(); <-ended })
	return r
}

// answers is an API server that sends much, and sends back what it gets.
func answers(large []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		if req.Method == http.MethodPost {
			_, _ = io.Copy(w, req.Body)
			return
		}
		_, _ = w.Write(large)
	}
}

// A WebSocket comes first, and HTTP/2 where none gets through.
func TestAgentFindsItsWay(t *testing.T) {
	t.Parallel()
	refuse := func(status int) func(http.Handler) http.Handler {
		return func(pass http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Upgrade") != "" {
					http.Error(w, "no", status)
					return
				}
				pass.ServeHTTP(w, r)
			})
		}
	}
	change := func(f func(http.Header)) func(http.Handler) http.Handler {
		return func(pass http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				f(r.Header)
				pass.ServeHTTP(w, r)
			})
		}
	}
	for name, c := range map[string]struct {
		front     func(http.Handler) http.Handler
		protocols []string
		carrier   string
	}{
		"an ingress of today":                {asItIs, []string{"h2", "http/1.1"}, "websocket"},
		"HTTP/1.1 only":                      {asItIs, []string{"http/1.1"}, "websocket"},
		"HTTP/2 only":                        {asItIs, []string{"h2"}, "connect"},
		"upgrades are forbidden":             {refuse(http.StatusForbidden), []string{"h2", "http/1.1"}, "connect"},
		"upgrades are not known":             {refuse(http.StatusNotFound), []string{"h2", "http/1.1"}, "connect"},
		"upgrades become a bad gateway":      {refuse(http.StatusBadGateway), []string{"h2", "http/1.1"}, "connect"},
		"upgrades become plain requests":     {change(func(h http.Header) { h.Del("Upgrade") }), []string{"h2", "http/1.1"}, "connect"},
		"the handshake is about another key": {change(func(h http.Header) { h.Set("Sec-Websocket-Key", "AAAAAAAAAAAAAAAAAAAAAA==") }), []string{"h2", "http/1.1"}, "connect"},
		"upgrades are cut": {func(pass http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Upgrade") != "" {
					panic(http.ErrAbortHandler)
				}
				pass.ServeHTTP(w, r)
			})
		}, []string{"h2", "http/1.1"}, "connect"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHub(t, "edge-1")
			large := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
			r := h.throughProxy("edge-1", h.front(c.front, c.protocols...), answers(large))
			h.await("the agent is connected", func() bool { return len(h.sessions()) == 1 })
			if s := h.sessions()[0]; s.GetCarrier() != c.carrier || s.GetAgentVersion() != "test" {
				t.Errorf("the session is %v", s)
			}
			h.await("the agent says so, too", func() bool {
				states := r.States()
				return len(states) == 1 && states[0].Connected && states[0].Carrier == c.carrier
			})
			if resp, body := h.do(h.request(http.MethodGet, "/clusters/edge-1/api/v1/pods", nil)); resp.StatusCode != http.StatusOK || body != string(large) {
				t.Errorf("download: %s, %d bytes", resp.Status, len(body))
			}
			if resp, body := h.do(h.request(http.MethodPost, "/clusters/edge-1/api/v1/pods", bytes.NewReader(large))); resp.StatusCode != http.StatusOK || body != string(large) {
				t.Errorf("upload and back: %s, %d bytes", resp.Status, len(body))
			}
		})
	}
}

// A proxy that speaks HTTP/2 and nothing else, in clear text, as proxies for gRPC do.
func TestAgentBehindHTTP2WithoutTLS(t *testing.T) {
	t.Parallel()
	h := newHub(t, "edge-1")
	over := h.front(asItIs, "h2")
	p := httptest.NewUnstartedServer(over.Config.Handler)
	p.Config.Protocols = new(http.Protocols)
	p.Config.Protocols.SetUnencryptedHTTP2(true)
	p.Start()
	t.Cleanup(p.Close)
	h.throughProxy("edge-1", p, answers([]byte("answer")))
	h.await("the agent is connected", func() bool { return len(h.sessions()) == 1 })
	if s := h.sessions()[0]; s.GetCarrier() != "connect" {
		t.Errorf("the session is %v", s)
	}
	if resp, body := h.do(h.request(http.MethodGet, "/clusters/edge-1/api/v1/pods", nil)); resp.StatusCode != http.StatusOK || body != "answer" {
		t.Errorf("%s %q", resp.Status, body)
	}
}

// A proxy that lets the handshake through and keeps what follows to itself: the PONG does not come, and the agent takes
// HTTP/2. So it does if not even the HELLO comes.
func TestAgentLeavesACarrierThatIsSilent(t *testing.T) {
	t.Parallel()
	for name, frames := range map[string]int{"no HELLO": 0, "no PONG": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHub(t, "edge-1")
			var upgrades atomic.Int64
			silent := func(pass http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.Header.Get("Upgrade") == "" {
						pass.ServeHTTP(w, r)
						return
					}
					upgrades.Add(1)
					if err := h.passFrames(w, r, frames); err != nil {
						t.Error(err)
					}
				})
			}
			h.throughProxy("edge-1", h.front(silent, "h2", "http/1.1"), answers([]byte("answer")))
			h.await("the agent tries", func() bool { return upgrades.Load() == 1 })
			// The silence has to be found first, within 15 s.
			h.await("the agent goes, or has gone, over to HTTP/2", func() bool {
				list := h.sessions()
				return len(list) > frames || len(list) == 1 && list[0].GetCarrier() == "connect"
			})
			h.await("only that session is left", func() bool {
				list := h.sessions()
				return len(list) == 1 && list[0].GetCarrier() == "connect"
			})
			if resp, body := h.do(h.request(http.MethodGet, "/clusters/edge-1/api/v1/pods", nil)); resp.StatusCode != http.StatusOK || body != "answer" {
				t.Errorf("%s %q", resp.Status, body)
			}
			if n := upgrades.Load(); n != 1 {
				t.Errorf("%d attempts with a WebSocket", n)
			}
		})
	}
}

// passFrames hands an upgrade on, and of what the hub sends its answer and so many frames only.
func (h *hub) passFrames(w http.ResponseWriter, r *http.Request, frames int) error {
	target, err := url.Parse(h.url)
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(h.ca)
	hub, err := (&tls.Dialer{Config: &tls.Config{RootCAs: roots}}).DialContext(r.Context(), "tcp", target.Host)
	if err != nil {
		return err
	}
	defer hub.Close()
	if err := r.Write(hub); err != nil {
		return err
	}
	agent, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return err
	}
	from := bufio.NewReader(hub)
	var both sync.WaitGroup
	defer both.Wait()
	both.Go(func() {
		_, _ = io.Copy(hub, agent)
		_ = hub.Close()
	})
	defer agent.Close()
	for { // the answer's lines
		line, err := from.ReadSlice('\n')
		if err != nil {
			return err
		}
		if _, err := agent.Write(line); err != nil {
			return err
		}
		if len(bytes.TrimSpace(line)) == 0 {
			break
		}
	}
	for range frames {
		head, err := from.Peek(2)
		if err != nil {
			return err
		}
		length := int64(head[1]) + 2
		if head[1] == 126 {
			if head, err = from.Peek(4); err != nil {
				return err
			}
			length = int64(binary.BigEndian.Uint16(head[2:])) + 4
		}
		if _, err := io.CopyN(agent, from, length); err != nil {
			return err
		}
	}
	_, _ = io.Copy(io.Discard, from)
	return nil
}

// An agent that comes while too many are shaking hands is told when to come again.
func TestBusyTunnelTellsWhenToCome(t *testing.T) {
	t.Parallel()
	h := newHub(t, "edge-1")
	token := h.sign(t, identity.Identity{Kind: identity.KindAgent, Name: "edge-1"})
	hc := h.client()
	hc.Transport.(*http.Transport).ForceAttemptHTTP2 = false
	ctx, hangUp := context.WithCancel(t.Context())
	tunnels := h.tunnels(identity.Identity{Kind: identity.KindAgent, Name: "edge-1"})
	t.Cleanup(hangUp)
	h.await("somebody is refused", func() bool {
		for range 300 { // over one connection: their TLS takes a busy machine longer than the first of them are waited for
			stream, err := tunnels.Connect(ctx)
			if err != nil {
				t.Fatal(err)
			}
			_ = stream.Send(nil) // its header, and it says nothing more
		}
		header := http.Header{}
		identitytest.Authorize(t, header, token, identity.ServiceTunnel)
		c, err := muxws.Dial(t.Context(), hc, h.url+tunnelv1connect.TunnelServiceConnectProcedure, header)
		if err == nil {
			_ = c.Close()
			return false
		}
		refused, ok := err.(*muxws.RefusedError) //nolint:errorlint // not wrapped
		if !ok || refused.Status != http.StatusTooManyRequests || refused.Header.Get("Retry-After") != "2" ||
			!strings.Contains(refused.Text, `"code":"resource_exhausted"`) {
			t.Errorf("refused with %#v", err)
		}
		return true
	})
}

// The words of a refusal come through, and no other carrier is tried after them.
func TestRefusedWebSocketIsToldWhy(t *testing.T) {
	t.Parallel()
	h := newHub(t, "edge-1")
	r := h.throughProxy("edge-2", h.oldProxy(), http.NotFound)
	h.await("the agent hears why", func() bool {
		states := r.States()
		return len(states) == 1 && states[0].Err != nil &&
			strings.Contains(states[0].Err.Error(), `cluster "edge-2" is not in the catalog`)
	})
}

func TestWebSocketNeedsAnAgentsToken(t *testing.T) {
	t.Parallel()
	h := newHub(t, "edge-1")
	for name, header := range map[string]http.Header{
		"none":   {},
		"user's": {"Authorization": {"Bearer " + h.user()}},
	} {
		hc := h.client()
		hc.Transport.(*http.Transport).ForceAttemptHTTP2 = false
		c, err := muxws.Dial(t.Context(), hc, h.url+tunnelv1connect.TunnelServiceConnectProcedure, header)
		if err == nil {
			_ = c.Close()
			t.Errorf("%s token: taken", name)
			continue
		}
		if refused, ok := err.(*muxws.RefusedError); !ok || refused.Status != http.StatusUnauthorized && refused.Status != http.StatusForbidden { //nolint:errorlint // not wrapped
			t.Errorf("%s token: %v", name, err)
		}
	}
}
