package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"fairlead.dev/services/console/internal/store"
)

func testAccessRequests(t *testing.T, open Open) {
	s := open(store.Options{})
	at := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	put := func(r store.AccessRequest, forget time.Time) {
		t.Helper()
		if err := s.Write(t.Context(), "user:ada", func(ctx context.Context, tx *store.Tx) error { return tx.PutAccessRequest(ctx, r, forget) }); err != nil {
			t.Fatal(err)
		}
	}
	request := func(id, subject string, minutes int) store.AccessRequest {
		return store.AccessRequest{
			ID: id, Subject: subject, Cluster: "edge-1", State: store.RequestWaiting, Due: at.Add(time.Duration(minutes) * time.Minute),
			RequestData: store.RequestData{Role: "operator", For: time.Hour, Reason: "incident \"7\" é", CreateTime: at},
		}
	}
	ids := func(read []store.AccessRequest) (out []string) {
		for _, r := range read {
			out = append(out, r.ID)
		}
		return out
	}
	want := func(what string, got []store.AccessRequest, wanted ...string) {
		t.Helper()
		if got := ids(got); !slices.Equal(got, wanted) {
			t.Errorf("%s: %v, want %v", what, got, wanted)
		}
	}
	one := request("1", "user:ada", 10)
	put(one, time.Time{})
	put(request("2", "user:bob", 20), time.Time{})
	put(request("3", "user:ada", 5), time.Time{})
	got := read(t, s, func(ctx context.Context, v store.View) (store.AccessRequest, error) { return v.AccessRequest(ctx, "1") })
	if fmt.Sprint(got) != fmt.Sprint(one) {
		t.Errorf("got %v, want %v", got, one)
	}
	for _, id := range []string{"4", "\x00"} {
		err := s.Read(t.Context(), func(ctx context.Context, v store.View) error { _, err := v.AccessRequest(ctx, id); return err })
		if !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%q, which does not exist: %v", id, err)
		}
		err = s.Read(t.Context(), func(ctx context.Context, v store.View) error { _, err := v.Recording(ctx, id); return err })
		if !errors.Is(err, store.ErrNotFound) {
			t.Errorf("recording %q, which does not exist: %v", id, err)
		}
	}
	list := func(all bool, before string, limit int) []store.AccessRequest {
		t.Helper()
		return read(t, s, func(ctx context.Context, v store.View) ([]store.AccessRequest, error) {
			return v.AccessRequests(ctx, all, before, limit)
		})
	}
	want("all", list(true, "", 10), "3", "2", "1")
	want("a page", list(true, "", 2), "3", "2")
	want("the next one", list(true, "2", 2), "1")
	due := func(minutes int) []store.AccessRequest {
		t.Helper()
		return read(t, s, func(ctx context.Context, v store.View) ([]store.AccessRequest, error) {
			return v.DueRequests(ctx, at.Add(time.Duration(minutes)*time.Minute), 10)
		})
	}
	want("due", due(10), "3", "1")

	one.State, one.Due, one.End, one.Decider, one.DecideTime = store.RequestDenied, time.Time{}, at.Add(time.Minute), "user:lea", at.Add(time.Minute)
	put(one, time.Time{})
	want("due once it is denied", due(10), "3")
	want("open ones", list(false, "", 10), "3", "2")
	want("all of them", list(true, "", 10), "3", "2", "1")
	want("open ones of ada", read(t, s, func(ctx context.Context, v store.View) ([]store.AccessRequest, error) {
		return v.OpenRequests(ctx, "user:ada")
	}), "3")
	put(request("4", "user:ada", 5), at.Add(time.Hour))
	want("what is left", list(true, "", 10), "4", "3", "2")
}
