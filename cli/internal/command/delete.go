package command

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"fairlead.dev/cli/internal/hub"
	"fairlead.dev/cli/internal/table"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/manifest"
)

func (a *app) delete() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "delete KIND NAME",
		Short: "Delete a resource",
		Long: `Delete a resource.

Deleting a service removes its objects from the cluster. Deleting a cluster ends its agent's
access, which asks first if an agent has joined. What another resource still names can't be deleted. What
is dangerous shows its consequences and asks first; --yes goes on without.`,
		Example: "  fairlead delete service shop\n  fairlead delete cluster edge-1 --yes",
		Args:    wants(2, 2),
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "go on without asking")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		k, err := findKind(args[0])
		if err != nil {
			return err
		}
		return a.hubCommand(func(ctx context.Context, h *hub.Hub, args []string) error {
			if k.kind == manifest.Cluster && !yes {
				if err := a.partFrom(ctx, h, args[0]); err != nil {
					return err
				}
			}
			err := a.confirmed(ctx, yes, func(ctx context.Context, confirmation string) error {
				return k.remove(ctx, h, args[0], confirmation)
			})
			if err != nil {
				return k.missing(args[0], err)
			}
			return a.printf("%s/%s deleted\n", k.singular(), args[0])
		})(cmd, args[1:])
	}
	return cmd
}

// partFrom asks before a cluster goes whose agent would have to join anew.
func (a *app) partFrom(ctx context.Context, h *hub.Hub, name string) error {
	m, err := clusterKind().one(ctx, h, name)
	if err != nil {
		return err
	}
	seen := m.(*consolev1.Cluster).GetStatus().GetLastSeenTime()
	if !isSet(seen) {
		return nil // no agent has joined
	}
	a.notef("the agent of cluster %q, heard of %s ago, loses its access for good, and nobody reaches the cluster through the tunnel any more\n", name, table.Age(a.Now(), seen.AsTime()))
	if !a.agreed() {
		return errors.New("nothing was done: say --yes to go on")
	}
	return nil
}
