//go:build unix

package lockfile_test

import (
	"errors"
	"path/filepath"
	"testing"

	"fairlead.dev/platform/lockfile"
)

func TestOnlyOneHoldsALock(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "lock")
	first, err := lockfile.Try(name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lockfile.Try(name); !errors.Is(err, lockfile.ErrHeld) {
		t.Errorf("second: %v", err)
	}
	waited := make(chan error)
	go func() {
		l, err := lockfile.Acquire(name)
		if err == nil {
			err = l.Release()
		}
		waited <- err
	}()
	if err := first.Release(); err != nil {
		t.Fatal(err)
	}
	if err := <-waited; err != nil {
		t.Error(err)
	}
}
