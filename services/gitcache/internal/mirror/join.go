package mirror

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/pack"
)

// openPacks are packs that are kept open for a while.
type openPacks struct {
	readers *readers
	members []*member
	files   []*pack.File
}

func (m *Mirror) openPacks(set []*member) (*openPacks, error) {
	o := &openPacks{readers: m.readers}
	for _, p := range set {
		f, err := m.readers.acquirePack(p)
		if err != nil {
			o.close()
			return nil, err
		}
		o.members, o.files = append(o.members, p), append(o.files, f)
	}
	return o, nil
}

func (o *openPacks) close() {
	for _, p := range o.members {
		o.readers.releasePack(p)
	}
	o.members, o.files = nil, nil
}

func (o *openPacks) packNames() []string {
	names := make([]string, 0, len(o.members))
	for _, p := range o.members {
		names = append(names, p.Name)
	}
	return names
}

func (o *openPacks) hasObject(id git.Hash) (bool, error) {
	for _, f := range o.files {
		if _, found, err := f.Index().Find(id); found || err != nil {
			return found, err
		}
	}
	return false, nil
}

func (o *openPacks) countObjects() int {
	n := 0
	for _, f := range o.files {
		n += f.Index().Len()
	}
	return n
}

// joinPacks replaces packs, smallest first, by one that has all of their objects.
func (m *Mirror) joinPacks(ctx context.Context, small []*member) error {
	old, err := m.openPacks(small)
	if err != nil {
		return err
	}
	defer old.close()
	for old.countObjects() > pack.MaxJoin {
		last := len(old.members) - 1
		m.readers.releasePack(old.members[last])
		old.members, old.files = old.members[:last], old.files[:last]
	}
	if len(old.members) < 2 {
		return nil
	}
	stay, err := m.openPacks(slices.DeleteFunc(slices.Clone(*m.packs.Load()), func(p *member) bool { return slices.Contains(old.members, p) }))
	if err != nil {
		return err
	}
	defer stay.close()
	taken, err := m.rewritePacks(ctx, old, stay)
	if err != nil {
		return err
	}
	return m.swapPacks(taken, old, stay)
}

// swapPacks installs the new pack and removes the old ones. Killed in between there are both.
func (m *Mirror) swapPacks(taken *intake, old, stay *openPacks) error {
	if err := checkComplete(taken, old, stay); err != nil {
		taken.discardFiles()
		return err
	}
	provided := stay.packNames()
	if taken.objects > 0 {
		if err := m.installPack(taken); err != nil {
			return err
		}
		provided = append(provided, taken.name)
	}
	gone := old.packNames()
	m.change.Lock()
	defer m.change.Unlock()
	return m.dropPacks(func(p Pack) bool { return slices.Contains(gone, p.Name) && p.Name != taken.name }, provided)
}

// checkComplete makes sure that every object of the old packs is in the new one or in those that stay. The
// objects of the new one were read and named again.
func checkComplete(taken *intake, old, stay *openPacks) error {
	for _, f := range old.files {
		for id, err := range f.Index().Names() {
			if err != nil {
				return err
			}
			if taken.has(id) {
				continue
			}
			found, err := stay.hasObject(id)
			if err != nil {
				return err
			}
			if !found {
				return fmt.Errorf("%w: object %s did not make it into the new pack", pack.ErrDamaged, id)
			}
		}
	}
	return nil
}

// rewritePacks makes a pack of the objects of old: with Git's own program if there is one, which finds new
// deltas and so makes it small, else by copying. Either way the pack is taken in like one from upstream.
func (m *Mirror) rewritePacks(ctx context.Context, old, stay *openPacks) (*intake, error) {
	program := m.upkeep.findProgram()
	if old.countObjects() > maxGitObjects {
		program = ""
	}
	var failed error
	if program != "" {
		taken, err := m.pipePack(ctx, func(w io.Writer) error { return m.packObjects(ctx, program, old.packNames(), stay.packNames(), w) })
		if err == nil || ctx.Err() != nil || isFull(err) {
			return taken, err
		}
		failed = err
	}
	taken, err := m.pipePack(ctx, func(w io.Writer) error { return pack.Join(ctx, w, old.files, m.dir) })
	if err == nil && failed != nil {
		m.upkeep.without()
		m.log.Warn("git can't join packs; until the next start it is done without git, which takes more disk", "err", failed)
	}
	return taken, err
}

// pipePack takes in what write writes.
func (m *Mirror) pipePack(ctx context.Context, write func(io.Writer) error) (*intake, error) {
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := write(w)
		_ = w.CloseWithError(err)
		done <- err
	}()
	taken, err := takeIn(ctx, filepath.Join(m.repoPath(), packFolder), r, pack.Bounds{}) // of packs that were accepted
	_ = r.CloseWithError(io.ErrClosedPipe)
	if failed := <-done; err == nil && failed != nil {
		taken.discardFiles()
		err = failed
	}
	return taken, err
}
