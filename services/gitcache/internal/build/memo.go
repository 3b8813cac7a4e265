package build

import (
	"container/list"
	"crypto/sha256"
	"encoding/hex"
	"sync"
	"time"
	"unique"

	"fairlead.dev/platform/artifact"
	"fairlead.dev/platform/recordlog"
	"fairlead.dev/services/gitcache/internal/git"
)

const (
	// The memo in memory, and half of what it may be on disk; about 300 bytes each and 350 as a line, without filters.
	maxMemos     = 100_000
	maxMemoBytes = 64 << 20
	// Of a source those contents are remembered that are current, as many again, and so many more, least
	// recently used ones out first. A content that was built or learned lately stays anyway: it may be current soon.
	maxRecent = 16
	lately    = 10 * time.Minute
)

// memo remembers which artifact a content became. All of it can be computed again, so its file is only
// appended to, without fsync.
type memo struct {
	mu    sync.Mutex // guards what follows
	now   func() time.Time
	log   *recordlog.Log[record]
	bytes int // of the records, as lines

	byID     map[key]*entry
	byDigest map[key]*entry // the first of a chain
	sources  map[string]*contents
	pinned   map[string]map[key]bool // the current contents, by source; replaced, never changed
}

// key is a source_id or a digest without its prefix.
type key [sha256.Size]byte

// contents are those of a source.
type contents struct {
	uid    string
	recent list.List // of *entry; the front was used last
}

// entry is a record as it is remembered.
type entry struct {
	of         *contents
	place      *list.Element
	used       time.Time
	id, digest key
	same       *entry // another one that became the same artifact
	tree       git.Hash
	submodules bool
	depends    bool // on charts of repositories
	alone      bool
	root       git.Hash
	folder     unique.Handle[string]
	filter     unique.Handle[string]
	size       int64
	files      int
	line       int // bytes
}

// parseKey reads a source_id or a digest.
func parseKey(text string) (k key, ok bool) {
	d, err := artifact.ParseDigest(text)
	if err != nil {
		return k, false
	}
	_, err = hex.Decode(k[:], []byte(d.Hex()))
	return k, err == nil
}

func (k key) String() string { return string(artifact.SumDigest(k[:])) }

func (e *entry) recordOf() record {
	r := record{Source: e.of.uid, Record: Record{
		SourceID: e.id.String(), Tree: e.tree.String(), Filter: e.filter.Value(), Submodules: e.submodules, Alone: e.alone,
		Digest: artifact.SumDigest(e.digest[:]), Size: e.size, Files: e.files,
	}}
	if !e.root.IsZero() {
		r.Root, r.Folder, r.Dependencies = e.root.String(), e.folder.Value(), e.depends
	}
	return r
}

// addLine takes a record that is a line of so many bytes; what is none is left out. mu is held.
func (m *memo) addLine(r record, line int) {
	id, isID := parseKey(r.SourceID)
	digest, isDigest := parseKey(string(r.Digest))
	if !isID || !isDigest {
		return
	}
	m.dropEntry(m.byID[id])
	m.bytes += line
	// Which ones go does not matter: they are built again when somebody asks.
	for _, e := range m.byID {
		if len(m.byID) < maxMemos && m.bytes <= maxMemoBytes {
			break
		}
		m.dropEntry(e)
	}
	of, ok := m.sources[r.Source]
	if !ok {
		of = &contents{uid: r.Source}
		m.sources[r.Source] = of
	}
	e := &entry{
		of: of, used: m.now(), id: id, digest: digest, same: m.byDigest[digest], tree: git.HashOf(r.Tree), submodules: r.Submodules,
		depends: r.Dependencies, alone: r.Alone, root: git.HashOf(r.Root), folder: unique.Make(r.Folder),
		filter: unique.Make(r.Filter), size: r.Size, files: r.Files, line: line,
	}
	e.place = of.recent.PushFront(e)
	m.byID[id], m.byDigest[digest] = e, e
}

// dropEntry forgets a content, if there is one. mu is held.
func (m *memo) dropEntry(e *entry) {
	if e == nil {
		return
	}
	m.bytes -= e.line
	delete(m.byID, e.id)
	m.unchainEntry(e)
	if e.of.recent.Remove(e.place); e.of.recent.Len() == 0 {
		delete(m.sources, e.of.uid)
	}
}

