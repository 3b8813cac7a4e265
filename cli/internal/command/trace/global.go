package trace

import (
	"context"
	"sync"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/hubclient"
	"fairlead.dev/cli/internal/object"
	"fairlead.dev/cli/internal/resource"
	"fairlead.dev/cli/internal/table"
	"fairlead.dev/cli/internal/trail"
	"fairlead.dev/cli/internal/view"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/plural"
)

// tracedAtOnce is how many services of a global service are traced at once: each trace asks every part of the hub.
const tracedAtOnce = 8

// traceGlobal says where each service of a global service stands: of those that are well in one line for all.
func traceGlobal(ctx context.Context, a *app.App, h *hubclient.Hub, name string) error {
	m, err := resource.GlobalServiceKind().ReadOne(ctx, h, name)
	if err != nil {
		return err
	}
	services, err := object.ServicesOf(ctx, h, name)
	if err != nil {
		return err
	}
	var stands []*consolev1.Service
	for _, s := range services {
		if s.GetStatus().GetState() != consolev1.ServiceState_SERVICE_STATE_HEALTHY || len(view.ListPulled(s)) > 0 {
			stands = append(stands, s)
		}
	}
	if err := a.Printf("%s: %s, %d of them healthy\n", name, plural.Of(len(services), "service"), m.(*consolev1.GlobalService).GetStatus().GetHealthy()); err != nil {
		return err
	}
	verdicts := make([]string, len(stands))
	places := make(chan struct{}, tracedAtOnce)
	var wg sync.WaitGroup
	for i, s := range stands {
		wg.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			t, err := trail.Follow(ctx, a, h, s.GetMetadata().GetName())
			if err != nil {
				verdicts[i] = trail.ReasonLine(err)
				return
			}
			verdicts[i] = t.VerdictText(t.ListSteps())
		})
	}
	wg.Wait()
	for i, s := range stands {
		if err := a.Printf("\n%s in cluster %s: %s\n  %s\n", s.GetMetadata().GetName(), s.GetSpec().GetCluster(), view.StateOf(s), table.CleanLine(verdicts[i])); err != nil {
			return err
		}
	}
	if m := (view.View{Now: a.Now()}).GlobalNote(m.(*consolev1.GlobalService)); m != "" {
		return a.Printf("\n%s\n", m)
	}
	return nil
}
