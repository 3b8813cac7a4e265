package mirror_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/mirror"
)

// onlyPack returns the paths of a mirror's only pack and its index.
func onlyPack(t *testing.T, dir string) (pack, index string) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "u1", "repo.git", "objects", "pack", "*.pack"))
	if err != nil || len(found) != 1 {
		t.Fatalf("packs: %q, %v", found, err)
	}
	return found[0], strings.TrimSuffix(found[0], ".pack") + ".idx"
}

func change(t *testing.T, path string, how func([]byte) []byte) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, how(b), 0o600); err != nil {
		t.Fatal(err)
	}
}

func flip(b []byte) []byte {
	for i := len(b) / 4; i < len(b)*3/4; i++ {
		b[i] ^= 0xff
	}
	return b
}

func TestADamagedPackIsFoundWhenItIsReadAndWhenItIsChecked(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, 20)
	for name, damage := range map[string]func([]byte) []byte{
		"flipped":   flip,
		"truncated": func(b []byte) []byte { return b[:len(b)/2] },
		"zeroed":    func(b []byte) []byte { return make([]byte, len(b)) },
		"empty":     func([]byte) []byte { return nil },
	} {
		dir := t.TempDir()
		u.fetch(open(t, dir), 0, 20)
		pack, _ := onlyPack(t, dir)
		change(t, pack, damage)
		m := open(t, dir)
		if err := u.everything(m, 20); !errors.Is(err, mirror.ErrCorrupt) {
			t.Errorf("%s: read: %v", name, err)
		}
		m.Doubt(mirror.ErrCorrupt)
		first := m.Check(t.Context())
		if first == nil || !m.Doubted() {
			t.Errorf("%s: checked: %v", name, first)
		}
		if err := m.Check(t.Context()); !errors.Is(err, first) {
			t.Errorf("%s: checked again: %v", name, err)
		}
		// The same pack once more, as from upstream or another replica, mends it.
		u.fetch(m, 0, 20)
		if err := m.Check(t.Context()); err != nil || m.Doubted() {
			t.Errorf("%s: mended: %v", name, err)
		}
		if err := u.everything(m, 20); err != nil {
			t.Errorf("%s: read after that: %v", name, err)
		}
	}
}

func TestADamagedIndexIsMadeAgainWithoutUpstream(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, 20)
	for name, damage := range map[string]func([]byte) []byte{
		"flipped":   flip,
		"truncated": func(b []byte) []byte { return b[:len(b)/2] },
		"zeroed":    func(b []byte) []byte { return make([]byte, len(b)) },
		"another's": func(b []byte) []byte { return append(b[:len(b)-40:len(b)-40], make([]byte, 40)...) },
		"missing":   nil,
	} {
		dir := t.TempDir()
		u.fetch(open(t, dir), 0, 20)
		_, index := onlyPack(t, dir)
		if damage == nil {
			if err := os.Remove(index); err != nil {
				t.Fatal(err)
			}
		} else {
			change(t, index, damage)
		}
		m := open(t, dir)
		if err := u.everything(m, 20); err == nil && name != "another's" {
			t.Errorf("%s: read as if nothing were wrong", name)
		}
		m.Doubt(mirror.ErrCorrupt)
		if err := m.Check(t.Context()); err != nil || m.Doubted() || open(t, dir).Doubted() {
			t.Errorf("%s: %v", name, err)
		}
		if err := u.everything(m, 20); err != nil {
			t.Errorf("%s: read: %v", name, err)
		}
		u.fsck(filepath.Join(dir, "u1"))
	}
}

func TestAMirrorThatIsWholeIsDoubtedNoLonger(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, 20)
	dir := t.TempDir()
	m := open(t, dir)
	u.fetch(m, 0, 10)
	u.fetch(m, 10, 20)
	m.Doubt(mirror.ErrMissing)
	if err := m.Check(t.Context()); err != nil || m.Doubted() {
		t.Errorf("%v", err)
	}
}

