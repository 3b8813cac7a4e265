// Package memory is what the agent knows of every object that it manages: a record of about a hundred bytes
// each, and its name. The memory holds no object, asks nobody and decides nothing.
//
// Facts come from three sides, in any order: the inventory (what should be there), answers to applies, and
// watches. Those about the cluster are ordered by resourceVersion: what is older than what is known changes
// nothing. An object with another UID is another object.
//
// The records are in pages without a pointer, so that the garbage collector does not walk them; words that
// many share (kinds, namespaces, services) are kept once.
package memory

import (
	"hash/maphash"
	"iter"
	"slices"
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"fairlead.dev/services/agent/internal/health"
	"fairlead.dev/services/agent/internal/inventory"
	"fairlead.dev/services/agent/internal/object"
)

// State is what is known of an object besides its health.
type State uint8

// The states.
const (
	// Unseen: no watch and no answer told of it yet.
	Unseen State = iota
	// Present: as it was applied, as far as it is ours.
	Present
	// Drifted: somebody changed what is ours.
	Drifted
	// Gone: it is not in the cluster.
	Gone
	// Held: its annotation keeps us off it.
	Held
	// Ended: it was done, and went by itself.
	Ended
)

// String is the word in metrics.
func (s State) String() string {
	return []string{"unseen", "present", "drifted", "gone", "held", "ended"}[s]
}

// Known is what is known of an object.
type Known struct {
	Service string
	// Manifest is the sum of what was last applied; 0: it was not, nobody knows, or it is on its way out.
	Manifest object.Sum
	// Applied and Watched are the content as it was after the apply, and as it is; 0 where content is not read.
	// Owned is what was ours after the apply; see object.Owned.
	Applied, Watched, Owned object.Sum
	UID                     types.UID
	// Version is 0 if the server's can't be compared: then the later arrival wins.
	Version    uint64
	Generation int64
	Health     health.State
	State      State
	// Ended is when an object that goes by itself was done; zero: it is not.
	Ended time.Time
}

// Rival is somebody else who keeps changing fields of ours.
type Rival struct {
	Key     object.Key
	Health  health.Health // of the object, in a Summary
	Manager string
	Fields  []string
	// Webhook: they are changed on their way into the cluster.
	Webhook bool
	// Until is how long the object is left alone if it is changed again.
	Until time.Time
}

// Memory holds the records. A Memory is safe for concurrent use.
type Memory struct {
	notify func(service string)
	// kindsChanged gets a value when Kinds has changed.
	kindsChanged chan struct{}
	seed         maphash.Seed

	mu sync.Mutex // guards what follows
	records
	kinds      table[schema.GroupVersionKind]
	namespaces table[string]
	services   table[string]
	// sums is by id of a service.
	sums []sums
	// The side tables are for the few objects that need them.
	messages map[uint32]string
	uids     map[uint32]types.UID
	rivals   map[uint32]Rival
	ends     map[uint32]time.Time
	failures map[object.Key]failure
	// unsure are the kinds that can't be watched at the moment, and why.
	unsure map[schema.GroupVersionKind]string
	// silent is why nothing is known of any object at the moment; "": the API server answers.
	silent string
	// late are the kinds with objects that a stream may have named before they were tracked.
	late map[schema.GroupVersionKind]bool
	// marks is the number of the sweep of a kind that is under way.
	marks map[uint32]uint8
}

// sums is the account of a service.
type sums struct {
	first uint32 // of its records
	count Counts
}

// Counts counts the objects of a service, or of all.
type Counts struct {
	Total, Healthy, Unseen, Drifted, Missing, Held int
}

// failure is an object that can't be applied, and why.
type failure struct {
	times int
	until time.Time
	why   string
}

// New returns an empty memory. notify is called with a service of which something changed; it must not block,
// and not call back.
func New(notify func(service string)) *Memory {
	return &Memory{
		notify: notify, kindsChanged: make(chan struct{}, 1), seed: maphash.MakeSeed(),
		messages: map[uint32]string{}, uids: map[uint32]types.UID{}, rivals: map[uint32]Rival{}, ends: map[uint32]time.Time{},
		failures: map[object.Key]failure{}, unsure: map[schema.GroupVersionKind]string{}, late: map[schema.GroupVersionKind]bool{}, marks: map[uint32]uint8{},
	}
}

