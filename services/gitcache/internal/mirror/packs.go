package mirror

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"fairlead.dev/platform/durable"
	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/pack"
)

// Pack is one of a mirror's packs.
type Pack struct {
	Name  string // the sum at its end, in hex
	Bytes int64
}

// Packs are those that the mirror consists of, by name.
func (m *Mirror) Packs() ([]Pack, error) {
	set := *m.packs.Load()
	packs := make([]Pack, 0, len(set))
	for _, p := range set {
		packs = append(packs, p.Pack)
	}
	return packs, nil
}

// Size is what the mirror's packs take, and their number.
func (m *Mirror) Size() (bytes int64, packs int) {
	set := *m.packs.Load()
	for _, p := range set {
		bytes += p.Bytes
	}
	return bytes, len(set)
}

// OpenPack opens a pack to be copied. The file stays readable when the mirror does not need it any more. An error that
// is fs.ErrNotExist: the mirror has no such pack, maybe not any more; list them again.
func (m *Mirror) OpenPack(name string) (*os.File, error) {
	if !git.IsHash(name) {
		return nil, fmt.Errorf("open pack %q: %w", name, fs.ErrNotExist)
	}
	f, err := os.Open(m.packPath(name) + pack.PackExt)
	if err != nil {
		return nil, fmt.Errorf("open pack: %w", err)
	}
	return f, nil
}

func (m *Mirror) hasPack(name string) bool {
	return slices.ContainsFunc(*m.packs.Load(), func(p *member) bool { return p.Name == name })
}

// loadPacks takes in what is on the disk. A pack whose index is missing counts: Check makes it again.
func (m *Mirror) loadPacks() error {
	found, err := os.ReadDir(filepath.Join(m.repoPath(), packFolder))
	if err != nil {
		return fmt.Errorf("list packs: %w", err)
	}
	var set []*member
	for _, e := range found {
		name, isPack := packName(e.Name())
		if !isPack {
			continue
		}
		info, err := e.Info()
		if err != nil {
			return fmt.Errorf("list packs: %w", err)
		}
		set = append(set, m.memberOf(Pack{Name: name, Bytes: info.Size()}))
	}
	m.replacePacks(set)
	return nil
}

func (m *Mirror) memberOf(p Pack) *member { return &member{Pack: p, path: m.packPath(p.Name)} }

// admitPack makes a pack part of the mirror. One of the same name may have been there, damaged: its files
// are not read any more. Under change.
func (m *Mirror) admitPack(p Pack) {
	set := slices.DeleteFunc(slices.Clone(*m.packs.Load()), func(old *member) bool { return old.Name == p.Name })
	set = append(set, m.memberOf(p))
	slices.SortFunc(set, func(a, b *member) int { return strings.Compare(a.Name, b.Name) })
	m.replacePacks(set)
}

// dropPacks removes packs, provided that others are there: first from the set, so that no reader begins with
// one any more, then the pack and last its index, since an index without a pack is swept. Under change.
func (m *Mirror) dropPacks(unwanted func(Pack) bool, provided []string) error {
	for _, name := range provided {
		if !m.hasPack(name) {
			return fmt.Errorf("pack %s is not there any more", name)
		}
	}
	var keep, gone []*member
	for _, p := range *m.packs.Load() {
		if unwanted(p.Pack) {
			gone = append(gone, p)
		} else {
			keep = append(keep, p)
		}
	}
	if len(gone) == 0 {
		return nil
	}
	m.replacePacks(keep)
	var err error
	for _, p := range gone {
		for _, ext := range []string{pack.PackExt, pack.IndexExt} {
			if e := os.Remove(p.path + ext); e != nil && !errors.Is(e, fs.ErrNotExist) {
				err = errors.Join(err, fmt.Errorf("remove pack: %w", e))
				break
			}
		}
	}
	return errors.Join(err, durable.SyncDir(filepath.Join(m.repoPath(), packFolder)))
}

// awaitChange waits for somebody who is in the middle of a change.
func (m *Mirror) awaitChange() {
	m.change.Lock()
	defer m.change.Unlock()
}

// replacePacks makes set the packs of the mirror. A pack that is not in set is closed when its last reader is done with
// it.
func (m *Mirror) replacePacks(set []*member) {
	old := m.packs.Swap(&set)
	if old == nil {
		return
	}
	for _, p := range *old {
		if !slices.Contains(set, p) {
			m.readers.retirePack(p)
		}
	}
}

func (m *Mirror) packPath(name string) string {
	return filepath.Join(m.repoPath(), packFolder, "pack-"+name)
}

// packName takes pack-<hex>.pack apart.
func packName(file string) (string, bool) {
	name, isPack := strings.CutSuffix(file, pack.PackExt)
	name, isOurs := strings.CutPrefix(name, "pack-")
	return name, isPack && isOurs && git.IsHash(name)
}
