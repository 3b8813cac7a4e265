package tunnel

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// way is one way into the cluster. All of them lead to the same API server.
type way struct {
	name string
	part string // the part that is dialled
}

// ways of the hub that the tests share.
func ways() []way {
	return []way{
		{"one tunnel", "x1"},
		{"the other replica", "x2"},                  // the session is at x1
		{"nginx that speaks HTTP/1.1 only", "nginx"}, // so does the agent through it, to x3
	}
}

// namespace is the way's own.
func (w way) namespace() string { return "way-" + w.part }

// base is the URL of the cluster's API.
func (h *hub) base(part string) string { return h.urls[part] + "/clusters/" + cluster }

// reached tells whether all ways lead to the cluster, and all sessions of the agent stand.
func (h *hub) reached(ctx context.Context) error {
	client, err := h.client()
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	for _, w := range ways() {
		if _, ok := h.parts[w.part]; !ok {
			continue
		}
		if status, body, err := get(ctx, client, h.base(w.part)+"/version", h.token); err != nil ||
			status != http.StatusOK {
			return fmt.Errorf("%s: %d %s %w", w.name, status, body, err)
		}
	}
	for _, part := range h.holders {
		m, err := metrics(ctx, client, h.urls[part], h.token)
		if err == nil && m["fairlead_tunnel_sessions"] < 1 {
			err = fmt.Errorf("%s has no session", part)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// client trusts the hub.
func (h *hub) client() (*http.Client, error) {
	pem, err := os.ReadFile(h.ca.CAFile)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	return &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true,
		MaxIdleConnsPerHost: 64,
	}}, nil
}

// kubeconfig leads through one part of the hub.
func (h *hub) kubeconfig(t testing.TB, part string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: %q, certificate-authority: %q}}]
users: [{name: u, user: {token: %q}}]
`, h.base(part), h.ca.CAFile, h.token)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func post(ctx context.Context, client *http.Client, url, token, body string) (int, string, error) {
	return send(ctx, client, http.MethodPost, url, token, "application/json", body)
}

func patch(ctx context.Context, client *http.Client, url, token, body string) (int, string, error) {
	return send(ctx, client, http.MethodPatch, url, token, "application/merge-patch+json", body)
}

func get(ctx context.Context, client *http.Client, url, token string) (int, string, error) {
	return send(ctx, client, http.MethodGet, url, token, "", "")
}

// send returns the status and the whole body.
func send(ctx context.Context, client *http.Client, method, url, token, contentType, body string) (int, string, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}
