package admin

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/hubclient"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/durable"
	"fairlead.dev/services/console"
)

// backupStep is after how many bytes progress is told.
const backupStep = 64 << 20

// backupName is the name that a backup gets in a folder, as a layout of time.Format: later ones sort behind earlier
// ones. The milliseconds keep apart two backups of one second.
const backupName = "fairlead-20060102T150405.000Z.backup"

// parseBackupName returns the time in a name that this release or an earlier one, which left out the milliseconds, has
// given.
func parseBackupName(name string) (made time.Time, isOne bool) {
	const stem, end = "fairlead-20060102T150405", "Z.backup"
	made, err := time.Parse(stem+end, name) // takes a fraction of the second, too
	return made, err == nil
}

func adminBackup(a *app.App) *cobra.Command {
	var keep int
	cmd := &cobra.Command{
		Use:   "backup FILE | DIR --keep N",
		Short: "Back up the console's database while it runs",
		Long: `Back up the console's database while it runs, as of one moment.

The file is the same for SQLite and PostgreSQL, and "fairlead admin restore" brings it into either. Secrets in it are
sealed: keep the master key, which is not in it, apart from it. The file appears only when it is complete.

With --keep the backup goes into a folder, under a name with the time in UTC. Once it is complete, the oldest backups of
such names are deleted, so that N remain. One process at a time may back up into a folder.`,
		Example: "  fairlead admin backup fairlead-$(date +%F).backup\n  fairlead admin backup /backups --keep 14",
		Args:    app.WantArgs(1, 1),
	}
	cmd.Flags().IntVar(&keep, "keep", 0, "back up into a folder, and keep so many of the newest backups there")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		rotate := cmd.Flags().Changed("keep")
		if rotate && keep < 1 {
			return fmt.Errorf("--keep %d: must be at least 1, the backup that is made now", keep)
		}
		return a.HubCommand(func(ctx context.Context, h *hubclient.Hub, args []string) error {
			if !rotate {
				return backUp(ctx, a, h, args[0])
			}
			if err := sweepBackups(a, args[0]); err != nil {
				return err
			}
			made := a.Now().UTC()
			if err := backUp(ctx, a, h, filepath.Join(args[0], made.Format(backupName))); err != nil {
				return err
			}
			return deleteOldBackups(a, args[0], made, keep)
		})(cmd, args)
	}
	return cmd
}

func backUp(ctx context.Context, a *app.App, h *hubclient.Hub, path string) error {
	if _, err := os.Stat(filepath.Dir(path)); err != nil {
		return fmt.Errorf("folder of the backup: %w", err)
	}
	var size int64
	var broken error // at the hub, which is not the file's fault
	err := durable.Replace(path, 0o600, func(to io.Writer) (err error) {
		size, broken, err = receiveBackup(ctx, a, h, to)
		return cmp.Or(broken, err)
	})
	if err := cmp.Or(broken, err); err != nil {
		return err
	}
	return a.Printf("%s: %d bytes\n", path, size)
}

// halfBackupStays is how long a half-written backup stays that nobody writes to: another command may be writing to the
// same folder.
const halfBackupStays = time.Hour

// sweepBackups makes the folder if it is missing, and deletes what backups left there that were killed: it would fill
// the folder.
func sweepBackups(a *app.App, dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	left, err := filepath.Glob(filepath.Join(dir, ".fairlead-*.backup.*"))
	if err != nil {
		return fmt.Errorf("backups in %s: %w", dir, err)
	}
	for _, path := range left {
		if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() ||
			!durable.IsTemp(filepath.Base(path)) || a.Now().Sub(info.ModTime()) < halfBackupStays {
			continue
		}
		if err := durable.Remove(path); err != nil {
			return err
		}
	}
	return nil
}

