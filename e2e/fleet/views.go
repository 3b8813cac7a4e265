package fleet

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"connectrpc.com/connect"

	"fairlead.dev/e2e/gitcache"
	"fairlead.dev/e2e/seeded"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	platform "fairlead.dev/platform/deliveryclient"
	"fairlead.dev/platform/retry"
)

const (
	// viewsTimeout bounds how long the hub may take for the first view of each cluster.
	viewsTimeout = 10 * time.Minute
	// viewLists is how often the list of clusters is asked for while views change.
	viewLists = 400
	// pushesAtOnce is how many first views a simulator pushes at the same time.
	pushesAtOnce = 32
)

// Views is what views cost the hub.
type Views struct {
	// Quiet is how many cores the hub took while no view changed, and Busy while a share of them did.
	Quiet, Busy float64
	// Rate is how many views the hub was told of per second.
	Rate float64
	// Memory is how much larger console and distributor were with the views, and Database how much larger the database,
	// in bytes.
	Memory, Database int64
	// Lists are the times of lists of all views, meanwhile.
	Lists Times
}

// pushAsked has the agents of a simulator push views.
type pushAsked struct {
	// First: each agent pushes all of its view, and the answer comes when the hub has them.
	First bool
	// PerSecond is how many agents push a change each second from now on.
	PerSecond float64
}

// viewed is the view of one agent.
type viewed struct {
	mu       sync.Mutex // guards what follows
	term     uint64
	sequence uint64
	failing  bool
}

// viewState is the view that the hub has acknowledged; nil: none.
func (a *agent) viewState() *deliveryv1.ViewState {
	a.view.mu.Lock()
	defer a.view.mu.Unlock()
	if a.view.sequence == 0 {
		return nil
	}
	return &deliveryv1.ViewState{Term: a.view.term, Sequence: a.view.sequence}
}

// capabilities of an agent that keeps a view, once it has pushed one.
func (a *agent) capabilities() []deliveryv1.AgentCapability {
	if a.viewState() == nil {
		return nil
	}
	return []deliveryv1.AgentCapability{deliveryv1.AgentCapability_AGENT_CAPABILITY_VIEWS}
}

// pushView pushes what changed since the push before, or all. A cluster's view changes to and fro: two of its pods
// fail.
func (a *agent) pushView(ctx context.Context, number int, all bool) error {
	a.view.mu.Lock()
	defer a.view.mu.Unlock()
	var failing []string
	if a.view.failing = !a.view.failing && !all; a.view.failing {
		failing = []string{a.name + "-7d9c6b5f4-x2klm", a.name + "-7d9c6b5f4-9wq4t"}
	}
	if a.view.term == 0 {
		a.view.term = uint64(time.Now().UnixMilli()) //nolint:gosec // positive
	}
	req := &deliveryv1.PushViewRequest{Term: a.view.term, Base: a.view.sequence, Sequence: a.view.sequence + 1}
	for _, s := range seeded.Sections(number, "checkout-"+a.name, failing) {
		s.AllRows = true
		if all || slices.Contains([]string{"pods", "workloads", "warnings"}, s.GetName()) {
			req.Sections = append(req.Sections, s)
		}
	}
	if all {
		req.Base = 0
	}
	begin := time.Now()
	var answer *deliveryv1.PushViewResponse
	err := a.sources.Try(ctx, func(ctx context.Context, one platform.Distributor) (err error) {
		answer, err = one.Views.PushView(ctx, req)
		return err
	})
	if err == nil && (answer.GetRefused() != "" || answer.GetSupersededBy() != 0 || answer.GetWholeWanted()) {
		err = fmt.Errorf("the hub did not take a push: %v", answer)
	}
	a.stats.called(ctx, "push view", time.Since(begin), err)
	if err == nil {
		a.view.sequence = req.GetSequence()
	}
	return err
}

// pushFirst has all agents push their views.
func (s *simulator) pushFirst(ctx context.Context) {
	var all sync.WaitGroup
	next := make(chan int)
	for range pushesAtOnce {
		all.Go(func() {
			for i := range next {
				backoff := retry.Backoff{Floor: 200 * time.Millisecond, Max: 5 * time.Second}
				for s.agents[i].pushView(ctx, i, true) != nil && retry.Sleep(ctx, backoff.Next()) {
				}
			}
		})
	}
	for i := range s.agents {
		next <- i
	}
	close(next)
	all.Wait()
}