// Track makes a service have exactly these objects. Facts that are known of them stay known.
func (m *Memory) Track(service string, entries []inventory.Entry) {
	m.mu.Lock()
	sid, isNew := m.services.takeWord(service)
	if isNew {
		m.sums = growTo(m.sums, sid)
		m.sums[sid] = sums{first: none}
	}
	before := m.sums[sid].count
	for id := m.sums[sid].first; id != none; id = m.recordAt(id).next {
		m.recordAt(id).flags |= stale
	}
	changed := false
	for _, entry := range entries {
		changed = m.trackObject(sid, entry) || changed
	}
	for id := m.sums[sid].first; id != none; {
		next := m.recordAt(id).next
		if m.recordAt(id).flags&stale != 0 {
			changed = m.dropRecord(id) || changed
		}
		id = next
	}
	news := before != m.sums[sid].count
	m.services.giveWord(sid) // The records hold it.
	m.mu.Unlock()
	if changed {
		m.tellKinds()
	}
	if news {
		m.notify(service)
	}
}

// trackObject adds or updates one record, and says whether its kind is new, or has to be read anew.
func (m *Memory) trackObject(sid uint32, entry inventory.Entry) (newKind bool) {
	manifest := entry.Sum
	if entry.Leaving {
		manifest = 0
	}
	id, ok := m.findKey(entry.Key)
	if ok && m.recordAt(id).service != sid {
		if manifest == 0 {
			return false // Another has it: this one is only about to make it, or to let go of it.
		}
		newKind = m.dropRecord(id)
		ok = false
	}
	if !ok {
		id = m.addRecord(entry.Key)
		r := m.recordAt(id)
		r.service, r.next, r.prev = sid, m.sums[sid].first, none
		if r.next != none {
			m.recordAt(r.next).prev = id
		}
		m.sums[sid].first = id
		m.services.holdWord(sid)
		r.namespace, _ = m.namespaces.takeWord(entry.Namespace)
		var added bool
		r.kind, added = m.kinds.takeWord(entry.GVK())
		if entry.UID != "" && !added { // The object was made before, and not by an apply that tells of it.
			m.late[entry.GVK()], newKind = true, true
		}
		newKind = newKind || added
		m.indexRecord(id, entry.Key)
	} else if m.kinds.wordOf(m.recordAt(id).kind) != entry.GVK() { // another version of it
		old := m.recordAt(id).kind
		var added bool
		m.recordAt(id).kind, added = m.kinds.takeWord(entry.GVK())
		newKind = m.kinds.giveWord(old) || added
	}
	r := m.recordAt(id)
	m.changeRecord(id, func() {
		r.flags &^= stale
		if !ok || manifest != 0 || entry.Leaving { // else it is about to be sent, and is until then as it was
			r.manifest = manifest
		}
		if r.flags&wrote == 0 && entry.Owned != 0 { // else what this process knows is newer
			r.owned = entry.Owned
		}
		if r.flags&seen == 0 && r.uid == ([16]byte{}) {
			m.setUID(id, entry.UID)
		}
		if r.flags&(seen|wrote) == 0 {
			m.noteExpiring(id, entry.Expires, entry.Ended)
		}
	})
	return newKind
}

// noteExpiring notes whether an object goes by itself, and when it was done.
func (m *Memory) noteExpiring(id uint32, goes bool, at time.Time) {
	r := m.recordAt(id)
	r.flags &^= expires | ended
	delete(m.ends, id)
	if goes {
		r.flags |= expires
	}
	if !at.IsZero() {
		r.flags |= ended
		m.ends[id] = at
	}
}

// Expiring notes of an object that was just seen whether it goes by itself, and when it was done; zero: it is not.
func (m *Memory) Expiring(key object.Key, meta metav1.Object, goes bool, at time.Time) {
	m.updateRecord(key, func(id uint32, r *record) {
		if version := versionOf(meta.GetResourceVersion()); r.flags&gone == 0 && (version == 0 || version >= r.version) {
			m.noteExpiring(id, goes, at)
		}
	})
}

