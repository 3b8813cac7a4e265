// Package intake keeps what gitcaches, distributors and agents say: heads of sources, what the hub hands out, reports
// of clusters with their details, and signs of life.
//
// Rules: only the holder of a source's epoch publishes; what says nothing new is not written; what is about a service
// that is gone, or that is meant for another cluster, is passed over; and what is compared with an old state is
// compared again before it is written. Events of what was said are written with it, or not at all.
package intake

import (
	"context"
	"log/slog"
	"time"

	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/state"
	"fairlead.dev/services/console/internal/store"
)

// Intake is that of one console.
type Intake struct {
	store      *store.Store
	catalog    *catalog.Catalog
	observer   Observer // nil: there are no events
	unreported func(services []string) map[string]state.Unreported
	log        *slog.Logger
	now        func() time.Time
	memory     memory
	hubTurn    chan struct{} // held by the call that compares and writes hub truths
}

// Deps is what an intake works with.
type Deps struct {
	Store *store.Store
	// Catalog begins deployments of what is handed out, and releases pins.
	Catalog *catalog.Catalog
	// Observer makes events of what is said. nil: there are none.
	Observer Observer
	// Unreported returns those of some services that no report was heard of, by name, as far as that is known without a
	// look at the database. What it says may be old. nil: the database is asked.
	Unreported func(services []string) map[string]state.Unreported
	Log        *slog.Logger
	// Now is the clock; nil: time.Now.
	Now func() time.Time
}

// New returns an intake that writes to a store.
func New(d Deps) *Intake {
	if d.Now == nil {
		d.Now = time.Now
	}
	return &Intake{
		store: d.Store, catalog: d.Catalog, observer: d.Observer, unreported: d.Unreported, log: d.Log, now: d.Now,
		memory: memory{most: maxHeard}, hubTurn: make(chan struct{}, 1),
	}
}

// Observer makes events of what is said. Events are written with what was said, or not at all; the same may be said
// again, and events that are the same are kept once.
type Observer interface {
	SourceSaid(source state.Meta, before, after state.SourceStatus) []store.Event
	// HubSaid gets the service with what its cluster says where a problem of the hub is over.
	HubSaid(service state.Service, before, after state.HubTruth) []store.Event
	// ClusterSaid has no before when there was no report. Of the service there are its names, its project and its
	// cluster, and of before what a heard knows of it.
	ClusterSaid(service state.Service, before *state.Report, after state.Report) []store.Event
	// RemovalSaid makes events of what a cluster says of a service that is not, or no longer, meant for it.
	RemovalSaid(ctx context.Context, v store.View, cluster store.Resource, report state.Report) ([]store.Event, error)
	// TestsEnded makes events of how a run of a service's tests went.
	TestsEnded(service state.Service, run TestRun) []store.Event
}

// maxTries is how often what is said of a service is compared anew with what others said meanwhile. The second time
// both say the same.
const maxTries = 10
