package event

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/identity"
	"fairlead.dev/services/console/internal/authz"
	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/seal"
	"fairlead.dev/services/console/internal/state"
	"fairlead.dev/services/console/internal/store"
)

// A lever that ends by its own time is announced once, however often and by however many consoles it is looked at; a
// short one is not.
func TestTheEndOfALeverIsAnnouncedBefore(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, url string) {
		_, s := openLog(t, url)
		box, err := seal.Ensure(filepath.Join(t.TempDir(), "master.key"))
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now().UTC().Truncate(time.Second)
		now, said := begin, "web: The hold of user:ada (the sale) ends at "+
			begin.Add(2*time.Hour).Format(time.RFC3339)+"."
		clock := func() time.Time { return now }
		c := catalog.New(authz.New(s,
			nil), catalog.Deps{
			Store: s, Box: box, Log: slog.New(slog.DiscardHandler), Now: clock,
			Observer: &Recorder{Store: s, Log: slog.New(slog.DiscardHandler), Now: clock},
		})
		ctx, by := t.Context(), catalog.By{
			Identity: identity.Identity{Kind: identity.KindUser, Name: "ada", Groups: []string{identity.AdminsGroup}},
			Subject:  "user:ada",
		}
		create := catalog.Expectation{AllowMissing: true}
		source := state.Source{Meta: state.Meta{Name: "shop"}}
		source.Spec.Git.URL = "https://git.example.com/shop"
		if err := putSource(ctx, c, by, source); err != nil {
			t.Fatal(err)
		}
		if _, _, err := c.UpdateCluster(ctx, by, state.Cluster{Meta: state.Meta{Name: "edge-1"}},
			create); err != nil {
			t.Fatal(err)
		}
		for name, until := range map[string]time.Duration{
			"web": 2 * time.Hour, "short": 15 * time.Minute, "long": 24 * time.Hour,
		} {
			if _, _, err := c.UpdateService(ctx, by,
				state.Service{
					Meta: state.Meta{Name: name}, Spec: state.ServiceSpec{Source: "shop", Cluster: "edge-1"},
				}, create); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Hold(ctx, by, name, "SYNC_MODE_HOLD", "the sale", now.Add(until)); err != nil {
				t.Fatal(err)
			}
		}
		for _, step := range []struct {
			after time.Duration
			want  []string
		}{
			{10 * time.Minute, nil},
			{109 * time.Minute, nil},
			{111 * time.Minute, []string{said}},
			{119 * time.Minute, []string{said}},
		} {
			now = begin.Add(step.after)
			for range 2 {
				if err := c.EndLevers(ctx); err != nil {
					t.Fatal(err)
				}
			}
			if got := announced(t, s); !slices.Equal(got, step.want) {
				t.Errorf("after %s: got %q, want %q", step.after, got, step.want)
			}
		}
	})
}

func putSource(ctx context.Context, c *catalog.Catalog, by catalog.By, source state.Source) error {
	e, err := catalog.DraftSource(&source, catalog.Expectation{AllowMissing: true})
	if err != nil {
		return err
	}
	_, _, err = catalog.PutOne(ctx, c, by, e, c.Sources)
	return err
}

// announced are the ends of levers that events tell of.
func announced(t *testing.T, s *store.Store) (out []string) {
	t.Helper()
	err := s.Read(t.Context(), func(ctx context.Context, v store.View) error {
		rows, _, err := v.EventsAfter(ctx, store.EventQuery{}, 0, 100)
		for _, row := range rows {
			var e consolev1.Event
			if row.Type == LeverEnding {
				if err := protojson.Unmarshal(row.Event, &e); err != nil {
					return err
				}
				out = append(out, fmt.Sprintf("%s: %s", row.Service, e.GetMessage()))
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// A freeze is there, for agents of all distributors alike, until the console ends it, which it does as it ends other
// levers.
func TestAFreezeEndsByTheClockAndIsAnnouncedBefore(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, url string) {
		_, s := openLog(t, url)
		box, err := seal.Ensure(filepath.Join(t.TempDir(), "master.key"))
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now().UTC().Truncate(time.Second)
		now := begin
		clock := func() time.Time { return now }
		recorder := &Recorder{Store: s, Log: slog.New(slog.DiscardHandler), Now: clock}
		c := catalog.New(authz.New(s,
			nil), catalog.Deps{Store: s, Box: box, Log: slog.New(slog.DiscardHandler), Now: clock, Observer: recorder})
		ctx, by := t.Context(), catalog.By{
			Identity: identity.Identity{Kind: identity.KindUser, Name: "ada", Groups: []string{identity.AdminsGroup}},
			Subject:  "user:ada",
		}
		for _, name := range []string{"edge-1", "edge-2"} {
			if _, _, err := c.UpdateCluster(ctx, by, state.Cluster{Meta: state.Meta{Name: name}},
				catalog.Expectation{AllowMissing: true}); err != nil {
				t.Fatal(err)
			}
		}
		freeze := func(name string, until time.Duration) {
			t.Helper()
			if _, _, err := c.Freeze(ctx, by, store.KindCluster, name, &state.Freeze{
				Reason: "moves", Until: begin.Add(until),
			}); err != nil {
				t.Fatal(err)
			}
		}
		freeze("edge-1", 2*time.Hour)
		freeze("edge-2", 15*time.Minute)
		frozen := func(name string) bool {
			t.Helper()
			cluster, err := c.GetCluster(ctx, name)
			if err != nil {
				t.Fatal(err)
			}
			return cluster.Spec.Freeze.Encode() != nil
		}
		said := fmt.Sprintf(": The freeze of cluster %q ends at %s: moves.", "edge-1",
			begin.Add(2*time.Hour).Format(time.RFC3339))
		for _, step := range []struct {
			after      time.Duration
			said       []string
			one, other bool
		}{
			{10 * time.Minute, nil, true, true},
			{16 * time.Minute, nil, true, false},
			{111 * time.Minute, []string{said}, true, false},
			{2 * time.Hour, []string{said}, false, false},
		} {
			now = begin.Add(step.after)
			if before := frozen("edge-1"); !before {
				t.Errorf("after %s the freeze is gone before the console ended it", step.after)
			}
			for range 2 {
				if err := c.EndLevers(ctx); err != nil {
					t.Fatal(err)
				}
			}
			if got := announced(t, s); !slices.Equal(got, step.said) {
				t.Errorf("after %s: got %q, want %q", step.after, got, step.said)
			}
			if one, other := frozen("edge-1"), frozen("edge-2"); one != step.one || other != step.other {
				t.Errorf("after %s: frozen %t and %t", step.after, one, other)
			}
		}
	})
}
