package memory

import (
	"encoding/hex"
	"hash/maphash"
	"iter"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"fairlead.dev/services/agent/internal/health"
	"fairlead.dev/services/agent/internal/object"
)

// record is an object. A record has no pointer. 104 bytes.
type record struct {
	manifest, applied, watched object.Sum
	owned, seen                object.Sum // the sum of our fields after the apply, and now
	version                    uint64
	generation                 int64
	uid                        [16]byte
	name                       uint32 // where it is in the arena
	kind, namespace, service   uint32 // in the tables
	next, prev                 uint32 // of the service; next is that of the free list, too
	nameLen                    uint16
	flags                      flags
	health                     uint8 // in states
	mark                       uint8 // of the sweep that saw it last
}

type flags uint16

const (
	live      flags = 1 << iota // not on the free list
	seen                        // by a watch or in an answer
	wrote                       // an apply of ours was answered, that the inventory need not know of
	gone                        // not in the cluster
	held                        // by its annotation
	stripped                    // the object does not carry the service's label
	stale                       // while Track goes through the list
	rivalTold                   // turns over with each news of a rival
	expires                     // the object goes by itself once it is done
	ended                       // the object is done
)

// none is no record.
const none = ^uint32(0)

// states are in order of how bad they are.
var states = []health.State{health.Healthy, health.Progressing, health.Unknown, health.Missing, health.Degraded} //nolint:gochecknoglobals // It never changes.

const unknown = 2 // in states

func rankOf(state health.State) uint8 {
	if i := slices.Index(states, state); i >= 0 {
		return uint8(i)
	}
	return unknown
}

// isOlder says whether a version is from before what is known.
func (r *record) isOlder(version uint64) bool {
	return r.flags&(seen|gone) != 0 && version != 0 && version < r.version
}

func (r *record) stateOf() State {
	switch {
	case r.flags&gone != 0 && r.flags&ended != 0:
		return Ended
	case r.flags&gone != 0:
		return Gone
	case r.flags&seen == 0:
		return Unseen
	case r.flags&held != 0:
		return Held
	case r.manifest == 0:
		return Present
	case r.flags&stripped != 0:
		return Drifted
	case r.owned == 0 && r.seen == 0: // The server keeps no managed fields of it.
		if r.applied != r.watched {
			return Drifted
		}
	case r.owned != r.seen:
		return Drifted
	}
	return Present
}

const (
	pageSize  = 256      // records
	arenaPage = 64 << 10 // bytes; no name is longer
	sparse    = 3        // there are at most 2/sparse of the index in use
	firstSize = 1 << 8   // of the index
)

// records holds the records, and finds them by key.
type records struct {
	pages [][]record
	count int    // in use
	freed uint32 // the first that is free, plus 1
	// slots of the index hold ids plus 1, by hash of the key, 0: free.
	slots []uint32
	// arena holds the names; dead counts the bytes of those that nobody has.
	arena [][]byte
	bytes int
	dead  int
}

func (s *records) recordAt(id uint32) *record { return &s.pages[id/pageSize][id%pageSize] }

// usedIDs goes over all ids.
func (s *records) usedIDs() iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		for p, page := range s.pages {
			for i := range page {
				if page[i].flags&live != 0 && !yield(uint32(p*pageSize+i)) {
					return
				}
			}
		}
	}
}

func (m *Memory) keyOf(id uint32) object.Key {
	r := m.recordAt(id)
	gvk := m.kinds.wordOf(r.kind)
	return object.Key{Group: gvk.Group, Kind: gvk.Kind, Namespace: m.namespaces.wordOf(r.namespace), Name: string(m.nameOf(r))}
}

func (m *Memory) refOf(id uint32) object.Ref {
	return object.Ref{Key: m.keyOf(id), Version: m.kinds.wordOf(m.recordAt(id).kind).Version}
}

// nameOf is not to be changed, and good until the arena is compacted.
func (s *records) nameOf(r *record) []byte {
	return s.arena[r.name/arenaPage][r.name%arenaPage:][:r.nameLen]
}

// addRecord makes a record with nothing but its name.
func (m *Memory) addRecord(key object.Key) uint32 {
	if m.freed == 0 {
		m.pages = append(m.pages, make([]record, pageSize))
		for i := range pageSize {
			id := uint32(len(m.pages)*pageSize - 1 - i)
			m.recordAt(id).next = m.freed
			m.freed = id + 1
		}
	}
	id := m.freed - 1
	r := m.recordAt(id)
	m.freed = r.next
	m.records.count++
	*r = record{flags: live, health: unknown}
	r.name, r.nameLen = m.keepName(key.Name)
	return id
}

// keepName copies a name into the arena. An object's name is never empty.
func (s *records) keepName(name string) (at uint32, length uint16) {
	if len(s.arena) == 0 || len(s.arena[len(s.arena)-1])+len(name) > arenaPage {
		s.arena = append(s.arena, make([]byte, 0, arenaPage))
	}
	last := len(s.arena) - 1
	at = uint32(last*arenaPage + len(s.arena[last]))
	s.arena[last] = append(s.arena[last], name...)
	s.bytes += len(name)
	return at, uint16(len(name))
}

func (m *Memory) freeRecord(id uint32) {
	r := m.recordAt(id)
	m.dead += int(r.nameLen)
	*r = record{next: m.freed}
	m.freed = id + 1
	m.records.count--
	if m.dead > arenaPage && m.dead > m.bytes/2 {
		m.compactNames()
	}
	if m.records.count == 0 {
		m.records = records{}
	}
}

