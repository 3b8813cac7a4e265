package intake

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"fairlead.dev/services/console/internal/resource"
	"fairlead.dev/services/console/internal/state"
	"fairlead.dev/services/console/internal/store"
	"fairlead.dev/services/console/internal/store/shown"
)

// RecordDetail keeps a detail. One about a service that is gone or not meant for the cluster is passed over.
func (i *Intake) RecordDetail(
	ctx context.Context, cluster, service string, kind shown.DetailKind, d shown.Detail,
) error {
	if now := i.now(); d.Time.IsZero() || d.Time.After(now) {
		d.Time = now
	}
	of, err := i.meantFor(ctx, cluster, service)
	if err != nil || of == nil {
		return err
	}
	return i.store.PutDetail(ctx, kind, of.Meta.UID, d)
}

// meantFor is the service of a name without its status; nil: there is none, or it is for another cluster.
func (i *Intake) meantFor(ctx context.Context, cluster, service string) (of *state.Service, err error) {
	if !resource.IsName(service) {
		return nil, nil //nolint:nilnil // nil has a meaning
	}
	err = i.store.Read(ctx, func(ctx context.Context, v store.View) error {
		rows, err := v.Named(ctx, store.KindService, []string{service})
		if err != nil || rows[service].UID == "" {
			return err
		}
		s, err := state.ReadService(rows[service])
		if err == nil && s.Spec.Cluster == cluster {
			of = &s
		}
		return err
	})
	return of, err
}

// TestRun is a run of a service's tests as its agent told it.
type TestRun struct {
	state.TestSummary
	Commit, Message string
	// Failing are the names of the tests that did not pass.
	Failing []string
	// Time of the observation.
	Time time.Time
	// Data is all of it, packed.
	Data []byte
}

// RecordTestRun keeps what a cluster says of a run. One about a service that is gone or not meant for the cluster is
// passed over.
func (i *Intake) RecordTestRun(ctx context.Context, cluster, service string, run TestRun) error {
	of, err := i.meantFor(ctx, cluster, service)
	if err != nil || of == nil {
		return err
	}
	// Times decide what is newest and is kept: none may be of tomorrow.
	now := i.now()
	for _, t := range []*time.Time{&run.Time, &run.StartTime} {
		if t.IsZero() || t.After(now) {
			*t = now
		}
	}
	summary, err := json.Marshal(run.TestSummary)
	if err != nil {
		return fmt.Errorf("encode tests of service %q: %w", service, err)
	}
	var events []store.Event
	if i.observer != nil && !run.EndTime.IsZero() {
		events = i.observer.TestsEnded(*of, run)
	}
	return i.store.PutTestRun(ctx, store.TestRun{
		Service: of.Meta.UID, ID: run.ID, Digest: run.Digest,
		Start: run.StartTime, End: run.EndTime, Time: run.Time, Summary: summary, Data: run.Data,
	}, events...)
}
