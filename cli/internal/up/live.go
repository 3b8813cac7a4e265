package up

import (
	"cmp"
	"context"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"

	"fairlead.dev/cli/internal/contexts"
	hubapi "fairlead.dev/cli/internal/hubclient"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/client"
	"fairlead.dev/platform/identity"
)

// serveClusters brings everything up and stays until ctx ends or a part of the hub fails. Failed ends in the
// latter case; its own error is told by who runs the hub.
func (u *up) serveClusters(ctx, failed context.Context, clusters []cluster) error {
	rising, fall := context.WithCancelCause(ctx)
	defer fall(nil)
	defer context.AfterFunc(failed, func() { fall(context.Cause(failed)) })()

	previous, err := u.startClusters(rising, clusters)
	defer u.restoreContext(previous)
	if ctx.Err() != nil || failed.Err() != nil {
		return nil // Asked to end, or told elsewhere.
	}
	if err != nil {
		return err
	}
	api, err := hubapi.Connect(ctx, u.options.Store, u.context)
	if err != nil {
		return err
	}
	defer api.HTTP.CloseIdleConnections()
	living, die := context.WithCancel(rising)
	var group sync.WaitGroup
	defer group.Wait()
	defer die()
	group.Go(func() { u.passOnPushes(living, api) })
	group.Go(func() { u.stayLoggedIn(living) })
	if u.link, err = loginLink(living, api); err != nil {
		return err
	}
	if u.options.preparesClusters(clusters) {
		err := u.addClusters(living, api, clusters, previous)
		if err == nil {
			u.link, err = loginLink(living, api) // The one of before may be used, or over: that took minutes.
		}
		if err != nil {
			if living.Err() != nil {
				return nil // Asked to end, or told elsewhere.
			}
			return err
		}
	}
	u.undescribeClusters(living, api, clusters)
	if err := u.announceReady(clusters, previous); err != nil {
		return err
	}
	<-rising.Done()
	return nil
}

// loginLink makes a link that logs the person of this machine in with a browser.
func loginLink(ctx context.Context, api *hubapi.Hub) (string, error) {
	made, err := api.Logins.CreateLoginLink(ctx, &consolev1.CreateLoginLinkRequest{User: api.Context.User, Groups: []string{identity.AdminsGroup}})
	if err != nil {
		return "", err
	}
	return made.GetLink(), nil
}

// startClusters starts the clusters and, at the same time, brings the hub up; then it joins the clusters to the
// hub. previous is the name of the context that was the current one before. Clusters that have to be prepared are left
// to addClusters.
func (u *up) startClusters(ctx context.Context, clusters []cluster) (previous string, err error) {
	if u.options.preparesClusters(clusters) {
		return u.raiseHub(ctx, clusters)
	}
	group, inner := errgroup.WithContext(ctx)
	group.Go(func() error { return u.raiseClusters(inner, clusters) })
	group.Go(func() (err error) {
		previous, err = u.raiseHub(inner, clusters)
		return err
	})
	if err := group.Wait(); err != nil {
		return previous, err
	}
	return previous, u.joinAgents(ctx, clusters)
}

// joinAgents starts the agents, and waits until the hub has heard of them.
func (u *up) joinAgents(ctx context.Context, clusters []cluster) error {
	api, err := hubapi.Connect(ctx, u.options.Store, u.context)
	if err != nil {
		return err
	}
	defer api.HTTP.CloseIdleConnections()
	clusters = working(clusters)
	for _, c := range clusters {
		if err := u.startAgent(ctx, api, c); err != nil {
			return err
		}
	}
	waiting, cancel := context.WithTimeout(ctx, connectLimit)
	defer cancel()
	if err := awaitConnected(waiting, api, clusters, u.began); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		u.sayf("%v; its log is in %s", err, u.data.joinPath("logs"))
		return nil // The agent goes on trying.
	}
	if len(clusters) > 0 {
		u.sayf("agents connected")
	}
	return nil
}

// restoreContext makes the context current again that was so before, unless the person has chosen meanwhile.
func (u *up) restoreContext(previous string) {
	u.data.state.PreviousContext = ""
	if err := u.data.saveState(); err != nil {
		u.sayf("%v", err)
	}
	all, current, err := u.options.Store.List()
	if err != nil || previous == "" || previous == u.context || current != u.context {
		return
	}
	for _, c := range all {
		if c.Name == previous {
			if err := u.options.Store.Use(previous); err != nil {
				u.sayf("context %q could not be made the current one again: %v", previous, err)
			}
		}
	}
}

// nameContext returns the name of the hub's context: another hub that runs keeps its own. A name with a port stays with
// the hub at that port, also when it runs alone.
func (u *up) nameContext(ctx context.Context) (string, error) {
	all, _, err := u.options.Store.List()
	if err != nil {
		return "", err
	}
	own := fmt.Sprintf("%s-%d", contextName, u.data.state.Ports.Console)
	var other contexts.Context
	for _, c := range all {
		switch {
		case c.Name == own && c.URL == u.hub.urls.Console:
			return own, nil
		case c.Name == contextName && c.URL != u.hub.urls.Console:
			other = c
		}
	}
	if other.Name == "" || !hubRuns(ctx, other) {
		return contextName, nil
	}
	u.sayf("context %q is that of the hub at %s, which runs: this one has %q", contextName, other.URL, own)
	return own, nil
}

// hubRuns tells whether the hub of a context answers.
func hubRuns(ctx context.Context, c contexts.Context) bool {
	hc, err := client.New(client.Config{CAPEM: []byte(c.CA)})
	if err != nil {
		return false
	}
	defer hc.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, otherLimit)
	defer cancel()
	return checkReady(ctx, hc, c.URL) == nil
}

// notePrevious returns the context that was the current one before, also if a run before this one was killed, and keeps
// its name for the case that this one is.
func (u *up) notePrevious() (previous string, err error) {
	if _, previous, err = u.options.Store.List(); err != nil {
		return "", err
	}
	if previous == u.context {
		previous = cmp.Or(u.data.state.PreviousContext, previous)
	}
	u.data.state.PreviousContext = previous
	return previous, u.data.saveState()
}

// raiseCluster brings a local cluster up, and lets administrators in.
func (u *up) raiseCluster(ctx context.Context, c *cluster) (err error) {
	if c.local {
		if c.Kubeconfig, err = u.startLocal(ctx, *c); err != nil {
			return err
		}
		u.sayf("%-12s %s%s", "cluster", c.Name, c.kindText())
	}
	if !c.local && !u.options.BindAdmins {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	return u.bindAdmins(ctx, *c)
}

// raiseHub waits for the hub, logs in, and fills the catalog.
func (u *up) raiseHub(ctx context.Context, clusters []cluster) (previous string, err error) {
	hc, err := client.New(client.Config{CAFile: u.hub.files.CAFile})
	if err != nil {
		return "", err
	}
	defer hc.CloseIdleConnections()
	if err := u.hub.awaitReady(ctx, hc, u.sayf); err != nil {
		return "", err
	}
	if u.context, err = u.nameContext(ctx); err != nil {
		return "", err
	}
	if previous, err = u.notePrevious(); err != nil {
		return "", err
	}
	c, err := u.loginLocal(ctx)
	if err != nil {
		return "", err
	}
	if err := u.options.Store.Put(c); err != nil {
		return "", err
	}
	api, err := hubapi.Connect(ctx, u.options.Store, u.context)
	if err != nil {
		return previous, err
	}
	defer api.HTTP.CloseIdleConnections()
	return previous, u.seedCatalog(ctx, api, clusters)
}
