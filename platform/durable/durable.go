// Package durable writes files that survive a kill or a power cut whole or not at all.
package durable

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// A temporary file is called .<name>.tmp-<number>.
const tempMark = ".tmp-"

// WriteFile replaces the file at path: a temporary file in the same folder, write, fsync, rename,
// fsync of the folder. A reader, or a crash, meets the old content or the new, never a part.
func WriteFile(path string, data []byte, mode fs.FileMode) error {
	return Replace(path, mode, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// Replace is WriteFile for content that is not all in memory.
func Replace(path string, mode fs.FileMode, write func(io.Writer) error) error {
	temp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+tempMark+"*") // made with mode 0600
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err = write(temp); err == nil {
		err = temp.Chmod(mode)
	}
	if err == nil {
		// Before the rename: a name must never point at bytes that are not on the disk yet.
		err = temp.Sync()
	}
	if err = errors.Join(err, temp.Close()); err == nil {
		err = os.Rename(temp.Name(), path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", path, err), os.Remove(temp.Name()))
	}
	return SyncDir(filepath.Dir(path))
}

// Remove deletes a file for good. A file that is not there is no error.
func Remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove %s: %w", path, err)
	}
	return SyncDir(filepath.Dir(path))
}

// SyncDir makes the names in a folder survive a power cut.
func SyncDir(dir string) error {
	folder, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("sync folder: %w", err)
	}
	if err := errors.Join(folder.Sync(), folder.Close()); err != nil {
		return fmt.Errorf("sync folder %s: %w", dir, err)
	}
	return nil
}

// IsTemp says whether a file of that name was made by WriteFile and never finished, or is being written.
func IsTemp(name string) bool {
	return strings.HasPrefix(name, ".") && strings.Contains(name, tempMark)
}

// Sweep makes dir if it is missing, readable by its owner only, and removes what a WriteFile that
// was killed left in it. No writer may be at work there meanwhile.
func Sweep(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("sweep folder: %w", err)
	}
	for _, e := range entries {
		if !IsTemp(e.Name()) {
			continue
		}
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
			return fmt.Errorf("sweep folder: %w", err)
		}
	}
	return nil
}
