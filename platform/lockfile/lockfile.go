// Package lockfile keeps two processes from working on the same files. A lock ends with its process,
// however that ends. The file itself stays: removing it would let two lock different files.
package lockfile

import (
	"errors"
	"fmt"
	"os"
)

// ErrHeld says that another process has the lock.
var ErrHeld = errors.New("held by another process")

// Lock is held until Release.
type Lock struct{ file *os.File }

// Acquire waits for the lock; callers hold it for moments only.
func Acquire(name string) (*Lock, error) { return open(name, lock) }

// Try returns ErrHeld if another process has the lock.
func Try(name string) (*Lock, error) { return open(name, tryLock) }

func open(name string, take func(*os.File) error) (*Lock, error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	if err := take(f); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", name, err), f.Close())
	}
	return &Lock{f}, nil
}

// Release gives the lock back. Closing alone would not do at once: a program that is being started
// at the moment has a copy of the descriptor until it runs.
func (l *Lock) Release() error { return errors.Join(unlock(l.file), l.file.Close()) }