// compactNames leaves out the names that nobody has.
func (s *records) compactNames() {
	old := *s
	s.arena, s.bytes, s.dead = nil, 0, 0
	for id := range s.usedIDs() {
		r := s.recordAt(id)
		r.name, r.nameLen = s.keepName(string(old.nameOf(r)))
	}
}

// hashKey of a key.
func (m *Memory) hashKey(key object.Key) uint64 { return maphash.Comparable(m.seed, key) }

// findKey looks a key up.
func (m *Memory) findKey(key object.Key) (uint32, bool) {
	if len(m.slots) == 0 {
		return 0, false
	}
	mask := uint64(len(m.slots) - 1)
	for at := m.hashKey(key) & mask; m.slots[at] != 0; at = (at + 1) & mask {
		if id := m.slots[at] - 1; m.isKey(id, key) {
			return id, true
		}
	}
	return 0, false
}

func (m *Memory) isKey(id uint32, key object.Key) bool {
	r := m.recordAt(id)
	gvk := m.kinds.wordOf(r.kind)
	return string(m.nameOf(r)) == key.Name && m.namespaces.wordOf(r.namespace) == key.Namespace && gvk.Kind == key.Kind && gvk.Group == key.Group
}

// indexRecord makes a record findable.
func (m *Memory) indexRecord(id uint32, key object.Key) {
	if m.records.count*sparse > len(m.slots)*2 {
		old := m.slots
		m.slots = make([]uint32, max(firstSize, len(old)*2))
		for _, slot := range old {
			if slot != 0 {
				m.insertRecord(slot-1, m.keyOf(slot-1))
			}
		}
	}
	m.insertRecord(id, key)
}

func (m *Memory) insertRecord(id uint32, key object.Key) {
	mask := uint64(len(m.slots) - 1)
	at := m.hashKey(key) & mask
	for m.slots[at] != 0 {
		at = (at + 1) & mask
	}
	m.slots[at] = id + 1
}

// unindexRecord takes a record out, and closes the gap so that those behind it are still found.
func (m *Memory) unindexRecord(id uint32) {
	mask := uint64(len(m.slots) - 1)
	at := m.hashKey(m.keyOf(id)) & mask
	for m.slots[at] != id+1 {
		at = (at + 1) & mask
	}
	for next := (at + 1) & mask; m.slots[next] != 0; next = (next + 1) & mask {
		home := m.hashKey(m.keyOf(m.slots[next]-1)) & mask
		if (next-home)&mask >= (next-at)&mask { // the record may stand at the gap
			m.slots[at] = m.slots[next]
			at = next
		}
	}
	m.slots[at] = 0
}

// uidOf of a record, as text.
func (m *Memory) uidOf(id uint32) types.UID {
	if odd, ok := m.uids[id]; ok {
		return odd
	}
	raw := m.recordAt(id).uid
	if raw == ([16]byte{}) {
		return ""
	}
	return spellUID(raw)
}

// setUID packs a UUID; anything else goes to the side table.
func (m *Memory) setUID(id uint32, uid types.UID) {
	delete(m.uids, id)
	raw, ok := packUID(uid)
	m.recordAt(id).uid = raw
	if !ok && uid != "" {
		m.uids[id] = uid
	}
}

// packUID returns a UUID as bytes; ok is false if the text is none, or another spelling of one.
func packUID(uid types.UID) (raw [16]byte, ok bool) {
	text := strings.ReplaceAll(string(uid), "-", "")
	if len(uid) != 36 || len(text) != 32 {
		return raw, false
	}
	if _, err := hex.Decode(raw[:], []byte(text)); err != nil || spellUID(raw) != uid {
		return [16]byte{}, false
	}
	return raw, true
}

// spellUID is a UUID as text.
func spellUID(raw [16]byte) types.UID {
	text := hex.EncodeToString(raw[:])
	return types.UID(text[:8] + "-" + text[8:12] + "-" + text[12:16] + "-" + text[16:20] + "-" + text[20:])
}

// table keeps words that many records share.
type table[T comparable] struct {
	words []T
	refs  []int
	ids   map[T]uint32
	spare []uint32
}

// takeWord holds a word once more, and says whether it is new.
func (t *table[T]) takeWord(word T) (id uint32, isNew bool) {
	if id, ok := t.ids[word]; ok {
		t.refs[id]++
		return id, false
	}
	if t.ids == nil {
		t.ids = map[T]uint32{}
	}
	if last := len(t.spare) - 1; last >= 0 {
		id, t.spare = t.spare[last], t.spare[:last]
	} else {
		id = uint32(len(t.words))
		t.words, t.refs = append(t.words, word), append(t.refs, 0)
	}
	t.words[id], t.refs[id], t.ids[word] = word, 1, id
	return id, true
}

func (t *table[T]) holdWord(id uint32) { t.refs[id]++ }

// giveWord lets go of a word, and says whether that was the last hold.
func (t *table[T]) giveWord(id uint32) bool {
	if t.refs[id]--; t.refs[id] > 0 {
		return false
	}
	var zero T
	delete(t.ids, t.words[id])
	t.words[id] = zero
	t.spare = append(t.spare, id)
	return true
}

func (t *table[T]) wordOf(id uint32) T { return t.words[id] }

func (t *table[T]) idOf(word T) (uint32, bool) {
	id, ok := t.ids[word]
	return id, ok
}

func (t *table[T]) allWords() []T {
	var words []T
	for i, word := range t.words {
		if t.refs[i] > 0 {
			words = append(words, word)
		}
	}
	return words
}

// growTo makes room for an index.
func growTo[T any](list []T, index uint32) []T {
	for len(list) <= int(index) {
		var zero T
		list = append(list, zero)
	}
	return list
}
