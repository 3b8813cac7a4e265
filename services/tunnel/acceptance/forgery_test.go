package acceptance

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	tunnelv1 "fairlead.dev/gen/fairlead/tunnel/v1"
	"fairlead.dev/platform/coordination"
	"fairlead.dev/platform/coordination/redistest"
	"fairlead.dev/platform/identity"
)

// An attacker who can write to Redis makes replicas of their own, which are said to have the session that somebody asks
// for: they are sent no request, with no user's name and no token.
func TestForgedReplicasInRedisAreSentNothing(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	store, err := coordination.Open(redis.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	h := newHubWith(t, func() coordination.Coordinator { return store }, "edge-1", "edge-2")
	h.await("the replica has joined", func() bool {
		all, err := store.Members(t.Context(), identity.ServiceTunnel)
		return err == nil && len(all) == 1
	})
	all, err := store.Members(t.Context(), identity.ServiceTunnel)
	if err != nil {
		t.Fatal(err)
	}
	var asked atomic.Int64
	take := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) })
	plain := newServer(t, take)
	secure := httptest.NewUnstartedServer(take)
	cert, err := tls.LoadX509KeyPair(h.config.Server.CertFile, h.config.Server.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	secure.TLS = &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12} // of the hub's own authority
	secure.StartTLS()
	t.Cleanup(secure.Close)
	for i, url := range []string{plain, secure.URL} {
		replayed, moved := all[0], all[0]
		replayed.ID, moved.ID, moved.URL = "replayed", "moved", url
		for _, m := range []coordination.Member{{ID: "forged", URL: url}, replayed, moved} {
			m.ID += string(rune('a' + i))
			session := coordination.Member{ID: "session-" + m.ID, Meta: map[string]string{"replica": m.ID}}
			for group, m := range map[string]coordination.Member{
				identity.ServiceTunnel:             m,
				identity.ServiceTunnel + "/edge-2": session,
			} {
				if err := store.Join(t.Context(), group, m, time.Hour); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if err := store.Publish(t.Context(), "tunnel/changes", nil); err != nil { // look again
		t.Fatal(err)
	}
	h.await("the forged records were seen", func() bool { return strings.Contains(h.logs.String(), "records of members are ignored") })
	if resp, body := h.do(h.request("GET", "/clusters/edge-2/api", nil)); resp.StatusCode < 400 {
		t.Errorf("a cluster without an agent answers %s %s", resp.Status, body)
	}
	sessions := h.tunnels(identity.Identity{
		Kind: identity.KindUser, Name: "alice",
		Groups: []string{identity.AdminsGroup},
	})
	if got, err := sessions.ListSessions(t.Context(), &tunnelv1.ListSessionsRequest{}); err != nil ||
		len(got.GetSilentReplicas()) > 0 {
		t.Errorf("other replicas are known: %v, %v", got, err)
	}
	if n := asked.Load(); n > 0 {
		t.Errorf("%d requests went to an address that Redis alone knows", n)
	}
	if n := strings.Count(h.logs.String(), "records of members are ignored"); n != 1 {
		t.Errorf("%d warnings", n)
	}
}

func newServer(t *testing.T, handler http.Handler) (url string) {
	t.Helper()
	s := httptest.NewUnstartedServer(handler)
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetHTTP1(true)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(s.Close)
	return s.URL
}
