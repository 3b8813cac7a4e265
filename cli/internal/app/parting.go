package app

import (
	"context"
	"errors"
	"fmt"

	"fairlead.dev/cli/internal/hubclient"
	"fairlead.dev/cli/internal/resource"
	"fairlead.dev/cli/internal/table"
	"fairlead.dev/cli/internal/view"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/plural"
)

// Parting is how a cluster is parted from.
type Parting struct{ Yes, DryRun bool }

// AskToPart shows what it means that a cluster's agents lose their access, and asks. The result says whether to go on.
func (a *App) AskToPart(ctx context.Context, h *hubclient.Hub, name string, p Parting) (bool, error) {
	m, err := resource.ClusterKind().ReadOne(ctx, h, name)
	if err != nil {
		return false, err
	}
	status := m.(*consolev1.Cluster).GetStatus()
	if !view.IsSet(status.GetLastSeenTime()) && !view.IsSet(status.GetJoinTime()) {
		if p.DryRun {
			return false, a.Printf("no agent has joined as cluster %q\n", name)
		}
		return true, nil
	}
	services, err := resource.ServiceKind().ReadMatching(ctx, h, resource.Question{Filter: "cluster = " + name})
	if err != nil {
		return false, err
	}
	heard := ""
	if seen := status.GetLastSeenTime(); view.IsSet(seen) {
		heard = ", heard of " + table.FormatAge(a.Now(), seen.AsTime()) + " ago,"
	}
	text := fmt.Sprintf("the agent of cluster %q%s loses its access for good, and nobody reaches the cluster through the tunnel any more\n"+
		"what is applied there of its %s stays, and nothing new is delivered until an agent joins with a new join token\n", name, heard, plural.Of(len(services), "service"))
	if p.DryRun {
		return false, a.Printf("%s", text)
	}
	if p.Yes {
		return true, nil
	}
	a.Notef("%s", text)
	if !a.AskAgreement(ctx) {
		return false, errors.New("nothing was done: say --yes to go on")
	}
	return true, nil
}
