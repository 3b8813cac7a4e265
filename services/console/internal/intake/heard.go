package intake

import (
	"cmp"
	"sync"
	"time"
	"unique"

	digests "fairlead.dev/platform/delivery"
	"fairlead.dev/services/console/internal/state"
	"fairlead.dev/services/console/internal/store"
)

// maxHeard is of how many services the last report is known without a look at the database: some 100 MiB.
const maxHeard = 500_000

// heard is what the next report of a service is compared with: the service, and of its last report what events come
// of. A heard may be old. Whatever is written by it says so to the store (store.Basis), and whatever is refused by it
// is looked up first. Immutable.
type heard struct {
	uid              string
	cluster, project unique.Handle[string] // by name
	clusterUID       unique.Handle[string]
	revision         int64 // of the service
	sequence         int64 // store.NoReport: there is no report, and the rest is empty

	phase                 unique.Handle[string]
	digest, applied       digests.Digest // zero: none, or a text of another form in rest
	appliedTime, observed int64          // nanoseconds since 1970; 0: none
	rest                  *heardRest
}

// heardRest is what few services have.
type heardRest struct {
	message, guard  string
	repairs         uint64
	digest, applied string
}

// unheard is what is known of a service that no report was heard of.
func unheard(of state.Unreported) *heard {
	return &heard{
		uid: of.UID, cluster: unique.Make(of.Cluster), project: unique.Make(of.Project),
		clusterUID: unique.Make(of.ClusterUID), revision: of.Revision, sequence: store.NoReport, phase: unique.Make(""),
	}
}

// service is as much of the service as events tell of.
func (h *heard) service(name string) state.Service {
	return state.Service{Meta: state.Meta{Name: name, UID: h.uid}, Spec: state.ServiceSpec{Cluster: h.cluster.Value(), Project: h.project.Value()}}
}

func (h *heard) key() store.ReportKey {
	return store.ReportKey{Service: h.uid, Cluster: h.clusterUID.Value()}
}

// report is the last one, as far as it is known; nil: there is none.
func (h *heard) report() *state.Report {
	if h.sequence == store.NoReport {
		return nil
	}
	r := &state.Report{
		Sequence: uint64(h.sequence), Phase: state.Phase(h.phase.Value()), Digest: unpacked(h.digest), AppliedDigest: unpacked(h.applied),
		AppliedTime: fromNanos(h.appliedTime), ObservedTime: fromNanos(h.observed),
	}
	if h.rest != nil {
		r.Message, r.Repairs = h.rest.message, h.rest.repairs
		r.Digest, r.AppliedDigest = cmp.Or(h.rest.digest, r.Digest), cmp.Or(h.rest.applied, r.AppliedDigest)
		if h.rest.guard != "" {
			r.Guard = &state.Guard{ID: h.rest.guard}
		}
	}
	return r
}

// after is what is known once a report is written.
func (h *heard) after(r *state.Report) *heard {
	next := *h
	next.sequence = int64(r.Sequence)
	next.phase, next.appliedTime, next.observed, next.rest = unique.Make(string(r.Phase)), nanos(r.AppliedTime), nanos(r.ObservedTime), nil
	rest := heardRest{message: r.Message, repairs: r.Repairs}
	next.digest, rest.digest = packed(r.Digest)
	next.applied, rest.applied = packed(r.AppliedDigest)
	switch {
	case r.Guard != nil:
		rest.guard = r.Guard.ID
	case h.rest != nil && !r.EndsGuard():
		rest.guard = h.rest.guard
	}
	if rest != (heardRest{}) {
		next.rest = &rest
	}
	return &next
}

// replaces says whether the last report has something else applied than this one.
func (h *heard) replaces(r *state.Report) bool {
	applied, other := h.applied, ""
	if h.rest != nil {
		other = h.rest.applied
	}
	if h.sequence == store.NoReport || applied == (digests.Digest{}) && other == "" {
		return false
	}
	now, text := packed(r.AppliedDigest)
	return now != applied || text != other
}

// packed is a digest in little space, or as the text that it is.
func packed(text string) (d digests.Digest, other string) {
	if d, ok := digests.ParseDigest(text); ok && d != (digests.Digest{}) {
		return d, ""
	}
	return digests.Digest{}, text
}

// unpacked is the text of what packed returned.
func unpacked(d digests.Digest) string {
	if d == (digests.Digest{}) {
		return ""
	}
	return d.String()
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
	for name, h := range of {
		m.remember(name, h)
	}
}

// remember makes room for a service where there is none. The caller holds mu.
func (m *memory) remember(name string, h *heard) {
	if m.services == nil {
		m.services = map[string]*heard{}
	}
	if m.services[name] == nil && len(m.services) >= m.most {
		for other := range m.services { // any: it is read again when it reports
			delete(m.services, other)
			break
		}
	}
	m.services[name] = h
}
