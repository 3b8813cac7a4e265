package mirror

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/go-git/go-git/v5/plumbing"

	"fairlead.dev/platform/durable"
	"fairlead.dev/services/gitcache/internal/pack"
)

// checks remembers what the last Check found.
type checks struct {
	mu      sync.Mutex // guards what follows
	of      *[]*member // the packs that were checked
	failure error
	good    []*member // packs in which nothing is damaged
}

// Check finds out whether a mirror is as damaged as somebody thought: it sums up all packs and their
// indexes, makes indexes again that are damaged or missing, and walks from the heads to everything
// that they reach. If nothing is missing the doubt ends, without a clone. Otherwise the error says what
// is; it is told again without another look as long as the packs are the same. Memory: one bit per
// object, and what is still to be visited.
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
	m.checks.mu.Lock()
	m.checks.of, m.checks.failure = m.packs.Load(), err
	m.checks.mu.Unlock()
	if err != nil {
		return err
	}
	if m.Doubted() {
		m.log.Info("mirror was doubted and is whole", "dir", filepath.Base(m.dir))
	}
	return m.trust()
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
		w.add(h.Object, plumbing.AnyObject)
		for _, id := range h.needs() {
			w.add(id, plumbing.CommitObject)
		}
		if err := w.walk(ctx); err != nil {
			return fmt.Errorf("ref %q: %w", h.Ref, err)
		}
	}
	return nil
}

// checkPacks notes the good ones: a fresh clone may lack what only they have.
func (m *Mirror) checkPacks(ctx context.Context) (err error) {
	bad := map[string]bool{}
	for _, p := range *m.packs.Load() {
		if e := m.checkPack(ctx, p); e != nil {
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
	f, err := m.readers.acquire(p)
	if err == nil {
		err = f.Verify(ctx)
		m.readers.release(p)
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
	objects, err := pack.Check(ctx, f, p.Bytes, m.dir)
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
	m.admit(p.Pack)
	return durable.SyncDir(filepath.Dir(p.path))
}

// walker visits what heads reach.
type walker struct {
	objects *Objects
	packs   *openPacks
	seen    [][]byte // a bit per object of each pack
	next    []visit
}

type visit struct {
	id   plumbing.Hash
	kind plumbing.ObjectType // AnyObject: not known
}

func (w *walker) add(id plumbing.Hash, kind plumbing.ObjectType) {
	if !id.IsZero() {
		w.next = append(w.next, visit{id, kind})
	}
}

func (w *walker) walk(ctx context.Context) error {
	for len(w.next) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		v := w.next[len(w.next)-1]
		w.next = w.next[:len(w.next)-1]
		if err := w.visit(v); err != nil {
			return err
		}
	}
	return nil
}

func (w *walker) visit(v visit) error {
	first, err := w.mark(v.id)
	if err != nil || !first {
		return err
	}
	if v.kind == plumbing.AnyObject {
		if v.kind, err = w.objects.Kind(v.id); err != nil {
			return err
		}
	}
	if v.kind == plumbing.BlobObject {
		return nil // that it is there is enough: its pack's sum is right
	}
	b, err := w.objects.Read(v.kind, v.id, maxWalkBytes)
	if errors.Is(err, ErrKind) || errors.Is(err, ErrTooLarge) {
		return nil // as it came from upstream
	}
	if err != nil {
		return err
	}
	switch v.kind {
	case plumbing.TreeObject:
		w.tree(b)
	case plumbing.CommitObject, plumbing.TagObject:
		w.headers(b)
	}
	return nil
}

// maxWalkBytes of one commit or tree: above what anybody reads of one.
const maxWalkBytes = 64 << 20

// mark notes a visit; first is false if there was one before.
func (w *walker) mark(id plumbing.Hash) (first bool, err error) {
	for i, f := range w.packs.files {
		n, found, err := f.Index().Number(id)
		if err != nil {
			return false, readError(id, err)
		}
		if !found {
			continue
		}
		bits, bit := &w.seen[i][n/8], byte(1)<<(n%8)
		first, *bits = *bits&bit == 0, *bits|bit
		return first, nil
	}
	return false, fmt.Errorf("%w: %s", ErrMissing, id)
}

// tree adds the entries: "<mode> <name>\0<20 bytes>" each. What is malformed came so from upstream.
func (w *walker) tree(b []byte) {
	for len(b) > 0 {
		head, rest, ok := bytes.Cut(b, []byte{0})
		if !ok || len(rest) < len(plumbing.ZeroHash) {
			return
		}
		id := plumbing.Hash(rest[:20])
		switch {
		case bytes.HasPrefix(head, []byte("40000 ")):
			w.add(id, plumbing.TreeObject)
		case !bytes.HasPrefix(head, []byte("160000 ")):
			w.add(id, plumbing.BlobObject)
		}
		b = rest[20:]
	}
}

// headers adds what a commit or a tag names: its tree, all its parents, its object.
func (w *walker) headers(b []byte) {
	head, _, _ := bytes.Cut(b, []byte("\n\n"))
	for line := range bytes.Lines(head) {
		key, value, _ := bytes.Cut(bytes.TrimSpace(line), []byte{' '})
		id, err := parseID(string(value))
		if err != nil {
			continue
		}
		switch string(key) {
		case "tree":
			w.add(id, plumbing.TreeObject)
		case "parent":
			w.add(id, plumbing.CommitObject)
		case "object":
			w.add(id, plumbing.AnyObject)
		}
	}
}
