package memory

import (
	"slices"
	"time"
	"unsafe"

	"k8s.io/apimachinery/pkg/types"

	"fairlead.dev/services/agent/internal/health"
	"fairlead.dev/services/agent/internal/object"
)

// maxBad bounds the objects that a summary names.
const maxBad = 100

// Summary is how a service is.
type Summary struct {
	Counts

	// Worst is the object that says most about the service; its state is Healthy if there is none.
	Worst health.Health
	// Bad are objects that are not healthy, in the order of their names, at most 100.
	Bad []health.Health
	// Ended are objects that were done and went by themselves.
	Ended []End
	// Rivals are objects that somebody else keeps changing.
	Rivals []Rival
	// Damage are objects that are not as they were applied, in the order of their names, at most 100.
	Damage []Damage
}

// Damage is an object that has drifted or is gone.
type Damage struct {
	Ref object.Ref
	// State is Drifted or Gone, as of this version of the object.
	State   State
	Version uint64
	// Next is when it may be repaired, if that was tried in vain or too often; zero: at once. Why is what the last try
	// ended with.
	Next time.Time
	Why  string
}

// End is an object that was done, and when.
type End struct {
	Key object.Key
	At  time.Time
}

// Summary sums up a service.
func (m *Memory) Summary(service string) Summary {
	m.mu.Lock()
	defer m.mu.Unlock()
	summary := Summary{Worst: health.Health{State: health.Healthy}}
	sid, ok := m.services.idOf(service)
	if !ok {
		return summary
	}
	summary.Counts = m.sums[sid].count
	isDamaged := summary.Drifted+summary.Missing > 0
	if summary.Healthy == summary.Total && !isDamaged && m.silent == "" && len(m.unsure) == 0 && len(m.rivals) == 0 && len(m.ends) == 0 {
		return summary
	}
	summary.Healthy = 0
	for id := m.sums[sid].first; id != none; id = m.recordAt(id).next {
		if m.recordAt(id).manifest == 0 {
			continue
		}
		h := m.healthOf(id)
		if m.recordAt(id).stateOf() == Ended {
			summary.Ended = append(summary.Ended, End{Key: m.keyOf(id), At: m.ends[id]})
		}
		if rival, ok := m.rivals[id]; ok {
			rival.Health = h
			rival.Health.Ref = m.refOf(id)
			summary.Rivals = append(summary.Rivals, rival)
		}
		if state := m.recordAt(id).stateOf(); state == Drifted || state == Gone {
			summary.Damage = append(summary.Damage, m.damageOf(id, state))
		}
		if h.State == health.Healthy {
			summary.Healthy++
			continue
		}
		summary.Bad = append(summary.Bad, h)
	}
	slices.SortFunc(summary.Bad, func(a, b health.Health) int { return object.Compare(a.Ref.Key, b.Ref.Key) })
	slices.SortFunc(summary.Ended, func(a, b End) int { return object.Compare(a.Key, b.Key) })
	slices.SortFunc(summary.Rivals, func(a, b Rival) int { return object.Compare(a.Key, b.Key) })
	for _, h := range summary.Bad {
		if rankOf(h.State) > rankOf(summary.Worst.State) {
			summary.Worst = h
		}
	}
	slices.SortFunc(summary.Damage, func(a, b Damage) int { return object.Compare(a.Ref.Key, b.Ref.Key) })
	summary.Bad = summary.Bad[:min(len(summary.Bad), maxBad)]
	summary.Damage = summary.Damage[:min(len(summary.Damage), maxBad)]
	return summary
}

func (m *Memory) damageOf(id uint32, state State) Damage {
	d := Damage{Ref: m.refOf(id), State: state, Version: m.recordAt(id).version}
	failed := m.failures[d.Ref.Key]
	d.Next, d.Why = failed.until, failed.why
	if until := m.rivals[id].Until; until.After(d.Next) {
		d.Next = until
	}
	return d
}

