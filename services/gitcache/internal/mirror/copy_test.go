package mirror_test

import (
	"bytes"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fairlead.dev/services/gitcache/internal/mirror"
)

func part(t *testing.T, m *mirror.Mirror, pack []byte) (name string) {
	t.Helper()
	if n, err := m.AddPart(t.Context(), bytes.NewReader(pack)); err != nil || n != int64(len(pack)) {
		t.Fatalf("%d bytes: %v", n, err)
	}
	return hex.EncodeToString(pack[len(pack)-20:])
}

// TestACopyIsSeenOnlyWhenItIsWhole: half of it would pass for what was fetched.
func TestACopyIsSeenOnlyWhenItIsWhole(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, 10)
	dir := t.TempDir()
	m := open(t, dir)
	stale := part(t, m, u.pack(3, 4))
	names := []string{part(t, m, u.pack(5, 10)), strings.Repeat("ab", 20)}
	head := mirror.Head{Ref: "HEAD", Object: u.commit(9), Commit: u.commit(9)}
	for range 2 {
		if err := m.Adopt(t.Context(), names, []mirror.Head{head}); err == nil {
			t.Fatal("half a copy was adopted")
		}
		o := m.Objects()
		if _, packs := m.Size(); o.Has(u.commit(9)) || packs > 0 || len(m.Heads()) > 0 {
			t.Error("half a copy is seen")
		}
		o.Close()
		m = open(t, dir)
		if parts, err := m.Parts(); err != nil || len(parts) != 2 {
			t.Errorf("what has come is %q, %v", parts, err)
		}
	}
	names[1] = part(t, m, u.pack(0, 5))
	if err := m.Adopt(t.Context(), names, []mirror.Head{head}); err != nil {
		t.Fatal(err)
	}
	for _, m := range []*mirror.Mirror{m, open(t, dir)} {
		if err := u.everything(m, 10); err != nil {
			t.Error(err)
		}
		if _, packs := m.Size(); packs != 2 {
			t.Errorf("%d packs, %s may be one", packs, stale)
		}
	}
	if left, err := os.ReadDir(filepath.Join(dir, "u1")); err != nil || len(left) != 2 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// TestAKillWhileACopyIsAdoptedLosesNothing of it, whichever files were moved.
func TestAKillWhileACopyIsAdoptedLosesNothing(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, 10)
	for moved := range 5 {
		dir := t.TempDir()
		m := open(t, dir)
		part(t, m, u.pack(0, 5))
		part(t, m, u.pack(5, 10))
		at := filepath.Join(dir, "u1")
		if err := os.Rename(filepath.Join(at, "coming"), filepath.Join(at, "adopting")); err != nil {
			t.Fatal(err)
		}
		indexes, _ := filepath.Glob(filepath.Join(at, "adopting", "*.idx"))
		packs, _ := filepath.Glob(filepath.Join(at, "adopting", "*.pack"))
		for _, path := range append(indexes, packs...)[:moved] {
			if err := os.Rename(path, filepath.Join(at, "repo.git", "objects", "pack", filepath.Base(path))); err != nil {
				t.Fatal(err)
			}
		}
		if err := u.everything(open(t, dir), 10); err != nil {
			t.Errorf("after %d files: %v", moved, err)
		}
	}
}

// TestAnOwnerKeepsNoPartsOfACopy: nobody would ever complete it.
func TestAnOwnerKeepsNoPartsOfACopy(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, 2)
	m := open(t, t.TempDir())
	part(t, m, u.pack(0, 2))
	if err := m.Maintain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if parts, err := m.Parts(); err != nil || len(parts) > 0 {
		t.Errorf("left: %q, %v", parts, err)
	}
}
