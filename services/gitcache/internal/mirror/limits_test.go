package mirror

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/pack"
)

// A process that is short of something must not take its mirrors for damaged: each would be cloned again.
func TestAShortageIsNoDamage(t *testing.T) {
	t.Parallel()
	for _, shortage := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.ENOSPC, syscall.EACCES} {
		err := readError(git.Hash{}, &fs.PathError{Op: "open", Path: "pack", Err: shortage})
		if errors.Is(err, ErrCorrupt) || errors.Is(err, ErrMissing) || !errors.Is(err, shortage) {
			t.Errorf("%v: %v", shortage, err)
		}
	}
	for _, damage := range []error{pack.ErrDamaged, &fs.PathError{Op: "read", Path: "pack", Err: syscall.EIO}} {
		if err := readError(git.Hash{}, damage); !errors.Is(err, ErrCorrupt) {
			t.Errorf("got %v", err)
		}
	}
}

// TestAShortageIsNoReasonToClone: a check that could not be made is made again, and meanwhile all stays.
func TestAShortageIsNoReasonToClone(t *testing.T) {
	t.Parallel()
	all, err := Open(t.TempDir(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	m, err := all.Mirror("u1")
	if err != nil {
		t.Fatal(err)
	}
	path := m.packPath(strings.Repeat("ab", 20)) + pack.PackExt
	if err := os.Symlink(path, path); err != nil { // opening it fails, and says nothing of what is there
		t.Fatal(err)
	}
	if err := m.loadPacks(); err != nil {
		t.Fatal(err)
	}
	m.Doubt(ErrCorrupt)
	if err := m.Check(t.Context()); !errors.Is(err, syscall.ELOOP) || m.Doubted() {
		t.Errorf("it is to be cloned because of %v", err)
	}
	m.until = time.Time{}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := m.loadPacks(); err != nil {
		t.Fatal(err)
	}
	if err := m.Check(t.Context()); err != nil {
		t.Errorf("checked again: %v", err)
	}
}

func TestPacksAreJoinedOnceTheyAreManyAndOnlyTheSmallOnes(t *testing.T) {
	t.Parallel()
	sizes := func(n int, of int64) (all []int64) {
		for range n {
			all = append(all, of)
		}
		return all
	}
	for name, c := range map[string]struct {
		sizes []int64
		want  int
	}{
		"few":                             {sizes(maxPacks, 10), 0},
		"a large one and many small":      {append(sizes(maxPacks, 10), 1000), maxPacks},
		"a large one that they add up to": {append(sizes(maxPacks, 10), 300), maxPacks + 1},
		"many alike":                      {sizes(maxPacks+1, 10), maxPacks + 1},
		"a chain of doubles":              {append(sizes(maxPacks-1, 1), 100, 1000, 10000), maxPacks - 1},
	} {
		var set []*member
		for _, n := range c.sizes {
			set = append(set, &member{Pack: Pack{Bytes: n}})
		}
		if got := duePacks(set); len(got) != c.want {
			t.Errorf("%s: %d are joined, want %d", name, len(got), c.want)
		}
	}
}
