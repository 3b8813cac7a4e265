package mirror

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-git/go-git/v5/plumbing"

	"fairlead.dev/platform/durable"
)

// Head is where a ref points, as last fetched.
type Head struct {
	Ref string `json:"ref"` // canonical, as it is published
	// Object is what upstream listed: the commit, or a tag object that stands for it.
	Object      plumbing.Hash `json:"object"`
	Commit      plumbing.Hash `json:"commit"`
	CommitTime  time.Time     `json:"commit_time"`
	Subject     string        `json:"subject"`
	Author      string        `json:"author"`
	Traceparent string        `json:"traceparent,omitempty"` // of the poll that found the commit
	FetchTime   time.Time     `json:"fetch_time"`
	Resolved    string        `json:"resolved,omitempty"`  // the tag that a semver range chose
	SignedBy    string        `json:"signed_by,omitempty"` // fingerprint of the key
	// Submodules are commits of other repositories that the commit's content needs. Their objects are
	// in the same mirror and are kept as the head's own are.
	Submodules []plumbing.Hash `json:"submodules,omitempty"`
}

// Equal tells whether two heads say the same.
func (h Head) Equal(o Head) bool {
	return h.Ref == o.Ref && h.Object == o.Object && h.Commit == o.Commit && h.CommitTime.Equal(o.CommitTime) &&
		h.Subject == o.Subject && h.Author == o.Author && h.Traceparent == o.Traceparent && h.FetchTime.Equal(o.FetchTime) &&
		h.Resolved == o.Resolved && h.SignedBy == o.SignedBy && slices.Equal(h.Submodules, o.Submodules)
}

// needs are the commits that must not be lost.
func (h Head) needs() []plumbing.Hash { return append([]plumbing.Hash{h.Commit}, h.Submodules...) }

// Mirror is a source's bare repository and its heads. Safe for many goroutines; AddPack, SetHeads and
// the fresh clone are for the one that fetches.
//
// On disk: repo.git (the objects), heads.json, and while they last: fresh.git (a clone that is being
// made to replace repo.git) and doubt (repo.git turned out to be damaged).
type Mirror struct {
	dir string
	log *slog.Logger

	mu    sync.RWMutex // guards what follows, and the names of the folders
	heads map[string]Head
	doubt bool

	idle idleReader
}

const (
	repoName  = "repo.git"
	freshName = "fresh.git"
	headsName = "heads.json"
	doubtName = "doubt"

	packFolder = "objects/pack"
	tmpPrefix  = "tmp_"
)

func openMirror(dir string, log *slog.Logger) (*Mirror, error) {
	m := &Mirror{dir: dir, log: log, heads: map[string]Head{}}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := m.sweep(); err != nil {
		return nil, fmt.Errorf("sweep: %w", err)
	}
	if err := initBare(m.repo()); err != nil {
		return nil, err
	}
	if err := m.loadHeads(); err != nil {
		// Without its heads a mirror is still good for its objects; the next poll brings the heads.
		log.Warn("heads of a mirror are damaged; they are fetched again", "dir", filepath.Base(dir), "err", err)
	}
	if _, err := os.Stat(filepath.Join(dir, doubtName)); err == nil {
		m.doubt = true
	}
	return m, nil
}

func (m *Mirror) repo() string  { return filepath.Join(m.dir, repoName) }
func (m *Mirror) fresh() string { return filepath.Join(m.dir, freshName) }

// sweep removes what a killed process left half done.
func (m *Mirror) sweep() error {
	if err := os.RemoveAll(m.fresh()); err != nil {
		return err
	}
	for _, dir := range []string{m.dir, filepath.Join(m.repo(), packFolder)} {
		if err := sweepFolder(dir); err != nil {
			return err
		}
	}
	return nil
}

