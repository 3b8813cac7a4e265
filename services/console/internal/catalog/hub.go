package catalog

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"time"

	"fairlead.dev/services/console/internal/store"
)

// ServiceHub is what distributors hand out for a service.
type ServiceHub struct {
	Service string
	UID     string
	Hub     HubTruth
	// Revision of the service that it was made of; 0: the current one.
	Revision int64
}

// RefHub is from which commit services of a ref are handed out.
type RefHub struct {
	Source      string    `json:"-"` // uid
	Ref         string    `json:"-"`
	Revision    Revision  `json:"revision"`
	ResolveTime time.Time `json:"resolveTime,omitzero"`
}

// RecordHub keeps hub truths. A truth that is known is not written again; resolve time and beginning of a problem stay
// while nothing else changes. Services that are gone are passed over. Many are written in parts, as reports are.
func (c *Catalog) RecordHub(ctx context.Context, in []ServiceHub, refs []RefHub) error {
	for len(in) > 0 {
		most := min(c.store.StatusRows(), len(in))
		part := in[:most]
		in = in[most:]
		for tries := 1; len(part) > 0; tries++ {
			lost, err := c.recordHub(ctx, part, refs)
			if err != nil {
				return err
			}
			if len(lost) > 0 && tries == maxHubTries {
				return fmt.Errorf("write hub truths: %w: other distributors go on changing those of %d services", store.ErrUnavailable, len(lost))
			}
			part = slices.DeleteFunc(slices.Clone(part), func(s ServiceHub) bool { return !slices.Contains(lost, s.UID) })
		}
	}
	return c.recordRefs(ctx, refs) // after what they say of services
}

// maxHubTries is how often the truth of a service is compared anew with what another distributor told meanwhile. The second time both say the same.
const maxHubTries = 10