// dropRecord forgets a record, and says whether it was the last of its kind.
func (m *Memory) dropRecord(id uint32) (lastOfKind bool) {
	r := m.recordAt(id)
	m.countRecord(id, -1)
	m.unindexRecord(id)
	if r.prev == none {
		m.sums[r.service].first = r.next
	} else {
		m.recordAt(r.prev).next = r.next
	}
	if r.next != none {
		m.recordAt(r.next).prev = r.prev
	}
	delete(m.messages, id)
	delete(m.uids, id)
	delete(m.rivals, id)
	delete(m.ends, id)
	delete(m.failures, m.keyOf(id))
	lastOfKind = m.kinds.giveWord(r.kind)
	m.namespaces.giveWord(r.namespace)
	m.services.giveWord(r.service)
	m.freeRecord(id)
	return lastOfKind
}

// Forget drops all of a service.
func (m *Memory) Forget(service string) { m.Track(service, nil) }

func (m *Memory) tellKinds() {
	select {
	case m.kindsChanged <- struct{}{}:
	default:
	}
}

// KindsChanged gets a value when Kinds or Late has changed.
func (m *Memory) KindsChanged() <-chan struct{} { return m.kindsChanged }

// Kinds are those of all objects, which are those to watch.
func (m *Memory) Kinds() iter.Seq[schema.GroupVersionKind] {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Values(m.kinds.allWords())
}

// Late are the kinds that have to be read anew: what a stream names before it is tracked is lost. Late tells each once.
func (m *Memory) Late() map[schema.GroupVersionKind]bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	late := m.late
	m.late = map[schema.GroupVersionKind]bool{}
	return late
}

// Get tells what is known of an object.
func (m *Memory) Get(key object.Key) (Known, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	id, ok := m.findKey(key)
	if !ok {
		return Known{}, false
	}
	r := m.recordAt(id)
	known := Known{
		Service: m.services.wordOf(r.service), Manifest: r.manifest, Applied: r.applied, Watched: r.watched, Owned: r.owned,
		UID: m.uidOf(id), Version: r.version, Generation: r.generation, State: r.stateOf(), Health: states[r.health],
	}
	known.Ended = m.ends[id]
	switch known.State {
	case Gone:
		known.Health = health.Missing
	case Ended:
		known.Health = health.Healthy
	default:
	}
	return known, true
}

// Wrote notes the answer to an apply. Follow it with Saw if the answer tells the health, too.
func (m *Memory) Wrote(key object.Key, manifest object.Sum, answer metav1.Object, content object.Sum) {
	owned := object.Owned(answer) // Owned takes long, and the memory is for all
	m.updateRecord(key, func(id uint32, r *record) {
		version := versionOf(answer.GetResourceVersion())
		r.manifest, r.applied, r.owned = manifest, content, owned
		r.flags |= wrote
		if r.isOlder(version) {
			return // The watch was faster, and has seen what came after.
		}
		if r.version != version || version == 0 {
			r.health = unknown
			delete(m.messages, id)
		}
		m.takeOver(id, r, answer, owned, content)
	})
}

// Recall notes how an object was after an apply of an earlier process, of which the inventory does not know.
func (m *Memory) Recall(key object.Key, manifest object.Sum, uid types.UID, owned object.Sum) {
	m.updateRecord(key, func(id uint32, r *record) {
		if r.manifest != manifest || r.flags&wrote != 0 {
			return
		}
		r.owned = owned
		r.flags |= wrote
		if r.flags&seen == 0 {
			m.setUID(id, uid)
		}
	})
}

// Saw notes an object as it is in the cluster. Without a state its health stays as it was.
func (m *Memory) Saw(gvk schema.GroupVersionKind, meta metav1.Object, content object.Sum, h health.Health) {
	key := object.Key{Group: gvk.Group, Kind: gvk.Kind, Namespace: meta.GetNamespace(), Name: meta.GetName()}
	owned := object.Owned(meta)
	m.updateRecord(key, func(id uint32, r *record) {
		if r.isOlder(versionOf(meta.GetResourceVersion())) {
			return
		}
		m.takeOver(id, r, meta, owned, content)
		if h.State == "" {
			return
		}
		r.health = rankOf(h.State)
		if h.State == health.Healthy {
			delete(m.messages, id)
		} else {
			m.messages[id] = h.Message
		}
	})
}

