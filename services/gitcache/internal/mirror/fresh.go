package mirror

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"fairlead.dev/platform/durable"
	"fairlead.dev/services/gitcache/internal/archive"
	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/pack"
)

// Fresh is an empty repository beside the mirror, to clone into. Use takes the mirror's place with it.
type Fresh struct{ m *Mirror }

// Fresh begins a replacement; what another left is thrown away.
func (m *Mirror) Fresh() (*Fresh, error) {
	if err := os.RemoveAll(m.freshPath()); err != nil {
		return nil, fmt.Errorf("remove old clone: %w", err)
	}
	if err := os.Mkdir(m.freshPath(), 0o700); err != nil { // initBare would make the folder of a removed mirror again
		return nil, fmt.Errorf("make clone: %w", err)
	}
	if err := initBare(m.freshPath()); err != nil {
		return nil, err
	}
	return &Fresh{m}, nil
}

// Haves of a fresh clone are none.
func (f *Fresh) Haves() ([]git.Hash, error) { return nil, nil }

// ObjectsDir is where Git's own tools find the objects.
func (f *Fresh) ObjectsDir() string { return filepath.Join(f.m.freshPath(), "objects") }

// AddPack stores a pack in the fresh clone.
func (f *Fresh) AddPack(ctx context.Context, r io.Reader) (int64, error) {
	taken, err := takeIn(ctx, filepath.Join(f.m.freshPath(), packFolder), r, f.m.bounds)
	if err != nil || taken.objects == 0 {
		return 0, err
	}
	return taken.bytes, taken.installFiles()
}

// maxCarriedBytes of one object: more than any file of a chart, an artifact or a bucket may have.
const maxCarriedBytes = 256 << 20

// CarryOver copies a commit from the damaged mirror with all that it reaches. An error of which IsUnreadable is true
// says that something of it is damaged there, too.
func (f *Fresh) CarryOver(ctx context.Context, commit git.Hash) error {
	b, err := archive.New(f.m.freshPath(), archive.Limits{})
	if err != nil {
		return err
	}
	defer b.Close()
	o := f.m.Objects()
	defer o.Close()
	seen, w := map[git.Hash]bool{}, walker{next: []visit{{commit, git.Commit}}}
	for len(w.next) > 0 && ctx.Err() == nil {
		at := w.next[len(w.next)-1]
		w.next = w.next[:len(w.next)-1]
		if seen[at.id] {
			continue
		}
		seen[at.id] = true
		if at.kind == git.UnknownKind {
			if at.kind, err = o.Kind(at.id); err != nil {
				return err
			}
		}
		content, err := o.Read(at.kind, at.id, maxCarriedBytes)
		if err != nil {
			return err
		}
		if err := b.AddObject(at.kind, content); err != nil {
			return err
		}
		w.addContent(at.kind, content)
	}
	objects, err := b.Objects().Pack()
	if err == nil {
		_, err = f.AddPack(ctx, objects)
	}
	return err
}

// Use puts the fresh clone in the mirror's place. Packs that Check found good come along: they may hold
// what upstream has no more. A process that is killed in between finishes the change at the next start.
func (f *Fresh) Use() error {
	m := f.m
	m.change.Lock()
	defer m.change.Unlock()
	if err := f.takeAlong(); err != nil {
		m.log.Warn("packs of a damaged mirror are lost; commits that upstream has no more go with them", "dir", filepath.Base(m.dir), "err", err)
	}
	if err := os.RemoveAll(m.oldPath()); err != nil {
		return fmt.Errorf("remove damaged mirror: %w", err)
	}
	if err := os.Rename(m.repoPath(), m.oldPath()); err != nil {
		return fmt.Errorf("put damaged mirror aside: %w", err)
	}
	if err := os.Rename(m.freshPath(), m.repoPath()); err != nil {
		return fmt.Errorf("put clone in place: %w", errors.Join(err, os.Rename(m.oldPath(), m.repoPath())))
	}
	if err := m.loadPacks(); err != nil {
		return err
	}
	if err := durable.SyncDir(m.dir); err != nil {
		return fmt.Errorf("put clone in place: %w", err)
	}
	if err := os.RemoveAll(m.oldPath()); err != nil {
		return fmt.Errorf("remove damaged mirror: %w", err)
	}
	m.noteCloned()
	return m.endDoubt()
}

// finishUse does what is left of a Use that was killed between its renames: the clone is whole then.
func (m *Mirror) finishUse() error {
	if _, err := os.Stat(m.repoPath()); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, dir := range []string{m.freshPath(), m.oldPath()} {
		if err := os.Rename(dir, m.repoPath()); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func (f *Fresh) takeAlong() error {
	m := f.m
	m.checks.mu.Lock()
	good := m.checks.good
	m.checks.mu.Unlock()
	dir := filepath.Join(m.freshPath(), packFolder)
	for _, p := range good {
		for _, ext := range []string{pack.IndexExt, pack.PackExt} {
			err := os.Link(p.path+ext, filepath.Join(dir, filepath.Base(p.path)+ext))
			if err != nil && !errors.Is(err, fs.ErrExist) {
				return err
			}
		}
	}
	return durable.SyncDir(dir)
}
