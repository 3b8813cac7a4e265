package mirror_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"fairlead.dev/platform/longform"
	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/mirror"
)

// fewPacks is what upkeep promises.
const fewPacks = 20

func openAll(t testing.TB, dir string) *mirror.Mirrors {
	t.Helper()
	all, err := mirror.Open(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(all.Close)
	return all
}

func mirrorOf(t testing.TB, all *mirror.Mirrors, uid string) *mirror.Mirror {
	t.Helper()
	m, err := all.Mirror(uid)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func packFiles(t testing.TB, dir string) []string {
	t.Helper()
	found, err := os.ReadDir(filepath.Join(dir, "u1", "repo.git", "objects", "pack"))
	if err != nil {
		t.Fatal(err)
	}
	return names(found)
}

// withAndWithoutGit runs a test both ways.
func withAndWithoutGit(t *testing.T, test func(t *testing.T, all *mirror.Mirrors, dir string)) {
	t.Helper()
	for _, how := range []string{"git", "copying"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			all := openAll(t, dir)
			if how == "copying" {
				all.WithoutGit()
			}
			test(t, all, dir)
		})
	}
}

// TestTwoHundredFetchesLeavePacksDescriptorsAndDiskFlat is the soak's condition.
func TestTwoHundredFetchesLeavePacksDescriptorsAndDiskFlat(t *testing.T) {
	t.Parallel()
	const fetches = 200
	u := newUpstream(t, fetches)
	withAndWithoutGit(t, func(t *testing.T, all *mirror.Mirrors, dir string) {
		m := mirrorOf(t, all, "u1")
		most := 0
		for i := range fetches {
			u.fetch(m, i, i+1)
			if err := m.Maintain(t.Context()); err != nil {
				t.Fatal(err)
			}
			o := m.Objects()
			if _, err := o.Commit(u.commit(i / 2)); err != nil {
				t.Fatal(err)
			}
			o.Close()
			most = max(most, descriptorsBelow(t, dir))
		}
		bytes, packs := m.Size()
		if packs > fewPacks || len(packFiles(t, dir)) != 2*packs {
			t.Errorf("%d packs: %q", packs, packFiles(t, dir))
		}
		if most > 2*(fewPacks+1) {
			t.Errorf("%d descriptors", most)
		}
		if all := int64(len(u.pack(0, fetches))); bytes > 10*all {
			t.Errorf("%d bytes for what is %d in one pack", bytes, all)
		}
		if err := u.everything(m, fetches); err != nil {
			t.Error(err)
		}
		u.fsck(filepath.Join(dir, "u1"))
		all.Close()
		if n := descriptorsBelow(t, dir); n > 0 {
			t.Errorf("%d descriptors after the end", n)
		}
	})
}

// descriptorsBelow counts this process's open files in a folder.
func descriptorsBelow(t testing.TB, dir string) int {
	t.Helper()
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skipf("this system does not tell which files are open: %v", err)
	}
	n := 0
	for _, e := range open {
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && strings.HasPrefix(to, dir) {
			n++
		}
	}
	return n
}

// TestReadersGoOnWhilePacksAreJoined: nothing is missed and nothing is doubted.
func TestReadersGoOnWhilePacksAreJoined(t *testing.T) {
	t.Parallel()
	const fetches = 70
	u := newUpstream(t, fetches)
	withAndWithoutGit(t, func(t *testing.T, all *mirror.Mirrors, _ string) {
		m := mirrorOf(t, all, "u1")
		u.fetch(m, 0, 1)
		ctx, stop := context.WithCancel(t.Context())
		var readers sync.WaitGroup
		for i := range 4 {
			readers.Go(func() {
				long := m.Objects() // stays open over many joins
				defer long.Close()
				for ctx.Err() == nil {
					o := long
					if i%2 == 0 {
						o = m.Objects()
					}
					head, _ := m.Head("refs/heads/main")
					walk(t, o, head.Commit)
					if i%2 == 0 {
						o.Close()
					}
				}
			})
		}
		for i := 1; i < fetches; i++ {
			u.fetch(m, i, i+1)
			if err := m.Maintain(t.Context()); err != nil {
				t.Error(err)
			}
		}
		stop()
		readers.Wait()
		if m.Doubted() {
			t.Error("the mirror is doubted")
		}
	})
}

// walk reads all commits, and the root tree of each.
func walk(t *testing.T, o *mirror.Objects, from git.Hash) {
	t.Helper()
	commits, next, err := o.History(context.WithoutCancel(t.Context()), from, 1000)
	if err != nil || !next.IsZero() {
		t.Errorf("from %s: %v", from, err)
	}
	for _, c := range commits {
		if err := readAny(o, c.Tree); err != nil {
			t.Errorf("tree of %q: %v", c.Subject, err)
		}
	}
}

