package tunnel

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestAttacksWithTokens tries tokens that open nothing. No request may reach the API server.
func TestAttacksWithTokens(t *testing.T) {
	t.Parallel()
	h := shared(t)
	client, err := h.client()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CloseIdleConnections)
	agent, err := os.ReadFile(filepath.Join(h.dir, "agent.data", "token"))
	if err != nil {
		t.Fatal(err)
	}
	service, err := os.ReadFile(filepath.Join(h.dir, "x1.data", "identity", "token"))
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(h.token, ".")
	if len(parts) != 3 {
		t.Fatal("the token is no JWT")
	}
	_, stranger, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	signed := func(header, claims string) string {
		text := header + "." + claims
		return text + "." + encoded(ed25519.Sign(stranger, []byte(text)))
	}
	tokens := map[string]string{
		"the agent's":           strings.TrimSpace(string(agent)),
		"the hub's own":         strings.TrimSpace(string(service)),
		"a stranger's key":      signed(parts[0], parts[1]),
		"a key in the header":   signed(edited(t, parts[0], func(h map[string]any) { h["jwk"] = jwk(stranger) }), parts[1]),
		"no algorithm":          edited(t, parts[0], func(h map[string]any) { h["alg"] = "none" }) + "." + parts[1] + ".",
		"no algorithm, signed":  edited(t, parts[0], func(h map[string]any) { h["alg"] = "None" }) + "." + parts[1] + "." + parts[2],
		"no signature":          parts[0] + "." + parts[1] + ".",
		"a longer life":         parts[0] + "." + edited(t, parts[1], func(c map[string]any) { c["exp"] = time.Now().Add(time.Hour * 24).Unix() }) + "." + parts[2],
		"another group":         parts[0] + "." + edited(t, parts[1], func(c map[string]any) { c["groups"] = []string{"system:masters"} }) + "." + parts[2],
		"expired, a stranger's": signed(parts[0], edited(t, parts[1], func(c map[string]any) { c["exp"] = 1 })),
		"a MAC":                 withMAC(edited(t, parts[0], func(h map[string]any) { h["alg"] = "HS256" }) + "." + parts[1]),
		"two in one":            h.token + " " + h.token,
		"half":                  h.token[:len(h.token)/2],
		"very long":             strings.Repeat("a", 10_000),
		"a path for a key":      signed(edited(t, parts[0], func(h map[string]any) { h["kid"] = "../../../../dev/null" }), parts[1]),
		"nothing":               "",
	}
	for _, w := range ways() {
		for name, token := range tokens {
			t.Run(w.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				mark := "mark=token-" + w.part + "-" + strings.ReplaceAll(name, " ", "-") + "."
				code, body, err := get(t.Context(), client, h.base(w.part)+"/api/v1/secrets?"+mark, token)
				if err != nil || code != http.StatusUnauthorized && code != http.StatusForbidden &&
					code != http.StatusRequestHeaderFieldsTooLarge && code != http.StatusBadRequest {
					t.Errorf("answered with %d %.300s %v", code, body, err)
				}
				if seen := audit(t, mark); len(seen) > 0 {
					t.Errorf("the API server got %+v", seen)
				}
			})
		}
		t.Run(w.name+"/for a WebSocket", func(t *testing.T) {
			t.Parallel()
			// As browsers send a token to Kubernetes itself: nobody who only lures a browser may use it here.
			mark := "mark=websocket-" + w.part + "."
			codes, bodies := h.say(t, w.part, "GET /clusters/edge/api/v1/namespaces/straight/configmaps?watch=true&"+mark+" HTTP/1.1\r\nHost: hub\r\nOrigin: https://evil.example\r\n"+
				"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"+
				"Sec-WebSocket-Protocol: base64url.bearer.authorization.k8s.io."+encoded([]byte(h.token))+
				", v4.channel.k8s.io\r\n\r\n")
			if seen := audit(t, mark); len(seen) > 0 || slices.Contains(codes, http.StatusSwitchingProtocols) ||
				len(codes) > 0 && codes[0]/100 != 4 {
				t.Errorf("answered with %v %s, and the API server got %+v", codes, bodies, seen)
			}
		})
	}
}

func encoded(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// edited is a part of a token with something changed.
func edited(t testing.TB, part string, change func(map[string]any)) string {
	t.Helper()
	text, err := base64.RawURLEncoding.DecodeString(part)
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil {
		t.Fatal(err)
	}
	change(fields)
	if text, err = json.Marshal(fields); err != nil {
		t.Fatal(err)
	}
	return encoded(text)
}

func jwk(key ed25519.PrivateKey) map[string]any {
	public, _ := key.Public().(ed25519.PublicKey)
	return map[string]any{"kty": "OKP", "crv": "Ed25519", "x": encoded(public), "alg": "EdDSA"}
}

func withMAC(text string) string {
	mac := hmac.New(sha256.New, []byte("secret"))
	_, _ = mac.Write([]byte(text)) // never fails
	return text + "." + encoded(mac.Sum(nil))
}
