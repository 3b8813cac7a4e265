package mirror

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"fairlead.dev/platform/durable"
	"fairlead.dev/services/gitcache/internal/pack"
)

func (m *Mirror) coming() string   { return filepath.Join(m.dir, comingName) }
func (m *Mirror) adopting() string { return filepath.Join(m.dir, adoptingName) }

// AddPart stores a pack of a copy beside the mirror, where nobody sees it before Adopt: a commit that is
// in the mirror must have all that it needs there. The part outlives the process.
func (m *Mirror) AddPart(ctx context.Context, r io.Reader) (int64, error) {
	// Not MkdirAll: a mirror that was removed meanwhile would get its folder back.
	if err := os.Mkdir(m.coming(), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return 0, fmt.Errorf("make folder of a copy: %w", err)
	}
	taken, err := takeIn(ctx, m.coming(), r, m.bounds)
	if err != nil || taken.objects == 0 {
		return 0, err
	}
	return taken.bytes, taken.installFiles()
}

// Parts are the names of packs that wait for Adopt.
func (m *Mirror) Parts() ([]string, error) {
	found, err := os.ReadDir(m.coming())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list parts of a copy: %w", err)
	}
	var names []string
	for _, e := range found {
		if name, isPack := packName(e.Name()); isPack {
			names = append(names, name)
		}
	}
	return names, nil
}

// Adopt makes a copy what its original is: these packs and no others, and these heads. The packs that
// were missing must have been added before. Other packs are removed last. After an error, or a kill, it is what it was
// or has all of these packs.
func (m *Mirror) Adopt(_ context.Context, packs []string, heads []Head) error {
	byRef := make(map[string]Head, len(heads))
	for _, h := range heads {
		byRef[h.Ref] = h
	}
	if err := m.takeParts(packs); err != nil {
		return err
	}
	if err := m.SetHeads(byRef); err != nil {
		return err
	}
	m.change.Lock()
	defer m.change.Unlock()
	return m.dropPacks(func(p Pack) bool { return !slices.Contains(packs, p.Name) }, packs)
}

// takeParts makes the packs of a copy part of the mirror, if all of them are here.
func (m *Mirror) takeParts(packs []string) error {
	m.change.Lock()
	defer m.change.Unlock()
	parts, err := m.Parts()
	if err != nil {
		return err
	}
	for _, name := range packs {
		if !m.hasPack(name) && !slices.Contains(parts, name) {
			return fmt.Errorf("pack %s of the original is not here", name)
		}
	}
	if len(parts) == 0 {
		return nil
	}
	if err := m.finishAdopt(); err != nil { // of one that failed
		return err
	}
	if err := os.Rename(m.coming(), m.adopting()); err != nil {
		return fmt.Errorf("adopt packs: %w", err)
	}
	if err := durable.SyncDir(m.dir); err != nil {
		return fmt.Errorf("adopt packs: %w", err)
	}
	if err := m.finishAdopt(); err != nil {
		return err
	}
	return m.loadPacks()
}

// finishAdopt moves the packs of a copy that is whole to the others: the indexes first, as always.
func (m *Mirror) finishAdopt() error {
	found, err := os.ReadDir(m.adopting())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	to := filepath.Join(m.repoPath(), packFolder)
	err = errors.Join(err, os.MkdirAll(to, 0o700))
	for _, ext := range []string{pack.IndexExt, pack.PackExt} {
		for _, e := range found {
			if err == nil && filepath.Ext(e.Name()) == ext {
				err = os.Rename(filepath.Join(m.adopting(), e.Name()), filepath.Join(to, e.Name()))
			}
		}
	}
	if err == nil {
		err = durable.SyncDir(to)
	}
	if err == nil {
		err = os.RemoveAll(m.adopting())
	}
	if err != nil {
		return fmt.Errorf("adopt packs: %w", err)
	}
	return nil
}

// forgetParts removes what is left of a copy that was not completed: its mirror has an owner now, who asks
// upstream.
func (m *Mirror) forgetParts() {
	if err := os.RemoveAll(m.coming()); err != nil {
		m.log.Warn("parts of a copy are still there", "dir", filepath.Base(m.dir), "err", err)
	}
}
