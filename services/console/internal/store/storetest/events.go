package storetest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"fairlead.dev/services/console/internal/store"
)

func happened(id string, at time.Time) store.Event {
	return store.Event{ID: id, Time: at, Type: "service.applied", Cluster: "edge-1", Service: "web", Event: []byte(`{"message":"it's \"` + id + `\""}`)}
}

func eventsAfter(t *testing.T, s *store.Store, q store.EventQuery, seq int64, limit int) (list []store.Event) {
	t.Helper()
	err := s.Read(t.Context(), func(ctx context.Context, v store.View) (err error) {
		list, _, err = v.EventsAfter(ctx, q, seq, limit)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// putHub keeps truths of services in the place of those that are there.
func putHub(t *testing.T, s *store.Store, states map[string][]byte, begun []store.Deployment,
	stepsOf func(store.Report) ([]store.Step, error), events ...store.Event,
) error {
	t.Helper()
	_, err := s.PutHub(t.Context(), states, hubOf(t, s, slices.Collect(maps.Keys(states))), nil, begun, stepsOf, events...)
	return err
}

// An event comes with what it is about or not at all, and once.
func testEvents(t *testing.T, open Open) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	clock := now
	s := open(store.Options{Now: func() time.Time { return clock }})
	told := 0
	s.OnEvents(func() { told++ })
	write(t, s, func(_ context.Context, tx *store.Tx) error {
		tx.Tell(happened("a", now.Add(-time.Minute)))
		return nil
	})
	_ = s.Write(t.Context(), "user:ada", func(_ context.Context, tx *store.Tx) error {
		tx.Tell(happened("undone", now))
		return fmt.Errorf("no")
	})
	service := create(t, s, draft(store.KindService, "web", "{}"))
	if err := putHub(t, s, map[string][]byte{service.UID: []byte(`{}`)}, nil, nil, happened("a", now), happened("b", now)); err != nil {
		t.Fatal(err)
	}
	report := store.Report{Service: service.UID, Cluster: "c", Sequence: 1, State: []byte(`{}`)}
	other := happened("c", now)
	other.Service, other.Cluster, other.Type = "api", "edge-2", "service.failed"
	if _, err := s.PutReports(t.Context(), []store.Report{report}, nil, other); err != nil {
		t.Fatal(err)
	}
	if told != 3 {
		t.Errorf("told %d times", told)
	}
	list := eventsAfter(t, s, store.EventQuery{}, 0, 10)
	if len(list) != 3 || list[0].ID != "a" || !list[0].Time.Equal(now.Add(-time.Minute)) ||
		string(list[1].Event) != `{"message":"it's \"b\""}` || list[2].Service != "api" {
		t.Fatalf("got %+v", list)
	}
	for q, want := range map[store.EventQuery]int{
		{Service: "api"}: 1, {Cluster: "edge-1"}: 2, {Type: "service.failed", Cluster: "edge-1"}: 0, {Since: now}: 2, {Service: "web", Since: now}: 1,
	} {
		if got := eventsAfter(t, s, q, 0, 10); len(got) != want {
			t.Errorf("%+v: got %d, want %d", q, len(got), want)
		}
	}
	if got := eventsAfter(t, s, store.EventQuery{}, list[0].Seq, 1); len(got) != 1 || got[0].ID != "b" {
		t.Errorf("after the first: %+v", got)
	}

	// After a week they go.
	clock = now.Add(store.EventsKeep - time.Second)
	if err := s.AddEvents(t.Context(), happened("d", clock)); err != nil {
		t.Fatal(err)
	}
	if err := s.AddEvents(t.Context(), happened("e", clock)); err != nil {
		t.Fatal(err)
	}
	left := eventsAfter(t, s, store.EventQuery{}, 0, 10)
	if len(left) != 4 || left[0].ID != "b" {
		t.Errorf("left are %+v", left)
	}
	err := s.Read(t.Context(), func(ctx context.Context, v store.View) error {
		gone, err := v.EventsGone(ctx)
		if gone != list[0].Seq {
			t.Errorf("gone up to %d, want %d", gone, list[0].Seq)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}

	// When nothing is left, the end is where it was.
	clock = clock.Add(2 * store.EventsKeep)
	if err := s.AddEvents(t.Context(), happened("e", clock)); err != nil { // the event is there
		t.Fatal(err)
	}
	err = s.Read(t.Context(), func(ctx context.Context, v store.View) error {
		end, err := v.EventsEnd(ctx)
		if last := left[len(left)-1].Seq; end != last {
			t.Errorf("the end is %d, want %d", end, last)
		}
		return err
	})
	if got := eventsAfter(t, s, store.EventQuery{}, 0, 10); err != nil || len(got) > 0 {
		t.Fatalf("left are %+v, %v", got, err)
	}
}

// A follower of events misses none while several consoles write them.
func testEventFollower(t *testing.T, open Open) {
	const writers, each = 4, 25
	reader := open(store.Options{})
	var wg sync.WaitGroup
	for w := range writers {
		s := open(store.Options{})
		wg.Go(func() {
			for i := range each {
				if _, err := answered(func() error { return s.AddEvents(t.Context(), happened(fmt.Sprint(w, ".", i), time.Now())) }); err != nil {
					t.Error(err)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	seen := map[string]bool{}
	for at, ended := int64(0), false; ; {
		list := eventsAfter(t, reader, store.EventQuery{}, at, 10)
		for _, e := range list {
			seen[e.ID], at = true, e.Seq
		}
		if ended && len(list) == 0 {
			break
		}
		select {
		case <-done:
			ended = true
		default:
		}
	}
	if len(seen) != writers*each && !t.Failed() {
		t.Errorf("saw %d of %d", len(seen), writers*each)
	}
}

// Every status that is written is told to this console, and found by others.
func testTouch(t *testing.T, open Open) {
	late := func() time.Time { return time.Now().Add(-time.Hour) } // clocks of consoles differ
	s, other := open(store.Options{Now: late}), open(store.Options{})
	var mu sync.Mutex
	var got store.Touched
	s.OnTouch(func(touched store.Touched) {
		mu.Lock()
		defer mu.Unlock()
		got.Services, got.Clusters, got.Sources = append(got.Services, touched.Services...), append(got.Clusters,
			touched.Clusters...), append(got.Sources, touched.Sources...)
		got.Hubs, got.Own = append(got.Hubs, touched.Hubs...), append(got.Own, touched.Own...)
	})
	source, cluster := create(t, s, draft(store.KindSource, "shop", "{}")), create(t, s, draft(store.KindCluster, "edge-1", "{}"))
	service := create(t, s, draft(store.KindService, "web", "{}"))
	for _, err := range []error{
		putHub(t, s, map[string][]byte{service.UID: []byte("{}")}, nil, nil),
		s.PutHubRefs(t.Context(), map[store.HubRef][]byte{{Source: source.UID, Ref: "HEAD"}: []byte("{}")}),
		putReports(t, s, store.Report{Service: service.UID, Cluster: cluster.UID, Sequence: 1, State: []byte("{}")}),
		s.PutSeen(t.Context(), map[string]store.Seen{cluster.UID: {SeenTime: time.Now(), State: []byte("{}")}}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	write(t, s, func(ctx context.Context, tx *store.Tx) error { return tx.Leave(ctx, cluster.UID) })
	mu.Lock()
	defer mu.Unlock()
	if !slices.Equal(got.Services, []string{service.UID}) || !slices.Equal(got.Hubs, []store.Hub{{Service: service.UID}}) ||
		!slices.Equal(got.Clusters, []string{cluster.UID, cluster.UID}) || !slices.Equal(got.Sources, []string{source.UID}) {
		t.Errorf("told of %+v", got)
	}
	var found store.Touched
	err := other.Read(t.Context(), func(ctx context.Context, v store.View) error {
		list, err := v.Touched(ctx, time.Minute)
		for _, touch := range list {
			found.Add(touch)
			if isOwn := slices.Contains(got.Own, touch); isOwn != (s.Shared() && (touch.Table == "hub" || touch.Table == "reports")) {
				t.Errorf("%+v is said to be the console's own: %t", touch, isOwn)
			}
		}
		return err
	})
	if err != nil || !slices.Equal(found.Services, []string{service.UID, service.UID}) ||
		!slices.Equal(found.Clusters, []string{cluster.UID}) || !slices.Equal(found.Sources, []string{source.UID}) {
		t.Errorf("found %+v, %v", found, err)
	}
}

// Of two callers that have read the same, and tell of it at the same time, one keeps what it says, with the events
// about it.
func testEventsOfStatuses(t *testing.T, open Open) {
	s, other := open(store.Options{}), open(store.Options{})
	var uids []string
	for i := range 3 {
		uids = append(uids, create(t, s, draft(store.KindService, fmt.Sprint("web-", i), "{}")).UID)
	}
	together := func(events []store.Event) []store.Event {
		if len(events) == 0 {
			return nil
		}
		one := happened("", time.Now())
		for _, e := range events {
			one.ID += e.ID
		}
		return []store.Event{one}
	}
	s.GatherEvents(together)
	other.GatherEvents(together)
	of := func(name string, keys ...store.ReportKey) (events []store.Event) {
		for i, key := range keys {
			e := happened(fmt.Sprint(name, i, " "), time.Now())
			e.Of = key
			events = append(events, e)
		}
		return events
	}
	hub := func(at *store.Store, name, state string, read map[string][]byte, uids ...string) (lost []string) {
		t.Helper()
		states := map[string][]byte{}
		var keys []store.ReportKey
		for _, uid := range uids {
			states[uid], keys = []byte(state), append(keys, store.ReportKey{Service: uid})
		}
		lost, err := at.PutHub(t.Context(), states, read, nil, nil, nil, of(name, keys...)...)
		if err != nil {
			t.Fatal(err)
		}
		return lost
	}
	if lost := hub(s, "a", `"one"`, nil, uids[0], uids[1]); len(lost) != 0 {
		t.Errorf("nobody else wrote: %v", lost)
	}
	if lost := hub(other, "b", `"one"`, nil, uids...); !slices.Equal(lost, slices.Sorted(slices.Values(uids[:2]))) {
		t.Errorf("lost %v", lost)
	}
	read := map[string][]byte{uids[0]: []byte(`"one"`), uids[1]: []byte(`"one"`)}
	if lost := hub(s, "c", `"two"`, read, uids[0]); len(lost) != 0 {
		t.Errorf("nobody else wrote: %v", lost)
	}
	if lost := hub(other, "d", `"three"`, read, uids[0], uids[1]); !slices.Equal(lost, uids[:1]) {
		t.Errorf("lost %v", lost)
	}
	create(t, s, draft(store.KindService, "moved", "{}"))
	moved := update(t, s, draft(store.KindService, "moved", `{"cluster":"edge-2"}`))
	about := func(name string, revision int64) (lost []string) {
		t.Helper()
		event := of(name, store.ReportKey{Service: moved.UID})[0]
		event.Revision = revision
		lost, err := s.PutHub(t.Context(), map[string][]byte{moved.UID: []byte(`"one"`)}, nil, nil, nil, nil, event)
		if err != nil {
			t.Fatal(err)
		}
		return lost
	}
	if lost := about("before", moved.Revision-1); !slices.Equal(lost, []string{moved.UID}) {
		t.Errorf("lost %v of a service that is told of as it was before a write", lost)
	}
	if lost := about("now", moved.Revision); len(lost) != 0 {
		t.Errorf("lost %v of a service that is told of as it is", lost)
	}
	report := func(at *store.Store, name string, sequence int64, uids ...string) {
		t.Helper()
		var reports []store.Report
		var keys []store.ReportKey
		for _, uid := range uids {
			reports, keys = append(reports, store.Report{
				Service: uid, Cluster: "c", Sequence: sequence,
				State: []byte("{}"),
			}), append(keys, store.ReportKey{Service: uid, Cluster: "c"})
		}
		if _, err := at.PutReports(t.Context(), reports, nil, of(name, keys...)...); err != nil {
			t.Fatal(err)
		}
	}
	report(s, "e", 1, uids[0], uids[1])
	report(other, "f", 1, uids...)
	report(s, "g", 1, uids...)
	report(other, "h", 2, uids[0])
	var got []string
	for _, e := range eventsAfter(t, s, store.EventQuery{}, 0, 100) {
		got = append(got, e.ID)
	}
	if want := []string{"a0 a1 ", "b2 ", "c0 ", "d1 ", "now0 ", "e0 e1 ", "f2 ", "h0 "}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	states := hubOf(t, s, uids)
	if string(states[uids[0]]) != `"two"` || string(states[uids[1]]) != `"three"` || string(states[uids[2]]) != `"one"` {
		t.Errorf("kept %s", states)
	}
}

func hubOf(t *testing.T, s *store.Store, uids []string) map[string][]byte {
	t.Helper()
	return read(t, s, func(ctx context.Context, v store.View) (map[string][]byte, error) { return v.Hub(ctx, uids) })
}

// The members of events of many services are bounded in bytes: in what one read returns, and in what is kept.
func testHeavyEvents(t *testing.T, open Open) {
	const each, most = 1 << 20, 40 << 20
	s := open(store.Options{MembersBytes: most})
	put := func(from, to int) {
		t.Helper()
		for i := from; i < to; i += 8 {
			var list []store.Event
			for n := i; n < i+8; n++ {
				e := happened(fmt.Sprint(n), time.Now())
				e.Service, e.Cluster, e.Members = "", "", make([]byte, each)
				list = append(list, e)
			}
			light := happened(fmt.Sprint("light", i), time.Now())
			if err := s.AddEvents(t.Context(), append(list, light)...); err != nil {
				t.Fatal(err)
			}
		}
	}
	put(0, 32)
	for _, q := range []store.EventQuery{{}, {Service: "web"}} {
		seen, reads := map[string]bool{}, 0
		for at, more := int64(0), true; more; reads++ {
			var list []store.Event
			err := s.Read(t.Context(), func(ctx context.Context, v store.View) (err error) {
				list, more, err = v.EventsAfter(ctx, q, at, 500)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			bytes := 0
			for _, e := range list {
				bytes += len(e.Members)
				if e.Seq <= at || seen[e.ID] {
					t.Errorf("%s comes twice, or in another order", e.ID)
				}
				at, seen[e.ID] = e.Seq, true
			}
			if bytes > 10<<20 {
				t.Errorf("%d bytes at once", bytes)
			}
			if more && len(list) == 0 {
				t.Fatal("no way on")
			}
		}
		if len(seen) != 32+4 || reads < 3 {
			t.Errorf("%+v: %d events in %d reads", q, len(seen), reads)
		}
	}
	put(32, most/each+24)
	list, kept := eventsAfter(t, s, store.EventQuery{}, 0, 1), 0
	for at := int64(0); len(list) > 0; list = eventsAfter(t, s, store.EventQuery{}, at, 500) {
		for _, e := range list {
			if e.Seq > at {
				at, kept = e.Seq, kept+len(e.Members)
			}
		}
	}
	if kept > most || kept < most/2 {
		t.Errorf("kept %d bytes", kept)
	}
}
