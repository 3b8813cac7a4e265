package lending_test

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/refusal"
	"fairlead.dev/services/console/internal/authz"
	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/event"
	"fairlead.dev/services/console/internal/lending"
	"fairlead.dev/services/console/internal/resource"
	"fairlead.dev/services/console/internal/seal"
	"fairlead.dev/services/console/internal/state"
	"fairlead.dev/services/console/internal/store"
	"fairlead.dev/services/console/internal/store/storetest"
)

// A lent role ends, and a request that nobody decides about lapses, each once over however many consoles.
func TestAccessEndsByItsOwnTime(t *testing.T) {
	t.Parallel()
	s := storetest.SQLite(t)
	box, err := seal.Ensure(filepath.Join(t.TempDir(), "master.key"))
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	rules := authz.New(s, nil)
	resources := catalog.New(rules, catalog.Deps{
		Store: s, Box: box, Log: log, Hooks: func(*catalog.Catalog) []catalog.Hook { return []catalog.Hook{rules} },
	})
	now := time.Now()
	k := &lending.Desk{Store: s, Catalog: resources, Rights: rules, Log: log, Now: func() time.Time { return now }}
	person := func(name string, groups ...string) (context.Context, catalog.By) {
		id := identity.Identity{Kind: identity.KindUser, Name: name, Groups: groups}
		return identity.NewContext(t.Context(), id), catalog.By{Identity: id, Subject: id.Subject()}
	}
	adaCtx, ada := person("ada", identity.AdminsGroup)
	if _, _, err := resources.UpdateCluster(adaCtx, ada, state.Cluster{Meta: state.Meta{Name: "edge-1"}},
		catalog.Expectation{AllowMissing: true}); err != nil {
		t.Fatal(err)
	}
	viewers := resource.Grant{
		Meta: state.Meta{Name: "viewers"},
		Spec: resource.GrantSpec{Users: []string{"bob"}, Role: "viewer", Clusters: resource.GrantClusters{All: true}},
	}
	grant, err := catalog.DraftGrant(&viewers, catalog.Expectation{AllowMissing: true})
	if err == nil {
		_, err = resources.PutAll(adaCtx, ada, []catalog.Edit{grant}, false)
	}
	if err != nil {
		t.Fatal(err)
	}
	bobCtx, bob := person("bob")
	ask := func(role string, lasts time.Duration) store.AccessRequest {
		t.Helper()
		r, err := k.Request(bobCtx, bob, lending.Ask{Cluster: "edge-1", Role: role, For: lasts, Reason: "incident 7"})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	lent, early, waits := ask("operator", time.Hour), ask("deployer", time.Hour), ask("admin", time.Hour)
	for _, r := range []store.AccessRequest{lent, early} {
		if _, err := k.Approve(adaCtx, ada, r.ID, ""); err != nil {
			t.Fatal(err)
		}
	}
	// An administrator may take the grant away by hand.
	if err := catalog.Drop(adaCtx, resources, ada, store.KindGrant, "access-"+early.ID, ""); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		after time.Duration
		want  []store.RequestState // of lent, early, waits
		told  int
	}{
		{59 * time.Minute, []store.RequestState{store.RequestApproved, store.RequestApproved, store.RequestWaiting}, 0},
		{61 * time.Minute, []store.RequestState{store.RequestEnded, store.RequestEnded, store.RequestWaiting}, 2},
		{25 * time.Hour, []store.RequestState{store.RequestEnded, store.RequestEnded, store.RequestLapsed}, 3},
	} {
		now = lent.CreateTime.Add(step.after)
		for range 2 {
			if err := k.EndDue(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		var got []store.RequestState
		told := 0
		err := s.Read(t.Context(), func(ctx context.Context, v store.View) error {
			for _, id := range []string{lent.ID, early.ID, waits.ID} {
				r, err := v.AccessRequest(ctx, id)
				if err != nil {
					return err
				}
				got = append(got, r.State)
			}
			events, _, err := v.EventsAfter(ctx, store.EventQuery{Type: event.AccessOver}, 0, 10)
			told = len(events)
			return err
		})
		if err != nil || !slices.Equal(got, step.want) || told != step.told {
			t.Errorf("after %s: %v, %d events, %v; want %v, %d", step.after, got, told, err, step.want, step.told)
		}
	}
	if err := s.Read(adaCtx, func(ctx context.Context, v store.View) error {
		_, err := v.Get(ctx, store.KindGrant, "access-"+lent.ID)
		return err
	}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the grant is left: %v", err)
	}
	_, err = k.Approve(adaCtx, ada, waits.ID, "")
	if !refusal.Is(err, refusal.Precondition) {
		t.Errorf("a request that lapsed is approved: %v", err)
	}
}

// Rights to see each of thousands of requests are judged by rules that are asked for once.
func TestAListAsksForTheRulesOnce(t *testing.T) {
	t.Parallel()
	s := storetest.SQLite(t)
	asked := 0
	rules := authz.New(s, func() time.Time { asked++; return time.Now() })
	k := &lending.Desk{Store: s, Rights: rules, Now: time.Now}
	err := s.Write(t.Context(), "test", func(ctx context.Context, tx *store.Tx) error {
		for _, id := range []string{"a", "b", "c"} {
			r := store.AccessRequest{ID: id, Subject: "user:bob", Cluster: "edge-1", State: store.RequestWaiting, Due: tx.Now()}
			if err := tx.PutAccessRequest(ctx, r, time.Time{}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int{"bob": 3, "eve": 0} {
		id := identity.Identity{Kind: identity.KindUser, Name: name}
		asked = 0
		list, _, err := k.List(t.Context(), catalog.By{Identity: id, Subject: id.Subject()}, true, 0, "")
		if err != nil || len(list) != want || asked != 1 {
			t.Errorf("%s sees %d requests, want %d; the rules were asked for %d times: %v", name, len(list), want, asked, err)
		}
	}
}
