package catalog

import (
	"context"
	"fmt"
	"slices"

	"fairlead.dev/services/console/internal/store"
)

// Observer makes events of what statuses say. Events are written with the status, or not at all; the same may be told
// again, and events that are the same are kept once.
type Observer interface {
	SourceSaid(source Meta, before, after SourceStatus) []store.Event
	// HubSaid gets the service with what its cluster says where a problem of the hub is over.
	HubSaid(service Service, before, after HubTruth) []store.Event
	// ClusterSaid has no before when there was no report.
	ClusterSaid(service Service, before *Report, after Report) []store.Event
	// Gather finishes what HubSaid and ClusterSaid returned and one transaction writes: what happened to many services at once becomes one event.
	Gather(events []store.Event) []store.Event
	// TestsEnded tells how a run of a service's tests went.
	TestsEnded(service Service, run TestRun) []store.Event
	RolledBack(by By, service Service, to Deployment) []store.Event
	// LeverEnding says that a lever is going to end by its own time.
	LeverEnding(service Service, lever Lever) []store.Event
	// FreezeEnding says that of the freeze of a project or cluster.
	FreezeEnding(of store.Resource, freeze Freeze) []store.Event
	// GlobalHeld says that the guard keeps services of a global service, and GlobalConfirmed that somebody let them go.
	GlobalHeld(by By, global GlobalService, services int) []store.Event
	GlobalConfirmed(by By, global GlobalService, services int) []store.Event
}

// reporting keeps what was said last about services, to tell what is new.
type reporting struct {
	*Catalog
	last   map[store.ReportKey]*Report
	hubs   map[string][]byte // the hub's truth of services that have another digest applied, by uid
	events []store.Event
}

// reporting begins with what is kept about services.
func (c *Catalog) reporting(ctx context.Context, v store.View, services map[string]Service, in []ClusterReports) (*reporting, error) {
	out := &reporting{Catalog: c, last: map[store.ReportKey]*Report{}}
	var uids []string
	for _, s := range services {
		uids = append(uids, s.Meta.UID)
	}
	kept, err := v.Reports(ctx, uids)
	if err != nil {
		return nil, err
	}
	for key, row := range kept {
		r, err := decodeReport(row)
		if err != nil {
			return nil, err
		}
		out.last[key] = &r
	}
	out.hubs, err = v.Hub(ctx, out.applying(services, in))
	return out, err
}

// applying are the services, by uid, of which reports say that another digest is applied than before.
func (p *reporting) applying(services map[string]Service, in []ClusterReports) (uids []string) {
	was := map[string]string{}
	for key, r := range p.last {
		was[key.Service] = r.AppliedDigest
	}
	for _, cr := range in {
		for _, r := range cr.Reports {
			uid := services[r.Service].Meta.UID
			if digest, known := was[uid]; known && digest != "" && digest != r.AppliedDigest {
				uids = append(uids, uid)
			}
		}
	}
	slices.Sort(uids)
	return slices.Compact(uids)
}

// again says whether a service has the same content applied as before, under another digest: a lever was pulled in between.
func (p *reporting) again(s Service, before *Report, r Report) (bool, error) {
	state := p.hubs[s.Meta.UID]
	if before == nil || state == nil || before.AppliedDigest == r.AppliedDigest {
		return false, nil
	}
	hub, _, err := decodeHub(state)
	return slices.Contains(append(hub.Alike, hub.Digest), r.AppliedDigest) && slices.Contains(hub.Alike, before.AppliedDigest), err
}

// tell notes what is new in a report.
func (p *reporting) tell(s Service, key store.ReportKey, r Report) error {
	before := p.last[key]
	if before != nil && r.Sequence <= before.Sequence {
		return nil
	}
	p.last[key] = &r
	again, err := p.again(s, before, r)
	if err != nil {
		return fmt.Errorf("service %q: %w", s.Meta.Name, err)
	}
	if again {
		same := *before
		same.AppliedDigest, before = r.AppliedDigest, &same
	}
	if p.observer != nil {
		for _, e := range p.observer.ClusterSaid(s, before, r) {
			e.Of = key
			p.events = append(p.events, e)
		}
	}
	return nil
}