// takeOver takes over what an object says of itself.
func (m *Memory) takeOver(id uint32, r *record, meta metav1.Object, owned, content object.Sum) {
	if r.owned == 0 && r.flags&(seen|wrote) == 0 { // An inventory that does not tell: as it is found, so it was.
		r.owned = owned
	}
	r.flags = r.flags&^(gone|held|stripped) | seen
	r.version, r.generation = versionOf(meta.GetResourceVersion()), meta.GetGeneration()
	r.mark = m.marks[r.kind]
	m.setUID(id, meta.GetUID())
	r.seen, r.watched = owned, content
	if _, ok := meta.GetAnnotations()[object.HoldAnnotation]; ok {
		r.flags |= held
	}
	if meta.GetLabels()[object.ServiceLabel] != m.services.wordOf(r.service) {
		r.flags |= stripped
	}
	// Changes of others to fields of their own are none of our business, and no drift later on.
	if r.applied == 0 || r.seen != 0 && r.seen == r.owned {
		r.applied = content
	}
}

// Doubt notes that nobody knows which manifest an object has: an apply may have arrived or not, or it is about to go.
func (m *Memory) Doubt(key object.Key) {
	m.updateRecord(key, func(_ uint32, r *record) { r.manifest = 0 })
}

// Gone notes that the object with this UID is not there any more; uid "": whichever there was.
func (m *Memory) Gone(key object.Key, uid types.UID, version uint64) {
	m.updateRecord(key, func(id uint32, r *record) {
		if had := m.uidOf(id); uid != "" && had != "" && had != uid || version != 0 && r.isOlder(version) {
			return
		}
		m.noteGone(id, r, version)
	})
}

// NotFound notes that an object was asked for and not there. since is the version that was known before the
// question: if more is known by now the answer is late, and changes nothing.
func (m *Memory) NotFound(key object.Key, since uint64) {
	m.updateRecord(key, func(id uint32, r *record) {
		if r.version == since {
			if r.flags&(seen|expires|ended) == expires && m.uidOf(id) != "" {
				// The object went while nobody looked, and would have gone by itself: it may have run, and must not run
				// twice.
				m.noteExpiring(id, true, time.Now().UTC().Truncate(time.Second))
			}
			m.noteGone(id, r, since)
		}
	})
}

func (m *Memory) noteGone(id uint32, r *record, version uint64) {
	r.flags |= gone
	r.flags &^= held | stripped
	r.version = max(r.version, version)
	r.health = unknown
	delete(m.messages, id)
}

// IsOlder tells that an object is of an earlier version than what was known before it was asked for.
func IsOlder(meta metav1.Object, known Known) bool {
	version := versionOf(meta.GetResourceVersion())
	return version != 0 && version < known.Version
}

// SetBack notes that the cluster counts the versions of a kind from before what is known: the next answer is
// the latest.
func (m *Memory) SetBack(gvk schema.GroupVersionKind) {
	m.mu.Lock()
	defer m.mu.Unlock()
	kind, ok := m.kinds.idOf(gvk)
	if !ok {
		return
	}
	for id := range m.usedIDs() {
		if r := m.recordAt(id); r.kind == kind {
			r.version = 0
		}
	}
}

// Sweep begins a new look at all objects of a kind: what Saw does not name until Unnamed is in question.
func (m *Memory) Sweep(gvk schema.GroupVersionKind) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if kind, ok := m.kinds.idOf(gvk); ok {
		m.marks[kind]++
	}
}

// Unnamed are the objects of a kind that were not seen since Sweep, and are not known to be gone.
func (m *Memory) Unnamed(gvk schema.GroupVersionKind) []object.Key {
	m.mu.Lock()
	defer m.mu.Unlock()
	kind, ok := m.kinds.idOf(gvk)
	if !ok {
		return nil
	}
	var keys []object.Key
	for id := range m.usedIDs() {
		if r := m.recordAt(id); r.kind == kind && r.mark != m.marks[kind] && r.flags&gone == 0 {
			keys = append(keys, m.keyOf(id))
		}
	}
	return keys
}

// Named are all objects of a kind that are not known to be gone.
func (m *Memory) Named(gvk schema.GroupVersionKind) []object.Key {
	m.Sweep(gvk)
	return m.Unnamed(gvk)
}

