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

func testRecordings(t *testing.T, open Open) {
	at := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	s := open(store.Options{Now: func() time.Time { return at.Add(time.Hour) }})
	begin := func(id, cluster, subject string, minutes int) {
		t.Helper()
		r := store.Recording{ID: id, Cluster: cluster, Subject: subject, Begin: at.Add(time.Duration(minutes) * time.Minute), RecordingData: store.RecordingData{Pod: "web-0", Verb: "exec"}}
		for range 2 { // it is idempotent
			if err := s.BeginRecording(t.Context(), r); err != nil {
				t.Fatal(err)
			}
		}
	}
	add := func(id string, sequence int64, text string, end bool) error {
		return s.AppendRecording(t.Context(), id, store.Piece{Sequence: sequence, Data: []byte("\x00" + text)}, int64(len(text)), 10, end, "")
	}
	begin("1", "edge-1", "user:ada", 0)
	begin("2", "edge-2", "user:ada", 1)
	begin("3", "edge-1", "user:bob", 2)
	for _, step := range []struct {
		sequence int64
		text     string
		end      bool
		want     error
	}{{1, "one", false, nil}, {2, "two", false, nil}, {2, "two", false, nil}, {3, "too much", false, store.ErrFull}, {3, "end", true, nil}} {
		if err := add("1", step.sequence, step.text, step.end); !errors.Is(err, step.want) {
			t.Errorf("piece %d: %v, want %v", step.sequence, err, step.want)
		}
	}
	if err := add("4", 1, "one", false); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a piece of none: %v", err)
	}
	got := read(t, s, func(ctx context.Context, v store.View) (store.Recording, error) { return v.Recording(ctx, "1") })
	if got.Bytes != 9 || got.End.IsZero() || got.Pod != "web-0" || !got.Begin.Equal(at) {
		t.Errorf("got %+v", got)
	}
	pieces := read(t, s, func(ctx context.Context, v store.View) ([]store.Piece, error) { return v.Pieces(ctx, "1", 1, 10) })
	var texts []string
	for _, p := range pieces {
		texts = append(texts, fmt.Sprintf("%d %q", p.Sequence, p.Data))
	}
	if !slices.Equal(texts, []string{`2 "\x00two"`, `3 "\x00end"`}) {
		t.Errorf("pieces %s", texts)
	}
	list := func(cluster, subject, before string, limit int) (ids []string) {
		t.Helper()
		for _, r := range read(t, s, func(ctx context.Context, v store.View) ([]store.Recording, error) {
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
	if err := add("2", 1, "12345", false); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		before time.Time
		most   int64
		left   []string
	}{{at, 14, []string{"3", "2", "1"}}, {at, 13, []string{"3", "2"}}, {at.Add(2 * time.Minute), 100, []string{"3"}}} {
		if _, err := s.TrimRecordings(t.Context(), step.before, step.most); err != nil {
			t.Fatal(err)
		}
		if got := list("", "", "", 10); !slices.Equal(got, step.left) {
			t.Errorf("left %v, want %v", got, step.left)
		}
	}
	if got := read(t, s, func(ctx context.Context, v store.View) ([]store.Piece, error) { return v.Pieces(ctx, "1", 0, 10) }); len(got) > 0 {
		t.Errorf("a recording that went left %d pieces", len(got))
	}
}
