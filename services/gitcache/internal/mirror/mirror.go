package mirror

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"fairlead.dev/platform/durable"
	"fairlead.dev/services/gitcache/internal/pack"
)

// Mirror is a source's bare repository and its heads. Safe for many goroutines; a fresh clone is for
// the one that fetches.
//
// On disk: repo.git (the objects), heads.json, and while they last: fresh.git (a clone that is being
// made to replace repo.git), old.git (what it has replaced), coming (packs of a copy that is not whole yet),
// adopting (those of one that is) and doubt (repo.git turned out to be damaged).
type Mirror struct {
	dir     string
	log     *slog.Logger
	readers *readers
	upkeep  *upkeep
	bounds  pack.Bounds // of packs that come

	saving sync.Mutex // held while heads are written

	mu    sync.RWMutex // guards what follows
	heads map[string]Head
	doubt bool
	// removed: the mirror has no folder any more, on purpose.
	removed bool
	// clones that were made lately, and until when there is no other.
	clones int
	until  time.Time

	// change is held while the set of packs changes, on disk and here.
	change sync.Mutex
	packs  atomic.Pointer[[]*member] // by name; replaced, never changed

	checks checks
}

const (
	repoName  = "repo.git"
	freshName = "fresh.git"
	oldName   = "old.git"
	headsName = "heads.json"
	doubtName = "doubt"

	comingName   = "coming"
	adoptingName = "adopting"

	packFolder = "objects/pack"
)

func (s *Mirrors) openMirror(dir string) (*Mirror, error) {
	m := &Mirror{dir: dir, log: s.log, readers: s.readers, upkeep: s.upkeep, bounds: s.bounds, heads: map[string]Head{}}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := m.sweepLeftovers(); err != nil {
		return nil, fmt.Errorf("sweep: %w", err)
	}
	if err := initBare(m.repoPath()); err != nil {
		return nil, err
	}
	if err := m.loadPacks(); err != nil {
		return nil, err
	}
	if err := m.loadHeads(); err != nil {
		// Without its heads a mirror is still good for its objects; the next poll brings the heads.
		m.log.Warn("heads of a mirror are damaged; they are fetched again", "dir", filepath.Base(dir), "err", err)
	}
	if _, err := os.Stat(filepath.Join(dir, doubtName)); err == nil {
		m.doubt = true
	}
	return m, nil
}

func (m *Mirror) repoPath() string  { return filepath.Join(m.dir, repoName) }
func (m *Mirror) freshPath() string { return filepath.Join(m.dir, freshName) }
func (m *Mirror) oldPath() string   { return filepath.Join(m.dir, oldName) }

// initBare makes the files by which Git knows a repository. Again is harmless.
func initBare(dir string) error {
	for _, sub := range []string{packFolder, "objects/info", "refs/heads"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			return fmt.Errorf("make repository: %w", err)
		}
	}
	for name, content := range map[string]string{
		"HEAD":   "ref: refs/heads/main\n",
		"config": "[core]\n\trepositoryformatversion = 0\n\tbare = true\n[gc]\n\tauto = 0\n",
	} {
		path := filepath.Join(dir, name)
		if was, err := os.ReadFile(path); err == nil && string(was) == content {
			continue
		}
		// Not synced: what a crash leaves of it is found here, and a thousand new sources would wait long.
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			return fmt.Errorf("make repository: %w", err)
		}
	}
	return nil
}

// AddPack stores a pack in the mirror: after an error none of it is there.
func (m *Mirror) AddPack(ctx context.Context, r io.Reader) (int64, error) {
	taken, err := takeIn(ctx, filepath.Join(m.repoPath(), packFolder), r, m.bounds)
	if err != nil {
		return 0, err
	}
	return taken.bytes, m.installPack(taken)
}

// installPack puts a pack that was taken in among the others.
func (m *Mirror) installPack(taken *intake) error {
	if taken.objects == 0 {
		return nil
	}
	m.change.Lock()
	defer m.change.Unlock()
	if err := taken.installFiles(); err != nil {
		return err
	}
	m.admitPack(Pack{Name: taken.name, Bytes: taken.bytes})
	return nil
}

// ObjectsDir is where Git's own tools find the objects.
func (m *Mirror) ObjectsDir() string { return filepath.Join(m.repoPath(), "objects") }

// Objects opens the mirror for reading by one goroutine, which closes it.
func (m *Mirror) Objects() *Objects { return &Objects{m: m} }

// Doubt notes that the mirror is damaged: the next poll replaces it, unless Check finds it whole. The note outlives the
// process.
func (m *Mirror) Doubt(cause error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, err := os.Stat(m.dir); m.doubt || errors.Is(err, fs.ErrNotExist) { // removed, under a reader
		return
	}
	m.doubt = true
	m.log.Error("mirror is damaged; the next poll clones it again", "dir", filepath.Base(m.dir), "err", cause)
	if err := durable.WriteFile(filepath.Join(m.dir, doubtName), []byte(time.Now().UTC().Format(time.RFC3339)+"\n"), 0o600); err != nil {
		m.log.Warn("write note about a damaged mirror", "err", err)
	}
}

// RemakeFolder makes the folder of a mirror again that was deleted while the mirror was in use, and doubts the mirror:
// the next poll clones it. Otherwise RemakeFolder does nothing.
func (m *Mirror) RemakeFolder() error {
	was, err := m.remakeFolder()
	if err == nil && was != nil {
		m.Doubt(fmt.Errorf("its folder was deleted: %w", was))
	}
	return err
}

// remakeFolder says how it was seen that the folder was deleted; nil: it is there, or is to be gone.
func (m *Mirror) remakeFolder() (was, err error) {
	m.change.Lock()
	defer m.change.Unlock()
	if _, was = os.Stat(filepath.Join(m.repoPath(), packFolder)); was == nil {
		return nil, nil
	}
	m.mu.RLock()
	removed := m.removed // noted before the folder goes, so looked at after it was missed
	m.mu.RUnlock()
	if removed {
		return nil, nil
	}
	if !errors.Is(was, fs.ErrNotExist) {
		return nil, was
	}
	if err = initBare(m.repoPath()); err == nil {
		err = m.loadPacks()
	}
	return was, err
}

const (
	// Pauses between two clones of a mirror that turns out to be damaged each time, as it does if
	// upstream leaves objects out; they double. After mostClonePause without a clone all is forgotten.
	firstClonePause = time.Minute
	mostClonePause  = 6 * time.Hour
)

// Doubted tells whether the mirror is to be replaced. A mirror that was replaced just before is not.
func (m *Mirror) Doubted() bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.doubt && !time.Now().Before(m.until)
}

// noteCloned notes that the mirror was replaced.
func (m *Mirror) noteCloned() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if time.Since(m.until) > mostClonePause {
		m.clones = 0
	}
	m.until = time.Now().Add(min(firstClonePause<<min(m.clones, 16), mostClonePause))
	m.clones++
}

// postponeDoubt leaves a doubted mirror as it is for a while.
func (m *Mirror) postponeDoubt() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if until := time.Now().Add(firstClonePause); until.After(m.until) {
		m.until = until
	}
}

// endDoubt ends the doubt.
func (m *Mirror) endDoubt() error {
	m.checks.forget()
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := os.Remove(filepath.Join(m.dir, doubtName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove note: %w", err)
	}
	m.doubt = false
	return nil
}
