package catalog

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/durable"
	"fairlead.dev/platform/retry"
)

const (
	// slack is how many bytes of changes are never worth a new snapshot.
	slack = 1 << 20
	// maxUnsaved bounds the changes that wait for the disk; with more the snapshot is written anew.
	maxUnsaved = 16_384
)

// disk is the file, of the saver's goroutine.
type disk struct {
	file       *os.File // open for appending; nil: a new file has to be begun
	base, size int64    // of the snapshot in it, and of all
}

// unsaved is what the file lacks. Guarded by Catalog.mu.
type unsaved struct {
	all     bool                       // the whole catalog
	changes []*consolev1.WatchResponse // else these
	count   int                        // of changes in them
}

func (u *unsaved) add(m *consolev1.WatchResponse) {
	if u.all {
		return
	}
	u.changes = append(u.changes, m)
	if u.count += len(m.GetChanges().GetChanges()); u.count > maxUnsaved {
		u.everything()
	}
}

func (u *unsaved) everything() { *u = unsaved{all: true} }

// reopen goes on in the file that was loaded, behind what of it is whole.
func (d *disk) reopen(path string, snap snapshot) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return fmt.Errorf("open catalog snapshot: %w", err)
	}
	if err := f.Truncate(snap.size); err != nil {
		return errors.Join(fmt.Errorf("cut catalog snapshot: %w", err), f.Close())
	}
	*d = disk{file: f, base: snap.base, size: snap.size}
	return nil
}

// saveLoop writes changes to the disk some time after they came, and once more at the end.
func (c *Catalog) saveLoop(ctx context.Context) {
	defer func() { _ = c.disk.close() }() // the bytes that count were synced
	wait, failed := c.timing.saveDelay, false
	for last := false; !last; {
		select {
		case <-ctx.Done():
		case <-c.dirty:
		}
		retry.Sleep(ctx, wait)
		wait, last = c.timing.saveDelay, ctx.Err() != nil
		err := c.save()
		switch {
		case err != nil && !failed:
			c.log.Warn("catalog snapshot can't be saved: all is served, and a restart begins with an older one. Free or repair the disk",
				"file", c.file, "err", err)
		case err == nil && failed:
			c.log.Info("catalog snapshot is saved again", "file", c.file)
		}
		if failed = err != nil; failed {
			wait = c.timing.lastBackoff
			c.markDirty()
		}
	}
}

func (c *Catalog) save() error {
	c.mu.Lock()
	more := c.unsaved
	c.unsaved = unsaved{}
	if !more.all && len(more.changes) == 0 {
		c.mu.Unlock()
		return nil
	}
	if !more.all && c.disk.file != nil && c.disk.size-c.disk.base <= max(slack, c.disk.base/2) {
		c.mu.Unlock()
		return c.append(more.changes)
	}
	all, token, revision := c.live.contents(), c.token, c.revision
	c.mu.Unlock()
	err := c.rewrite(all, token, revision)
	if err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.unsaved.everything()
	}
	return err
}

// append adds changes to the file. After an error what is in it is unknown: a new one is begun next time.
func (c *Catalog) append(changes []*consolev1.WatchResponse) error {
	w := writer{w: c.disk.file}
	var err error
	for _, m := range changes {
		if err = errors.Join(err, w.frame(m)); err != nil {
			break
		}
	}
	if err = errors.Join(err, c.disk.file.Sync()); err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.unsaved.everything()
		return errors.Join(err, c.disk.close())
	}
	c.disk.size += w.size
	return nil
}

// rewrite begins a new file with a snapshot, and goes on in it.
func (c *Catalog) rewrite(all contents, token string, revision int64) error {
	var size int64
	err := durable.Replace(c.file, 0o600, func(to io.Writer) error {
		buffered := bufio.NewWriterSize(to, 256<<10)
		w := writer{w: buffered}
		err := w.base(c.kinds, all, token, revision)
		size = w.size
		return errors.Join(err, buffered.Flush())
	})
	if err := errors.Join(err, c.disk.close()); err != nil {
		return err
	}
	return c.disk.reopen(c.file, snapshot{base: size, size: size})
}

func (d *disk) close() error {
	if d.file == nil {
		return nil
	}
	f := d.file
	d.file = nil
	return f.Close()
}
