package acceptance

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	artifactv1 "fairlead.dev/gen/fairlead/artifact/v1"
	"fairlead.dev/platform/await"
	"fairlead.dev/platform/coordination"
	"fairlead.dev/platform/identity"
)

// A person who can write to Redis makes gitcaches of their own that hold the lease of a source: this one sends them no
// request for what it does not have, and with that no token. (The gitcache is reached by plain HTTP itself, as in one
// process with all others.)
func TestForgedReplicasInRedisAreSentNothing(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	_, store := f.member("store", t.TempDir())
	f.console.add("away", f.git.NewRepo(t, "away.git").URL())
	if _, err := store.Acquire(t.Context(), "source/uid-away", "forged", time.Hour); err != nil {
		t.Fatal(err)
	}
	n := f.begin("one")
	var asked atomic.Int64
	trap := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	trap.Config.Protocols = new(http.Protocols)
	trap.Config.Protocols.SetHTTP1(true)
	trap.Config.Protocols.SetUnencryptedHTTP2(true)
	trap.Start()
	t.Cleanup(trap.Close)
	var real []coordination.Member
	await.NoError(t, "the replica has joined", func() (err error) {
		if real, err = store.Members(t.Context(), identity.ServiceGitcache); err == nil && len(real) != 1 {
			return errors.New("not yet")
		}
		return err
	})
	replayed, moved := real[0], real[0]
	replayed.ID, moved.ID, moved.URL = "replayed", "moved", trap.URL
	forge := func() {
		for _, m := range []coordination.Member{{ID: "forged", URL: trap.URL}, replayed, moved} {
			if err := store.Join(t.Context(), identity.ServiceGitcache, m, time.Hour); err != nil {
				t.Fatal(err)
			}
		}
		if err := store.Publish(t.Context(), "gitcache/members", []byte("forged")); err != nil { // look again
			t.Fatal(err)
		}
	}
	forge()
	commit := "1111111111111111111111111111111111111111"
	resp, err := n.artifacts.Resolve(t.Context(), &artifactv1.ResolveRequest{Queries: []*artifactv1.Query{
		{Source: "away", Revision: commit}, {Source: "s00", Revision: commit},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range resp.GetResults() {
		if r.GetError() == nil {
			t.Errorf("a gitcache that is none has answered: %v", r)
		}
	}
	if n := asked.Load(); n > 0 {
		t.Errorf("%d requests went to an address that Redis alone knows", n)
	}
	all, err := store.Members(t.Context(), identity.ServiceGitcache)
	if err != nil || len(all) != 4 {
		t.Errorf("Redis has %d members, %v: the test shows nothing", len(all), err)
	}
}
