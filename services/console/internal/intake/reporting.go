package intake

import (
	"context"
	"fmt"
	"math"
	"slices"

	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/resource"
	"fairlead.dev/services/console/internal/state"
	"fairlead.dev/services/console/internal/store"
)

// reporting writes reports: what they are compared with comes from memory, and from the database where that does not
// know enough.
type reporting struct {
	intake *Intake
	acks   []map[string]uint64
	known  map[string]*heard // by the names of services, before these reports; nil: the service is gone, or another cluster reports
	hubs   map[string][]byte // the hub's truth of services that have another digest applied, by uid
	rows   map[string]*news  // by the names of services
	events []store.Event
	left   []store.Event // about services that left the catalog, or the cluster
}

// news is what is written of a service: the last of its reports, and what all of them say of its deployments.
type news struct {
	next   *heard
	report state.Report
	steps  []store.Step
}

// prepare finds what is new. fresh: the memory is not asked.
func (b *reporting) prepare(ctx context.Context, in []ClusterReports, fresh bool) error {
	if err := b.look(ctx, in, fresh); err != nil {
		return err
	}
	for i, cr := range in {
		if b.acks[i] == nil {
			b.acks[i] = make(map[string]uint64, len(cr.Reports))
		}
		for n := range cr.Reports {
			r := &cr.Reports[n]
			acknowledged := max(b.acks[i][r.Service], r.Sequence)
			if h := b.last(r.Service); h.meant(cr.Cluster) && r.Sequence <= math.MaxInt64 { // SQL has no unsigned 64 bits; a counter can't get there honestly
				if int64(r.Sequence) > h.sequence {
					if err := b.tell(h, r); err != nil {
						return err
					}
				} else { // the last report may be ahead of this one
					acknowledged = max(acknowledged, uint64(h.sequence))
				}
			}
			b.acks[i][r.Service] = acknowledged
		}
	}
	return nil
}

// meant says whether reports of a cluster about the service count.
func (h *heard) meant(cluster string) bool { return h != nil && h.cluster.Value() == cluster }

// last is what is known of a service after the reports so far.
func (b *reporting) last(service string) *heard {
	if n := b.rows[service]; n != nil {
		return n.next
	}
	return b.known[service]
}

// look finds what is known of services.
func (b *reporting) look(ctx context.Context, in []ClusterReports, fresh bool) error {
	for _, cr := range in {
		for i := range cr.Reports {
			b.known[cr.Reports[i].Service] = nil
		}
	}
	if !fresh {
		b.intake.memory.recall(b.known)
		b.meet()
	}
	var ask []ClusterReports
	var again []string // uids of services that have another digest applied
	for _, cr := range in {
		unknown := ClusterReports{Cluster: cr.Cluster}
		for i := range cr.Reports {
			r := &cr.Reports[i]
			h := b.known[r.Service]
			switch {
			case !h.meant(cr.Cluster) || r.Sequence > math.MaxInt64 || int64(r.Sequence) <= h.sequence: // what is refused is not refused by what may be old
				unknown.Reports = append(unknown.Reports, *r)
			case h.replaces(r):
				again = append(again, h.uid)
			}
		}
		if len(unknown.Reports) > 0 {
			ask = append(ask, unknown)
		}
	}
	if len(ask)+len(again) == 0 {
		return nil
	}
	return b.intake.store.Read(ctx, func(ctx context.Context, v store.View) error {
		if len(ask) > 0 {
			found, err := b.lookUp(ctx, v, ask)
			if err != nil {
				return err
			}
			again = append(again, found...)
		}
		slices.Sort(again)
		var err error
		b.hubs, err = v.Hub(ctx, slices.Compact(again))
		return err
	})
}

