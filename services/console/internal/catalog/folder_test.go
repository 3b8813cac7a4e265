package catalog

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"fairlead.dev/platform/refusal"
	"fairlead.dev/services/console/internal/resource"
	"fairlead.dev/services/console/internal/state"
	"fairlead.dev/services/console/internal/store"
	"fairlead.dev/services/console/internal/store/storetest"
)

func TestRefusedFolderIsTriedMoreAndMoreRarely(t *testing.T) {
	t.Parallel()
	var f folders
	now := time.Unix(1e9, 0)
	one, other := Delivered{UID: "u", Digest: "d1"}, Delivered{UID: "u", Digest: "d2"}
	for _, want := range []time.Duration{
		30 * time.Second, time.Minute, 2 * time.Minute, 4 * time.Minute,
		5 * time.Minute, 5 * time.Minute,
	} {
		if got := f.refused(one, now); got != want || f.wait(one, now) != want || f.wait(other, now) > 0 {
			t.Errorf("tried after %s, which is in %s, want %s; another digest in %s", got, f.wait(one, now), want,
				f.wait(other, now))
		}
		now = now.Add(2 * want)
	}
	now = now.Add(time.Hour)
	if got := f.refused(other, now); got != folderRetry || len(f.before) != 1 {
		t.Errorf("another one after %s; known are %v", got, f.before)
	}
}

func TestWriteThatTakesTooLongIsUndone(t *testing.T) {
	t.Parallel()
	s := storetest.SQLite(t)
	now := time.Unix(1e9, 0)
	c := New(open{}, Deps{Store: s, Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return now }, Hooks: func(*Catalog) []Hook {
		return []Hook{hooked(func() { now = now.Add(2 * time.Second) })}
	}})
	edits := make([]Edit, 5)
	for i, name := range []string{"a", "b", "c", "d", "e"} {
		var err error
		if edits[i], err = Draft(resource.Projects(), resource.Project{Meta: state.Meta{Name: name}}, Expectation{AllowMissing: true}); err != nil {
			t.Fatal(err)
		}
	}
	put := func(edits []Edit) error {
		end := now.Add(folderTime)
		return s.Write(t.Context(), "test", func(ctx context.Context, tx *store.Tx) error {
			_, err := c.PutIn(ctx, Write{Tx: tx, By: Self("test"), End: end}, edits)
			return err
		})
	}
	if err := put(edits); !errors.Is(err, errLate) {
		t.Errorf("five: %v", err)
	}
	if err := put(edits[:3]); err != nil {
		t.Errorf("three: %v", err)
	}
	b := bringing{content: Content{Edits: edits}}
	if r, err := b.report(now, false, errLate); err != nil || r.Phase != state.PhaseFailed ||
		!strings.Contains(r.Message, "writing its 5 resources takes more than 5s") {
		t.Errorf("the report: %v, %v", r, err)
	}
}

// hooked is a hook that only takes time.
type hooked func()

func (h hooked) Wrote(context.Context, *Write, *store.Resource, *store.Resource) error {
	h()
	return nil
}

// open is a guard that lets everybody see and write everything. The one of the console is built on this package.
type open struct{}

func (open) MayView(context.Context, store.Resource) error { return nil }
func (open) Missing(_ context.Context, ref store.Ref) error {
	return refusal.Missing(ref.Kind, ref.Name)
}
func (open) MayTouch(context.Context, By, store.Ref, *store.Resource) error { return nil }
func (open) MayMake(context.Context, By, store.Resource) error              { return nil }
func (open) MayName(context.Context, By, store.Ref) error                   { return nil }
func (open) MayWrite(context.Context, By, store.Resource) error             { return nil }
func (open) MayDelete(context.Context, By, store.Resource) error            { return nil }
func (open) Sees(context.Context) (func(store.Resource) bool, error)        { return nil, nil } //nolint:nilnil // nil has a meaning
