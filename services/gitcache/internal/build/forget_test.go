package build

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"fairlead.dev/platform/recordlog"
	"fairlead.dev/services/gitcache/internal/gittest"
)

// TestWhatIsNeitherCurrentNorRecentIsForgotten: a source that is pushed to for ever takes no more memory
// for it.
func TestWhatIsNeitherCurrentNorRecentIsForgotten(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	const contents, current = 150, 20
	files := gittest.Files{}
	for i := range contents {
		files[fmt.Sprintf("f%d/a", i)] = fmt.Sprint(i)
	}
	commit := w.commit(files)
	now := time.Now()
	w.builder.memo.now = func() time.Time { return now }
	var pins []Place
	for i := range current {
		pins = append(pins, place(commit, fmt.Sprintf("f%d", i)))
	}
	first := w.resolve(pins[0])
	w.builder.Pin(t.Context(), pins)
	for i := range contents {
		w.resolve(place(commit, fmt.Sprintf("f%d", i)))
		if i == contents/2 && len(w.builder.memo.byID) <= i {
			t.Error("what was built lately is forgotten")
		}
		if i == contents-2 {
			now = now.Add(lately + time.Second)
		}
		for j := range 10 { // places cost nothing, so there are more of them
			p := place(commit, "f0")
			p.Filter = fmt.Sprintf("-x%d-%d\n", i, j)
			if _, err := w.builder.findPlace(t.Context(), p); err != nil {
				t.Fatal(err)
			}
		}
		if i%100 == 0 { // as a replica does every few seconds
			w.builder.Pin(t.Context(), pins)
		}
	}
	known, places := len(w.builder.memo.byID), w.builder.places.countPlaces()
	if known > maxRecent+2*current || len(w.builder.memo.byDigest) > known || len(w.builder.Known("u1")) != known {
		t.Errorf("after %d contents %d are remembered", contents, known)
	}
	if places > 2*fewPlaces {
		t.Errorf("after %d places %d are remembered", 10*contents, places)
	}
	before := w.builds.Load()
	for _, p := range append(pins, place(commit, fmt.Sprintf("f%d", contents-1)),
		place(commit, fmt.Sprintf("f%d", contents-maxRecent/2))) {
		w.resolve(p)
	}
	if n := w.builds.Load() - before; n != 0 {
		t.Errorf("%d current or recent contents were built again", n)
	}
	if again := w.resolve(pins[0]); again != first {
		t.Errorf("%+v, before %+v", again, first)
	}
	old := place(commit, fmt.Sprintf("f%d", contents/2))
	if w.resolve(old); w.builds.Load() != before+1 {
		t.Error("what was forgotten is not built again")
	}
}

func TestADeletedSourceIsForgotten(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	commit := w.commit(gittest.Files{"a/x": "a", "b/x": "b"})
	w.resolve(place(commit, "a"))
	w.builder.noteRefused(idOf(1), "u1", ErrNotFetched)
	if err := w.builder.memo.putRecord(recordOf("u2", 1)); err != nil {
		t.Fatal(err)
	}
	w.builder.places.putPlace(Place{Source: "u2"}, found{})
	w.builder.Pin(t.Context(), []Place{place(commit, "a"), place(commit, "b")})
	w.builder.Keep(func(uid string) bool { return uid == "u2" })
	m := w.builder.memo
	if len(m.byID) != 1 || len(m.byDigest) != 1 || len(m.sources) != 1 || w.builder.places.countPlaces() != 1 ||
		len(w.builder.refused) != 0 {
		t.Errorf("left: %d contents of %d sources, %d places, %d refusals", len(m.byID), len(m.sources),
			w.builder.places.countPlaces(), len(w.builder.refused))
	}
	if w.builder.Known("u1") != nil || len(w.builder.Known("u2")) != 1 {
		t.Errorf("known: %v", w.builder.Known("u1"))
	}
}

// TestWhatWasUsedLastIsKnownAfterAStart: the order is on the disk, too.
func TestWhatWasUsedLastIsKnownAfterAStart(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "memo")
	m, err := openMemo(path, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 * maxRecent {
		if err := m.putRecord(recordOf("u1", i)); err != nil {
			t.Fatal(err)
		}
	}
	m.getRecord(idOf(0))
	for i := range recordlog.Slack { // the file is written anew
		r := recordOf("u1", 3*maxRecent-1)
		r.Files = 2 + i
		if err := m.putRecord(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.closeFile(); err != nil {
		t.Fatal(err)
	}
	if m, err = openMemo(path, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	defer m.closeFile()
	if n := len(m.byID); n != 3*maxRecent {
		t.Errorf("%d are known after a start", n)
	}
	later := time.Now().Add(2 * lately)
	m.now = func() time.Time { return later }
	if err := m.putRecord(recordOf("u1", 3*maxRecent)); err != nil {
		t.Fatal(err)
	}
	for i, want := range map[int]bool{0: true, 1: false, 3*maxRecent - 1: true, 3 * maxRecent: true} {
		if _, ok := m.getRecord(idOf(i)); ok != want {
			t.Errorf("%d is known: %v", i, ok)
		}
	}
	if n := len(m.byID); n != maxRecent {
		t.Errorf("%d are left", n)
	}
}
