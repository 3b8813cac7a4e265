package mirror

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"fairlead.dev/platform/durable"
	"fairlead.dev/services/gitcache/internal/pack"
)

// sweepLeftovers removes what a killed process left half done.
func (m *Mirror) sweepLeftovers() error {
	if err := m.finishUse(); err != nil {
		return err
	}
	if err := m.finishAdopt(); err != nil { // before what has no pack yet is swept
		return err
	}
	for _, dir := range []string{m.freshPath(), m.oldPath()} {
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	isTemp := func(name string) bool { return strings.HasPrefix(name, pack.TempPrefix) || durable.IsTemp(name) }
	for _, dir := range []string{m.dir, m.repoPath()} {
		if err := sweepFolder(dir, func(name string, _ map[string]bool) bool { return isTemp(name) }); err != nil {
			return err
		}
	}
	return errors.Join(sweepFolder(m.coming(), isLitter), sweepFolder(filepath.Join(m.repoPath(), packFolder), isLitter))
}

// isLitter is true for everything that is neither a pack nor the index of one: temporary files, also
// Git's own, indexes without a pack (one is renamed first and removed last), and what Git may put beside
// packs (.keep, .rev, .bitmap, .promisor, a multi-pack-index), none of which is used here.
func isLitter(name string, all map[string]bool) bool {
	if _, isPack := packName(name); isPack {
		return false
	}
	base, isIndex := strings.CutSuffix(name, pack.IndexExt)
	return !isIndex || !all[base+pack.PackExt]
}

func sweepFolder(dir string, litter func(name string, all map[string]bool) bool) error {
	found, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	all := map[string]bool{}
	for _, e := range found {
		all[e.Name()] = true
	}
	for name := range all {
		if !litter(name, all) {
			continue
		}
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}
