package identity

import (
	"context"
	"crypto/rand"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"fairlead.dev/platform/hubsecret"
	platform "fairlead.dev/platform/identity"
	"fairlead.dev/services/console/internal/audit"
	"fairlead.dev/services/console/internal/seal"
	"fairlead.dev/services/console/internal/store"
)

// A copy of an agent that never renews is seen by what it asks the distributors with. An agent that did not get the
// answer to its renewal goes on with its token, and is no copy.
func TestUseOfARenewedTokenRaisesTheAlarmOnceTheNewOneIsInUse(t *testing.T) {
	t.Parallel()
	now := time.Now().UTC().Truncate(time.Microsecond)
	clock := func() time.Time { return now }
	dir := t.TempDir()
	s, err := store.New("sqlite:"+filepath.Join(dir, "console.db"), store.Options{Now: clock})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	box, err := seal.Ensure(filepath.Join(dir, "master.key"))
	if err != nil {
		t.Fatal(err)
	}
	a := New(s, box, hubsecret.Text(secret), slog.New(slog.DiscardHandler), clock)
	if err := a.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	var cluster store.Resource
	if err := s.Write(t.Context(), "test", func(ctx context.Context, tx *store.Tx) error {
		made, err := tx.Create(ctx, store.Draft{Kind: store.KindCluster, Name: "edge-1", Spec: []byte("{}")})
		if err == nil {
			cluster = made[0]
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	key, err := platform.NewAgentKey()
	if err != nil {
		t.Fatal(err)
	}
	made, _, err := a.CreateJoinToken(t.Context(), audit.Console(), "edge-1")
	if err != nil {
		t.Fatal(err)
	}
	first, _, err := a.JoinCluster(t.Context(), audit.Who{}, "peer", Join{Token: made, Key: key.Public()})
	if err != nil {
		t.Fatal(err)
	}
	used := func(what string, token Token, alarm bool) {
		t.Helper()
		tunnel := audit.Who{Identity: platform.Identity{Kind: platform.KindService, Name: platform.ServiceTunnel}}
		if err := a.Used(t.Context(), tunnel, []TokenUse{
			{Cluster: "edge-1", TokenID: token.Identity.TokenID, Time: now},
		}); err != nil {
			t.Fatal(err)
		}
		var seen map[string]store.Seen
		if err := s.Read(t.Context(), func(ctx context.Context, v store.View) (err error) {
			seen, err = v.Seen(ctx, []string{cluster.UID})
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if is := seen[cluster.UID]; is.ReuseTime.IsZero() == alarm {
			t.Fatalf("%s: %+v", what, is)
		}
	}
	used("the token of the join", first, false)
	second, err := a.RenewAgent(t.Context(), audit.Who{}, first.Identity, key.Public(), []byte(rand.Text()))
	if err != nil {
		t.Fatal(err)
	}
	now = now.Add(24 * time.Hour)
	used("the answer was lost", first, false)
	used("it came in the end", second, false)
	now = now.Add(reuseGrace / 2)
	used("a call that was on its way", first, false)
	now = now.Add(reuseGrace)
	used("the new one again", second, false)
	used("a copy", first, true)
}
