package catalog

import (
	"sync"
	"time"
	"unique"

	"fairlead.dev/services/console/internal/store"
)

// maxHeard is of how many services the last report is known without a look at the database: some 100 MiB.
const maxHeard = 500_000

// heard is what the next report of a service is compared with: the service, and of its last report what events come of. A heard may be old. Whatever
// is written by it says so to the store (store.Basis), and whatever is refused by it is looked up first. Immutable.
type heard struct {
	uid              string
	cluster, project unique.Handle[string] // by name
	clusterUID       unique.Handle[string]
	revision         int64 // of the service
	sequence         int64 // store.NoReport: there is no report, and the rest is empty

	phase, digest, applied unique.Handle[string]
	appliedTime, observed  int64 // nanoseconds since 1970; 0: none
	rest                   *heardRest
}

// heardRest is what few services have.
type heardRest struct {
	message, guard string
	repairs        uint64
}

// service is as much of the service as events tell of.
func (h *heard) service(name string) Service {
	return Service{Meta: Meta{Name: name, UID: h.uid}, Spec: ServiceSpec{Cluster: h.cluster.Value(), Project: h.project.Value()}}
}

func (h *heard) key() store.ReportKey {
	return store.ReportKey{Service: h.uid, Cluster: h.clusterUID.Value()}
}

// report is the last one, as far as it is known; nil: there is none.
func (h *heard) report() *Report {
	if h.sequence == store.NoReport {
		return nil
	}
	r := &Report{
		Sequence: uint64(h.sequence), Phase: Phase(h.phase.Value()), Digest: h.digest.Value(), AppliedDigest: h.applied.Value(),
		AppliedTime: fromNanos(h.appliedTime), ObservedTime: fromNanos(h.observed),
	}
	if h.rest != nil {
		r.Message, r.Repairs = h.rest.message, h.rest.repairs
		if h.rest.guard != "" {
			r.Guard = &Guard{ID: h.rest.guard}
		}
	}
	return r
}

// after is what is known once a report is written.
func (h *heard) after(r *Report) *heard {
	next := *h
	next.sequence = int64(r.Sequence)
	next.phase, next.digest, next.applied = unique.Make(string(r.Phase)), unique.Make(r.Digest), unique.Make(r.AppliedDigest)
	next.appliedTime, next.observed, next.rest = nanos(r.AppliedTime), nanos(r.ObservedTime), nil
	rest := heardRest{message: r.Message, repairs: r.Repairs}
	if r.Guard != nil {
		rest.guard = r.Guard.ID
	}
	if rest != (heardRest{}) {
		next.rest = &rest
	}
	return &next
}

func nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

func fromNanos(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns).UTC()
}

// memory is what this console heard last of services.
type memory struct {
	most     int // services
	mu       sync.Mutex
	services map[string]*heard // by name; guarded by mu
}

// recall fills in what is known of services.
func (m *memory) recall(known map[string]*heard) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name := range known {
		known[name] = m.services[name]
	}
}

// keep remembers services, and forgets others.
func (m *memory) keep(of map[string]*heard, others map[string]bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name := range others {
		delete(m.services, name)
	}
	if m.services == nil {
		m.services = map[string]*heard{}
	}
	for name, h := range of {
		if _, known := m.services[name]; !known && len(m.services) >= m.most {
			for other := range m.services { // any: it is read again when it reports
				delete(m.services, other)
				break
			}
		}
		m.services[name] = h
	}
}
