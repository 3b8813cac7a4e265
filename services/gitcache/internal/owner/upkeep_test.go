package owner

import (
	"context"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"fairlead.dev/services/gitcache/internal/fetch/gitwire"
	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/gittest"
	"fairlead.dev/services/gitcache/internal/mirror"
	"fairlead.dev/services/gitcache/internal/mirror/mirrortest"
	"fairlead.dev/services/gitcache/internal/source"
	"fairlead.dev/services/gitcache/internal/upstream"
)

func nap(d time.Duration) { time.Sleep(d) } //nolint:forbidigo // fake time

func TestRequestsAreCountedForAnHour(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var h hourly
		for range 90 {
			h.addRequests(time.Now(), 2)
			nap(time.Minute)
		}
		if got := h.sumRequests(time.Now()); got != 118 {
			t.Errorf("%d requests, want those of the last 59 whole minutes", got)
		}
		nap(30 * time.Minute)
		if got := h.sumRequests(time.Now()); got != 58 {
			t.Errorf("%d requests after half an hour without any", got)
		}
		h.addRequests(time.Now().Add(-10*time.Minute), 1) // a clock that was set back
		if got := h.sumRequests(time.Now()); got != 59 {
			t.Errorf("%d requests, one by a clock that goes back", got)
		}
		nap(24 * time.Hour)
		if got := h.sumRequests(time.Now()); got != 0 {
			t.Errorf("%d requests after a day without any", got)
		}
	})
}

// TestRequestsForDamagedContentDoNotDrivePolls beyond the one that replaces the mirror.
func TestRequestsForDamagedContentDoNotDrivePolls(t *testing.T) {
	t.Parallel()
	mirrors, err := mirror.Open(t.TempDir(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	m, err := mirrors.Mirror("u1")
	if err != nil {
		t.Fatal(err)
	}
	o := New(Config{}, Deps{Mirrors: mirrors})
	l := newLoop(o, source.Source{UID: "u1"})
	o.loops["u1"] = l
	polls := func() int {
		o.Repair("u1")
		select {
		case <-l.wake:
			return 1
		default:
			return 0
		}
	}
	l.changeState(func(s *State) { s.Owned = true })
	if polls() != 0 {
		t.Error("polled for a mirror that is whole")
	}
	m.Doubt(mirror.ErrMissing)
	if polls() != 1 {
		t.Error("the mirror is not replaced at once")
	}
	l.changeState(func(s *State) { s.StaleSince = time.Now() })
	if polls() != 0 {
		t.Error("polled again while polls fail and wait for their turn")
	}
	l.changeState(func(s *State) { s.StaleSince = time.Time{} })
	fresh, err := m.Fresh()
	if err == nil {
		err = fresh.Use()
	}
	if err != nil {
		t.Fatal(err)
	}
	m.Doubt(mirror.ErrMissing)
	if polls() != 0 {
		t.Error("polled though the mirror was replaced just before")
	}
}

// TestAHeadThatIsOnlyPublishedIsNotWrittenWithEveryPoll: the mirror has no place for it.
func TestAHeadThatIsOnlyPublishedIsNotWrittenWithEveryPoll(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	mirrors, err := mirror.Open(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	tn := newTenure(source.Source{UID: "u1"})
	if tn.mirror, err = mirrors.Mirror("u1"); err != nil {
		t.Fatal(err)
	}
	heads := map[string]mirror.Head{
		"HEAD":            {Ref: "HEAD", Object: git.Hash{1}, Commit: git.Hash{1}},
		"refs/heads/gone": {Ref: "refs/heads/gone", Commit: git.Hash{2}},
	}
	if err := tn.saveHeads(heads); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "u1", "heads.json")
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := tn.saveHeads(heads); err != nil {
		t.Fatal(err)
	}
	if after, err := os.Stat(path); err != nil || !os.SameFile(before, after) {
		t.Errorf("written again: %v", err)
	}
}

// TestWhatAFreshCloneLacksIsFetchedOnceItCanBe: a branch that is made again where it was, and a commit that could not
// be fetched when a damaged mirror was cloned again.
func TestWhatAFreshCloneLacksIsFetchedOnceItCanBe(t *testing.T) {
	t.Parallel()
	const branch = "refs/heads/gone"
	gone, pinned := git.Hash{1}, git.Hash{2}
	m, commit := mirrortest.New(t, gittest.Files{"a": "1"})
	s := source.Source{Name: "shop", Wants: map[string]int{branch: 1, pinned.String(): 1}}
	tn := newTenure(s)
	tn.loop.o.deps.Log = slog.New(slog.DiscardHandler)
	tn.mirror, tn.checked, tn.heads = m, true, map[string]mirror.Head{}
	for ref, id := range map[string]git.Hash{source.RefHead: commit, branch: gone, pinned.String(): pinned} {
		tn.heads[ref] = mirror.Head{Ref: ref, Object: id, Commit: id}
	}
	l := &gitwire.Listing{Refs: map[string]git.Hash{source.RefHead: commit}}
	m.Doubt(mirror.ErrMissing)
	p := tn.makePlan(s, l)
	p.wants, p.commits = nil, nil // this test has no upstream
	r := upstream.Remote{URL: &url.URL{Scheme: "https", Host: "git.example.com"}}
	if err := tn.cloneAgain(t.Context(), r, l, p); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		p = tn.makePlan(s, l)
		if !slices.Equal(p.wants, []git.Hash{commit}) || !slices.Equal(p.commits, []git.Hash{pinned}) {
			t.Errorf("wanted are %s and the commits %s", p.wants, p.commits)
		}
	}
	l.Refs[branch] = gone
	if p = tn.makePlan(s, l); !slices.Contains(p.wants, gone) {
		t.Errorf("wanted are %s, without the branch that is there again", p.wants)
	}
}

// A copy of another replica, taken for a damaged mirror, may be of before the last fetch.
func TestWhatACopyLacksIsFetchedWithTheNextPoll(t *testing.T) {
	t.Parallel()
	m, _ := mirrortest.New(t, gittest.Files{"a": "1"})
	s := source.Source{Name: "shop"}
	tn := newTenure(s)
	newer := git.Hash{1}
	tn.mirror, tn.checked, tn.seen = m, true, map[string]bool{source.RefHead: true}
	tn.heads = map[string]mirror.Head{source.RefHead: {Ref: source.RefHead, Object: newer, Commit: newer}}
	tn.loop.o.deps.Warm = func(context.Context, string, string) bool { return true }
	tn.warmMirror(t.Context())
	p := tn.makePlan(s, &gitwire.Listing{Refs: map[string]git.Hash{source.RefHead: newer}})
	if !slices.Equal(p.wants, []git.Hash{newer}) {
		t.Errorf("wanted are %s", p.wants)
	}
}
