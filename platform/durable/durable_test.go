package durable_test

import (
	"os"
	"path/filepath"
	"testing"

	"fairlead.dev/platform/durable"
)

func TestWriteFileReplacesContentAndMode(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "f")
	for _, want := range []struct {
		content string
		mode    os.FileMode
	}{{"one", 0o600}, {"two", 0o644}} {
		if err := durable.WriteFile(path, []byte(want.content), want.mode); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		if err != nil || string(got) != want.content {
			t.Errorf("content %q, %v, want %q", got, err, want.content)
		}
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != want.mode {
			t.Errorf("mode %v, %v, want %v", info.Mode(), err, want.mode)
		}
	}
	onlyFile(t, filepath.Dir(path), "f")
}

func TestFailedWriteLeavesTheOldFileAndNothingElse(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	// A folder can't be replaced by a file: the rename fails after everything else went well.
	if err := os.MkdirAll(filepath.Join(dir, "f", "inside"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := durable.WriteFile(filepath.Join(dir, "f"), []byte("x"), 0o600); err == nil {
		t.Fatal("a folder was replaced by a file")
	}
	onlyFile(t, dir, "f")
}

func TestSweepTakesOnlyWhatAKilledWriteLeft(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "new")
	if err := durable.Sweep(dir); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{".f.tmp-123", ".other", "f"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := durable.Remove(filepath.Join(dir, ".other")); err != nil {
		t.Fatal(err)
	}
	if err := durable.Sweep(dir); err != nil {
		t.Fatal(err)
	}
	onlyFile(t, dir, "f")
}

func onlyFile(t *testing.T, dir, name string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 1 || entries[0].Name() != name {
		t.Errorf("the folder holds %v, want only %s", entries, name)
	}
}
