package up

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"fairlead.dev/platform/durable"
	"fairlead.dev/platform/lockfile"
)

// markerFile bears witness that a folder is ours: only such a folder is ever wiped.
const markerFile = "fairlead-up.json"

// dataDir is the folder of one `fairlead up`, locked.
type dataDir struct {
	path  string
	state state
	lock  *lockfile.Lock
}

// state is what the folder remembers from one run to the next, in the marker file.
type state struct {
	Ports ports `json:"ports"`
	// Seeded names what was put into the catalog once. A resource that a person deletes then stays deleted.
	Seeded map[string]bool `json:"seeded"`
	// RealPods names the local clusters that had a real node in the last run.
	RealPods map[string]bool `json:"realPods,omitempty"`
	// PreviousContext was the current one before a run that has not ended, or was killed.
	PreviousContext string `json:"previousContext,omitempty"`
}

// openDataDir takes the folder for this process, and wipes it first if that is wanted.
func openDataDir(path string, empty bool) (*dataDir, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	if err := checkOurs(path); err != nil {
		return nil, err
	}
	lock, err := lockfile.Try(path + ".lock") // Beside the folder, so that wiping does not take it away.
	if errors.Is(err, lockfile.ErrHeld) {
		return nil, fmt.Errorf("`fairlead up` is running already with %s: end it first, or give another --data-dir and another --port-base", path)
	}
	if err != nil {
		return nil, err
	}
	d := &dataDir{path: path, lock: lock}
	if err := d.openEmpty(empty); err != nil {
		return nil, errors.Join(err, lock.Release())
	}
	return d, nil
}

// checkOurs refuses a folder that holds something else.
func checkOurs(path string) error {
	_, err := os.Stat(filepath.Join(path, markerFile))
	if err == nil {
		return nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("data folder: %w", err)
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return fmt.Errorf("data folder: %w", err)
	}
	if len(entries) > 0 {
		return fmt.Errorf("%s holds something else (there is no %s in it): give another folder in --data-dir", path, markerFile)
	}
	return nil
}

func (d *dataDir) openEmpty(empty bool) error {
	if empty {
		if err := d.wipeFolder(); err != nil {
			return fmt.Errorf("empty data folder: %w", err)
		}
	}
	data, err := os.ReadFile(d.joinPath(markerFile))
	if err == nil {
		err = json.Unmarshal(data, &d.state)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("data folder: %s is damaged (%w): start clean with --empty", markerFile, err)
	}
	if d.state.Seeded == nil {
		d.state.Seeded = map[string]bool{}
	}
	return d.saveState()
}

// wipeFolder removes what is in the folder, the marker last: an interrupted wipe can be repeated.
func (d *dataDir) wipeFolder() error {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() == markerFile {
			continue
		}
		if err := os.RemoveAll(d.joinPath(e.Name())); err != nil {
			return err
		}
	}
	if err := os.Remove(d.joinPath(markerFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// saveState keeps the state.
func (d *dataDir) saveState() error {
	data, err := json.MarshalIndent(d.state, "", "  ")
	if err != nil {
		return fmt.Errorf("keep state: %w", err)
	}
	if err := durable.WriteFile(d.joinPath(markerFile), append(data, '\n'), 0o600); err != nil {
		return fmt.Errorf("keep state: %w", err)
	}
	return nil
}

// forgetMemberships has each agent join the hub again.
func (d *dataDir) forgetMemberships() error {
	names, err := fs.Glob(os.DirFS(d.path), "agents/*/cluster.json")
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := os.Remove(d.joinPath(name)); err != nil {
			return fmt.Errorf("have agents join again: %w", err)
		}
	}
	return nil
}

func (d *dataDir) joinPath(parts ...string) string {
	return filepath.Join(append([]string{d.path}, parts...)...)
}

// makeDir makes a folder inside and returns its path.
func (d *dataDir) makeDir(parts ...string) (string, error) {
	path := d.joinPath(parts...)
	if err := os.MkdirAll(path, 0o700); err != nil {
		return "", fmt.Errorf("data folder: %w", err)
	}
	return path, nil
}

func (d *dataDir) releaseLock() error { return d.lock.Release() }

// maxLogBytes is when a log is set aside at the next start: one older log is kept.
const maxLogBytes = 8 << 20

// openLog opens a log for appending.
func (d *dataDir) openLog(name string) (*os.File, error) {
	dir, err := d.makeDir("logs")
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, name+".log")
	if info, err := os.Stat(path); err == nil && info.Size() > maxLogBytes {
		if err := os.Rename(path, path+".old"); err != nil {
			return nil, fmt.Errorf("log: %w", err)
		}
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("log: %w", err)
	}
	return f, nil
}