// Unsure says that objects of a kind can't be watched, or that they can again: why is "".
func (m *Memory) Unsure(gvk schema.GroupVersionKind, why string) {
	m.mu.Lock()
	before := m.unsure[gvk]
	if why == "" {
		delete(m.unsure, gvk)
	} else {
		m.unsure[gvk] = why
	}
	var tell []string
	if before != why {
		kind, _ := m.kinds.idOf(gvk)
		for sid := range m.sums {
			for id := m.sums[sid].first; id != none; id = m.recordAt(id).next {
				if m.recordAt(id).kind == kind {
					tell = append(tell, m.services.wordOf(uint32(sid)))
					break
				}
			}
		}
	}
	m.mu.Unlock()
	for _, service := range tell {
		m.notify(service)
	}
}

// Silent says that the API server does not answer, and since when, or that it does again: why is "".
func (m *Memory) Silent(why string) {
	m.mu.Lock()
	var tell []string
	if m.silent != why {
		for sid := range m.sums {
			if m.sums[sid].first != none {
				tell = append(tell, m.services.wordOf(uint32(sid)))
			}
		}
	}
	m.silent = why
	m.mu.Unlock()
	for _, service := range tell {
		m.notify(service)
	}
}

// Silence is why the API server does not answer, as Silent said it last; empty: it answers.
func (m *Memory) Silence() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.silent
}

// Fought notes who keeps changing fields of an object, and until when it is not repaired again. Without fields it is
// deleted again and again.
func (m *Memory) Fought(key object.Key, manager string, fields []string, until time.Time) {
	m.updateRecord(key, func(id uint32, r *record) {
		m.rivals[id] = Rival{Key: key, Manager: manager, Fields: fields, Until: until}
		r.flags ^= rivalTold // so that the change is news
	})
}

// Peace notes that nobody does any more.
func (m *Memory) Peace(key object.Key) {
	m.updateRecord(key, func(id uint32, r *record) {
		if rival, ok := m.rivals[id]; ok && !rival.Webhook {
			delete(m.rivals, id)
			r.flags ^= rivalTold
		}
	})
}

// Altered notes which fields of an apply came back with other values than were sent.
func (m *Memory) Altered(key object.Key, fields []string) {
	m.updateRecord(key, func(id uint32, r *record) {
		switch before, ok := m.rivals[id]; {
		case len(fields) > 0 && (!ok || !slices.Equal(before.Fields, fields)):
			m.rivals[id] = Rival{Key: key, Fields: fields, Webhook: true}
		case len(fields) == 0 && ok && before.Webhook:
			delete(m.rivals, id)
		default:
			return
		}
		r.flags ^= rivalTold
	})
}

// Distrust says that what is known of an object is wrong: it counts as drifted until it was applied again.
func (m *Memory) Distrust(key object.Key) {
	m.updateRecord(key, func(_ uint32, r *record) { r.owned = r.seen + 1 })
}

// updateRecord changes a record, and tells the service if that made a difference.
func (m *Memory) updateRecord(key object.Key, do func(id uint32, r *record)) {
	m.mu.Lock()
	id, ok := m.findKey(key)
	if !ok {
		m.mu.Unlock()
		return
	}
	service, news := m.services.wordOf(m.recordAt(id).service), false
	message := m.messages[id]
	news = m.changeRecord(id, func() { do(id, m.recordAt(id)) }) || m.messages[id] != message
	m.mu.Unlock()
	if news {
		m.notify(service)
	}
}

// changeRecord keeps the sums right over a change of one record, and says whether it is news.
func (m *Memory) changeRecord(id uint32, do func()) (news bool) {
	r := m.recordAt(id)
	m.countRecord(id, -1)
	const told = rivalTold | ended
	was, flags, well, manifest := r.stateOf(), r.flags&told, r.health, r.manifest
	do()
	m.countRecord(id, 1)
	return was != r.stateOf() || flags != r.flags&told || well != r.health || manifest != r.manifest
}

// countRecord adds a record to the account of its service, or takes it out.
func (m *Memory) countRecord(id uint32, n int) {
	r := m.recordAt(id)
	if r.manifest == 0 || r.flags&stale != 0 && n > 0 {
		return
	}
	count := &m.sums[r.service].count
	count.Total += n
	state := r.stateOf()
	switch state {
	case Unseen:
		count.Unseen += n
	case Drifted:
		count.Drifted += n
	case Gone:
		count.Missing += n
	case Held:
		count.Held += n
	case Present, Ended:
	}
	if state == Ended || state != Gone && states[r.health] == health.Healthy {
		count.Healthy += n
	}
}

func versionOf(text string) uint64 {
	version, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0
	}
	return version
}