// pushChanges has agents push changes at a rate, until the next call.
func (s *simulator) pushChanges(ctx context.Context, perSecond float64) {
	if s.changing != nil {
		s.changing()
	}
	ctx, s.changing = context.WithCancel(ctx)
	if perSecond == 0 {
		return
	}
	s.ended.Go(func() {
		ticker := time.NewTicker(time.Duration(float64(time.Second) / perSecond))
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				i := rand.IntN(len(s.agents))                                  //nolint:gosec // not for secrets
				s.ended.Go(func() { _ = s.agents[i].pushView(ctx, i, false) }) // the stats have the error
			}
		}
	})
}

// views measures what the views of all clusters cost the hub, while none and while a share of them changes.
func (r *Run) views(ctx context.Context) error {
	if r.cfg.ViewsPerSecond == 0 {
		return nil
	}
	if !retry.Sleep(ctx, r.cfg.Duration) { // the hub gives back what the first delivery took
		return context.Cause(ctx)
	}
	memory, database := r.viewMemory(), r.hub.database()
	r.say("each agent pushes its view")
	if _, err := r.ask(ctx, question{Views: &pushAsked{First: true}}); err != nil {
		return err
	}
	if err := r.viewsKept(ctx); err != nil {
		return err
	}
	var err error
	if r.Views.Quiet, err = r.hubCores(ctx); err != nil {
		return err
	}
	r.Views.Memory, r.Views.Database = r.viewMemory()-memory, r.hub.database()-database
	if _, err := r.ask(ctx, question{Views: &pushAsked{PerSecond: r.cfg.ViewsPerSecond / float64(len(r.simulators.list))}}); err != nil {
		return err
	}
	begin := time.Now()
	if r.Views.Busy, err = r.hubCores(ctx); err != nil {
		return err
	}
	a, err := r.ask(ctx, question{})
	if err != nil {
		return err
	}
	if pushes := a.Stats.Calls["push view"]; pushes != nil {
		r.Views.Rate = float64(pushes.Count) / time.Since(begin).Seconds()
	}
	if err := r.listViews(ctx); err != nil {
		return err
	}
	_, err = r.ask(ctx, question{Views: &pushAsked{}})
	r.say("views of %d clusters: %.3f cores of the hub while none changes, %.3f with %.0f a second", r.cfg.Clusters, r.Views.Quiet, r.Views.Busy, r.Views.Rate)
	return err
}

// viewsKept waits until lists have the view of each cluster.
func (r *Run) viewsKept(ctx context.Context) error {
	for deadline := time.Now().Add(viewsTimeout); ; {
		list, err := r.hub.api.views.ListClusterViews(ctx, &consolev1.ListClusterViewsRequest{PageSize: 1})
		viewed := int32(0)
		for _, sum := range list.GetSums() {
			viewed += sum.GetViewed()
		}
		switch {
		case err == nil && int(viewed) == r.cfg.Clusters:
			return nil
		case err != nil && connect.CodeOf(err) != connect.CodeUnavailable:
			return err
		case time.Now().After(deadline):
			return errors.Join(fmt.Errorf("the hub has the views of %d of %d clusters after %s", viewed, r.cfg.Clusters, viewsTimeout), err)
		}
		if !retry.Sleep(ctx, time.Second) {
			return context.Cause(ctx)
		}
	}
}

// viewMemory is what console and distributor have in memory, in bytes.
func (r *Run) viewMemory() int64 {
	return gitcache.RSS(r.hub.parts["console"].Pid()) + gitcache.RSS(r.hub.parts["distributor"].Pid())
}

// hubCores measures the hub for the run's duration.
func (r *Run) hubCores(ctx context.Context) (sum float64, err error) {
	meter := r.meter()
	if !retry.Sleep(ctx, r.cfg.Duration) {
		return 0, context.Cause(ctx)
	}
	for _, u := range meter.end(ctx, r.hub) {
		if slices.Contains(hubParts(), u.Name) {
			sum += u.Cores
		}
	}
	return sum, nil
}

// listViews asks for pages of views, one after the other.
func (r *Run) listViews(ctx context.Context) error {
	for i := range viewLists {
		begin := time.Now()
		_, err := r.hub.api.views.ListClusterViews(ctx, &consolev1.ListClusterViewsRequest{
			PageSize: 100, OrderBy: "pods.not_ready desc, name", Filter: []string{"", "pods.total > 100"}[i%2],
		})
		if err != nil {
			return fmt.Errorf("list views: %w", err)
		}
		r.Views.Lists.Add(time.Since(begin))
		if !retry.Sleep(ctx, 20*time.Millisecond) {
			return context.Cause(ctx)
		}
	}
	return nil
}