// TestACheckFindsWhatHeadsMiss although every pack is good.
func TestACheckFindsWhatHeadsMiss(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, 20)
	m := open(t, t.TempDir())
	u.fetch(m, 10, 20) // without the first ten
	m.Doubt(mirror.ErrMissing)
	if err := m.Check(t.Context()); !errors.Is(err, mirror.ErrMissing) ||
		!strings.Contains(err.Error(), "refs/heads/main") {
		t.Errorf("half a history: %v", err)
	}
	u.fetch(m, 0, 10)
	u.head(m, 19)
	if err := m.Check(t.Context()); err != nil {
		t.Errorf("a whole one: %v", err)
	}
	h := mirror.Head{Ref: "HEAD", Object: u.commit(1), Commit: u.commit(1), Submodules: []git.Hash{{1}}}
	if err := m.SetHeads(map[string]mirror.Head{h.Ref: h}); err != nil {
		t.Fatal(err)
	}
	// Heads are no part of what was checked before; another pack is.
	if _, err := m.AddPack(t.Context(), bytes.NewReader(u.pack(3, 5))); err != nil {
		t.Fatal(err)
	}
	if err := m.Check(t.Context()); !errors.Is(err, mirror.ErrMissing) {
		t.Errorf("a submodule's commit is missing: %v", err)
	}
}

// TestDamageIsNotJoined: the packs stay, and the mirror is doubted.
func TestDamageIsNotJoined(t *testing.T) {
	t.Parallel()
	const fetches = fewPacks + 1
	u := newUpstream(t, fetches)
	withAndWithoutGit(t, func(t *testing.T, all *mirror.Mirrors, dir string) {
		m := mirrorOf(t, all, "u1")
		for i := range fetches {
			u.fetch(m, i, i+1)
		}
		before := packFiles(t, dir)
		for _, name := range before {
			if strings.HasSuffix(name, ".pack") {
				change(t, filepath.Join(dir, "u1", "repo.git", "objects", "pack", name), flip)
				break
			}
		}
		all.Close() // open packs still have what was there
		if err := m.Maintain(t.Context()); err == nil {
			t.Error("joined")
		}
		if after := packFiles(t, dir); !slices.Equal(before, after) || !m.Doubted() {
			t.Errorf("doubted: %t; before %q, after %q", m.Doubted(), before, after)
		}
	})
}

// TestGoodPacksOutliveAClone: they hold commits that upstream has no more.
func TestGoodPacksOutliveAClone(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, 10)
	dir := t.TempDir()
	m := open(t, dir)
	u.fetch(m, 5, 10)
	bad, _ := onlyPack(t, dir)
	u.fetch(m, 0, 5)
	change(t, bad, flip)
	m = open(t, dir)
	m.Doubt(mirror.ErrCorrupt)
	if err := m.Check(t.Context()); err == nil {
		t.Fatal("the damage is not found")
	}
	fresh, err := m.Fresh()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fresh.AddPack(t.Context(), bytes.NewReader(u.pack(5, 10))); err != nil {
		t.Fatal(err)
	}
	clone := filepath.Join(dir, "u1", "fresh.git")
	if err := os.Rename(clone, clone+".away"); err != nil {
		t.Fatal(err)
	}
	if err := fresh.Use(); err == nil {
		t.Fatal("used though it is not there")
	}
	if err := os.Rename(clone+".away", clone); err != nil {
		t.Fatal(err)
	}
	if err := m.Check(t.Context()); err == nil {
		t.Fatal("the damage is forgotten")
	}
	if err := fresh.Use(); err != nil {
		t.Fatal(err)
	}
	if err := u.everything(m, 10); err != nil {
		t.Error(err)
	}
	u.head(m, 9)
	if err := m.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestWhatUpstreamLeavesOutIsNotClonedAgainAndAgain: the second time there is a pause.
func TestWhatUpstreamLeavesOutIsNotClonedAgainAndAgain(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, 10)
	m := open(t, t.TempDir())
	m.Doubt(mirror.ErrMissing)
	if !m.Doubted() {
		t.Fatal("not doubted before the first clone")
	}
	fresh, err := m.Fresh()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fresh.AddPack(t.Context(), bytes.NewReader(u.pack(5, 10))); err != nil {
		t.Fatal(err)
	}
	if err := fresh.Use(); err != nil {
		t.Fatal(err)
	}
	u.head(m, 9)
	m.Doubt(mirror.ErrMissing)
	if m.Doubted() {
		t.Error("it would be cloned again at once")
	}
}

// TestAnObjectThatIsDamagedInOnePackIsReadFromAnother.
func TestAnObjectThatIsDamagedInOnePackIsReadFromAnother(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, 10)
	dir := t.TempDir()
	m := open(t, dir)
	u.fetch(m, 0, 5)
	pack, _ := onlyPack(t, dir)
	u.fetch(m, 0, 10)
	change(t, pack, flip)
	if err := u.everything(open(t, dir), 10); err != nil {
		t.Error(err)
	}
}
