package mirror

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"fairlead.dev/platform/durable"
	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/pack"
)

// intake is a pack that was received, checked and made durable under temporary names.
type intake struct {
	dir     string
	name    string // the sum at its end
	bytes   int64
	objects int
	has     func(git.Hash) bool
	pack    string // paths
	index   string
	// bounds of the work to check it
	bounds pack.Bounds
}

// takeIn receives a pack into a folder and checks every object of it. After an error nothing is left of it; otherwise
// install or discard what is returned.
func takeIn(ctx context.Context, dir string, r io.Reader, bounds pack.Bounds) (*intake, error) {
	t := &intake{dir: dir, bounds: bounds}
	if err := t.receivePack(ctx, r); err != nil {
		t.discardFiles()
		return nil, err
	}
	if t.objects == 0 {
		t.discardFiles()
	}
	return t, nil
}

func (t *intake) receivePack(ctx context.Context, r io.Reader) error {
	f, err := os.CreateTemp(t.dir, pack.TempPrefix+"pack_")
	if err != nil {
		return fmt.Errorf("make pack: %w", err)
	}
	defer f.Close()
	t.pack = f.Name()
	sum := pack.NewSum()
	if t.bytes, err = io.Copy(io.MultiWriter(f, sum), pack.Until(ctx, r)); err != nil {
		return fmt.Errorf("receive pack: %w", err)
	}
	id, err := sum.Check()
	if err != nil {
		return fmt.Errorf("receive pack: %w", err)
	}
	t.name = id.String()
	objects, err := pack.Check(ctx, f, t.bytes, t.dir, t.bounds)
	if limit, ok := errors.AsType[*pack.LimitError](err); ok {
		return limit // the error is in words for people
	}
	if err != nil {
		return fmt.Errorf("check pack: %w", err)
	}
	t.has = objects.Has
	if t.objects = objects.Len(); t.objects == 0 {
		return nil
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("write pack: %w", err)
	}
	t.index, err = writeIndex(t.dir, objects, id)
	return err
}

// writeIndex makes an index durable under a temporary name.
func writeIndex(dir string, objects *pack.Objects, sum git.Hash) (path string, err error) {
	f, err := os.CreateTemp(dir, pack.TempPrefix+"idx_")
	if err != nil {
		return "", fmt.Errorf("write index of pack: %w", err)
	}
	if err = objects.WriteIndex(f, sum); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return "", errors.Join(fmt.Errorf("write index of pack: %w", err), os.Remove(f.Name()))
	}
	return f.Name(), nil
}

// installFiles gives the files their names: the index first, since a pack without one can't be read.
func (t *intake) installFiles() error {
	base := filepath.Join(t.dir, "pack-"+t.name)
	err := os.Rename(t.index, base+pack.IndexExt)
	if err == nil {
		err = os.Rename(t.pack, base+pack.PackExt)
	}
	if err != nil {
		t.discardFiles()
		return fmt.Errorf("write pack: %w", err)
	}
	return durable.SyncDir(t.dir)
}

// discardFiles removes what has no name yet. A file that can't be removed is swept at the next start.
func (t *intake) discardFiles() {
	for _, path := range []string{t.pack, t.index} {
		if path != "" {
			_ = os.Remove(path)
		}
	}
}