// recordHub keeps the truths of services, whose refs have these commits. recordHub returns the services of which another distributor told
// meanwhile.
func (c *Catalog) recordHub(ctx context.Context, in []ServiceHub, refs []RefHub) (lost []string, err error) {
	// Distributors tell the same at the same time: the second one of this console finds it known.
	select {
	case c.hubTurn <- struct{}{}:
		defer func() { <-c.hubTurn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	states, read, values := map[string][]byte{}, map[string][]byte{}, map[string]any{}
	var events []store.Event
	var begun []store.Deployment
	met := map[string]*heard{} // by name; the first reports of these are going to come
	err = c.store.Read(ctx, func(ctx context.Context, v store.View) error {
		names := map[string]bool{}
		uids := map[string]bool{}
		for _, s := range in {
			names[s.Service] = dnsLabel.MatchString(s.Service)
		}
		services, err := v.Named(ctx, store.KindService, trueKeys(names))
		if err != nil {
			return err
		}
		for _, r := range services {
			uids[r.UID] = true
		}
		if read, err = v.Hub(ctx, trueKeys(uids)); err != nil {
			return err
		}
		// A service and its truths take kilobytes: lists of them hold pointers.
		var moved []*delivery
		type said struct {
			service       Service
			before, after HubTruth
		}
		news := make([]*said, 0, len(in))
		for _, s := range in {
			if services[s.Service].UID != s.UID || s.UID == "" {
				continue
			}
			before, known, err := decodeHub(read[s.UID])
			if err != nil {
				return err
			}
			after, changed := c.mergeHub(before, s.Hub)
			if known && !changed {
				continue
			}
			service, err := ReadService(services[s.Service])
			if err != nil {
				return err
			}
			if !known && service.Spec.Cluster != "" {
				met[s.Service] = unheard(s.UID, &service.Spec, "", service.Meta.Revision)
			}
			n := &said{service, before, after}
			if after.Digest != "" && after.Digest != before.Digest {
				moved = append(moved, &delivery{service: services[s.Service], spec: &n.service.Spec, hub: after, revision: s.Revision})
			}
			news = append(news, n)
		}
		if err := c.placeHeard(ctx, v, met); err != nil {
			return err
		}
		var deployed map[string]deployed
		if begun, deployed, err = c.deployments(ctx, v, moved, refs); err != nil {
			return err
		}
		var recovered []store.Resource
		for _, n := range news {
			if n.before.Problem != nil && n.after.Problem == nil {
				recovered = append(recovered, services[n.service.Meta.Name])
			}
		}
		reports, err := c.reportsOf(ctx, v, recovered)
		if err != nil {
			return err
		}
		for _, n := range news {
			of := deployed[n.service.Meta.UID]
			if of.again && n.before.Digest != "" {
				n.after.succeed(n.before)
			}
			if states[n.service.Meta.UID], err = json.Marshal(n.after); err != nil {
				return fmt.Errorf("encode hub truth of service %q: %w", n.service.Meta.Name, err)
			}
			truth := n.after
			values[n.service.Meta.UID] = &truth
			if c.observer == nil {
				continue
			}
			if n.after.follows() {
				n.after.Revision = of.commit
			}
			n.service.Status.Hub, n.service.Status.Cluster = n.after, reports[n.service.Meta.UID]
			for _, e := range c.observer.HubSaid(n.service, n.before, n.after) {
				e.Of = store.ReportKey{Service: n.service.Meta.UID}
				events = append(events, e)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	lost, err = c.store.PutHub(ctx, states, read, values, begun, keptSteps, events...)
	if err == nil {
		c.memory.meet(met)
	}
	return lost, err
}

// reportsOf returns what clusters say of services, by uid.
func (c *Catalog) reportsOf(ctx context.Context, v store.View, rows []store.Resource) (map[string]ClusterTruth, error) {
	if c.observer == nil || len(rows) == 0 {
		return nil, nil
	}
	loaded, err := c.Services(ctx, v, rows)
	if err != nil {
		return nil, err
	}
	out := make(map[string]ClusterTruth, len(loaded))
	for _, s := range loaded {
		out[s.Meta.UID] = s.Status.Cluster
	}
	return out, nil
}

func decodeHub(state []byte) (h HubTruth, known bool, err error) {
	if state == nil {
		return h, false, nil
	}
	if err := json.Unmarshal(state, &h); err != nil {
		return h, true, fmt.Errorf("decode hub truth: %w", err)
	}
	return h, true, nil
}

func (c *Catalog) mergeHub(before, now HubTruth) (HubTruth, bool) {
	changed := !sameProblem(before.Problem, now.Problem)
	problem := c.since(before.Problem, now.Problem)
	where := before.Source == now.Source && before.Ref == now.Ref
	if where && before.Digest == now.Digest && before.Revision.Commit == now.Revision.Commit && before.Artifact == now.Artifact {
		before.Problem = problem
		return before, changed
	}
	if before.Digest == now.Digest && now.Revision.Commit == "" {
		now.ResolveTime = before.ResolveTime // of the digest; the ref has that of the commit
	}
	if now.ResolveTime.IsZero() && now.Digest != "" {
		now.ResolveTime = c.now().UTC()
	}
	if before.Digest == now.Digest {
		now.Alike = before.Alike
	}
	now.Problem = problem
	return now, true
}

// recordRefs keeps refs' commits. A ref that is known at the same commit stays as it is.
func (c *Catalog) recordRefs(ctx context.Context, in []RefHub) error {
	if len(in) == 0 {
		return nil
	}
	states := map[store.HubRef][]byte{}
	err := c.store.Read(ctx, func(ctx context.Context, v store.View) error {
		known, err := RefsOf(ctx, v, func(yield func(string) bool) {
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
				r.ResolveTime = c.now().UTC()
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
	return c.store.PutHubRefs(ctx, states)
}

// RefsOf returns what is known of the refs of sources.
func RefsOf(ctx context.Context, v store.View, sources iter.Seq[string]) (map[store.HubRef]RefHub, error) {
	uids := map[string]bool{}
	for uid := range sources {
		uids[uid] = uid != ""
	}
	states, err := v.HubRefs(ctx, trueKeys(uids))
	if err != nil {
		return nil, err
	}
	out := make(map[store.HubRef]RefHub, len(states))
	for key, state := range states {
		var r RefHub
		if err := json.Unmarshal(state, &r); err != nil {
			return nil, fmt.Errorf("decode ref %q: %w", key.Ref, err)
		}
		out[key] = r
	}
	return out, nil
}

// hubTruths returns the hub truths of services, by uid.
func hubTruths(ctx context.Context, v store.View, uids []string) (map[string]HubTruth, error) {
	states, err := v.Hub(ctx, uids)
	if err != nil {
		return nil, err
	}
	truths := make(map[string]HubTruth, len(states))
	for uid, state := range states {
		if truths[uid], _, err = decodeHub(state); err != nil {
			return nil, fmt.Errorf("service %s: %w", uid, err)
		}
	}
	refs, err := RefsOf(ctx, v, func(yield func(string) bool) {
		for _, h := range truths {
			if h.follows() && !yield(h.Source) {
				return
			}
		}
	})
	if err != nil {
		return nil, err
	}
	for uid, h := range truths {
		h.take(refs)
		truths[uid] = h
	}
	return truths, nil
}

// take sets the revision of the ref, if the truth follows one, and reports whether that revision is known.
func (h *HubTruth) take(refs map[store.HubRef]RefHub) bool {
	if !h.follows() {
		return true
	}
	r, ok := refs[store.HubRef{Source: h.Source, Ref: h.Ref}]
	if !ok {
		return false
	}
	h.Revision, h.ofRef = r.Revision, true
	if r.ResolveTime.After(h.ResolveTime) {
		h.ResolveTime = r.ResolveTime
	}
	return true
}

// maxAlike is how many digests of the same content are kept: a cluster that is connected reports on one within seconds.
const maxAlike = 8

// succeed notes that a truth has the content of the one before it.
func (h *HubTruth) succeed(before HubTruth) {
	h.Alike = append(slices.DeleteFunc(slices.Clone(before.Alike), func(d string) bool { return d == h.Digest || d == before.Digest }), before.Digest)
	if over := len(h.Alike) - maxAlike; over > 0 {
		h.Alike = h.Alike[over:]
	}
}

// reportedBy says whether a report is on what is handed out. One on the same content before a lever was pulled is, if nothing waited then:
// the service does not become another one for the seconds until the cluster knows of the lever.
func (h *HubTruth) reportedBy(r *Report) bool {
	settled := (r.Phase == PhaseHealthy || r.Phase == PhaseDegraded) && r.AppliedDigest == r.Digest
	return r.Digest == h.Digest || settled && slices.Contains(h.Alike, r.Digest)
}

// appliedBy says whether what is handed out is applied, by a report on it.
func (h *HubTruth) appliedBy(r *Report) bool {
	return r.AppliedDigest == h.Digest || h.reportedBy(r) && r.AppliedDigest == r.Digest
}

// Repeats says whether a truth hands out what the one before it did.
func (h *HubTruth) Repeats(before HubTruth) bool {
	return h.SameContent(before.Digest, before.Content) || slices.Contains(h.Alike, before.Digest)
}

// SameContent says whether what had these digests differs in what is said of tests at most.
func (h *HubTruth) SameContent(digest, content string) bool {
	return digest != "" && cmp.Or(h.Content, h.Digest) == cmp.Or(content, digest)
}

// follows says whether the revision is that of the ref.
func (h *HubTruth) follows() bool { return h.Digest != "" && h.Revision.Commit == "" }
