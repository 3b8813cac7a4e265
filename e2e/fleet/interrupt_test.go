package fleet

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"fairlead.dev/e2e/process"
)

// deaf is a program that heeds neither SIGTERM nor the end of its input.
func deaf(t *testing.T) (dir, path string) {
	t.Helper()
	dir = t.TempDir()
	path = filepath.Join(dir, "deaf")
	if err := os.WriteFile(path, []byte("#!/bin/sh\ntrap '' TERM\nwhile :; do sleep 1; done\n"), 0o700); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	return dir, path
}

// With the grace of a drain, each of these ends with an error behind it.
func TestAnInterruptedRunLeavesNoPartTimeToDrain(t *testing.T) {
	t.Parallel()
	t.Run("of the hub", func(t *testing.T) {
		t.Parallel()
		dir, path := deaf(t)
		part := process.New(dir, "deaf", path)
		if err := part.Start(); err != nil {
			t.Fatal(err)
		}
		ctx, interrupt := context.WithCancel(t.Context())
		interrupt()
		if err := endPart(ctx, part); err != nil {
			t.Error(err)
		}
		if ended, _ := part.Ended(); !ended {
			t.Error("the part runs on")
		}
	})
	t.Run("that simulates", func(t *testing.T) {
		t.Parallel()
		_, path := deaf(t)
		part, err := startRemote(t.Context(), path, Spec{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, interrupt := context.WithCancel(t.Context())
		interrupt()
		if err := part.close(ctx); err != nil {
			t.Error(err)
		}
		select {
		case <-part.process.Ended():
		default:
			t.Error("the simulator runs on")
		}
	})
}
