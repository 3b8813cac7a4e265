package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fairlead.dev/services/console/internal/store"
	"fairlead.dev/services/console/internal/store/audittrail"
	"fairlead.dev/services/console/internal/store/recordings"
)

func testRecordings(t *testing.T, open Open) {
	at := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	s := open(store.Options{Now: func() time.Time { return at.Add(time.Hour) }})
	bounds := recordings.Bounds{One: 10, Person: 1000, All: 1000, Young: at, Idle: at}
	begin := func(id, cluster, subject string, minutes int) {
		t.Helper()
		r := recordings.Recording{
			ID: id, Cluster: cluster, Subject: subject,
			Begin: at.Add(time.Duration(minutes) * time.Minute), RecordingData: recordings.RecordingData{Pod: "web-0", Verb: "exec"},
		}
		for range 2 { // BeginRecording is idempotent
			if err := s.BeginRecording(t.Context(), r, bounds); err != nil {
				t.Fatal(err)
			}
		}
	}
	add := func(id string, sequence int64, text string, end bool) error {
		refused, err := s.AppendRecordings(t.Context(),
			[]recordings.RecordingPiece{{ID: id, Piece: recordings.Piece{Sequence: sequence, Data: []byte("\x00" + text)}, Bytes: int64(len(text)), End: end}}, bounds)
		return errors.Join(err, errors.Join(refused...))
	}
	begin("1", "edge-1", "user:ada", 0)
	begin("2", "edge-2", "user:ada", 1)
	begin("3", "edge-1", "user:bob", 2)
	for _, step := range []struct {
		sequence int64
		text     string
		end      bool
		want     error
	}{{1, "one", false, nil}, {2, "two", false, nil}, {2, "two, much longer", false, nil}, {3, "too much", false, recordings.ErrFull}, {3, "end", true, nil}} {
		if err := add("1", step.sequence, step.text, step.end); !errors.Is(err, step.want) {
			t.Errorf("piece %d: %v, want %v", step.sequence, err, step.want)
		}
	}
	if err := add("4", 1, "one", false); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a piece of none: %v", err)
	}
	got := read(t, s, func(ctx context.Context, v store.View) (recordings.Recording, error) { return v.Recording(ctx, "1") })
	if got.Bytes != 9 || got.End.IsZero() || got.Pod != "web-0" || !got.Begin.Equal(at) {
		t.Errorf("got %+v", got)
	}
	pieces := read(t, s, func(ctx context.Context, v store.View) ([]recordings.Piece, error) { return v.Pieces(ctx, "1", 1, 10) })
	var texts []string
	for _, p := range pieces {
		texts = append(texts, fmt.Sprintf("%d %q", p.Sequence, p.Data))
	}
	if !slices.Equal(texts, []string{`2 "\x00two"`, `3 "\x00end"`}) {
		t.Errorf("pieces %s", texts)
	}
	list := func(cluster, subject, before string, limit int) (ids []string) {
		t.Helper()
		for _, r := range read(t, s, func(ctx context.Context, v store.View) ([]recordings.Recording, error) {
			return v.Recordings(ctx, cluster, subject, before, limit)
		}) {
			ids = append(ids, r.ID)
		}
		return ids
	}
	for want, got := range map[string][]string{
		"[3 2 1]": list("", "", "", 10), "[3 1]": list("edge-1", "", "", 10), "[2 1]": list("", "user:ada", "", 10), "[2]": list("", "", "3", 1),
	} {
		if fmt.Sprint(got) != want {
			t.Errorf("got %v, want %s", got, want)
		}
	}
}

