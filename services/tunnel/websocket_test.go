package tunnel_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"fairlead.dev/gen/fairlead/tunnel/v1/tunnelv1connect"
	"fairlead.dev/platform/client"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/mux/muxws"
	"fairlead.dev/platform/reach"
)

// oldProxy is a reverse proxy before the tunnel that speaks HTTP/1.1 only, on both sides.
func (h *hub) oldProxy() *httptest.Server {
	target, err := url.Parse(h.url)
	if err != nil {
		h.t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(h.ca)
	behind := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	h.t.Cleanup(behind.CloseIdleConnections)
	p := httptest.NewTLSServer(&httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport: behind, FlushInterval: -1, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug),
	})
	h.t.Cleanup(p.Close)
	return p
}

// throughProxy runs a real agent that knows the tunnel by the proxy's address.
func (h *hub) throughProxy(cluster string, p *httptest.Server, api http.HandlerFunc) *reach.Reach {
	h.t.Helper()
	hc, err := client.New(client.Config{CAPEM: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.Certificate().Raw})})
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
	r, err := reach.New(reach.Config{
		Endpoints: func() []string { return []string{p.URL} }, HTTPClient: hc, Token: identity.StaticToken(token),
		Kube: kube, Transport: apiServer.Client().Transport, Version: "test", Log: slog.New(slog.DiscardHandler),
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

func TestAgentFindsItsWayThroughAnOldProxy(t *testing.T) {
	t.Parallel()
	h := newHub(t, "edge-1")
	large := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	r := h.throughProxy("edge-1", h.oldProxy(), func(w http.ResponseWriter, req *http.Request) {
		if req.Method == http.MethodPost {
			_, _ = io.Copy(w, req.Body)
			return
		}
		_, _ = w.Write(large)
	})
	h.await("the agent is connected", func() bool { return len(h.sessions()) == 1 })
	if s := h.sessions()[0]; s.GetCarrier() != "websocket" || s.GetAgentVersion() != "test" {
		t.Errorf("the session is %v", s)
	}
	h.await("the agent says so, too", func() bool {
		states := r.States()
		return len(states) == 1 && states[0].Connected && states[0].Carrier == "websocket"
	})
	if resp, body := h.do(h.request(http.MethodGet, "/clusters/edge-1/api/v1/pods", nil)); resp.StatusCode != http.StatusOK || body != string(large) {
		t.Errorf("download: %s, %d bytes", resp.Status, len(body))
	}
	if resp, body := h.do(h.request(http.MethodPost, "/clusters/edge-1/api/v1/pods", bytes.NewReader(large))); resp.StatusCode != http.StatusOK || body != string(large) {
		t.Errorf("upload and back: %s, %d bytes", resp.Status, len(body))
	}
}

// The words of a refusal come through, and no other carrier is tried after them.
func TestRefusedWebSocketIsToldWhy(t *testing.T) {
	t.Parallel()
	h := newHub(t, "edge-1")
	r := h.throughProxy("edge-2", h.oldProxy(), http.NotFound)
	h.await("the agent hears why", func() bool {
		states := r.States()
		return len(states) == 1 && states[0].Err != nil && strings.Contains(states[0].Err.Error(), `cluster "edge-2" is not in the catalog`)
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
