package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"fairlead.dev/platform/datadir"
	"fairlead.dev/services/console/internal/audit"
	"fairlead.dev/services/console/internal/event"
	"fairlead.dev/services/console/internal/seal"
	"fairlead.dev/services/console/internal/store"
	"fairlead.dev/services/console/internal/store/audittrail"
	"fairlead.dev/services/console/internal/store/backup"
)

// RestoreOptions say how a database is restored.
type RestoreOptions struct {
	// Replace removes what is in the database.
	Replace bool
	// Progress is told how many rows there were so far; nil: nobody is.
	Progress func(table string, rows int64)
}

// Restore brings a backup into the database of a configuration: all of it or nothing. No console may use it meanwhile.
// The hub removes nothing from clusters from then on, until a person confirms it.
func Restore(ctx context.Context, cfg Config, from io.Reader, opts RestoreOptions) (err error) {
	if err := cfg.Validate(); err != nil {
		return err
	}
	box, err := seal.Load(cfg.MasterKeyFile)
	if folder := filepath.Dir(cfg.MasterKeyFile); errors.Is(err, os.ErrNotExist) && !isFolder(folder) {
		return fmt.Errorf("there is no folder %s: is it the right one? For a new console make it, and put the master key that the backup was made with there, as %s", folder, filepath.Base(cfg.MasterKeyFile))
	}
	if err != nil {
		return fmt.Errorf("%w: put the master key that the backup was made with there, or name it with --master-key-file", err)
	}
	if err := datadir.Ensure(cfg.DataDir); err != nil {
		return err
	}
	s, err := cfg.openStore(store.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if opts.Progress == nil {
		opts.Progress = func(string, int64) {}
	}
	reason := func(b backup.Head) string {
		return fmt.Sprintf("its database was restored from the backup of %s", b.Time.UTC().Format(time.RFC3339))
	}
	return backup.Restore(ctx, s, backup.Options{
		From: from, Replace: opts.Replace, Progress: opts.Progress, Reason: reason,
		Check: func(b backup.Head) error {
			if missing := box.Lacks(b.Keys); len(missing) > 0 {
				return fmt.Errorf("master key file %s: lacks the keys that secrets of the backup are sealed with: %s. Add them, one per line", cfg.MasterKeyFile, strings.Join(missing, ", "))
			}
			return nil
		},
		Audit: func(b backup.Head) audittrail.Event {
			return audit.Event(audit.Console(), time.Now().UTC(), audit.Act{Action: "database.restore", Reason: reason(b)})
		},
		Events: func(b backup.Head) []store.Event { return []store.Event{event.Restored(reason(b), time.Now())} },
	})
}

func isFolder(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}
