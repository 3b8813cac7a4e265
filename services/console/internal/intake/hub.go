package intake

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/resource"
	"fairlead.dev/services/console/internal/state"
	"fairlead.dev/services/console/internal/store"
)

// ServiceHub is what distributors hand out for a service.
type ServiceHub struct {
	Service string
	UID     string
	Hub     state.HubTruth
	// Revision of the service that it was made of; 0: the current one.
	Revision int64
}

// RecordHub keeps hub truths. A truth that is known is not written again; resolve time and beginning of a problem stay
// while nothing else changes. Services that are gone are passed over. Many are written in parts, as reports are.
func (i *Intake) RecordHub(ctx context.Context, in []ServiceHub, refs []state.RefHub) error {
	if err := i.recordServices(ctx, in, refs); err != nil {
		return err
	}
	return i.recordRefs(ctx, refs) // after what they say of services
}

// compared is a part of the truths of one call.
type compared struct {
	m        *merging
	err      error
	panicked any // of the comparison; the call panics with it
}

// recordServices keeps the truths of services. The next part is compared while one is written.
func (i *Intake) recordServices(ctx context.Context, in []ServiceHub, refs []state.RefHub) error {
	if len(in) == 0 {
		return nil
	}
	// Distributors tell the same at the same time: the second one of this console finds it known.
	select {
	case i.hubTurn <- struct{}{}:
		defer func() { <-i.hubTurn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	within, stop := context.WithCancel(ctx)
	parts := make(chan compared)
	var comparing sync.WaitGroup
	comparing.Go(func() {
		defer close(parts)
		for len(in) > 0 && within.Err() == nil {
			most := min(i.store.StatusRows(), len(in))
			part := i.compare(within, in[:most], refs)
			in = in[most:]
			select {
			case parts <- part:
			case <-within.Done():
			}
		}
	})
	defer comparing.Wait()
	defer stop()
	for part := range parts {
		if part.panicked != nil {
			panic(part.panicked)
		}
		if part.err != nil {
			return part.err
		}
		if err := i.writeHub(ctx, part.m); err != nil {
			return err
		}
	}
	return ctx.Err() // the rest may not have been compared
}

func (i *Intake) compare(ctx context.Context, in []ServiceHub, refs []state.RefHub) (out compared) {
	defer func() { out.panicked = recover() }()
	out.m, out.err = i.compareHub(ctx, in, refs)
	return out
}

// merging compares truths of the hub with those that are stored, and writes what is new.
type merging struct {
	intake   *Intake
	in       []ServiceHub
	refs     []state.RefHub            // commits that came with the truths
	services map[string]store.Resource // by name
	stored   map[string][]byte         // truths by uid
	heads    map[string][]state.Head   // by the source's uid, of the sources that were looked at
	news     []*change

	states map[string][]byte // what is written, by uid, and the same decoded
	values map[string]any
	begun  []store.Deployment
	events []store.Event
}

// change is a truth that is not the one that is stored.
type change struct {
	service       state.Service
	before, after state.HubTruth
	delivery      *catalog.Delivery // nil: the digest stays
}

// compareHub finds what is new in truths of services, whose refs have these commits.
func (i *Intake) compareHub(ctx context.Context, in []ServiceHub, refs []state.RefHub) (*merging, error) {
	m := &merging{
		intake: i, in: in, refs: refs, heads: map[string][]state.Head{}, states: map[string][]byte{}, values: map[string]any{},
	}
	return m, i.store.Read(ctx, func(ctx context.Context, v store.View) error { return m.prepare(ctx, v) })
}

// writeHub writes what is new. What another distributor told of meanwhile is compared again.
func (i *Intake) writeHub(ctx context.Context, m *merging) error {
	for tries := 1; ; tries++ {
		lost, err := m.write(ctx)
		if err != nil || len(lost) == 0 {
			return err
		}
		if tries == maxTries {
			return fmt.Errorf("write hub truths: %w: other distributors go on changing those of %d services", store.ErrUnavailable, len(lost))
		}
		again := slices.DeleteFunc(slices.Clone(m.in), func(s ServiceHub) bool { return !slices.Contains(lost, s.UID) })
		if m, err = i.compareHub(ctx, again, m.refs); err != nil {
			return err
		}
	}
}

// prepare finds what is new.
func (m *merging) prepare(ctx context.Context, v store.View) error {
	if err := m.load(ctx, v); err != nil {
		return err
	}
	if err := m.compare(ctx, v); err != nil {
		return err
	}
	became, err := m.draftDeployments(ctx, v)
	if err != nil {
		return err
	}
	reports, err := m.loadReports(ctx, v)
	if err != nil {
		return err
	}
	for _, c := range m.news {
		uid := c.service.Meta.UID
		if err := m.note(c, became[uid], reports[uid]); err != nil {
			return err
		}
	}
	return nil
}

// load reads services, and the truths that are stored of them.
func (m *merging) load(ctx context.Context, v store.View) (err error) {
	names, uids := map[string]bool{}, map[string]bool{}
	for _, s := range m.in {
		names[s.Service] = resource.IsName(s.Service)
	}
	if m.services, err = v.Named(ctx, store.KindService, state.TrueKeys(names)); err != nil {
		return err
	}
	for _, r := range m.services {
		uids[r.UID] = true
	}
	m.stored, err = v.Hub(ctx, state.TrueKeys(uids))
	return err
}

// compare finds the truths that are other than those that are stored. Services that are gone are passed over.
func (m *merging) compare(ctx context.Context, v store.View) error {
	m.news = make([]*change, 0, len(m.in)) // a change takes kilobytes: a list of them holds pointers
	for _, s := range m.in {
		row := m.services[s.Service]
		if row.UID != s.UID || s.UID == "" {
			continue
		}
		before, known, err := state.ReadHub(m.stored[s.UID])
		if err != nil {
			return err
		}
		head := ""
		if before.LastProblem() != nil {
			if head, err = m.headOf(ctx, v, s.Hub); err != nil {
				return err
			}
		}
		after, changed := m.intake.mergeHub(before, s.Hub, head)
		if known && !changed && after.Problem == nil {
			continue
		}
		service, err := state.ReadService(row)
		if err != nil {
			return err
		}
		noteCluster(before, &after, service.Spec.Cluster)
		if known && !changed && after.ProblemCluster == before.ProblemCluster {
			continue
		}
		c := &change{service: service, before: before, after: after}
		if after.Digest != "" && after.Digest != before.Digest {
			c.delivery = &catalog.Delivery{Service: row, Spec: &c.service.Spec, Hub: after, Revision: s.Revision}
		}
		m.news = append(m.news, c)
	}
	return nil
}

// noteCluster notes for which cluster a problem is told.
func noteCluster(before state.HubTruth, after *state.HubTruth, cluster string) {
	switch {
	case after.Problem != nil:
		after.ProblemCluster = cluster
	case after.Earlier != nil:
		after.ProblemCluster = before.ProblemCluster
	default:
		after.ProblemCluster = ""
	}
}

// headOf returns the commit that a truth's ref has in Git; empty: unknown.
func (m *merging) headOf(ctx context.Context, v store.View, h state.HubTruth) (string, error) {
	heads, known := m.heads[h.Source]
	if !known {
		stored, err := v.Heads(ctx, []string{h.Source})
		if err != nil {
			return "", err
		}
		if of, has := stored[h.Source]; has {
			status, err := state.ReadHeads(of)
			if err != nil {
				return "", err
			}
			heads = status.Heads
		}
		m.heads[h.Source] = heads
	}
	at := slices.IndexFunc(heads, func(is state.Head) bool { return is.Ref == h.Ref })
	if at < 0 {
		return "", nil
	}
	return heads[at].Revision.Commit, nil
}

// draftDeployments notes the deployments that new digests begin, and returns what became of each by the service's uid.
func (m *merging) draftDeployments(ctx context.Context, v store.View) (became map[string]catalog.Deployed, err error) {
	var moved []*catalog.Delivery
	for _, c := range m.news {
		if c.delivery != nil {
			moved = append(moved, c.delivery)
		}
	}
	m.begun, became, err = m.intake.catalog.DraftDeployments(ctx, v, moved, m.refs)
	return became, err
}

// loadReports returns what clusters say, by uid, of services where a problem of the hub is over, or goes on with another
// commit.
func (m *merging) loadReports(ctx context.Context, v store.View) (map[string]state.ClusterTruth, error) {
	var asked []store.Resource
	for _, c := range m.news {
		if last := c.before.LastProblem(); last != nil && (c.after.LastProblem() == nil || c.after.GoesOn(c.before)) {
			asked = append(asked, m.services[c.service.Meta.Name])
		}
	}
	if m.intake.observer == nil || len(asked) == 0 {
		return nil, nil
	}
	loaded, err := m.intake.catalog.Services(ctx, v, asked)
	if err != nil {
		return nil, err
	}
	out := make(map[string]state.ClusterTruth, len(loaded))
	for _, s := range loaded {
		out[s.Meta.UID] = s.Status.Cluster
	}
	return out, nil
}

// note gets a change ready to be written, with the events that come of it.
func (m *merging) note(c *change, of catalog.Deployed, cluster state.ClusterTruth) (err error) {
	uid := c.service.Meta.UID
	if of.Again && c.before.Digest != "" {
		c.after.Succeed(c.before)
	}
	if m.states[uid], err = json.Marshal(c.after); err != nil {
		return fmt.Errorf("encode hub truth of service %q: %w", c.service.Meta.Name, err)
	}
	truth := c.after
	m.values[uid] = &truth
	if m.intake.observer == nil {
		return nil
	}
	if c.after.Follows() {
		c.after.Revision = of.Commit
	}
	c.service.Status.Hub, c.service.Status.Cluster = c.after, cluster
	var revision int64
	if c.after.Problem != nil { // an alarm of what the service was before another write would stay
		revision = c.service.Meta.Revision
	}
	for _, e := range m.intake.observer.HubSaid(c.service, c.before, c.after) {
		e.Of, e.Revision = store.ReportKey{Service: uid}, revision
		m.events = append(m.events, e)
	}
	return nil
}

// write makes changes durable. write returns the services of which another distributor told meanwhile.
func (m *merging) write(ctx context.Context) (lost []string, err error) {
	return m.intake.store.PutHub(ctx, m.states, m.stored, m.values, m.begun, catalog.KeptSteps, m.events...)
}

// mergeHub returns what is kept of a truth, and whether it tells anything new. head is the commit that the ref has in
// Git; empty: unknown.
func (i *Intake) mergeHub(before, now state.HubTruth, head string) (state.HubTruth, bool) {
	last := before.LastProblem()
	if last != nil && now.Problem == nil && now.IsOpen(before, head) {
		if last.Names(head) {
			now.Problem = last // the distributor has just started, and finds the problem again
		} else {
			now.Earlier = last
		}
	}
	changed := !sameProblem(before.Problem, now.Problem) || !sameProblem(before.Earlier, now.Earlier)
	if !now.GoesOn(before) {
		last = nil
	}
	problem := since(last, now.Problem, i.now().UTC())
	where := before.Source == now.Source && before.Ref == now.Ref
	if where && before.Digest == now.Digest && before.Revision.Commit == now.Revision.Commit && before.Artifact == now.Artifact {
		before.Problem, before.Earlier = problem, now.Earlier
		return before, changed
	}
	if before.Digest == now.Digest && now.Revision.Commit == "" {
		now.ResolveTime = before.ResolveTime // of the digest; the ref has that of the commit
	}
	if now.ResolveTime.IsZero() && now.Digest != "" {
		now.ResolveTime = i.now().UTC()
	}
	if before.Digest == now.Digest {
		now.Alike = before.Alike
	}
	now.Problem = problem
	return now, true
}

// recordRefs keeps refs' commits. A ref that is known at the same commit stays as it is.
func (i *Intake) recordRefs(ctx context.Context, in []state.RefHub) error {
	if len(in) == 0 {
		return nil
	}
	states := map[store.HubRef][]byte{}
	err := i.store.Read(ctx, func(ctx context.Context, v store.View) error {
		known, err := state.RefsOf(ctx, v, func(yield func(string) bool) {
			for _, r := range in {
				if !yield(r.Source) {
					return
				}
			}
		})
		if err != nil {
			return err
		}
		for _, r := range in {
			key := store.HubRef{Source: r.Source, Ref: r.Ref}
			if known[key].Revision.Commit == r.Revision.Commit {
				continue
			}
			if r.ResolveTime.IsZero() {
				r.ResolveTime = i.now().UTC()
			}
			if states[key], err = json.Marshal(r); err != nil {
				return fmt.Errorf("encode ref %q: %w", r.Ref, err)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return i.store.PutHubRefs(ctx, states)
}
