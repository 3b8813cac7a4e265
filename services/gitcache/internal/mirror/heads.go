package mirror

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"fairlead.dev/platform/catalog"
	"fairlead.dev/platform/durable"
	"fairlead.dev/services/gitcache/internal/git"
)

// Head is where a ref points, as last fetched.
type Head struct {
	Ref string `json:"ref"` // canonical, as it is published
	// Object is what upstream listed: the commit, or a tag object that stands for it.
	Object      git.Hash  `json:"object"`
	Commit      git.Hash  `json:"commit"`
	CommitTime  time.Time `json:"commit_time"`
	Subject     string    `json:"subject"`
	Author      string    `json:"author"`
	Traceparent string    `json:"traceparent,omitempty"` // of the poll that found the commit
	FetchTime   time.Time `json:"fetch_time"`
	Resolved    string    `json:"resolved,omitempty"`  // the tag that a semver range chose
	SignedBy    string    `json:"signed_by,omitempty"` // fingerprint of the key
	Newer       string    `json:"newer,omitempty"`     // version that there is upstream, outside of the range
	// Submodules are commits of other repositories that the commit's content needs. Their objects are
	// in the same mirror and are kept as the head's own are.
	Submodules []git.Hash `json:"submodules,omitempty"`
}

// Equal tells whether two heads say the same.
func (h Head) Equal(o Head) bool {
	return h.Ref == o.Ref && h.Object == o.Object && h.Commit == o.Commit && h.CommitTime.Equal(o.CommitTime) &&
		h.Subject == o.Subject && h.Author == o.Author && h.Traceparent == o.Traceparent && h.FetchTime.Equal(o.FetchTime) &&
		h.Resolved == o.Resolved && h.SignedBy == o.SignedBy && h.Newer == o.Newer && slices.Equal(h.Submodules, o.Submodules)
}

// neededCommits are the commits that must not be lost.
func (h Head) neededCommits() []git.Hash {
	return append([]git.Hash{h.Commit}, h.Submodules...)
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
		if !catalog.IsCombination(h.Ref) {
			h.Subject = line(h.Subject, maxSubjectBytes) // an older release cut it later
		}
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

// Needs tells whether a head needs a commit. Then all that it reaches was here once.
func (m *Mirror) Needs(commit git.Hash) bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	for _, h := range m.heads {
		if slices.Contains(h.neededCommits(), commit) {
			return true
		}
	}
	return false
}

// SetHeads makes heads durable and then known. Their objects must be there.
func (m *Mirror) SetHeads(heads map[string]Head) error {
	m.saving.Lock()
	defer m.saving.Unlock()
	list := slices.SortedFunc(maps.Values(heads), func(a, b Head) int { return strings.Compare(a.Ref, b.Ref) })
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
	m.mu.Lock()
	defer m.mu.Unlock()
	m.heads = maps.Clone(heads)
	return nil
}

// keepReachable writes a ref per head, so that Git's own tools see what is in use. The names are object
// ids: names from upstream never become paths here.
func (m *Mirror) keepReachable(heads []Head) error {
	var b strings.Builder
	b.WriteString("# pack-refs with: sorted\n")
	seen := map[git.Hash]bool{}
	for _, h := range heads {
		for _, id := range h.neededCommits() {
			seen[id] = true
		}
	}
	for _, id := range m.presentOf(seen) {
		fmt.Fprintf(&b, "%s refs/fairlead/%s\n", id, id)
	}
	return durable.WriteFile(filepath.Join(m.repoPath(), "packed-refs"), []byte(b.String()), 0o600)
}

// Haves are the heads' commits that are there. Of a fresh clone there are none.
func (m *Mirror) Haves() ([]git.Hash, error) {
	seen := map[git.Hash]bool{}
	for _, h := range m.Heads() {
		seen[h.Commit] = true
	}
	haves := m.presentOf(seen)
	return haves[:min(len(haves), maxHaves)], nil
}

// maxHaves bounds a fetch request. Upstream sends again the objects of commits that it is not told of.
const maxHaves = 256

// presentOf are those of these objects that are there, sorted.
func (m *Mirror) presentOf(ids map[git.Hash]bool) []git.Hash {
	o := m.Objects()
	defer o.Close()
	sorted := slices.SortedFunc(maps.Keys(ids), git.Hash.Compare)
	return slices.DeleteFunc(sorted, func(id git.Hash) bool { return !o.Has(id) })
}