// deleteOldBackups deletes all but the newest backups of a folder. The one that was made now is among the newest,
// whatever the names of others say. Files with other names stay.
func deleteOldBackups(a *app.App, dir string, made time.Time, keep int) error {
	entries, err := os.ReadDir(dir) // sorted by name, and so by time
	if err != nil {
		return err
	}
	names := make([]string, 0, len(entries)) // of the others
	for _, entry := range entries {
		_, isOne := parseBackupName(entry.Name())
		if isOne && entry.Type().IsRegular() && entry.Name() != made.Format(backupName) {
			names = append(names, entry.Name())
		}
	}
	old := max(0, len(names)-(keep-1))
	for _, name := range names[old:] {
		if at, _ := parseBackupName(name); at.After(made) {
			a.Notef("%s: its name is later than now, and it stays while others are deleted: a clock was ahead then, or is "+
				"behind now. Set the clock right, and rename or delete the file\n", filepath.Join(dir, name))
		}
	}
	for _, name := range names[:old] {
		path := filepath.Join(dir, name)
		if err := durable.Remove(path); err != nil {
			return err
		}
		if err := a.Printf("%s: deleted\n", path); err != nil {
			return err
		}
	}
	return nil
}

// receiveBackup copies a backup as it comes. broken is what the hub, or the way from there, did wrong.
func receiveBackup(ctx context.Context, a *app.App, h *hubclient.Hub, to io.Writer) (size int64, broken, err error) {
	stream, err := h.Admin.Backup(ctx, &consolev1.BackupRequest{})
	if err != nil {
		return 0, h.ExplainError(err), nil
	}
	defer stream.Close()
	sum, told := sha256.New(), int64(backupStep)
	for stream.Receive() {
		m := stream.Msg()
		if m.GetSha256() != "" {
			if m.GetSha256() != hex.EncodeToString(sum.Sum(nil)) {
				return 0, errors.New("the backup was damaged on its way: try again"), nil
			}
			return size, nil, nil
		}
		_, _ = sum.Write(m.GetData()) // a hash takes everything
		if _, err := to.Write(m.GetData()); err != nil {
			return 0, nil, err
		}
		if size += int64(len(m.GetData())); size >= told {
			a.Notef("%d MiB\n", size>>20)
			told += backupStep
		}
	}
	if err := stream.Err(); err != nil {
		return 0, h.ExplainError(err), nil
	}
	return 0, errors.New("the console ended the backup before it was whole: try again"), nil
}

func adminRestore(a *app.App) *cobra.Command {
	var cfg console.Config
	var opts console.RestoreOptions
	cmd := &cobra.Command{
		Use:   "restore FILE",
		Short: "Restore the console's database from a backup",
		Long: `Restore the console's database from a backup: into SQLite or PostgreSQL, whichever the backup was made of. The restore is
complete or changes nothing. Stop all consoles first. docs/operate/backup.md says what follows, and why nothing is removed
from clusters until you confirm it.`,
		Example: `  fairlead admin restore fairlead-2026-11-20.backup --data-dir /var/lib/fairlead/console
  FAIRLEAD_DATABASE_URL=postgres://... fairlead admin restore hub.backup --master-key-file hub.key`,
		Args: app.WantArgs(1, 1),
	}
	cmd.Flags().StringVar(&cfg.DataDir, "data-dir", "",
		"the console's data folder: console.db and master.key are there")
	cmd.Flags().StringVar(&cfg.DatabaseURL, "database-url", a.Getenv("FAIRLEAD_DATABASE_URL"),
		"sqlite:<file> or postgres://...; default: console.db in --data-dir")
	cmd.Flags().StringVar(&cfg.MasterKeyFile, "master-key-file", "",
		"file with the key that seals secrets; default: master.key in --data-dir")
	cmd.Flags().BoolVar(&opts.Replace, "replace", false, "lose what is in the database")
	cmd.Flags().Lookup("database-url").DefValue = ""
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if cfg.DataDir == "" && cfg.MasterKeyFile != "" {
			cfg.DataDir = filepath.Dir(cfg.MasterKeyFile)
		}
		file, err := os.Open(args[0])
		if err != nil {
			return err
		}
		defer file.Close()
		last := int64(0)
		opts.Progress = func(table string, rows int64) {
			if rows > last {
				a.Notef("%-16s %d rows\n", table, rows-last)
			}
			last = rows
		}
		if err := console.Restore(cmd.Context(), cfg, file, opts); err != nil {
			return fmt.Errorf("restore %s: %w", args[0], err)
		}
		return a.Printf("restored: start the consoles, make again what the backup lacks, then see `fairlead confirm removals`\n")
	}
	return cmd
}
