package apply

import (
	"context"
	"strings"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/hubclient"
	"fairlead.dev/cli/internal/resource"
	"fairlead.dev/cli/internal/view"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
)

// undoFor is how long the hub lets a deletion be undone.
const undoFor = "1h"

// maxDeleted is how many deletions are listed.
const maxDeleted = 100

func undoCommand(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "undo [KIND NAME]",
		Short: "Undo a deletion of the last hour",
		Long: `Undo a deletion of the last hour: the resource is there again as it was, with its labels and, of a service, its levers, unless another one
has taken its name. Resources that it names have to be there: undo their deletion first. Without a KIND and NAME the command
lists the services that were deleted within the last hour.

The objects of a service are applied anew: data that was in no manifest, such as that of a volume, does not come back. Secret
values are not kept: write a Secret, or a resource with secret values of its own, again. A cluster needs a new join token.

Resources that a folder declared or a global service made are made anew with that service, without levers.`,
		Example: "  fairlead undo\n  fairlead undo service shop",
		Args:    app.WantArgs(0, 2),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return a.HubCommand(func(ctx context.Context, h *hubclient.Hub, _ []string) error { return listDeleted(ctx, a, h) })(cmd, nil)
		}
		if len(args) == 1 {
			return app.UsageError(cmd)
		}
		k, err := resource.FindKind(args[0])
		if err != nil {
			return err
		}
		return a.HubCommand(func(ctx context.Context, h *hubclient.Hub, args []string) error {
			return undeleteResource(ctx, a, h, k, args[0])
		})(cmd, args[1:])
	}
	return cmd
}

func undeleteResource(ctx context.Context, a *app.App, h *hubclient.Hub, k resource.Kind, name string) error {
	ctx, cancel := context.WithTimeout(ctx, hubclient.WriteTimeout)
	defer cancel()
	out, err := h.History.UndeleteResource(ctx, &consolev1.UndeleteResourceRequest{Kind: k.Number(), Name: name})
	if err != nil {
		return err
	}
	if out.GetResource().GetService().GetSpec().GetSync().GetOnDelete() == deliveryv1.DeletePolicy_DELETE_POLICY_ORPHAN {
		a.Notef("it has spec.sync.onDelete: orphan, as it had when it was deleted\n")
	}
	return a.Printf("%s/%s is there again\n", k.Singular(), name)
}

// listDeleted lists the services whose deletion can be undone.
func listDeleted(ctx context.Context, a *app.App, h *hubclient.Hub) error {
	ctx, cancel := context.WithTimeout(ctx, hubclient.CallTimeout)
	defer cancel()
	found, err := h.Events.ListEvents(ctx, &consolev1.ListEventsRequest{Filter: "type = service.deleted AND time > " + undoFor, PageSize: maxDeleted})
	if err != nil {
		return err
	}
	v := view.View{Now: a.Now()}
	t := v.NewTable([]string{"SERVICE", "CLUSTER", "DELETED", "BY"})
	rows, seen := 0, map[string]bool{}
	for _, e := range found.GetEvents() {
		name := e.GetService()
		if seen[name] || e.GetGlobalService() != "" { // its global service makes it again
			continue
		}
		seen[name] = true
		gone, err := isUndoable(ctx, h, name)
		if err != nil {
			return err
		}
		if gone {
			rows++
			by := strings.TrimPrefix(e.GetActor(), "user:")
			v.AddRow(t, []string{name, e.GetCluster(), v.AgoText(e.GetTime()), by})
		}
	}
	if rows == 0 {
		a.Notef("no service was deleted within the last hour that is not there again\n")
		return nil
	}
	return a.WriteTable(t)
}

// isUndoable tells whether the last change of a service is its deletion, and no folder makes the service again.
func isUndoable(ctx context.Context, h *hubclient.Hub, name string) (bool, error) {
	got, err := h.History.ListRevisions(ctx, &consolev1.ListRevisionsRequest{
		Kind: consolev1.Kind_KIND_SERVICE, Name: name, PageSize: 2,
	})
	if connect.CodeOf(err) == connect.CodeNotFound { // the person may not see the service that took its place
		return false, nil
	}
	past := got.GetRevisions()
	if err != nil || len(past) < 2 || past[0].GetResource() != nil {
		return false, err
	}
	before := past[1].GetResource().GetService()
	return before.GetMetadata().GetLabels()[resource.DeclaredLabel] == "", nil
}
