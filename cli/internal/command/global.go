package command

import (
	"context"
	"fmt"
	"sync"

	"fairlead.dev/cli/internal/hub"
	"fairlead.dev/cli/internal/table"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/plural"
)

// tracedAtOnce is how many services of a global service are traced at once: each trace asks every part of the hub.
const tracedAtOnce = 8

// servicesOf are the services that come of a global service.
func servicesOf(ctx context.Context, h *hub.Hub, global string) ([]*consolev1.Service, error) {
	m := many{global: global}
	found, err := serviceKind().readMatching(ctx, h, question{filter: m.buildFilter()})
	if err != nil {
		return nil, err
	}
	out := make([]*consolev1.Service, len(found))
	for i, f := range found {
		out[i] = f.(*consolev1.Service)
	}
	return out, nil
}

// ofGlobal does something with each service of a global service.
func (a *app) ofGlobal(ctx context.Context, h *hub.Hub, name string, do func(*consolev1.Service) error) error {
	if _, err := globalServiceKind().readOne(ctx, h, name); err != nil {
		return err
	}
	services, err := servicesOf(ctx, h, name)
	if err != nil {
		return err
	}
	if len(services) == 0 {
		a.notef("global service %q has no services: no cluster is chosen\n", name)
	}
	for _, s := range services {
		if err := do(s); err != nil {
			return err
		}
	}
	return nil
}

// traceGlobal says where each service of a global service stands: of those that are well in one line for all.
func (a *app) traceGlobal(ctx context.Context, h *hub.Hub, name string) error {
	m, err := globalServiceKind().readOne(ctx, h, name)
	if err != nil {
		return err
	}
	services, err := servicesOf(ctx, h, name)
	if err != nil {
		return err
	}
	var stands []*consolev1.Service
	for _, s := range services {
		if s.GetStatus().GetState() != consolev1.ServiceState_SERVICE_STATE_HEALTHY || len(listPulled(s)) > 0 {
			stands = append(stands, s)
		}
	}
	if err := a.printf("%s: %s, %d of them healthy\n", name, plural.Of(len(services), "service"), m.(*consolev1.GlobalService).GetStatus().GetHealthy()); err != nil {
		return err
	}
	verdicts := make([]string, len(stands))
	places := make(chan struct{}, tracedAtOnce)
	var wg sync.WaitGroup
	for i, s := range stands {
		wg.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			t, err := a.followService(ctx, h, s.GetMetadata().GetName())
			if err != nil {
				verdicts[i] = reasonLine(err)
				return
			}
			verdicts[i] = t.verdictText(t.listSteps())
		})
	}
	wg.Wait()
	for i, s := range stands {
		if err := a.printf("\n%s in cluster %s: %s\n  %s\n", s.GetMetadata().GetName(), s.GetSpec().GetCluster(), stateOf(s), table.CleanLine(verdicts[i])); err != nil {
			return err
		}
	}
	if m := (view{now: a.Now()}).globalNote(m.(*consolev1.GlobalService)); m != "" {
		return a.printf("\n%s\n", m)
	}
	return nil
}

// globalNote is what a person should know of a global service.
func (v view) globalNote(g *consolev1.GlobalService) string {
	if g.GetStatus().GetHeldBackTotal() == 0 {
		return ""
	}
	return fmt.Sprintf("the guard keeps services of clusters that are not chosen any more: %s. To delete them: `fairlead confirm global %s`",
		v.listNames(g.GetStatus().GetHeldBack()), g.GetMetadata().GetName())
}
