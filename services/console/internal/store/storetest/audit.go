package storetest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"fairlead.dev/services/console/internal/store"
	"fairlead.dev/services/console/internal/store/audittrail"
)

var auditBegan = time.Now().UTC().Truncate(time.Microsecond).Add(-time.Hour) //nolint:gochecknoglobals // one moment, for all events

func event(i int, actor, cluster, action string) audittrail.Event {
	return audittrail.Event{
		ID: fmt.Sprintf("%016d", i), Time: auditBegan.Add(time.Duration(i) * time.Second),
		Actor: actor, Cluster: cluster, Action: action, Event: fmt.Appendf(nil, `{"n":%d}`, i),
	}
}

func appendAudit(t *testing.T, s *store.Store, events ...audittrail.Event) {
	t.Helper()
	if err := s.AppendAudit(t.Context(), events); err != nil {
		t.Fatal(err)
	}
}

// list returns the ids of all events that a filter lets through, read page by page.
func auditIDs(t *testing.T, s *store.Store, f audittrail.Filter) (ids []string) {
	t.Helper()
	for at := (audittrail.Place{}); ; {
		page := read(t, s, func(ctx context.Context, v store.View) ([]audittrail.Event, error) { return v.Audit(ctx, f, at, 2) })
		if len(page) == 0 {
			return ids
		}
		for _, e := range page {
			ids = append(ids, e.ID)
			at = audittrail.Place{Time: e.Time, Seq: e.Seq}
		}
	}
}

func testAudit(t *testing.T, open Open) {
	s := open(store.Options{})
	late := event(1, "user:ada", "edge-1", "tunnel.request")
	same := event(3, "user:eve", "", "token.refused")
	same.ID = "0000000000000013"
	appendAudit(
		t, s, event(2, "user:bob", "edge-1", "tunnel.request.end"), event(3, "user:ada", "edge-2", "tunnel.requests"),
		same, event(4, "agent:ada", "edge-1", "tunnel.request.begin"),
	)
	appendAudit(t, s, late) // came later, happened earlier
	for name, tc := range map[string]struct {
		filter audittrail.Filter
		want   []int
	}{
		"all, newest first": {audittrail.Filter{}, []int{4, 13, 3, 2, 1}},
		"actors":            {audittrail.Filter{Actors: []string{"user:ada", "agent:ada"}}, []int{4, 3, 1}},
		"cluster":           {audittrail.Filter{Cluster: "edge-1"}, []int{4, 2, 1}},
		"action":            {audittrail.Filter{Action: "tunnel.request"}, []int{4, 2, 1}},
		"since":             {audittrail.Filter{Since: auditBegan.Add(3 * time.Second)}, []int{4, 13, 3}},
		"together":          {audittrail.Filter{Cluster: "edge-1", Action: "tunnel.request", Actors: []string{"user:bob"}}, []int{2}},
		"none":              {audittrail.Filter{Actors: []string{"user:' OR 1=1 --"}}, nil},
	} {
		var want []string
		for _, i := range tc.want {
			want = append(want, fmt.Sprintf("%016d", i))
		}
		if got := auditIDs(t, s, tc.filter); !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
	got := read(t, s, func(ctx context.Context, v store.View) ([]audittrail.Event, error) {
		return v.Audit(ctx, audittrail.Filter{Actors: []string{"user:bob"}}, audittrail.Place{}, 1)
	})
	if len(got) != 1 || string(got[0].Event) != `{"n":2}` || !got[0].Time.Equal(auditBegan.Add(2*time.Second)) {
		t.Errorf("got %+v", got)
	}
}

func testAuditKeeps(t *testing.T, open Open) {
	s := open(store.Options{})
	first := event(1, "user:ada", "edge-1", "tunnel.request")
	appendAudit(t, s, first, first)
	forged := first
	forged.Actor, forged.Event = "user:eve", []byte(`{"n":666}`)
	appendAudit(t, s, forged, event(2, "user:ada", "", "x"))
	got := read(t, s, func(ctx context.Context, v store.View) ([]audittrail.Event, error) {
		return v.AuditAfter(ctx, audittrail.Filter{}, 0, 10)
	})
	if len(got) != 2 || got[0].Actor != "user:ada" || string(got[0].Event) != `{"n":1}` {
		t.Fatalf("got %+v", got)
	}
	for _, statement := range []string{
		"UPDATE audit SET actor = 'user:eve'", "DELETE FROM audit",
	} {
		if _, err := s.Databases()["catalog"].ExecContext(t.Context(), statement); err == nil {
			t.Errorf("the database does %q", statement)
		}
	}
	// An event that is too old goes by itself.
	old := event(3, "user:ada", "", "old")
	old.Time = time.Now().AddDate(0, 0, -91)
	appendAudit(t, s, old)
	appendAudit(t, s, event(4, "user:ada", "", "x"))
	if ids := auditIDs(t, s, audittrail.Filter{}); len(ids) != 3 || slices.Contains(ids, old.ID) {
		t.Errorf("left are %v", ids)
	}
}

// testAuditFollower: whoever has read up to a number has all before it, however many write at once.
func testAuditFollower(t *testing.T, open Open) {
	const writers, each = 6, 15
	stores := []*store.Store{open(store.Options{}), open(store.Options{})}
	var running sync.WaitGroup
	defer running.Wait()
	for w := range writers {
		running.Go(func() {
			for i := range each {
				events := []audittrail.Event{event(w*1000+2*i, "user:ada", "", "x"), event(w*1000+2*i+1, "user:ada", "", "x")}
				if _, err := answered(func() error { return stores[w%2].AppendAudit(t.Context(), events) }); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	seen := map[string]bool{}
	deadline := time.Now().Add(patience)
	for at := int64(0); len(seen) < writers*each*2; {
		if time.Now().After(deadline) || t.Failed() {
			t.Fatalf("followed %d of %d events", len(seen), writers*each*2)
		}
		list := read(t, stores[0], func(ctx context.Context, v store.View) ([]audittrail.Event, error) {
			return v.AuditAfter(ctx, audittrail.Filter{}, at, 7)
		})
		for _, e := range list {
			if e.Seq <= at || seen[e.ID] {
				t.Fatalf("%s is number %d after %d", e.ID, e.Seq, at)
			}
			at, seen[e.ID] = e.Seq, true
		}
	}
}
