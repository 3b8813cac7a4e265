package e2e

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fairlead.dev/e2e/stack"
)

// TestUpFindsItsDataAgainAndLeavesNothingRunning kills the whole product while a commit travels.
func TestUpFindsItsDataAgainAndLeavesNothingRunning(t *testing.T) {
	t.Parallel()
	bins, err := stack.FindBinaries(t.Context(), "..")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	dir := t.TempDir()
	s, err := stack.Up(ctx, bins, dir, "--prepare", prepares(t, bins))
	if err != nil {
		t.Fatal(err)
	}
	stopped := false
	defer func() {
		if !stopped {
			_ = s.Stop()
		}
	}()
	ship, err := s.NewShip(ctx, "ship", "ship")
	if err != nil {
		t.Fatal(err)
	}
	if err := ship.WaitApplied(ctx, "first"); err != nil {
		t.Fatal(err)
	}
	if _, err := ship.Push(ctx, "during"); err != nil {
		t.Fatal(err)
	}
	if err := s.KillUp(ctx); err != nil {
		t.Fatal(err)
	}
	if err := ship.WaitApplied(ctx, "during"); err != nil {
		t.Fatal(err)
	}
	if _, err := ship.Deliver(ctx, "after"); err != nil {
		t.Fatal(err)
	}
	counts, err := ship.Generations(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for cluster, generation := range counts {
		if generation != ship.Pushes() {
			t.Errorf("cluster %s: the Deployment changed %d times for %d commits", cluster, generation, ship.Pushes())
		}
	}

	stopped = true
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	for _, left := range running(t, dir) {
		t.Errorf("still running: %s", left)
	}
}

// prepares is a program as tools/up.sh is: it prints where kubelocal is once that is built. Clusters join a hub that is
// up already then.
func prepares(t *testing.T, bins stack.Binaries) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "prepare.sh")
	if err := os.WriteFile(path, []byte("#!/bin/sh\necho building >&2\necho '"+bins.Kubelocal+"'\n"),
		0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// running lists the processes whose command line names a folder.
func running(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // the process has ended meanwhile
		}
		if line := strings.ReplaceAll(string(text), "\x00", " "); strings.Contains(line, dir) {
			found = append(found, line)
		}
	}
	return found
}