func (m *Memory) healthOf(id uint32) health.Health {
	r := m.recordAt(id)
	h := health.Health{State: states[r.health], Message: m.messages[id]}
	if r.stateOf() == Ended {
		h.State, h.Message = health.Healthy, ""
	} else if m.silent != "" {
		h.State, h.Message = health.Unknown, m.silent
	} else if why, ok := m.unsure[m.kinds.wordOf(r.kind)]; ok {
		h.State, h.Message = health.Unknown, why
	} else if r.stateOf() == Gone {
		h.State, h.Message = health.Missing, "the object is not in the cluster any more"
	} else if h.State == health.Unknown && h.Message == "" {
		h.Message = "it was not seen yet"
	}
	if h.State != health.Healthy {
		h.Ref = m.refOf(id)
	}
	return h
}

// Damaged are the objects of a service that have drifted or are gone.
func (m *Memory) Damaged(service string) []object.Key {
	m.mu.Lock()
	defer m.mu.Unlock()
	sid, ok := m.services.idOf(service)
	if !ok || m.sums[sid].count.Drifted+m.sums[sid].count.Missing == 0 {
		return nil
	}
	var keys []object.Key
	for id := m.sums[sid].first; id != none; id = m.recordAt(id).next {
		if r := m.recordAt(id); r.manifest != 0 && (r.stateOf() == Drifted || r.stateOf() == Gone) {
			keys = append(keys, m.keyOf(id))
		}
	}
	return keys
}

// Next is an object that is believed to be as it was applied, and where to go on from with the next call; after
// the last one it begins anew. ok is false if there is none from here on.
func (m *Memory) Next(cursor uint32) (service string, key object.Key, next uint32, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id := cursor; int(id) < len(m.pages)*pageSize; id++ {
		if r := m.recordAt(id); r.flags&live != 0 && r.manifest != 0 && r.stateOf() == Present {
			return m.services.wordOf(r.service), m.keyOf(id), id + 1, true
		}
	}
	return "", object.Key{}, 0, false
}

// Counts counts the objects of all services.
func (m *Memory) Counts() Counts {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all Counts
	for _, one := range m.sums {
		all.Total += one.count.Total
		all.Healthy += one.count.Healthy
		all.Unseen += one.count.Unseen
		all.Drifted += one.count.Drifted
		all.Missing += one.count.Missing
		all.Held += one.count.Held
	}
	return all
}

// Bytes is about what the records take.
func (m *Memory) Bytes() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.pages)*pageSize*int(unsafe.Sizeof(record{})) + len(m.slots)*4 + len(m.arena)*arenaPage
}

const (
	// backoffFloor and backoffMax bound the wait before an object that could not be applied is tried again.
	backoffFloor, backoffMax = time.Second, 5 * time.Minute
)

// Backoff is when an object that could not be applied may be tried again; the zero time: at once.
func (m *Memory) Backoff(key object.Key) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.failures[key].until
}

// Failed notes that an object could not be applied, and why.
func (m *Memory) Failed(key object.Key, now time.Time, why string) {
	m.mu.Lock()
	failed := m.failures[key]
	failed.until, failed.why = now.Add(min(backoffFloor<<min(failed.times, 16), backoffMax)), why
	failed.times++
	m.failures[key] = failed
	service := ""
	if id, ok := m.findKey(key); ok {
		service = m.services.wordOf(m.recordAt(id).service)
	}
	m.mu.Unlock()
	if service != "" {
		m.notify(service)
	}
}

// Succeeded notes that an object could be applied.
func (m *Memory) Succeeded(key object.Key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.failures, key)
}

// Services notes by the uids of objects the services that they are of. uids that are of no service keep their value.
func (m *Memory) Services(uids map[string]string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	packed := make(map[[16]byte]string, len(uids))
	for uid := range uids {
		if raw, ok := packUID(types.UID(uid)); ok {
			packed[raw] = uid
		}
	}
	for id := range m.usedIDs() {
		r := m.recordAt(id)
		uid, asked := packed[r.uid]
		if odd, is := m.uids[id]; is {
			uid = string(odd)
			_, asked = uids[uid]
		}
		if asked {
			uids[uid] = m.services.wordOf(r.service)
		}
	}
}
