package standby

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"fairlead.dev/services/gitcache/internal/build"
	"fairlead.dev/services/gitcache/internal/mirror"
)

const (
	// openTries: packs may be joined while they are opened.
	openTries = 5
	// maxBuilt bounds what is told of artifacts: some MiB. All others are built again if need be.
	maxBuilt = 10_000
	// confirmed: a copy that was not asked about for so long may be gone.
	confirmed = 2*checkEvery + time.Minute
)

// ErrNothing means that a replica has nothing of a source.
var ErrNothing = errors.New("nothing of this source is here")

// Sender gives what this replica has to others, and remembers who has a copy of it.
type Sender struct {
	Mirrors *mirror.Mirrors
	Builder *build.Builder

	mu     sync.Mutex // guards copies
	copies map[string]map[string]time.Time
}

// Pack is an open pack, to be closed by whoever gets it.
type Pack struct {
	Name string
	File *os.File
}

// Open returns what is here of a source, and the packs that the caller does not have, all of them open:
// they stay readable when the mirror joins them in the meantime.
func (s *Sender) Open(r Request) (Manifest, []Pack, error) {
	m, ok := s.Mirrors.Lookup(r.UID)
	if !ok || m.Doubted() {
		return Manifest{}, nil, ErrNothing
	}
	var err error
	for range openTries {
		var found Manifest
		var packs []Pack
		found, packs, err = s.openMirror(m, r)
		if !errors.Is(err, fs.ErrNotExist) {
			return found, packs, err
		}
	}
	return Manifest{}, nil, err
}

func (s *Sender) openMirror(m *mirror.Mirror, r Request) (found Manifest, packs []Pack, err error) {
	// Heads first: packs that are listed later have their objects as well. A head may be only published: a fresh clone
	// lacks what upstream did not have just then.
	found.Heads = headsOf(m)
	objects := m.Objects()
	found.Heads = slices.DeleteFunc(found.Heads, func(h mirror.Head) bool { return !objects.Has(h.Commit) })
	objects.Close()
	if len(found.Heads) == 0 {
		return Manifest{}, nil, ErrNothing
	}
	if found.Packs, err = packNames(m); err != nil {
		return Manifest{}, nil, fmt.Errorf("list packs: %w", err)
	}
	found.Built = s.Builder.Known(r.UID)
	found.Built = found.Built[:min(len(found.Built), maxBuilt)]
	s.noteState(r, State(found.Packs, found.Heads))
	found.Copies = s.Copies(r.UID)
	if r.ManifestOnly {
		return found, nil, nil
	}
	for _, name := range found.Packs {
		if slices.Contains(r.Have, name) {
			continue
		}
		f, err := m.OpenPack(name)
		if err != nil {
			Close(packs)
			return Manifest{}, nil, err
		}
		packs = append(packs, Pack{name, f})
	}
	return found, packs, nil
}

// Close closes packs.
func Close(packs []Pack) {
	for _, p := range packs {
		_ = p.File.Close() // read only
	}
}

// noteState remembers that a replica has what this one has; or not, any more.
func (s *Sender) noteState(r Request, state string) {
	if r.Replica == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.State != state {
		delete(s.copies[r.UID], r.Replica)
		return
	}
	if s.copies == nil {
		s.copies = map[string]map[string]time.Time{}
	}
	if s.copies[r.UID] == nil {
		s.copies[r.UID] = map[string]time.Time{}
	}
	s.copies[r.UID][r.Replica] = time.Now()
}

// Copies are the other replicas that are known to have a copy of what is here, by name.
func (s *Sender) Copies(uid string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.copies[uid], func(_ string, seen time.Time) bool { return time.Since(seen) > confirmed })
	if len(s.copies[uid]) == 0 {
		delete(s.copies, uid)
	}
	return slices.Sorted(maps.Keys(s.copies[uid]))
}

// Keep forgets all sources but those that are here.
func (s *Sender) Keep(here func(uid string) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.copies, func(uid string, _ map[string]time.Time) bool { return !here(uid) })
}
