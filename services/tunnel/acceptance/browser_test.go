package acceptance

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/mux/muxhttp"
)

// page answers as a cluster that would like to act as a page of the hub, and takes upgrades.
func page(t *testing.T, reached *atomic.Int64) http.HandlerFunc {
	t.Helper()
	upgrades := apiServer(t)
	return func(w http.ResponseWriter, r *http.Request) {
		reached.Add(1)
		if muxhttp.IsUpgrade(r.Header) {
			upgrades(w, r)
			return
		}
		caller, _ := muxhttp.CallerFrom(r.Context())
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("Content-Security-Policy", "sandbox allow-scripts allow-same-origin")
		w.Header().Set("X-Content-Type-Options", "evil")
		_, _ = io.WriteString(w, "<script>alert(1)</script>as "+caller.User+"\n")
		_ = r.Header.Write(w)
	}
}

func TestBrowserReachesClustersByItsCookie(t *testing.T) {
	t.Parallel()
	h := newHub(t, "edge-1")
	var reached atomic.Int64
	h.connect("edge-1", page(t, &reached))
	cookie := "Cookie: a=b; " + identity.SessionCookie + "=" + h.user() + "\r\n"
	host := strings.TrimPrefix(h.url, "https://")
	for _, replica := range []*hub{h, h.another()} { // the second one asks the first
		host := strings.TrimPrefix(replica.url, "https://")
		resp := replica.raw(t, "GET /clusters/edge-1/api HTTP/1.1\r\nHost: "+host+"\r\nSec-Fetch-Site: same-origin\r\n"+
			cookie+"\r\n")
		body, _ := io.ReadAll(resp.Body)
		if resp.StatusCode != http.StatusOK || !strings.Contains(string(body), "as alice") {
			t.Fatalf("%d %s", resp.StatusCode, body)
		}
		if text := strings.ToLower(string(body)); strings.Contains(text, "cookie") ||
			strings.Contains(text, "authorization") || strings.Contains(text, "fairlead") {
			t.Errorf("the agent gets:\n%s", body)
		}
		policy := resp.Header["Content-Security-Policy"]
		if len(policy) != 1 || !strings.HasPrefix(policy[0], "sandbox;") ||
			len(resp.Header["X-Content-Type-Options"]) != 1 || resp.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("the cluster acts as a page of the hub: %v", resp.Header)
		}
	}
	resp := h.raw(t, "GET /clusters/nowhere/api HTTP/1.1\r\nHost: "+host+"\r\nSec-Fetch-Site: same-origin\r\n"+
		cookie+"\r\n")
	if resp.StatusCode != http.StatusNotFound || !strings.HasPrefix(resp.Header.Get("Content-Security-Policy"), "sandbox;") {
		t.Errorf("refusal: %d %v", resp.StatusCode, resp.Header)
	}
	resp = h.raw(t, "GET /clusters/edge-1/api/v1/namespaces/a/pods/b/exec HTTP/1.1\r\nHost: "+host+"\r\nOrigin: "+h.url+
		"\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+cookie+"\r\n")
	if resp.StatusCode != http.StatusSwitchingProtocols {
		t.Errorf("a page of the hub opens no socket: %d", resp.StatusCode)
	}
	// Answers to other clients are the cluster's, as they are.
	direct, _ := h.do(h.request("GET", "/clusters/edge-1/api", nil))
	if direct.Header.Get("Content-Security-Policy") != "sandbox allow-scripts allow-same-origin" {
		t.Errorf("without a cookie: %v", direct.Header)
	}
}

// A person who opens the address of something in a cluster means the page of that cluster, logged in or not. Nothing
// else of a browser is led there.
func TestAddressOfAClusterLeadsToItsPage(t *testing.T) {
	t.Parallel()
	h := newHub(t, "edge-1")
	var reached atomic.Int64
	h.connect("edge-1", page(t, &reached))
	for _, cookie := range []string{"", "Cookie: " + identity.SessionCookie + "=" + h.user() + "\r\n"} {
		for _, tt := range []struct {
			path, fetch, location string
			code                  int
		}{
			{"/clusters/edge-1/api/v1/secrets", "Sec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document\r\nSec-Fetch-Site: none\r\n", "/cluster/edge-1", http.StatusSeeOther},
			{"/clusters//evil.example/api", "Sec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document\r\nSec-Fetch-Site: cross-site\r\n", "/clusters", http.StatusSeeOther},
			{"/clusters/edge-1/api", "Sec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: iframe\r\nSec-Fetch-Site: same-origin\r\n", "", 0},
			{"/clusters/edge-1/api", "Sec-Fetch-Mode: no-cors\r\nSec-Fetch-Dest: script\r\nSec-Fetch-Site: same-origin\r\n", "", 0},
			{"/clusters/edge-1/api", "Sec-Fetch-Mode: same-origin\r\nSec-Fetch-Dest: serviceworker\r\nService-Worker: script\r\nSec-Fetch-Site: same-origin\r\n", "", 0},
		} {
			resp := h.raw(t, "GET "+tt.path+" HTTP/1.1\r\nHost: "+strings.TrimPrefix(h.url, "https://")+"\r\n"+
				tt.fetch+cookie+"\r\n")
			if tt.code == 0 && resp.StatusCode/100 != 4 ||
				tt.code != 0 && (resp.StatusCode != tt.code || resp.Header.Get("Location") != tt.location) {
				t.Errorf("%s %s: %d to %q", tt.path, tt.fetch, resp.StatusCode, resp.Header.Get("Location"))
			}
		}
	}
	if n := reached.Load(); n > 0 {
		t.Errorf("the cluster was asked %d times", n)
	}
}