// testRecordingRoom is about who is refused, and what goes, when recordings have all the room there is.
func testRecordingRoom(t *testing.T, open Open) {
	const day = 24 * time.Hour
	now := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	s := open(store.Options{Now: func() time.Time { return now }})
	bounds := recordings.Bounds{One: 10, Person: 15, All: 45, Young: now.Add(-7 * day), Idle: now.Add(-day)}
	begin := func(id, subject string, age time.Duration) error {
		return s.BeginRecording(t.Context(), recordings.Recording{
			ID: id, Cluster: "edge-1", Subject: subject,
			Begin: now.Add(-age), RecordingData: recordings.RecordingData{Verb: "exec"},
		}, bounds)
	}
	add := func(pieces ...recordings.RecordingPiece) []error {
		t.Helper()
		refused, err := s.AppendRecordings(t.Context(), pieces, bounds)
		if err != nil || len(refused) != len(pieces) {
			t.Fatalf("%v, %v", refused, err)
		}
		return refused
	}
	piece := func(id string, sequence, bytes int64, end bool) recordings.RecordingPiece {
		return recordings.RecordingPiece{ID: id, Piece: recordings.Piece{Sequence: sequence, Data: []byte("sealed")}, Bytes: bytes, End: end}
	}
	for _, r := range []struct {
		id, subject string
		age         time.Duration
	}{
		{"01", "user:ada", 30 * day},
		{"02", "user:bob", 20 * day},
		{"03", "user:bob", 19 * day},
		{"04", "user:bob", 18 * day},
		{"05", "user:bob", day},
		{"06", "user:bob", 0},
		{"07", "user:eve", 0},
	} {
		if err := begin(r.id, r.subject, r.age); err != nil {
			t.Fatal(r.id, err)
		}
	}
	// One transaction for all, each refused by itself: 03 goes on, 05 and 06 are all that bob may have of the last
	// days.
	refused := add(piece("07", 1, 1, false), piece("01", 1, 5, true), piece("02", 1, 5, true), piece("03", 1, 5, false), piece("04", 1, 5, true),
		piece("05", 1, 11, false), piece("05", 1, 10, true), piece("05", 1, 10, true), piece("06", 1, 4, false),
		piece("06", 2, 2, false), piece("nil", 1, 1, false))
	want := []error{nil, nil, nil, nil, nil, recordings.ErrFull, nil, nil, nil, recordings.ErrPersonFull, store.ErrNotFound}
	for i := range want {
		if !errors.Is(refused[i], want[i]) {
			t.Errorf("piece %d: %v, want %v", i, refused[i], want[i])
		}
	}
	add(piece("06", 2, 1, true))
	if err := begin("08", "user:bob", 0); !errors.Is(err, recordings.ErrPersonFull) {
		t.Errorf("one more of a person without room: %v", err)
	}
	if err := begin("09", "user:ada", 0); err != nil {
		t.Errorf("one of another person: %v", err)
	}
	// 36 of 45 are taken.
	add(piece("09", 1, 9, false))
	if refused := add(piece("07", 2, 1, false), piece("09", 2, 0, true)); !errors.Is(refused[0], recordings.ErrAllFull) || refused[1] != nil {
		t.Errorf("at the bound of all: %v", refused)
	}
	if err := begin("10", "user:eve", 0); !errors.Is(err, recordings.ErrAllFull) {
		t.Errorf("one more without room: %v", err)
	}
	left := func() (ids []string) {
		for _, r := range read(t, s, func(ctx context.Context, v store.View) ([]recordings.Recording, error) {
			return v.Recordings(ctx, "", "", "", 100)
		}) {
			ids = append(ids, r.ID)
		}
		slices.Sort(ids)
		return ids
	}
	trim := func(before time.Time, most int64, wanted ...string) {
		t.Helper()
		event := func(at time.Time, r recordings.Recording) audittrail.Event {
			return audittrail.Event{ID: "removed-" + r.ID, Time: at, Actor: "service:console", Action: "recording.removed", Event: []byte("{}")}
		}
		if _, err := s.TrimRecordings(t.Context(), before, most, bounds, event); err != nil {
			t.Fatal(err)
		}
		if got := left(); !slices.Equal(got, wanted) {
			t.Errorf("left %v, want %v", got, wanted)
		}
	}
	never := now.Add(-1000 * day)
	trim(never, 45, "01", "02", "03", "04", "05", "06", "07", "09")
	// Recordings of bob go, which are 15 of days before, and 10 after the first one. 03 has no end, and had a piece
	// just now.
	trim(never, 39, "01", "03", "05", "06", "07", "09")
	trim(never, 31, "03", "05", "06", "07", "09")
	trim(never, 0, "03", "05", "06", "07", "09") // young ones, and one that goes on, stay
	trim(now.Add(-12*time.Hour), 1000, "03", "06", "07", "09")
	trail := read(t, s, func(ctx context.Context, v store.View) ([]audittrail.Event, error) {
		return v.Audit(ctx, audittrail.Filter{Action: "recording.removed"}, audittrail.Place{}, 100)
	})
	var removed []string
	for _, e := range trail {
		removed = append(removed, e.ID)
	}
	slices.Sort(removed)
	if !slices.Equal(removed, []string{"removed-01", "removed-02", "removed-04"}) { // 05 was too old
		t.Errorf("in the trail: %v", removed)
	}
	if err := begin("10", "user:eve", 0); err != nil {
		t.Errorf("one more with room: %v", err)
	}
	if got := read(t, s, func(ctx context.Context, v store.View) ([]recordings.Piece, error) { return v.Pieces(ctx, "01", 0, 10) }); len(got) > 0 {
		t.Errorf("a recording that went left %d pieces", len(got))
	}
}

