package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"fairlead.dev/platform/refusal"
	"fairlead.dev/services/console/internal/state"
	"fairlead.dev/services/console/internal/store"
)

// TestRuns returns up to limit of the runs of a service's tests that are kept, the newest first, packed. An id that is
// not empty chooses one.
func (c *Catalog) TestRuns(ctx context.Context, name, id string, limit int) (service state.Service, runs []store.TestRun, err error) {
	if service, err = c.GetService(ctx, name); err != nil {
		return service, nil, err
	}
	err = c.store.Read(ctx, func(ctx context.Context, v store.View) (err error) {
		runs, err = v.TestRuns(ctx, service.Meta.UID, id, limit)
		return err
	})
	return service, runs, err
}

// TestRequest is somebody's asking for a run.
type TestRequest struct {
	ID     string    `json:"id"`
	Time   time.Time `json:"time"`
	Author string    `json:"author,omitempty"`
}

// RunTests asks the agent of a service for a run of its tests. Of a run that was asked for already it changes nothing.
func (c *Catalog) RunTests(ctx context.Context, by By, name, id string) (state.Service, error) {
	for attempt := 1; ; attempt++ {
		s, runs, err := c.TestRuns(ctx, name, id, 1)
		if err != nil {
			return state.Service{}, err
		}
		if testRequestOf(&s.Spec).ID != id && len(runs) == 0 {
			if err := checkTestable(&s); err != nil {
				return state.Service{}, err
			}
			if err := c.runsTests(ctx, s); err != nil {
				return state.Service{}, err
			}
			if s.Spec.TestRequest, err = json.Marshal(TestRequest{ID: id, Time: c.now().UTC(), Author: by.Subject}); err != nil {
				return state.Service{}, fmt.Errorf("encode request: %w", err)
			}
		}
		e, err := DraftService(&s, Expectation{ETag: s.Meta.ETag})
		if err != nil {
			return state.Service{}, err
		}
		e = e.naming(refsOfStored(&s.Spec))
		e.requests = true
		out, _, err := PutOne(ctx, c, by, e, c.Services)
		if refusal.Is(err, refusal.Conflict) && attempt < leverAttempts {
			continue
		}
		return out, err
	}
}

// checkTestable refuses to ask for what could not be run.
func checkTestable(s *state.Service) error {
	name := s.Meta.Name
	switch r := s.Status.Cluster.Report; {
	case s.Spec.Catalog:
		return refusal.New(refusal.Precondition,
			"service %q has no tests: its folder goes to the catalog, not to a cluster", name)
	case s.Spec.Wishes().Mode == state.ModeSuspend:
		return refusal.New(refusal.Precondition, "service %q is suspended, so its tests can't run either: `fairlead resume service %s` ends that", name, name)
	case r == nil || r.AppliedDigest == "":
		return refusal.New(refusal.Precondition, "service %q has nothing applied in cluster %q that could be tested: `fairlead trace service %s` says why", name, s.Spec.Cluster, name)
	}
	return nil
}

// runsTests refuses to ask an agent for tests that would take the asking as a new revision. Of an agent that has said
// nothing of itself since the hub knows, nothing is refused.
func (c *Catalog) runsTests(ctx context.Context, s state.Service) error {
	var agent state.AgentInfo
	err := c.store.Read(ctx, func(ctx context.Context, v store.View) error {
		row, err := v.Get(ctx, store.KindCluster, s.Spec.Cluster)
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		clusters, err := c.Clusters(ctx, v, []store.Resource{row})
		if err == nil {
			agent = clusters[0].Status.Agent
		}
		return err
	})
	if err != nil {
		return err
	}
	if agent.Version != "" && !agent.Tests {
		return refusal.New(refusal.Precondition, "the agent of cluster %q, version %s, can't run tests: upgrade the agent, and ask again", s.Spec.Cluster, agent.Version)
	}
	return nil
}

func testRequestOf(s *state.ServiceSpec) (r TestRequest) {
	if s.TestRequest != nil && json.Unmarshal(s.TestRequest, &r) != nil {
		return TestRequest{}
	}
	return r
}

// keepTestRequest leaves the asking for tests in a service as it is, whatever is written: RunTests alone asks. Another
// cluster was not asked.
func (e *Edit) keepTestRequest(current *store.Resource) error {
	spec, ok := e.spec.(state.ServiceSpec)
	if !ok || e.requests {
		return nil
	}
	spec.TestRequest = nil
	if current != nil {
		var is state.ServiceSpec
		if err := state.Decode(*current, &is); err != nil {
			return err
		}
		if is.Cluster == spec.Cluster {
			spec.TestRequest = is.TestRequest
		}
	}
	e.spec = spec
	return nil
}