// A case is what a page of somebody else can make the browser of a person who is logged in send.
func TestPagesOfOthersReachNoCluster(t *testing.T) {
	t.Parallel()
	h := newHub(t, "edge-1")
	var reached atomic.Int64
	h.connect("edge-1", page(t, &reached))
	const (
		exec   = "GET /clusters/edge-1/api/v1/namespaces/a/pods/b/exec?command=sh&stdin=true HTTP/1.1\r\n"
		socket = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: v5.channel.k8s.io\r\n"
		create = "POST /clusters/edge-1/api/v1/namespaces HTTP/1.1\r\nContent-Length: 0\r\n"
	)
	attacks := map[string]string{
		"image of another site":        "GET /clusters/edge-1/api/v1/namespaces/a/services/b/proxy/delete HTTP/1.1\r\nSec-Fetch-Site: cross-site\r\nSec-Fetch-Dest: image\r\n",
		"image of a neighbour":         "GET /clusters/edge-1/api/v1/namespaces/a/services/b/proxy/delete HTTP/1.1\r\nSec-Fetch-Site: same-site\r\n",
		"link":                         "GET /clusters/edge-1/api HTTP/1.1\r\nSec-Fetch-Site: none\r\nSec-Fetch-Mode: navigate\r\n",
		"image in an old browser":      "GET /clusters/edge-1/api HTTP/1.1\r\nReferer: https://evil.example/\r\n",
		"script that asks for data":    "GET /clusters/edge-1/api/v1/secrets HTTP/1.1\r\nOrigin: https://evil.example\r\nSec-Fetch-Site: cross-site\r\n",
		"socket of another site":       exec + socket + "Origin: https://evil.example\r\n",
		"socket of a neighbour":        exec + socket + "Origin: https://127.0.0.1:1\r\nSec-Fetch-Site: same-site\r\n",
		"socket without an origin":     exec + socket,
		"socket from a sandbox":        exec + socket + "Origin: null\r\n",
		"socket in SPDY":               strings.Replace(exec, "GET", "POST", 1) + "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\nOrigin: https://evil.example\r\nContent-Length: 0\r\n",
		"form of another site":         create + "Origin: https://evil.example\r\nContent-Type: text/plain\r\n",
		"form of a neighbour":          create + "Origin: https://127.0.0.1:1\r\nSec-Fetch-Site: same-site\r\nContent-Type: text/plain\r\n",
		"form of a proxied page":       create + "Origin: null\r\nSec-Fetch-Site: cross-site\r\nContent-Type: text/plain\r\n",
		"form on the hub":              create + "Origin: HUB\r\nSec-Fetch-Site: same-origin\r\nContent-Type: text/plain\r\n",
		"delete without the header":    "DELETE /clusters/edge-1/api/v1/namespaces/a HTTP/1.1\r\nOrigin: HUB\r\n",
		"relay":                        "GET /relay/edge-1/api HTTP/1.1\r\nOrigin: HUB\r\nFairlead-User: eyJuYW1lIjoiZXZpbCJ9\r\n",
		"agent's door":                 "GET /fairlead.tunnel.v1.TunnelService/Connect HTTP/1.1\r\n" + socket + "Origin: HUB\r\n",
		"token as a subprotocol":       exec + strings.Replace(socket, "v5.channel.k8s.io", "base64url.bearer.authorization.k8s.io.TOKEN", 1) + "Origin: https://evil.example\r\n",
		"forged token beside a cookie": "GET /clusters/edge-1/api HTTP/1.1\r\nOrigin: HUB\r\nAuthorization: Bearer forged\r\n",
		"cookie twice":                 "GET /clusters/edge-1/api HTTP/1.1\r\nOrigin: HUB\r\nCookie: " + identity.SessionCookie + "=x\r\n",
	}
	token := h.user()
	for name, raw := range attacks {
		t.Run(name, func(t *testing.T) {
			raw = strings.NewReplacer("HUB", h.url, "TOKEN", token).Replace(raw)
			resp := h.raw(t, raw+"Host: "+strings.TrimPrefix(h.url, "https://")+"\r\nCookie: "+identity.SessionCookie+
				"="+token+"\r\n\r\n")
			body, err := io.ReadAll(bufio.NewReader(resp.Body))
			if resp.StatusCode/100 != 4 || err != nil {
				t.Errorf("%d %s, %v", resp.StatusCode, body, err)
			}
		})
	}
	if n := reached.Load(); n > 0 {
		t.Errorf("the cluster was asked %d times", n)
	}
}
