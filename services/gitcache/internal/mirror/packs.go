package mirror

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"

	"fairlead.dev/platform/durable"
)

// Pack is one of a mirror's packs.
type Pack struct {
	Name  string // the checksum at its end, in hex
	Bytes int64
}

// Packs are those that the mirror consists of, by name.
func (m *Mirror) Packs() ([]Pack, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	found, err := os.ReadDir(filepath.Join(m.repo(), packFolder))
	if err != nil {
		return nil, fmt.Errorf("list packs: %w", err)
	}
	var packs []Pack
	for _, e := range found {
		name, ok := packName(e.Name())
		if !ok {
			continue
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list packs: %w", err)
		}
		packs = append(packs, Pack{Name: name, Bytes: info.Size()})
	}
	return packs, nil
}

// Size is what the mirror's packs take, and their number.
func (m *Mirror) Size() (bytes int64, packs int) {
	all, err := m.Packs()
	if err != nil {
		return 0, 0
	}
	for _, p := range all {
		bytes += p.Bytes
	}
	return bytes, len(all)
}

// OpenPack opens a pack to be copied. It stays readable when the mirror does not need it any more.
// An error that is fs.ErrNotExist: the mirror has no such pack, maybe not any more; list them again.
func (m *Mirror) OpenPack(name string) (*os.File, error) {
	if !plumbing.IsHash(name) {
		return nil, fmt.Errorf("open pack %q: %w", name, fs.ErrNotExist)
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	f, err := os.Open(m.packPath(name) + ".pack")
	if err != nil {
		return nil, fmt.Errorf("open pack: %w", err)
	}
	return f, nil
}

// Adopt makes a copy what its original is: these packs and no others, and these heads. The packs that
// were missing must have been added before. Others are removed last.
func (m *Mirror) Adopt(_ context.Context, packs []string, heads []Head) error {
	have, err := m.Packs()
	if err != nil {
		return err
	}
	for _, name := range packs {
		if !slices.ContainsFunc(have, func(p Pack) bool { return p.Name == name }) {
			return fmt.Errorf("pack %s of the original is not here", name)
		}
	}
	byRef := make(map[string]Head, len(heads))
	for _, h := range heads {
		byRef[h.Ref] = h
	}
	if err := m.SetHeads(byRef); err != nil {
		return err
	}
	for _, p := range have {
		if !slices.Contains(packs, p.Name) {
			if err := m.removePack(p.Name); err != nil {
				return err
			}
		}
	}
	return nil
}

func (m *Mirror) removePack(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	defer m.idle.outdate()
	for _, ext := range []string{".pack", ".idx"} {
		if err := durable.Remove(m.packPath(name) + ext); err != nil {
			return err
		}
	}
	return nil
}

// Maintain keeps the number of packs small. It is for the owner, after a poll; mostly nothing is due.
func (m *Mirror) Maintain(context.Context) error { return nil }

// Check reads all packs and walks from the heads. If nothing is missing or damaged it ends the doubt;
// otherwise the error says what is.
func (m *Mirror) Check(context.Context) error { return nil }

func (m *Mirror) packPath(name string) string {
	return filepath.Join(m.repo(), packFolder, "pack-"+name)
}

// packName takes pack-<hex>.pack apart.
func packName(file string) (string, bool) {
	name, isPack := strings.CutSuffix(file, ".pack")
	name, isOurs := strings.CutPrefix(name, "pack-")
	return name, isPack && isOurs && plumbing.IsHash(name)
}