// sweepFolder removes temporary files, and indexes without a pack: the index is renamed first.
func sweepFolder(dir string) error {
	found, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	names := map[string]bool{}
	for _, e := range found {
		names[e.Name()] = true
	}
	for name := range names {
		base, isIndex := strings.CutSuffix(name, ".idx")
		if strings.HasPrefix(name, tmpPrefix) || durable.IsTemp(name) || isIndex && !names[base+".pack"] {
			if err := os.Remove(filepath.Join(dir, name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// initBare makes the files by which Git and go-git know a repository. Again is harmless.
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
		if _, err := os.Stat(path); err == nil {
			continue
		}
		if err := durable.WriteFile(path, []byte(content), 0o600); err != nil {
			return fmt.Errorf("make repository: %w", err)
		}
	}
	return nil
}

func (m *Mirror) loadHeads() error {
	b, err := os.ReadFile(filepath.Join(m.dir, headsName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var heads []Head
	if err := json.Unmarshal(b, &heads); err != nil {
		return err
	}
	for _, h := range heads {
		m.heads[h.Ref] = h
	}
	return nil
}

// Heads returns a copy of what is known, by canonical ref.
func (m *Mirror) Heads() map[string]Head {
	m.mu.RLock()
	defer m.mu.RUnlock()
	heads := make(map[string]Head, len(m.heads))
	maps.Copy(heads, m.heads)
	return heads
}

// Head returns one head.
func (m *Mirror) Head(ref string) (Head, bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	h, ok := m.heads[ref]
	return h, ok
}

// SetHeads makes heads durable and then known. Their objects must be there.
func (m *Mirror) SetHeads(heads map[string]Head) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := make([]Head, 0, len(heads))
	for _, h := range heads {
		list = append(list, h)
	}
	sortHeads(list)
	b, err := json.MarshalIndent(list, "", " ")
	if err != nil {
		return fmt.Errorf("encode heads: %w", err)
	}
	if err := m.keepReachable(list); err != nil {
		return fmt.Errorf("write refs: %w", err)
	}
	if err := durable.WriteFile(filepath.Join(m.dir, headsName), b, 0o600); err != nil {
		return fmt.Errorf("write heads: %w", err)
	}
	m.heads = make(map[string]Head, len(list))
	for _, h := range list {
		m.heads[h.Ref] = h
	}
	return nil
}

// keepReachable writes a ref per head, so that Git's own tools see what is in use. The names are object
// ids: names from upstream never become paths here.
func (m *Mirror) keepReachable(heads []Head) error {
	var b strings.Builder
	b.WriteString("# pack-refs with: sorted\n")
	seen := map[plumbing.Hash]bool{}
	for _, h := range heads {
		for _, id := range h.needs() {
			seen[id] = true
		}
	}
	o := m.idle.take(m.repo())
	defer o.Close()
	for _, id := range sortedIDs(seen) {
		if o.Has(id) {
			fmt.Fprintf(&b, "%s refs/fairlead/%s\n", id, id)
		}
	}
	return durable.WriteFile(filepath.Join(m.repo(), "packed-refs"), []byte(b.String()), 0o600)
}

// Haves are the heads' commits that are there. Of a fresh clone there are none.
func (m *Mirror) Haves() ([]plumbing.Hash, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	seen := map[plumbing.Hash]bool{}
	for _, h := range m.heads {
		seen[h.Commit] = true
	}
	o := m.idle.take(m.repo())
	defer o.Close()
	var haves []plumbing.Hash
	for _, id := range sortedIDs(seen) {
		if len(haves) < maxHaves && o.Has(id) {
			haves = append(haves, id)
		}
	}
	return haves, nil
}

// maxHaves bounds a fetch request. What upstream is not told of it sends again.
const maxHaves = 256

// AddPack stores a pack in the mirror.
func (m *Mirror) AddPack(ctx context.Context, pack io.Reader) (int64, error) {
	defer m.idle.outdate()
	return addPack(ctx, m.repo(), pack)
}

// ObjectsDir is where Git's own tools find the objects.
func (m *Mirror) ObjectsDir() string { return filepath.Join(m.repo(), "objects") }

// Objects opens the mirror for reading by one goroutine, which closes it.
func (m *Mirror) Objects() *Objects {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.idle.take(m.repo())
}

// Doubt notes that the mirror is damaged: the next poll replaces it. It outlives the process.
func (m *Mirror) Doubt(cause error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.doubt {
		return
	}
	m.doubt = true
	m.log.Error("mirror is damaged; the next poll clones it again", "dir", filepath.Base(m.dir), "err", cause)
	if err := durable.WriteFile(filepath.Join(m.dir, doubtName), []byte(time.Now().UTC().Format(time.RFC3339)+"\n"), 0o600); err != nil {
		m.log.Warn("write note about a damaged mirror", "err", err)
	}
}

// Doubted tells whether the mirror is to be replaced.
func (m *Mirror) Doubted() bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.doubt
}

// Fresh is an empty repository beside the mirror, to clone into. Use takes the mirror's place with it.
type Fresh struct{ m *Mirror }

// Fresh begins a replacement; what another left is thrown away.
func (m *Mirror) Fresh() (*Fresh, error) {
	if err := os.RemoveAll(m.fresh()); err != nil {
		return nil, fmt.Errorf("remove old clone: %w", err)
	}
	if err := initBare(m.fresh()); err != nil {
		return nil, err
	}
	return &Fresh{m}, nil
}

// Haves of a fresh clone are none.
func (f *Fresh) Haves() ([]plumbing.Hash, error) { return nil, nil }

// ObjectsDir is where Git's own tools find the objects.
func (f *Fresh) ObjectsDir() string { return filepath.Join(f.m.fresh(), "objects") }

// AddPack stores a pack in the fresh clone.
func (f *Fresh) AddPack(ctx context.Context, pack io.Reader) (int64, error) {
	return addPack(ctx, f.m.fresh(), pack)
}

// Use puts the fresh clone in the mirror's place. Killed in between, the mirror is empty and is
// cloned at the next poll: its heads are still known and its artifacts still served.
func (f *Fresh) Use() error {
	m := f.m
	m.mu.Lock()
	defer m.mu.Unlock()
	defer m.idle.outdate()
	if err := os.RemoveAll(m.repo()); err != nil {
		return fmt.Errorf("remove damaged mirror: %w", err)
	}
	if err := os.Rename(m.fresh(), m.repo()); err != nil {
		return fmt.Errorf("put clone in place: %w", err)
	}
	if err := durable.SyncDir(m.dir); err != nil {
		return fmt.Errorf("put clone in place: %w", err)
	}
	if err := os.Remove(filepath.Join(m.dir, doubtName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove note: %w", err)
	}
	m.doubt = false
	return nil
}