// TestAFullDiskStopsUpkeepAndNothingElse.
func TestAFullDiskStopsUpkeepAndNothingElse(t *testing.T) {
	t.Parallel()
	const fetches = fewPacks + 1
	u := newUpstream(t, fetches)
	withAndWithoutGit(t, func(t *testing.T, all *mirror.Mirrors, dir string) {
		if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
			t.Skipf("a small disk can't be mounted here (that takes root): %v", err)
		}
		t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
		m := mirrorOf(t, all, "u1")
		for i := range fetches {
			u.fetch(m, i, i+1)
		}
		before := packFiles(t, dir)
		fill(t, filepath.Join(dir, "ballast"))
		if err := m.Maintain(t.Context()); !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("on a full disk: %v", err)
		}
		if after := packFiles(t, dir); !slices.Equal(before, after) {
			t.Errorf("before %q, after %q", before, after)
		}
		if err := u.everything(m, fetches); err != nil || m.Doubted() {
			t.Errorf("doubted: %t, %v", m.Doubted(), err)
		}
		if err := os.Remove(filepath.Join(dir, "ballast")); err != nil {
			t.Fatal(err)
		}
		if err := m.Maintain(t.Context()); err != nil {
			t.Error(err)
		}
		if _, packs := m.Size(); packs != 1 {
			t.Errorf("%d packs", packs)
		}
	})
}

// fill leaves no room on a disk.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
}

// TestWhatNoHeadReachesIsKept: it was published once.
func TestWhatNoHeadReachesIsKept(t *testing.T) {
	t.Parallel()
	const fetches = fewPacks + 5
	u := newUpstream(t, fetches)
	withAndWithoutGit(t, func(t *testing.T, all *mirror.Mirrors, _ string) {
		m := mirrorOf(t, all, "u1")
		for i := range fetches {
			u.fetch(m, i, i+1)
		}
		u.head(m, 2) // a force-push
		if err := m.Maintain(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := u.everything(m, fetches); err != nil {
			t.Error(err)
		}
	})
}

// TestACopyHasThePacksOfItsOriginal, through joins.
func TestACopyHasThePacksOfItsOriginal(t *testing.T) {
	t.Parallel()
	const fetches = 30
	u := newUpstream(t, fetches)
	from, to := mirrorOf(t, openAll(t, t.TempDir()), "u1"), mirrorOf(t, openAll(t, t.TempDir()), "u1")
	for i := range fetches {
		u.fetch(from, i, i+1)
		if err := from.Maintain(t.Context()); err != nil {
			t.Fatal(err)
		}
		if i%3 != 0 {
			continue
		}
		copyMirror(t, from, to)
		if err := u.everything(to, i+1); err != nil {
			t.Error(err)
		}
	}
	if err := to.Adopt(t.Context(), []string{strings.Repeat("0", 40)}, nil); err == nil {
		t.Error("a pack was adopted that is not there")
	}
	if _, err := to.OpenPack("../../heads"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("open what is no pack: %v", err)
	}
	if _, err := to.OpenPack(strings.Repeat("0", 40)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("open a pack that is not there: %v", err)
	}
}

func copyMirror(t *testing.T, from, to *mirror.Mirror) {
	t.Helper()
	packs, err := from.Packs()
	if err != nil {
		t.Fatal(err)
	}
	have, err := to.Packs()
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, p := range packs {
		all = append(all, p.Name)
		if slices.Contains(have, p) {
			continue
		}
		f, err := from.OpenPack(p.Name)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := to.AddPart(t.Context(), f); err != nil || n != p.Bytes {
			t.Fatalf("%d bytes of %d: %v", n, p.Bytes, err)
		}
		f.Close()
	}
	if err := to.Adopt(t.Context(), all, slices.Collect(maps.Values(from.Heads()))); err != nil {
		t.Fatal(err)
	}
	if got, err := to.Packs(); err != nil || !slices.Equal(got, packs) ||
		!maps.EqualFunc(to.Heads(), from.Heads(), mirror.Head.Equal) {
		t.Errorf("copied %v, want %v: %v", got, packs, err)
	}
}

// TestManyMirrorsShareFewDescriptors, and give them all back.
func TestManyMirrorsShareFewDescriptors(t *testing.T) {
	t.Parallel()
	longform.Only(t, "many mirrors")
	u := newUpstream(t, 3)
	b := u.pack(0, 3)
	dir := t.TempDir()
	all := openAll(t, dir)
	for i := range 100 {
		m := mirrorOf(t, all, fmt.Sprint("u", i))
		if _, err := m.AddPack(t.Context(), bytes.NewReader(b)); err != nil {
			t.Fatal(err)
		}
		if err := u.everything(m, 3); err != nil {
			t.Fatal(err)
		}
	}
	if n := descriptorsBelow(t, dir); n == 0 || n > 2*64 {
		t.Errorf("%d descriptors", n)
	}
	all.Close()
	if n := descriptorsBelow(t, dir); n > 0 {
		t.Errorf("%d descriptors after the end", n)
	}
}
