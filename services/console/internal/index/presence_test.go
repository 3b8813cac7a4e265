package index

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	"fairlead.dev/services/console/internal/authz"
	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/feed"
	"fairlead.dev/services/console/internal/state"
	"fairlead.dev/services/console/internal/store"
	"fairlead.dev/services/console/internal/store/storetest"
)

// noted is a Presence that notes what it is told.
type noted struct{ list []string }

func (n *noted) Saw(_ context.Context, seen []Sighting) {
	for _, s := range seen {
		if s.Lost {
			n.list = append(n.list, "lost")
		}
		if s.Back {
			n.list = append(n.list, "back")
		}
	}
}

func (n *noted) Away(context.Context) (map[string]time.Time, error) {
	return map[string]time.Time{}, nil
}

// While the database is away for minutes, nothing is heard of agents that live. A short outage changes nothing.
func TestOnlyALongOutageHoldsLostClustersBack(t *testing.T) {
	t.Parallel()
	s, log, presence := storetest.SQLite(t), slog.New(slog.DiscardHandler), &noted{}
	c := catalog.New(authz.New(s, nil), catalog.Deps{Store: s, Log: log})
	cluster, _, err := c.UpdateCluster(t.Context(), catalog.Self("test"), state.Cluster{Meta: state.Meta{Name: "edge-1"}},
		catalog.Expectation{AllowMissing: true})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	clock := func() time.Time { return now }
	b := New(Deps{Store: s, Kinds: testKinds(), Loader: state.NewLoader(clock), Presence: presence, Log: log, Now: clock})
	seen := func() {
		t.Helper()
		if err := s.PutSeen(t.Context(), map[string]store.Seen{
			cluster.Meta.UID: {SeenTime: now, State: []byte("{}")},
		}); err != nil {
			t.Fatal(err)
		}
		b.takeTouched()
	}
	reads := func(connected int, want ...string) {
		t.Helper()
		b.look(t.Context())
		b.refresh(t.Context())
		if counts, _ := b.Agents(); counts["connected"] != connected || !slices.Equal(presence.list, want) {
			t.Fatalf("connected are %v, told is %q, want %q", counts, presence.list, want)
		}
	}
	snapshot := feed.Event{Kind: feed.Snapshot}
	if err := s.Read(t.Context(), func(ctx context.Context, v store.View) error {
		found, err := v.Named(ctx, store.KindCluster, []string{"edge-1"})
		snapshot.Changes = []store.Change{{
			Kind: store.KindCluster, Name: "edge-1", UID: cluster.Meta.UID, Resource: found["edge-1"],
		}}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	b.begin(t.Context(), snapshot)
	seen()
	reads(1)
	away := func(d time.Duration) { // while there is something to read
		b.later[store.Ref{Kind: store.KindCluster, Name: "edge-1"}] = true
		b.complain(t.Context(), errors.New("no answer"))
		now = now.Add(d)
	}
	away(10 * time.Minute)
	reads(0)
	now = now.Add(time.Minute)
	seen()
	reads(1)
	now = now.Add(4 * time.Minute)
	away(time.Second)
	reads(1)
	now = now.Add(time.Minute)
	reads(0, "lost")
	seen()
	reads(1, "lost", "back")
	// One that stays away is lost when the hub has listened for long enough.
	away(10 * time.Minute)
	reads(0, "lost", "back")
	now = now.Add(6 * time.Minute)
	reads(0, "lost", "back", "lost")
	seen()
	reads(1, "lost", "back", "lost", "back")
}
