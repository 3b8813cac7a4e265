package storetest

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"fairlead.dev/services/console/internal/store"
	"fairlead.dev/services/console/internal/store/places"
)

func testPlaces(t *testing.T, open Open) {
	s := open(store.Options{})
	one, other := create(t, s, draft(store.KindBackend, "one", `{}`)), create(t, s, draft(store.KindBackend, "other", `{}`))
	at := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	place := func(backend, path, sealed string) places.Place {
		return places.Place{Backend: backend, Path: path, Sealed: []byte(sealed), ReadTime: at}
	}
	write(t, s, func(ctx context.Context, tx *store.Tx) error {
		return tx.PutPlaces(ctx, []places.Place{
			place(one.UID, "a", "1"), place(one.UID, "b", "2"),
			place(other.UID, "a", "3"),
			{Backend: one.UID, Path: "never", Problem: "away"},
		})
	})
	write(t, s, func(ctx context.Context, tx *store.Tx) error {
		if err := tx.ForgetPlaces(ctx, one.UID, []string{"b", "nowhere"}); err != nil {
			return err
		}
		if err := tx.PutPlaces(ctx, []places.Place{place(one.UID, "a", "4")}); err != nil {
			return err
		}
		return tx.PutReading(ctx, places.Reading{Backend: one.UID, Next: at, Reader: "me", Problem: "away", ProblemTime: at})
	})
	kept := func(backend string, paths ...string) []string {
		t.Helper()
		return slices.Sorted(maps.Keys(read(t, s, func(ctx context.Context, v store.View) (map[string]places.Place, error) {
			return v.Places(ctx, backend, paths)
		})))
	}
	if got := kept(one.UID, "a", "b", "never"); !slices.Equal(got, []string{"a", "never"}) {
		t.Errorf("kept %v", got)
	}
	all := read(t, s, func(ctx context.Context, v store.View) ([]places.Place, error) { return v.AllPlaces(ctx, one.UID) })
	if len(all) != 2 || string(all[0].Sealed) != "4" || !all[0].ReadTime.Equal(at) || all[1].Sealed != nil ||
		!all[1].ReadTime.IsZero() || all[1].Problem != "away" {
		t.Errorf("kept %+v", all)
	}
	due := func(now time.Time) []places.Reading {
		t.Helper()
		return read(t, s, func(ctx context.Context, v store.View) ([]places.Reading, error) { return v.DueReadings(ctx, now) })
	}
	if got := due(at.Add(-time.Second)); len(got) > 0 {
		t.Errorf("due %+v too early", got)
	}
	if got := due(at); len(got) != 1 || got[0].Reader != "me" || got[0].Problem != "away" || !got[0].ProblemTime.Equal(at) || !got[0].ReadTime.IsZero() {
		t.Errorf("due %+v", got)
	}
	remove(t, s, one)
	if left := append(kept(one.UID, "a", "never"), kept(other.UID, "a")...); !slices.Equal(left, []string{"a"}) || len(due(at)) > 0 {
		t.Errorf("left %v and %v", left, due(at))
	}
}
