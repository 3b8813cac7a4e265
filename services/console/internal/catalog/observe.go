package catalog

import (
	"context"

	"fairlead.dev/services/console/internal/store"
)

// Observer makes events of what statuses say. They are written with the status, or not at all; the same may be told again,
// and events that are the same are kept once.
type Observer interface {
	SourceSaid(source Meta, before, after SourceStatus) []store.Event
	HubSaid(service Service, before, after HubTruth) []store.Event
	// ClusterSaid has no before when there was no report.
	ClusterSaid(service Service, before *Report, after Report) []store.Event
	// TestsEnded tells how a run of a service's tests went.
	TestsEnded(service Service, run TestRun) []store.Event
	RolledBack(by By, service Service, to Deployment) []store.Event
	// LeverEnding says that a lever is going to end by its own time.
	LeverEnding(service Service, lever Lever) []store.Event
	// GlobalHeld says that the guard keeps services of a global service, and GlobalConfirmed that somebody let them go.
	GlobalHeld(by By, global GlobalService, services int) []store.Event
	GlobalConfirmed(by By, global GlobalService, services int) []store.Event
}

// Watch sets who is told. It is called before anything is written.
func (c *Catalog) Watch(o Observer) { c.observer = o }

// reporting keeps what was said last about services, to tell what is new.
type reporting struct {
	*Catalog
	last   map[store.ReportKey]*Report
	events []store.Event
}

// reporting begins with what is kept about services.
func (c *Catalog) reporting(ctx context.Context, v store.View, services map[string]Service) (*reporting, error) {
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
	return out, nil
}

// tell notes what is new in a report.
func (p *reporting) tell(s Service, key store.ReportKey, r Report) {
	before := p.last[key]
	if before != nil && r.Sequence <= before.Sequence {
		return
	}
	p.last[key] = &r
	if p.observer != nil {
		p.events = append(p.events, p.observer.ClusterSaid(s, before, r)...)
	}
}