// unchainEntry takes a content from those of its artifact. mu is held.
func (m *memo) unchainEntry(e *entry) {
	at := m.byDigest[e.digest]
	if at == e {
		if m.byDigest[e.digest] = e.same; e.same == nil {
			delete(m.byDigest, e.digest)
		}
		return
	}
	for at.same != e {
		at = at.same
	}
	at.same = e.same
}

// trimOld forgets what is neither current nor recent. mu is held.
func (m *memo) trimOld(of *contents) {
	since, pinned := m.now().Add(-lately), m.pinned[of.uid]
	for of.recent.Len() > maxRecent+2*len(pinned) {
		e := oldestEntry(of)
		switch {
		case pinned[e.id]:
			m.touchEntry(e)
		case e.used.After(since):
			return
		default:
			m.dropEntry(e)
		}
	}
}

func oldestEntry(of *contents) *entry {
	return of.recent.Back().Value.(*entry) //nolint:forcetypeassert // nothing else is in there
}

// touchEntry notes that a content is in use. mu is held.
func (m *memo) touchEntry(e *entry) {
	e.used = m.now()
	e.of.recent.MoveToFront(e.place)
}

func (m *memo) getRecord(id key) (record, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.byID[id]
	if !ok {
		return record{}, false
	}
	m.touchEntry(e)
	return e.recordOf(), true
}

// knowsContent tells whether a content is remembered; that is no use of it.
func (m *memo) knowsContent(id key) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, ok := m.byID[id]
	return ok
}

// isAlone tells a content that is known to refer to nothing beyond its folder.
func (m *memo) isAlone(id key) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.byID[id]
	return ok && e.alone
}

// noteAlone notes that, on disk as well, if the content is remembered.
func (m *memo) noteAlone(id key) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.byID[id]
	if !ok || e.alone {
		return nil
	}
	e.alone = true
	return m.log.Append(e.recordOf())
}

// noteFound notes the newest commit that has a content with parts: the mirror may lose older ones.
func (m *memo) noteFound(r reach) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e, ok := m.byID[r.id]; ok {
		e.root, e.folder = r.root, unique.Make(r.folder)
	}
}

// getDigest returns all contents that became an artifact: the mirror of one may be gone.
func (m *memo) getDigest(d artifact.Digest) []record {
	digest, _ := parseKey(string(d))
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []record
	for e := m.byDigest[digest]; e != nil; e = e.same {
		m.touchEntry(e)
		all = append(all, e.recordOf())
	}
	return all
}

// recordsOf returns what is known of a source, what was used last first.
func (m *memo) recordsOf(uid string) []Record {
	m.mu.Lock()
	defer m.mu.Unlock()
	of, ok := m.sources[uid]
	if !ok {
		return nil
	}
	known := make([]Record, 0, of.recent.Len())
	for at := of.recent.Front(); at != nil; at = at.Next() {
		known = append(known, at.Value.(*entry).recordOf().Record) //nolint:forcetypeassert // nothing else is in there
	}
	return known
}

// putRecord remembers; on disk as well if the disk takes it.
func (m *memo) putRecord(r record) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	id, _ := parseKey(r.SourceID)
	if old, ok := m.byID[id]; ok && old.recordOf() == r {
		return nil
	}
	m.addLine(r, len(encodeRecord(r)))
	if of, ok := m.sources[r.Source]; ok {
		m.trimOld(of)
	}
	return m.log.Append(r)
}

// learnRecord takes a record unless there is one already.
func (m *memo) learnRecord(r record) error {
	id, _ := parseKey(r.SourceID)
	if m.knowsContent(id) {
		return nil
	}
	return m.putRecord(r)
}

// pinWanted says what is current, by source, and returns the artifacts of that.
func (m *memo) pinWanted(wanted map[string]map[key]bool) []artifact.Digest {
	m.mu.Lock()
	defer m.mu.Unlock()
	var current []artifact.Digest
	m.pinned = wanted
	for _, ids := range wanted {
		for id := range ids {
			if e, ok := m.byID[id]; ok {
				current = append(current, artifact.SumDigest(e.digest[:]))
			}
		}
	}
	return current
}

// forgetOthers forgets all sources but those that are here.
func (m *memo) forgetOthers(here func(uid string) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for uid, of := range m.sources {
		if here(uid) {
			continue
		}
		for of.recent.Len() > 0 {
			m.dropEntry(oldestEntry(of))
		}
	}
}

// forgetRecord drops a record that turned out to be wrong. On disk it stays until a right one follows.
func (m *memo) forgetRecord(sourceID string) {
	id, _ := parseKey(sourceID)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dropEntry(m.byID[id])
}
