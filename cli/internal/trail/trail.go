// Package trail follows a commit from Git to a cluster, step by step, and says where it stands and why.
package trail

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"connectrpc.com/connect"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/hubclient"
	"fairlead.dev/cli/internal/probe"
	"fairlead.dev/cli/internal/resource"
	"fairlead.dev/cli/internal/table"
	"fairlead.dev/cli/internal/view"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	gitcachev1 "fairlead.dev/gen/fairlead/gitcache/v1"
	"fairlead.dev/platform/catalog"
)

// Trail is what is known of a service. Fields that no part of the hub reported are nil.
type Trail struct {
	view.View
	Service *consolev1.Service
	Source  *consolev1.Source
	Cluster *consolev1.Cluster
	Live    *gitcachev1.LiveSource // of the source, from the gitcaches
	// Why there is no answer; empty: there is one.
	noSource, noCluster, noLive string
	// The person lacks a grant for the answer.
	hiddenCluster, hiddenLive bool
	// The faults of distributors, each with its name; and whether none is ready.
	distributors   []string
	noDistributors bool
}

// Follow asks the console for the service, and then everybody at once for the rest.
func Follow(ctx context.Context, a *app.App, h *hubclient.Hub, name string) (*Trail, error) {
	m, err := resource.ServiceKind().ReadOne(ctx, h, name)
	if err != nil {
		return nil, err
	}
	t := &Trail{View: view.View{Now: a.Now()}, Service: m.(*consolev1.Service)}
	ctx, cancel := context.WithTimeout(ctx, hubclient.CallTimeout)
	defer cancel()
	spec := t.Service.GetSpec()
	var wg sync.WaitGroup
	wg.Go(func() {
		res, err := h.Sources.GetSource(ctx, &consolev1.GetSourceRequest{Name: catalog.SourceOf(spec)})
		t.Source, t.noSource = res.GetSource(), ReasonLine(err)
	})
	wg.Go(func() {
		if spec.GetCatalog() {
			return
		}
		res, err := h.Clusters.GetCluster(ctx, &consolev1.GetClusterRequest{Name: spec.GetCluster()})
		t.Cluster, t.noCluster, t.hiddenCluster = res.GetCluster(), ReasonLine(err), lacksGrant(err)
	})
	wg.Go(func() {
		res, err := app.AskGitcaches(ctx, h, probe.CheckTimeout, func(ctx context.Context, g hubclient.Gitcache) (*gitcachev1.GetSourceResponse, error) {
			return g.Sources.GetSource(ctx, &gitcachev1.GetSourceRequest{Name: catalog.SourceOf(spec)})
		})
		t.Live, t.noLive, t.hiddenLive = res.GetSource(), ReasonLine(err), lacksGrant(err)
	})
	wg.Go(func() { t.distributors, t.noDistributors = sickDistributors(ctx, h) })
	wg.Wait()
	return t, nil
}

// sickDistributors says what is wrong with distributors, and whether none of them is ready.
func sickDistributors(ctx context.Context, h *hubclient.Hub) (texts []string, none bool) {
	found := make([]probe.Finding, len(h.Context.Endpoints.Distributors))
	var wg sync.WaitGroup
	for i, url := range h.Context.Endpoints.Distributors {
		wg.Go(func() { found[i] = probe.CheckService(ctx, h, "distributor", url) })
	}
	wg.Wait()
	none = len(found) > 0
	for _, f := range found {
		none = none && f.Version == ""
		if f.Wrong || f.Warns {
			texts = append(texts, f.About+": "+f.Text)
		}
	}
	return texts, none
}

// lacksGrant reports whether a part of the hub refused the person. The console does not say whether a resource exists
// that the person may not view.
func lacksGrant(err error) bool {
	code := connect.CodeOf(err)
	return code == connect.CodePermissionDenied ||
		code == connect.CodeNotFound && strings.Contains(err.Error(), "may not view")
}

// ReasonLine is an error in one line.
func ReasonLine(err error) string {
	if err == nil {
		return ""
	}
	return table.CleanLine(err.Error())
}

// ListSilent names the parts that did not answer, and why.
func (t *Trail) ListSilent() []any {
	var all []any
	for _, text := range append([]string{t.noSource, t.noCluster, t.noLive}, t.distributors...) {
		if text != "" {
			all = append(all, text)
		}
	}
	return all
}

// RenderText renders the trail for people.
func (t *Trail) RenderText(steps []step) string {
	var b strings.Builder
	status := t.Service.GetStatus()
	fmt.Fprintf(&b, "%s: %s", t.Service.GetMetadata().GetName(), view.StateOf(t.Service))
	if view.IsSet(status.GetStateSince()) {
		fmt.Fprintf(&b, " for %s", table.FormatAge(t.Now, status.GetStateSince().AsTime()))
	}
	b.WriteString("\n\n")
	for _, s := range steps {
		head := fmt.Sprintf("%-10s%-7s", s.Name, s.Mark)
		for _, line := range s.lines {
			fmt.Fprintf(&b, "%s%s\n", head, table.CleanLine(line))
			head = strings.Repeat(" ", len(head))
		}
		view.View{Now: t.Now}.ObjectTable(&b, s.objects)
	}
	fmt.Fprintf(&b, "\n%s\n", table.CleanLine(t.VerdictText(steps)))
	return b.String()
}
