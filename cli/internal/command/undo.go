package command

import (
	"context"

	"github.com/spf13/cobra"

	"fairlead.dev/cli/internal/hub"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
)

// undoFor is how long the hub lets a deletion be undone.
const undoFor = "1h"

// maxDeleted is how many deletions are listed.
const maxDeleted = 100

func (a *app) undoCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "undo [KIND NAME]",
		Short: "Undo a deletion of the last hour",
		Long: `Undo a deletion of the last hour: the resource is there again as it was, with its labels and, of a service, its levers, unless another one
has taken its name. What it names has to be there: undo its deletion first. Without a KIND and NAME the services are listed that were deleted within the last hour.

The objects of a service are applied anew: what was in them and in no manifest, such as the data of a volume, is not brought back. Secret values
are not kept: a Secret, or what keeps secret values of its own, has to be written again. A cluster needs a new join token.`,
		Example: "  fairlead undo\n  fairlead undo service shop",
		Args:    wantArgs(0, 2),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return a.hubCommand(func(ctx context.Context, h *hub.Hub, _ []string) error { return a.listDeleted(ctx, h) })(cmd, nil)
		}
		if len(args) == 1 {
			return usageError(cmd)
		}
		k, err := findKind(args[0])
		if err != nil {
			return err
		}
		return a.hubCommand(func(ctx context.Context, h *hub.Hub, args []string) error {
			return a.undeleteResource(ctx, h, k, args[0])
		})(cmd, args[1:])
	}
	return cmd
}

func (a *app) undeleteResource(ctx context.Context, h *hub.Hub, k kind, name string) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	out, err := h.History.UndeleteResource(ctx, &consolev1.UndeleteResourceRequest{Kind: k.Number(), Name: name})
	if err != nil {
		return err
	}
	if out.GetResource().GetService().GetSpec().GetSync().GetOnDelete() == deliveryv1.DeletePolicy_DELETE_POLICY_ORPHAN {
		a.notef("it has spec.sync.onDelete: orphan, as it had when it was deleted\n")
	}
	return a.printf("%s/%s is there again\n", k.singular(), name)
}

// listDeleted lists the services whose deletion can be undone.
func (a *app) listDeleted(ctx context.Context, h *hub.Hub) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	found, err := h.Events.ListEvents(ctx, &consolev1.ListEventsRequest{Filter: "type = service.deleted AND time > " + undoFor, PageSize: maxDeleted})
	if err != nil {
		return err
	}
	v := view{now: a.Now()}
	t := v.newTable([]string{"SERVICE", "CLUSTER", "DELETED", "BY"})
	rows, seen := 0, map[string]bool{}
	for _, e := range found.GetEvents() {
		name := e.GetService()
		if seen[name] {
			continue
		}
		seen[name] = true
		there, err := serviceKind().readMatching(ctx, h, question{filter: "name = " + name})
		if err != nil {
			return err
		}
		if len(there) == 0 {
			rows++
			v.addRow(t, []string{name, e.GetCluster(), v.agoText(e.GetTime()), e.GetActor()})
		}
	}
	if rows == 0 {
		a.notef("no service was deleted within the last hour that is not there again\n")
		return nil
	}
	return a.writeTable(t)
}
