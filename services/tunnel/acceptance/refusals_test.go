package acceptance

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	tunnelv1 "fairlead.dev/gen/fairlead/tunnel/v1"
	"fairlead.dev/gen/fairlead/tunnel/v1/tunnelv1connect"
	"fairlead.dev/platform/client"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/identity/identitytest"
	"fairlead.dev/platform/mux/muxws"
)

// A request with a token that is none of ours is in the trail, by any door; a request without one is not.
func TestForgedTokensAreAudited(t *testing.T) {
	t.Parallel()
	h := newHub(t, "edge-1")
	keys, err := identity.NewKeySet()
	if err != nil {
		t.Fatal(err)
	}
	forged, _, err := keys.Sign(identity.Identity{
		Kind: identity.KindUser, Name: "alice",
		Groups: []string{identity.AdminsGroup},
	}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for _, token := range []string{"", forged} {
		req := h.request("DELETE", "/clusters/edge-1/api/v1/namespaces/x", nil)
		req.Header.Set("Authorization", "Bearer "+token)
		if resp, body := h.do(req); resp.StatusCode != http.StatusUnauthorized {
			t.Errorf("%d %s", resp.StatusCode, body)
		}
	}
	sessions := tunnelv1connect.NewTunnelServiceClient(h.client(), h.url,
		append(client.Options(), client.WithToken(identity.StaticToken(forged)))...)
	if _, err := sessions.ListSessions(t.Context(), &tunnelv1.ListSessionsRequest{}); err == nil {
		t.Error("a forged token lists sessions")
	}
	h.await("two events", func() bool { return len(h.audited("token.refused")) == 2 })
	for _, e := range h.audited("token.refused") {
		if e.GetReason() != "token is not valid" || e.GetCode() != 401 || e.GetRemote() != "127.0.0.1" ||
			e.GetActor().GetName() != "" || strings.Contains(e.String(), forged[:20]) {
			t.Errorf("%v", e)
		}
	}
}

// A copy of an agent's token, without the key that it is bound to, opens no session over any carrier, and takes the
// agent's away from nobody.
func TestCopiedTokenOpensNoSession(t *testing.T) {
	t.Parallel()
	h := newHub(t, "edge-1")
	token := h.sign(t, identity.Identity{Kind: identity.KindAgent, Name: "edge-1"})
	agent := h.dial(h.url, token, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	<-agent.session.Ready()
	header := http.Header{"Authorization": {"Bearer " + token}}
	for name, copied := range map[string]identity.HeaderSource{
		"the token alone":               nil,
		"with a proof of another key":   identitytest.Prover(token, otherKey(t), identity.ServiceTunnel),
		"with a proof for distributors": identitytest.Prover(token, identitytest.AgentKey(), identity.ServiceDistributor),
	} {
		sent := header.Clone()
		source := identity.StaticToken(token)
		if copied != nil {
			source = copied
			if err := copied.SetHeader(t.Context(), token, sent); err != nil {
				t.Fatal(err)
			}
		}
		stream, err := tunnelv1connect.NewTunnelServiceClient(h.client(), h.url,
			append(client.Options(), client.WithToken(source))...).Connect(t.Context())
		if err == nil {
			_, err = stream.Receive()
		}
		if connect.CodeOf(err) != connect.CodeUnauthenticated {
			t.Errorf("%s, over HTTP/2: %v", name, err)
		}
		hc := h.client()
		hc.Transport.(*http.Transport).ForceAttemptHTTP2 = false
		c, err := muxws.Dial(t.Context(), hc, h.url+tunnelv1connect.TunnelServiceConnectProcedure, sent)
		if err == nil {
			_ = c.Close()
		}
		if refused, ok := errors.AsType[*muxws.RefusedError](err); !ok || refused.Status != http.StatusUnauthorized {
			t.Errorf("%s, over a WebSocket: %v", name, err)
		}
	}
	if resp, body := h.do(h.request("GET", "/clusters/edge-1/api", nil)); resp.StatusCode != http.StatusTeapot {
		t.Errorf("the agent's own session: %d %s", resp.StatusCode, body)
	}
	h.await("it is in the trail", func() bool { return len(h.audited("token.refused")) == 6 })
	for _, e := range h.audited("token.refused") {
		if e.GetReason() != identity.ErrUnproved.Error() || e.GetRemote() != "127.0.0.1" {
			t.Errorf("%v", e)
		}
	}
}

func otherKey(t *testing.T) *identity.AgentKey {
	t.Helper()
	key, err := identity.NewAgentKey()
	if err != nil {
		t.Fatal(err)
	}
	return key
}