// testRecordingRemovedOnce is about consoles that look at a recording while another one removes it.
func testRecordingRemovedOnce(t *testing.T, open Open) {
	const day = 24 * time.Hour
	now := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	opts := store.Options{Now: func() time.Time { return now }}
	first, second, third := open(opts), open(opts), open(opts)
	bounds := recordings.Bounds{One: 10, Person: 100, All: 100, Young: now.Add(-7 * day), Idle: now.Add(-day)}
	add := func(s *store.Store, id string, sequence, bytes int64) error {
		refused, err := s.AppendRecordings(t.Context(), []recordings.RecordingPiece{
			{ID: id, Piece: recordings.Piece{Sequence: sequence, Data: []byte("sealed")}, Bytes: bytes, End: true},
		}, bounds)
		return errors.Join(err, errors.Join(refused...))
	}
	begin := func(id string, age time.Duration) error {
		return first.BeginRecording(t.Context(), recordings.Recording{ID: id, Cluster: "edge-1", Subject: "user:ada", Begin: now.Add(-age)}, bounds)
	}
	for id, age := range map[string]time.Duration{"old": 30 * day, "young": 0} {
		if err := errors.Join(begin(id, age), add(first, id, 1, 5)); err != nil {
			t.Fatal(err)
		}
	}
	var events atomic.Int64
	event := func(at time.Time, r recordings.Recording) audittrail.Event {
		return audittrail.Event{
			ID: fmt.Sprintf("removed-%s-%d", r.ID, events.Add(1)), Time: at,
			Actor: "service:console", Action: "recording.removed", Event: []byte("{}"),
		}
	}
	var others sync.WaitGroup
	removed, err := first.TrimRecordings(t.Context(), time.Time{}, 5, bounds, func(at time.Time, r recordings.Recording) audittrail.Event {
		// The transaction that removes it is open.
		others.Go(func() {
			if removed, err := second.TrimRecordings(t.Context(), time.Time{}, 5, bounds, event); err != nil || removed > 0 {
				t.Errorf("another console removed %d, %v", removed, err)
			}
		})
		others.Go(func() {
			if err := add(third, "old", 2, 5); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("a piece of a recording that was just removed: %v", err)
			}
		})
		done := make(chan struct{})
		go func() { others.Wait(); close(done) }()
		select { // writes wait for the end of the transaction; that they have come so far can't be seen from here
		case <-done:
		case <-time.After(300 * time.Millisecond):
		}
		return event(at, r)
	})
	if err != nil || removed != 1 {
		t.Errorf("removed %d, %v", removed, err)
	}
	others.Wait()
	if n := events.Load(); n != 1 {
		t.Errorf("%d entries for one recording", n)
	}
	// The young one still takes its 5 bytes, and nothing else takes any.
	bounds.All = 6
	if err := begin("fits", 0); err != nil {
		t.Errorf("more is counted than there is: %v", err)
	}
	bounds.All = 5
	if err := begin("full", 0); !errors.Is(err, recordings.ErrAllFull) {
		t.Errorf("less is counted than there is: %v", err)
	}
	if pieces := read(t, first, func(ctx context.Context, v store.View) ([]recordings.Piece, error) {
		return v.Pieces(ctx, "old", 0, 10)
	}); len(pieces) > 0 {
		t.Errorf("%d pieces of no recording", len(pieces))
	}
}
