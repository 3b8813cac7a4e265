package mirror

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"fairlead.dev/platform/durable"
	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/pack"
)

// checks remembers what the last Check found.
type checks struct {
	mu      sync.Mutex // guards what follows
	of      *[]*member // the packs that were checked
	failure error
	good    []*member // packs in which nothing is damaged
}

func (c *checks) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.of, c.failure, c.good = nil, nil, nil
}

// Check finds out whether a mirror is as damaged as somebody thought: it sums up all packs and their
// indexes, makes indexes again that are damaged or missing, and walks from the heads to everything
// that they reach. If nothing is missing the doubt ends, without a clone. Otherwise the error says what
// is; it is told again without another look as long as the packs are the same. An error that says nothing
// about the mirror leaves it as it is for a while. Memory: one bit per object, and what is still to be visited.
func (m *Mirror) Check(ctx context.Context) error {
	set := m.packs.Load()
	m.checks.mu.Lock()
	known, failed := m.checks.of == set, m.checks.failure
	m.checks.mu.Unlock()
	if known && failed != nil {
		return failed
	}
	err := m.check(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil && !isDamage(err) {
		m.postponeDoubt()
		return err
	}
	m.checks.mu.Lock()
	m.checks.of, m.checks.failure = m.packs.Load(), err
	m.checks.mu.Unlock()
	if err != nil {
		return err
	}
	if m.Doubted() {
		m.log.Info("mirror was doubted and is whole", "dir", filepath.Base(m.dir))
	}
	return m.endDoubt()
}

func (m *Mirror) check(ctx context.Context) error {
	if err := m.checkPacks(ctx); err != nil {
		return err
	}
	open, err := m.openPacks(*m.packs.Load())
	if err != nil {
		return err
	}
	defer open.close()
	o := m.Objects()
	defer o.Close()
	w := &walker{objects: o, packs: open}
	for _, f := range open.files {
		w.seen = append(w.seen, make([]byte, f.Index().Len()/8+1))
	}
	for _, h := range m.Heads() {
		w.addObject(h.Object, git.UnknownKind)
		for _, id := range h.neededCommits() {
			w.addObject(id, git.Commit)
		}
		if err := w.walkAll(ctx); err != nil {
			return fmt.Errorf("ref %q: %w", h.Ref, err)
		}
	}
	return nil
}

// checkPacks notes the good ones: a fresh clone may lack what only they have.
func (m *Mirror) checkPacks(ctx context.Context) (err error) {
	bad := map[string]bool{}
	for _, p := range *m.packs.Load() {
		e := m.checkPack(ctx, p)
		if e != nil && !isDamage(e) {
			return e
		}
		if e != nil {
			bad[p.Name] = true
			err = errors.Join(err, fmt.Errorf("pack %s: %w", p.Name, e))
		}
	}
	m.checks.mu.Lock()
	defer m.checks.mu.Unlock()
	m.checks.good = slices.DeleteFunc(slices.Clone(*m.packs.Load()), func(p *member) bool { return bad[p.Name] })
	return err
}

// checkPack sums up a pack and its index. The index can be made again from the pack.
func (m *Mirror) checkPack(ctx context.Context, p *member) error {
	f, err := m.readers.acquirePack(p)
	if err == nil {
		err = f.Verify(ctx)
		m.readers.releasePack(p)
	}
	if err == nil || ctx.Err() != nil || !errors.Is(err, pack.ErrDamaged) && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	m.log.Warn("index of a pack is made again", "dir", filepath.Base(m.dir), "pack", p.Name, "err", err)
	return m.indexAgain(ctx, p)
}

func (m *Mirror) indexAgain(ctx context.Context, p *member) error {
	f, err := os.Open(p.path + pack.PackExt)
	if err != nil {
		return err
	}
	defer f.Close()
	sum, err := pack.VerifyPack(ctx, f)
	if err != nil {
		return err
	}
	if sum.String() != p.Name {
		return fmt.Errorf("%w: it is another pack than its name says", pack.ErrDamaged)
	}
	objects, err := pack.Check(ctx, f, p.Bytes, m.dir, pack.Bounds{}) // the pack was accepted when it came
	if err != nil {
		return err
	}
	index, err := writeIndex(filepath.Dir(p.path), objects, sum)
	if err != nil {
		return err
	}
	m.change.Lock()
	defer m.change.Unlock()
	if err := os.Rename(index, p.path+pack.IndexExt); err != nil {
		return errors.Join(err, os.Remove(index))
	}
	m.admitPack(p.Pack)
	return durable.SyncDir(filepath.Dir(p.path))
}
