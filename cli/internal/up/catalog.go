package up

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"connectrpc.com/connect"

	"fairlead.dev/cli/internal/contexts"
	hubapi "fairlead.dev/cli/internal/hubclient"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	gitcachev1 "fairlead.dev/gen/fairlead/gitcache/v1"
	"fairlead.dev/platform/durable"
)

const (
	sampleName = "sample"
	samplePath = "apps/hello"
	// callLimit bounds one call to the hub, which is this process.
	callLimit = 30 * time.Second
	// refreshLimit bounds the telling of one push. If it fails the source's own interval still works.
	refreshLimit = 30 * time.Second
	refreshRetry = time.Second
	// loginInterval keeps the token of the local context fresh also when nobody uses it.
	loginInterval = 4 * time.Hour
)

// loginLocal makes the local context from the hub secret.
func (u *up) loginLocal(ctx context.Context) (contexts.Context, error) {
	secret, err := os.ReadFile(u.hub.secretFile)
	if err != nil {
		return contexts.Context{}, fmt.Errorf("read hub secret: %w", err)
	}
	var ca []byte
	if u.hub.files.CAFile != "" {
		if ca, err = os.ReadFile(u.hub.files.CAFile); err != nil {
			return contexts.Context{}, fmt.Errorf("read CA file: %w", err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	return hubapi.Login{
		Context: u.context, URL: u.hub.urls.Console, CA: string(ca),
		HubSecret: strings.TrimSpace(string(secret)), User: u.options.User,
	}.Do(ctx)
}

// stayLoggedIn renews the local context until ctx ends.
func (u *up) stayLoggedIn(ctx context.Context) {
	tick := time.NewTicker(loginInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		c, err := u.loginLocal(ctx)
		if err == nil {
			err = u.options.Store.Update(c)
		}
		if err != nil && ctx.Err() == nil {
			u.sayf("context %q could not be renewed: %v", u.context, err)
		}
	}
}

// seedCatalog puts the sample and the clusters into the catalog. A resource that was there once and was deleted by a
// person stays deleted; clusters are needed for their agents and are always made.
func (u *up) seedCatalog(ctx context.Context, api *hubapi.Hub, clusters []cluster) error {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	if err := u.seedSource(ctx, api); err != nil {
		return fmt.Errorf("make source %q: %w", sampleName, err)
	}
	for _, c := range clusters {
		if err := ensureCluster(ctx, api, c.Name); err != nil {
			return fmt.Errorf("make cluster %q: %w", c.Name, err)
		}
		if err := u.seedService(ctx, api, c); err != nil {
			return fmt.Errorf("make service for cluster %q: %w", c.Name, err)
		}
	}
	return u.data.saveState()
}

// seedSource makes the source, or follows the Git server to another port.
func (u *up) seedSource(ctx context.Context, api *hubapi.Hub) error {
	const key = "source/" + sampleName
	url := u.git.URL(sampleName)
	res, err := api.Sources.GetSource(ctx, &consolev1.GetSourceRequest{Name: sampleName})
	source := res.GetSource()
	switch {
	case connect.CodeOf(err) == connect.CodeNotFound && u.data.state.Seeded[key]:
		return nil
	case connect.CodeOf(err) == connect.CodeNotFound:
		source = &consolev1.Source{Metadata: &consolev1.Metadata{Name: sampleName}, Spec: &consolev1.SourceSpec{Git: &consolev1.GitSource{Url: url}}}
	case err != nil:
		return err
	case source.GetSpec().GetGit().GetUrl() == url ||
		!strings.HasPrefix(source.GetSpec().GetGit().GetUrl(), "http://"+loopback+":"):
		u.data.state.Seeded[key] = true
		return nil
	default:
		source.Spec.Git.Url = url
	}
	_, err = api.Sources.UpdateSource(ctx, &consolev1.UpdateSourceRequest{Source: source, AllowMissing: true})
	if err == nil {
		u.data.state.Seeded[key] = true
	}
	return err
}

func ensureCluster(ctx context.Context, api *hubapi.Hub, name string) error {
	_, err := api.Clusters.GetCluster(ctx, &consolev1.GetClusterRequest{Name: name})
	if connect.CodeOf(err) != connect.CodeNotFound {
		return err
	}
	_, err = api.Clusters.UpdateCluster(ctx, &consolev1.UpdateClusterRequest{
		Cluster: &consolev1.Cluster{Metadata: &consolev1.Metadata{Name: name}}, AllowMissing: true,
	})
	return err
}

func (u *up) seedService(ctx context.Context, api *hubapi.Hub, c cluster) error {
	name := sampleService(c.Name)
	key := "service/" + name
	if u.data.state.Seeded[key] {
		return nil
	}
	spec := &consolev1.ServiceSpec{
		Source: sampleName, Path: samplePath, Cluster: c.Name,
		Render: &deliveryv1.RenderSpec{Renderer: deliveryv1.Renderer_RENDERER_TEMPLATE},
	}
	if c.local {
		spec.Config = map[string]*consolev1.ConfigSetting{"image": {Value: &consolev1.ConfigSetting_Text{Text: helloImage}}}
	}
	_, err := api.Services.UpdateService(ctx, &consolev1.UpdateServiceRequest{
		Service: &consolev1.Service{Metadata: &consolev1.Metadata{Name: name}, Spec: spec}, AllowMissing: true,
	})
	if connect.CodeOf(err) == connect.CodeFailedPrecondition && u.data.state.Seeded["source/"+sampleName] {
		return nil // The sample source was deleted: without it there is nothing to show.
	}
	if err == nil {
		u.data.state.Seeded[key], u.data.state.Seeded[imageKey(c.Name)] = true, c.local
	}
	return err
}

// sampleService names the service of the sample in a cluster.
func sampleService(cluster string) string {
	name := "hello-" + cluster
	return strings.TrimRight(name[:min(len(name), 63)], "-")
}

// imageKey marks that the service of the sample takes its image from its configuration.
func imageKey(cluster string) string { return "image/" + sampleService(cluster) }

// startAgent joins a cluster: it keeps an agent running, with a join token in case it needs one.
func (u *up) startAgent(ctx context.Context, api *hubapi.Hub, c cluster) error {
	if err := u.forgetAgent(c); err != nil {
		return err
	}
	dir, err := u.data.makeDir("agents", c.Name)
	if err != nil {
		return err
	}
	call, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	res, err := api.Identity.CreateJoinToken(call, &consolev1.CreateJoinTokenRequest{Cluster: c.Name})
	if err != nil {
		return fmt.Errorf("join cluster %s: %w", c.Name, err)
	}
	tokenFile := u.data.joinPath("agents", c.Name+".join-token")
	if err := durable.WriteFile(tokenFile, []byte(res.GetJoinToken()+"\n"), 0o600); err != nil {
		return fmt.Errorf("join cluster %s: %w", c.Name, err)
	}
	args := []string{"--hub-url", u.hub.urls.Console, "--join-token-file", tokenFile, "--data-dir", dir, "--kubeconfig", c.Kubeconfig}
	if c.Context != "" {
		args = append(args, "--context", c.Context)
	}
	if u.hub.files.CAFile != "" {
		args = append(args, "--hub-ca-file", u.hub.files.CAFile)
	}
	agent := &child{name: "agent " + c.Name, path: u.options.Agent, args: args}
	_, err = u.agents.keepRunning(agent) //nolint:contextcheck // a child lives as long as all of up
	return err
}

// awaitConnected returns when the hub has heard of all agents since a time: what it heard in the last
// run does not count.
func awaitConnected(ctx context.Context, api *hubapi.Hub, clusters []cluster, since time.Time) error {
	for _, c := range clusters {
		err := awaitSuccess(ctx, "the agent of cluster "+c.Name, func(ctx context.Context) error {
			res, err := api.Clusters.GetCluster(ctx, &consolev1.GetClusterRequest{Name: c.Name})
			if err != nil {
				return err
			}
			if status := res.GetCluster().GetStatus(); !status.GetConnected() ||
				status.GetLastSeenTime().AsTime().Before(since) {
				return errors.New("it has not reported yet")
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// passOnPushes tells the gitcache of every push until ctx ends, so that a commit travels at once.
func (u *up) passOnPushes(ctx context.Context, api *hubapi.Hub) {
	for {
		select {
		case <-ctx.Done():
			return
		case name := <-u.pushes:
			if err := u.refreshSources(ctx, api, u.git.URL(name)); err != nil && ctx.Err() == nil {
				u.sayf("a push could not be passed on (%v): it will be found at the source's next poll", err)
			}
		}
	}
}

// refreshSources refreshes every source of a URL.
func (u *up) refreshSources(ctx context.Context, api *hubapi.Hub, url string) error {
	ctx, cancel := context.WithTimeout(ctx, refreshLimit)
	defer cancel()
	for token := ""; ; {
		page, err := api.Sources.ListSources(ctx, &consolev1.ListSourcesRequest{PageToken: token, PageSize: 1000})
		if err != nil {
			return err
		}
		for _, s := range page.GetSources() {
			if s.GetSpec().GetGit().GetUrl() != url {
				continue
			}
			if err := u.refreshSource(ctx, api, s.GetMetadata().GetName()); err != nil {
				return err
			}
		}
		if token = page.GetNextPageToken(); token == "" {
			return nil
		}
	}
}

func (u *up) refreshSource(ctx context.Context, api *hubapi.Hub, name string) error {
	gitcache := api.Gitcache(u.hub.urls.Gitcache)
	for {
		_, err := gitcache.Sources.RefreshSource(ctx, &gitcachev1.RefreshSourceRequest{Name: name})
		if connect.CodeOf(err) != connect.CodeUnavailable {
			return err
		}
		timer := time.NewTimer(refreshRetry)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return err
		}
	}
}
