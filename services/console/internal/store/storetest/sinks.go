package storetest

import (
	"context"
	"testing"
	"time"

	"fairlead.dev/services/console/internal/store"
)

func testSinks(t *testing.T, open Open) {
	s := open(store.Options{})
	one, other := create(t, s, draft(store.KindSink, "one", `{}`)), create(t, s, draft(store.KindSink, "other", `{}`))
	begin := func() {
		t.Helper()
		write(t, s, func(ctx context.Context, tx *store.Tx) error { return tx.BeginSending(ctx, one.UID) })
	}
	tell := func(id string) {
		t.Helper()
		if err := s.AddEvents(t.Context(), store.Event{ID: id, Time: time.Now(), Type: "test", Event: []byte(`{}`)}); err != nil {
			t.Fatal(err)
		}
	}
	all := func() map[string]store.Sending {
		t.Helper()
		return read(t, s, func(ctx context.Context, v store.View) (map[string]store.Sending, error) { return v.Sendings(ctx) })
	}
	claim := func(who string, lease time.Duration) (store.Sending, bool) {
		t.Helper()
		of, mine, err := s.ClaimSending(t.Context(), one.UID, who, lease)
		if err != nil {
			t.Fatal(err)
		}
		return of, mine
	}
	keep := func(of store.Sending, wait time.Duration, events ...store.Event) bool {
		t.Helper()
		kept, err := s.PutSending(t.Context(), of, wait, events...)
		if err != nil {
			t.Fatal(err)
		}
		return kept
	}
	tell("before")
	begin()
	end := read(t, s, func(ctx context.Context, v store.View) (int64, error) { return v.EventsEnd(ctx) })
	if got := all(); len(got) != 1 || got[one.UID].Seq != end || !got[one.UID].Due || got[other.UID].Sink != "" {
		t.Errorf("a new sink begins with %+v, and the events end at %d", got, end)
	}

	mine, ok := claim("a", time.Hour)
	if !ok || mine.Sender != "a" || mine.Seq != end || all()[one.UID].Due {
		t.Fatalf("claimed %+v: %v", mine, ok)
	}
	if of, ok := claim("b", time.Hour); ok {
		t.Errorf("two have claimed it: %+v", of)
	}
	at := time.Now().Add(-time.Hour).UTC().Truncate(time.Second) // events of more than a week ago are swept
	is := mine
	is.Seq, is.Attempts, is.Waiting, is.Oldest, is.SendTime = end+7, 3, 5, at, at.Add(time.Second)
	is.Sent, is.Dropped, is.Problem, is.ProblemTime, is.Rejections = 11, 13, "away", at.Add(time.Minute), 4
	if !keep(is, time.Hour, store.Event{ID: "failing", Time: at, Type: "sink.failing", Event: []byte(`{}`)}) {
		t.Error("what came of the claim is not kept")
	}
	got := all()[one.UID]
	if next := time.Until(got.Next); got.Due || next < 50*time.Minute || next > 70*time.Minute {
		t.Errorf("the next is due in %v", next)
	}
	if got.Next = is.Next; got != is {
		t.Errorf("kept %+v, not %+v", got, is)
	}
	if _, ok := claim("b", time.Hour); ok {
		t.Error("it is claimed before it is due")
	}

	begin() // changed
	if got := all()[one.UID]; !got.Due || got.Seq != end+7 || got.Attempts != 3 || got.Rejections != 0 || got.Problem != "away" {
		t.Errorf("changed, it is %+v", got)
	}
	mine, _ = claim("b", time.Hour)
	write(t, s, func(ctx context.Context, tx *store.Tx) error { return tx.KeepFilters(ctx, one.UID, "before") })
	begin() // changed while it is sent to
	if of, ok := claim("a", time.Hour); ok {
		t.Errorf("a change lets another in: %+v", of)
	}
	if keep(is, 0, store.Event{ID: "never", Time: at, Type: "sink.failing", Event: []byte(`{}`)}) {
		t.Error("what came of a claim that was lost is kept")
	}
	if got := keep(mine, time.Hour); !got || !all()[one.UID].Due || all()[one.UID].Earlier != "before" {
		t.Error("a sink that was changed meanwhile is not tried at once, or its filters are lost")
	}
	for range 50 { // also in the same moment
		begin()
		mine, ok = claim("b", time.Hour)
		begin()
		if !ok || !keep(mine, time.Hour) || !all()[one.UID].Due {
			t.Fatal("a change in the moment of the claim is lost")
		}
	}
	if _, ok = claim("b", 0); !ok {
		t.Fatal("not claimed")
	}
	if _, ok = claim("a", time.Hour); !ok {
		t.Error("a claim that is over holds")
	}
	ids := map[string]bool{}
	for _, e := range read(t, s, func(ctx context.Context, v store.View) ([]store.Event, error) {
		list, _, err := v.EventsAfter(ctx, store.EventQuery{}, 0, 10)
		return list, err
	}) {
		ids[e.ID] = true
	}
	if !ids["failing"] || ids["never"] {
		t.Errorf("told %v", ids)
	}
	remove(t, s, one)
	if len(all()) > 0 || keep(is, 0) {
		t.Errorf("left %v", all())
	}
}
