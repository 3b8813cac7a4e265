package state

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"time"
	"unique"

	digests "fairlead.dev/platform/delivery"
	"fairlead.dev/services/console/internal/store"
	"fairlead.dev/services/console/internal/store/database"
)

// Essence is what the state of a service comes of besides its source and its cluster: little enough to be kept of each,
// so that what becomes of a source or a cluster does not have all of its services read anew.
type Essence struct {
	ref           unique.Handle[string]       // in Git
	of            unique.Handle[store.HubRef] // whose commit the hub hands out
	commit        unique.Handle[string]       // that the hub hands out
	digest        mark                        // that the hub hands out
	onDigest      mark                        // that the cluster reports on
	applied       mark                        // that the cluster has applied
	phase         unique.Handle[string]       // that the cluster reports
	sequence      int64                       // of that report
	resolved      int64                       // microseconds, as all times here; 0: never
	hubProblem    int64
	configProblem int64
	reported      int64
	flags         essenceFlags
}

type essenceFlags uint16

const (
	hasDigest        essenceFlags = 1 << iota // the hub hands something out
	followsRef                                // from the commit that the hub has of it
	hasHubProblem                             // since hubProblem
	hasConfigProblem                          // since configProblem
	hasReport                                 // since reported
	reportsDigest                             // on what the hub hands out
	appliedDigest                             // and it is applied
	ofCatalog                                 // the service is for the catalog and no cluster
	hasAlike                                  // the hub handed out the same content under other digests
)

// Essence returns what the state comes of.
func (s *Service) Essence() Essence {
	hub, report := &s.Status.Hub, s.Status.Cluster.Report
	e := Essence{
		ref: unique.Make(s.Spec.EffectiveRef()), of: unique.Make(store.HubRef{Source: hub.Source, Ref: hub.Ref}),
		commit: unique.Make(hub.Revision.Commit), digest: markOf(hub.Digest), resolved: database.Micros(hub.ResolveTime),
	}
	e.set(ofCatalog, s.Spec.Catalog)
	e.set(hasDigest, hub.Digest != "")
	e.set(hasAlike, len(hub.Alike) > 0)
	e.set(followsRef, hub.Follows() || hub.ofRef)
	if p := hub.Problem; p != nil {
		e.set(hasHubProblem, true)
		e.hubProblem = database.Micros(p.Since)
	}
	if p := s.Status.ConfigProblem; p != nil {
		e.set(hasConfigProblem, true)
		e.configProblem = database.Micros(p.Since)
	}
	if report != nil {
		e.set(hasReport, true)
		e.set(reportsDigest, hub.reportedBy(report))
		e.set(appliedDigest, hub.appliedBy(report))
		e.onDigest, e.applied = markOf(report.Digest), markOf(report.AppliedDigest)
		e.phase, e.sequence, e.reported = unique.Make(string(report.Phase)), int64(report.Sequence), database.Micros(report.ObservedTime)
		if e.reported == 0 {
			e.reported = database.Micros(s.Status.Cluster.ReceiveTime)
		}
	}
	return e
}

// Report takes over what the service's cluster reports. false: what comes of the report has to be read.
func (e *Essence) Report(row store.Report) bool {
	report, ok := row.Value.(*Report)
	switch {
	case !ok || e.has(hasAlike):
		return false
	case e.has(hasReport) && row.Sequence <= e.sequence: // it was read with what is kept
		return true
	}
	e.set(hasReport, true)
	e.onDigest, e.applied = markOf(report.Digest), markOf(report.AppliedDigest)
	e.compareDigests()
	e.phase, e.sequence, e.reported = unique.Make(string(report.Phase)), row.Sequence, database.Micros(report.ObservedTime)
	if e.reported == 0 {
		e.reported = database.Micros(row.ReceiveTime)
	}
	return true
}

// Hub takes over what the hub hands out. refs are all whose commits are known: another one gets its commit by Follow,
// once it is told. false: what comes of the truth has to be read.
func (e *Essence) Hub(said store.Hub, refs map[store.HubRef]RefHub) bool {
	told, ok := said.Value.(*HubTruth)
	if !ok || e.has(hasAlike) || len(told.Alike) > 0 {
		return false
	}
	truth := *told
	truth.take(refs)
	next := (&Service{Status: ServiceStatus{Hub: truth}}).Essence()
	const others = ofCatalog | hasConfigProblem | hasReport
	next.flags = next.flags&^others | e.flags&others
	next.ref, next.configProblem = e.ref, e.configProblem
	next.onDigest, next.applied = e.onDigest, e.applied
	next.phase, next.sequence, next.reported = e.phase, e.sequence, e.reported
	next.compareDigests()
	*e = next
	return true
}

// compareDigests does what reportedBy and appliedBy do of a truth without Alike.
func (e *Essence) compareDigests() {
	e.set(reportsDigest, e.has(hasReport) && e.onDigest == e.digest)
	e.set(appliedDigest, e.has(hasReport) && e.applied == e.digest)
}

