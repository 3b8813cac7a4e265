package command

import (
	"context"

	"github.com/spf13/cobra"

	"fairlead.dev/cli/internal/hub"
)

func (a *app) delete() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "delete KIND NAME",
		Short: "Delete a resource",
		Long: `Delete a resource.

Deleting a service removes its objects from the cluster. Deleting a cluster ends its agent's
access. What another resource still names can't be deleted. What is dangerous shows its
consequences and asks first; --yes goes on without.`,
		Example: "  fairlead delete service shop",
		Args:    wants(2, 2),
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "go on without asking")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		k, err := findKind(args[0])
		if err != nil {
			return err
		}
		return a.hubCommand(func(ctx context.Context, h *hub.Hub, args []string) error {
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