// meet fills in the services whose first report this is.
func (b *reporting) meet() {
	if b.intake.unreported == nil {
		return
	}
	var names []string
	for name, h := range b.known {
		if h == nil {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return
	}
	for name, of := range b.intake.unreported(names) {
		b.known[name] = unheard(of)
	}
}

// lookUp looks up services in the database. lookUp returns the uids of those that have another digest applied.
func (b *reporting) lookUp(ctx context.Context, v store.View, in []ClusterReports) (again []string, err error) {
	clusters, services, err := reported(ctx, v, in)
	if err != nil {
		return nil, err
	}
	uids := make([]string, 0, len(services))
	for _, s := range services {
		uids = append(uids, s.Meta.UID)
	}
	kept, err := v.Reports(ctx, uids)
	if err != nil {
		return nil, err
	}
	for _, cr := range in {
		cluster, known := clusters[cr.Cluster]
		for i := range cr.Reports {
			r := &cr.Reports[i]
			if b.known[r.Service].meant(cr.Cluster) {
				b.known[r.Service] = nil // it may be gone
			}
			service, ok := services[r.Service]
			if !known || !ok || service.Spec.Cluster != cr.Cluster {
				if known && b.intake.observer != nil {
					told, err := b.intake.observer.RemovalSaid(ctx, v, cluster, *r)
					if err != nil {
						return nil, err
					}
					b.left = append(b.left, told...)
				}
				continue
			}
			h := unheard(state.Unreported{
				UID: service.Meta.UID, Cluster: service.Spec.Cluster, ClusterUID: cluster.UID,
				Project: service.Spec.Project, Revision: service.Meta.Revision,
			})
			if row, ok := kept[h.key()]; ok {
				before, err := state.ReadReport(row)
				if err != nil {
					return nil, err
				}
				h = h.after(&before)
			}
			if h.replaces(r) {
				again = append(again, h.uid)
			}
			b.known[r.Service] = h
		}
	}
	return again, nil
}

// reported returns the clusters and services that reports name.
func reported(ctx context.Context, v store.View, in []ClusterReports) (map[string]store.Resource, map[string]state.Service, error) {
	clusterNames, serviceNames := map[string]bool{}, map[string]bool{}
	for _, cr := range in {
		clusterNames[cr.Cluster] = resource.IsName(cr.Cluster)
		for _, r := range cr.Reports {
			serviceNames[r.Service] = resource.IsName(r.Service)
		}
	}
	clusters, err := v.Named(ctx, store.KindCluster, state.TrueKeys(clusterNames))
	if err != nil {
		return nil, nil, err
	}
	rows, err := v.Named(ctx, store.KindService, state.TrueKeys(serviceNames))
	if err != nil {
		return nil, nil, err
	}
	services := make(map[string]state.Service, len(rows))
	for name, r := range rows {
		if services[name], err = state.ReadService(r); err != nil {
			return nil, nil, err
		}
	}
	return clusters, services, nil
}

// tell notes what is new in a report.
func (b *reporting) tell(h *heard, r *state.Report) error {
	before := h.report()
	if same, err := b.sameContent(h, r); err != nil {
		return fmt.Errorf("service %q: %w", r.Service, err)
	} else if same {
		before.AppliedDigest = r.AppliedDigest
	}
	if b.intake.observer != nil {
		for _, e := range b.intake.observer.ClusterSaid(h.service(r.Service), before, *r) {
			e.Of = h.key()
			b.events = append(b.events, e)
		}
	}
	n := b.rows[r.Service]
	if n == nil {
		n = &news{}
		b.rows[r.Service] = n
	} else if progresses(&n.report) && n.report.Digest == r.Digest && n.report.AppliedDigest == r.AppliedDigest {
		n.steps = nil // overtaken
	}
	for _, step := range catalog.StepsOf(h.uid, *r) {
		step.Of = h.key()
		n.steps = append(n.steps, step)
	}
	n.report, n.next = *r, h.after(r)
	return nil
}

// sameContent says whether a service has the same content applied as before, under another digest: a lever was pulled
// in between.
func (b *reporting) sameContent(h *heard, r *state.Report) (bool, error) {
	stored := b.hubs[h.uid]
	if stored == nil || !h.replaces(r) {
		return false, nil
	}
	hub, _, err := state.ReadHub(stored)
	return slices.Contains(append(hub.Alike, hub.Digest), r.AppliedDigest) && slices.Contains(hub.Alike, h.report().AppliedDigest), err
}

// progresses says whether more is to come of what the report says.
func progresses(r *state.Report) bool {
	return r.Phase == state.PhaseApplying || r.Phase == state.PhaseProgressing
}

// write makes reports durable. write returns the names of services that are other than was known.
func (b *reporting) write(ctx context.Context) (lost map[string]bool, err error) {
	if err := b.intake.store.AddEvents(ctx, b.left...); err != nil { // each is kept once, however often this is tried
		return nil, err
	}
	rows := make([]store.Report, 0, len(b.rows))
	var steps []store.Step
	for name, n := range b.rows {
		key := n.next.key()
		row, err := state.EncodeReport(key.Service, key.Cluster, n.report)
		if err != nil {
			return nil, err
		}
		row.Value = &n.report
		row.Basis = &store.Basis{Revision: n.next.revision, Sequence: b.known[name].sequence}
		rows, steps = append(rows, row), append(steps, n.steps...)
	}
	kept, err := b.intake.store.PutReports(ctx, rows, steps, b.events...)
	if err != nil {
		return nil, err
	}
	lost, written := map[string]bool{}, make(map[string]*heard, len(kept))
	for name, n := range b.rows {
		if kept[n.next.key()] {
			written[name] = n.next
		} else {
			lost[name] = true
		}
	}
	b.intake.memory.keep(written, lost)
	return lost, nil
}
