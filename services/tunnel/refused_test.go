package tunnel_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	tunnelv1 "fairlead.dev/gen/fairlead/tunnel/v1"
	"fairlead.dev/gen/fairlead/tunnel/v1/tunnelv1connect"
	"fairlead.dev/platform/client"
	"fairlead.dev/platform/identity"
)

// Who comes with a token that is none of ours is in the trail, by any door; who comes without one is not.
func TestForgedTokensAreAudited(t *testing.T) {
	t.Parallel()
	h := newHub(t, "edge-1")
	keys, err := identity.NewKeySet()
	if err != nil {
		t.Fatal(err)
	}
	forged, _, err := keys.Sign(identity.Identity{Kind: identity.KindUser, Name: "alice", Groups: []string{identity.AdminsGroup}}, time.Hour)
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
	sessions := tunnelv1connect.NewTunnelServiceClient(h.client(), h.url, append(client.Options(), client.WithToken(identity.StaticToken(forged)))...)
	if _, err := sessions.ListSessions(t.Context(), &tunnelv1.ListSessionsRequest{}); err == nil {
		t.Error("a forged token lists sessions")
	}
	h.await("two events", func() bool { return len(h.audited("token.refused")) == 2 })
	for _, e := range h.audited("token.refused") {
		if e.GetReason() != "token is not valid" || e.GetCode() != 401 || e.GetRemote() != "127.0.0.1" || e.GetActor().GetName() != "" || strings.Contains(e.String(), forged[:20]) {
			t.Errorf("%v", e)
		}
	}
}
