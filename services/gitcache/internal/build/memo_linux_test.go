package build

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestAFullDiskStopsNoStart: what is remembered can still be read.
func TestAFullDiskStopsNoStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("a small disk can't be mounted here (that takes root): %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	path, ballast := filepath.Join(dir, "memo"), filepath.Join(dir, "ballast")
	if err := os.WriteFile(path, bytes.Join([][]byte{encodeRecord(recordOf("u1", 1)), encodeRecord(recordOf("u1", 2))[:30]}, nil), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(ballast, make([]byte, 1<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the disk is not full: %v", err)
	}
	m, err := openMemo(path, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	if _, ok := m.getRecord(idOf(1)); !ok {
		t.Error("what was remembered is forgotten")
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if err := m.putRecord(recordOf("u1", 3)); err != nil {
		t.Errorf("with room again: %v", err)
	}
	if err := m.closeFile(); err != nil {
		t.Error(err)
	}
	if m, err = openMemo(path, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	defer m.closeFile()
	for _, id := range []int{1, 3} {
		if _, ok := m.getRecord(idOf(id)); !ok {
			t.Errorf("%d is not on the disk", id)
		}
	}
}
