package lever

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/hubclient"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
)

func confirmRemovals(a *app.App) *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "removals",
		Short: "Let services go that the catalog does not have since its database was put back",
		Long: `Confirm the removal of services that the catalog lacks since its database was restored.

After a restore the catalog may lack services that were made since the backup. Clusters keep them until an administrator
confirms the removal. This command shows the services that clusters keep and the catalog does not have, as far as their
agents have asked since, and, on a terminal or with --yes, removes them. Apply the services that are to stay before that.`,
		Example: "  fairlead confirm removals",
		Args:    app.WantArgs(0, 0),
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "go on without asking")
	cmd.RunE = a.HubCommand(func(ctx context.Context, h *hubclient.Hub, _ []string) error {
		reading, cancel := context.WithTimeout(ctx, hubclient.CallTimeout)
		defer cancel()
		is, err := h.Admin.GetRemovals(reading, &consolev1.GetRemovalsRequest{})
		if err != nil {
			return err
		}
		if is.GetId() == "" {
			return errors.New("no removals are held")
		}
		if is.GetHoldTime() != nil {
			a.Notef("since %s nothing is removed from clusters: %s\n",
				is.GetHoldTime().AsTime().Local().Format("2006-01-02 15:04:05"), is.GetReason())
		}
		for _, c := range is.GetClusters() {
			a.Notef("  cluster %s: %s\n", c.GetCluster(), strings.Join(c.GetServices(), ", "))
		}
		if len(is.GetClusters()) == 0 {
			a.Notef("  no agent has asked so far that has a service which the catalog lacks\n")
		}
		if !yes && !a.AskAgreement(ctx) {
			return errors.New("nothing was done: say --yes to have them removed, with all of their objects")
		}
		writing, cancel := context.WithTimeout(ctx, hubclient.WriteTimeout) // a person may have thought for long
		defer cancel()
		if _, err := h.Admin.ConfirmRemovals(writing, &consolev1.ConfirmRemovalsRequest{Id: is.GetId()}); err != nil {
			return err
		}
		return a.Printf("removals confirmed\n")
	})
	return cmd
}