// Known is a service of which all is known but what hub and cluster say now.
type Known struct {
	UID, Cluster string // uids
	Ref          string // that it follows in Git
	Catalog      bool   // the service is for the catalog and no cluster
}

// Unreported is a service that no report was heard of.
type Unreported struct {
	UID string
	// Cluster and Project are names, ClusterUID is that of the cluster.
	Cluster, ClusterUID, Project string
	Revision                     int64
}

// Reported says whether the cluster reported on the service.
func (e *Essence) Reported() bool { return e.has(hasReport) }

// Renew returns what the states of services come of now, by uid.
func Renew(ctx context.Context, v store.View, list []Known) (map[string]Essence, error) {
	uids := make([]string, len(list))
	for i, k := range list {
		uids[i] = k.UID
	}
	truths, err := readTruths(ctx, v, uids)
	if err != nil {
		return nil, err
	}
	return truths.essences(list)
}

// RenewInOrder is Renew of services in the order of their uids, among which few others come.
func RenewInOrder(ctx context.Context, v store.View, list []Known) (map[string]Essence, error) {
	if len(list) == 0 {
		return nil, nil
	}
	truths, err := readTruthsWithin(ctx, v, store.Range{First: list[0].UID, Last: list[len(list)-1].UID})
	if err != nil {
		return nil, err
	}
	return truths.essences(list)
}

// essences returns what the states of services come of.
func (t *truths) essences(list []Known) (map[string]Essence, error) {
	out := make(map[string]Essence, len(list))
	for _, k := range list {
		s := Service{Meta: Meta{UID: k.UID}}
		if err := t.tell(&s, k.Cluster); err != nil {
			return nil, fmt.Errorf("service %s: %w", k.UID, err)
		}
		e := s.Essence()
		e.ref = unique.Make(k.Ref)
		e.set(ofCatalog, k.Catalog)
		out[k.UID] = e
	}
	return out, nil
}

// Follow takes over the commits that the hub has of refs, and says whether there was one.
func (e *Essence) Follow(refs map[store.HubRef]RefHub) bool {
	if !e.has(followsRef) {
		return false
	}
	r, ok := refs[e.of.Value()]
	if ok {
		e.commit, e.resolved = unique.Make(r.Revision.Commit), max(e.resolved, database.Micros(r.ResolveTime))
	}
	return ok
}

// Commit is what the hub hands out; empty: nothing yet.
func (e *Essence) Commit() string { return text(e.commit) }

// Ref is whose commit in Git counts.
func (e *Essence) Ref() string { return text(e.ref) }

// Judge returns the state of a service of which updated is when people changed it last, and since when it has it.
func (e *Essence) Judge(source *Source, cluster *Cluster, updated time.Time) (State, time.Time) {
	s := Service{Meta: Meta{UpdateTime: updated}, Spec: ServiceSpec{Catalog: e.has(ofCatalog)}}
	s.Status.Git = GitTruthOf(source, text(e.ref))
	hub := &s.Status.Hub
	hub.Revision.Commit, hub.ResolveTime = text(e.commit), database.FromMicros(e.resolved)
	if e.has(hasDigest) {
		hub.Digest = "delivered" // only equality with others counts
	}
	if e.has(hasHubProblem) {
		hub.Problem = &Problem{Since: database.FromMicros(e.hubProblem)}
	}
	if e.has(hasConfigProblem) {
		s.Status.ConfigProblem = &Problem{Since: database.FromMicros(e.configProblem)}
	}
	report := Report{Phase: Phase(text(e.phase)), ObservedTime: database.FromMicros(e.reported), Digest: "another", AppliedDigest: "another"}
	if e.has(reportsDigest) {
		report.Digest = hub.Digest
	}
	if e.has(appliedDigest) {
		report.AppliedDigest = hub.Digest
	}
	if e.has(hasReport) {
		s.Status.Cluster.Report = &report
	}
	v := verdictOn(&s, cluster)
	return v.state, v.since
}

func (e *Essence) set(flag essenceFlags, is bool) {
	if e.flags &^= flag; is {
		e.flags |= flag
	}
}

func (e *Essence) has(flag essenceFlags) bool { return e.flags&flag != 0 }

// mark tells whether two digests are the same: the beginning of a SHA-256. Each service has others: as texts they would
// be a quarter of a console's memory.
type mark uint64

func markOf(digest string) mark {
	if digest == "" {
		return 0
	}
	d, ok := digests.ParseDigest(digest)
	if !ok {
		d = sha256.Sum256([]byte(digest))
	}
	return mark(binary.BigEndian.Uint64(d[:]))
}

func text(h unique.Handle[string]) string {
	if h == (unique.Handle[string]{}) {
		return ""
	}
	return h.Value()
}
