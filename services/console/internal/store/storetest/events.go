package storetest

import (
	"context"
	"fmt"
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
		list, err = v.EventsAfter(ctx, q, seq, limit)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
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
	if err := s.PutHub(t.Context(), map[string][]byte{service.UID: []byte(`{}`)}, nil, nil, happened("a", now), happened("b", now)); err != nil {
		t.Fatal(err)
	}
	report := store.Report{Service: service.UID, Cluster: "c", Sequence: 1, State: []byte(`{}`)}
	other := happened("c", now)
	other.Service, other.Cluster, other.Type = "api", "edge-2", "service.failed"
	if err := s.PutReports(t.Context(), []store.Report{report}, nil, other); err != nil {
		t.Fatal(err)
	}
	if told != 3 {
		t.Errorf("told %d times", told)
	}
	list := eventsAfter(t, s, store.EventQuery{}, 0, 10)
	if len(list) != 3 || list[0].ID != "a" || !list[0].Time.Equal(now.Add(-time.Minute)) || string(list[1].Event) != `{"message":"it's \"b\""}` || list[2].Service != "api" {
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
	if err := s.AddEvents(t.Context(), happened("e", clock)); err != nil { // it is there
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

// Who follows events while several consoles write them misses none.
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
		got.Services, got.Clusters, got.Sources = append(got.Services, touched.Services...), append(got.Clusters, touched.Clusters...), append(got.Sources, touched.Sources...)
	})
	source, cluster := create(t, s, draft(store.KindSource, "shop", "{}")), create(t, s, draft(store.KindCluster, "edge-1", "{}"))
	service := create(t, s, draft(store.KindService, "web", "{}"))
	for _, err := range []error{
		s.PutHub(t.Context(), map[string][]byte{service.UID: []byte("{}")}, nil, nil),
		s.PutHubRefs(t.Context(), map[store.HubRef][]byte{{Source: source.UID, Ref: "HEAD"}: []byte("{}")}),
		s.PutReports(t.Context(), []store.Report{{Service: service.UID, Cluster: cluster.UID, Sequence: 1, State: []byte("{}")}}, nil),
		s.PutSeen(t.Context(), map[string]store.Seen{cluster.UID: {SeenTime: time.Now(), State: []byte("{}")}}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	write(t, s, func(ctx context.Context, tx *store.Tx) error { return tx.Leave(ctx, cluster.UID) })
	mu.Lock()
	defer mu.Unlock()
	if !slices.Equal(got.Services, []string{service.UID, service.UID}) || !slices.Equal(got.Clusters, []string{cluster.UID, cluster.UID}) || !slices.Equal(got.Sources, []string{source.UID}) {
		t.Errorf("told of %+v", got)
	}
	var found store.Touched
	err := other.Read(t.Context(), func(ctx context.Context, v store.View) error {
		list, err := v.Touched(ctx, time.Minute)
		for _, touch := range list {
			found.Add(touch)
		}
		return err
	})
	if err != nil || !slices.Equal(found.Services, []string{service.UID, service.UID}) || !slices.Equal(found.Clusters, []string{cluster.UID}) || !slices.Equal(found.Sources, []string{source.UID}) {
		t.Errorf("found %+v, %v", found, err)
	}
}
