package lever

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/hubclient"
	"fairlead.dev/cli/internal/resource"
	"fairlead.dev/cli/internal/view"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/plural"
)

func confirmGlobal(a *app.App) *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "global GLOBALSERVICE",
		Short: "Let services of a global service go that the guard held back",
		Long: `Confirm the deletion of services of a global service that the guard held back.

Within ten minutes no more services of a global service go than spec.maxDeletions says (a tenth, if it says
nothing), so that a wrong label does not empty a fleet. This shows the others and, on a terminal or
with --yes, deletes them.`,
		Example: "  fairlead confirm global logs",
		Args:    app.WantArgs(1, 1),
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "go on without asking")
	cmd.RunE = a.HubCommand(func(ctx context.Context, h *hubclient.Hub, args []string) error {
		reading, cancel := context.WithTimeout(ctx, hubclient.WriteTimeout)
		defer cancel()
		name := args[0]
		current, err := h.Globals.GetGlobalService(reading, &consolev1.GetGlobalServiceRequest{Name: name})
		if err != nil {
			return resource.GlobalServiceKind().ExplainMissing(name, err)
		}
		preview, err := h.Globals.PreviewGlobalService(reading, &consolev1.PreviewGlobalServiceRequest{GlobalService: current.GetGlobalService()})
		if err != nil {
			return err
		}
		held := current.GetGlobalService().GetStatus()
		if preview.GetConfirmation() == "" {
			return fmt.Errorf("globalservice %q: nothing is held back", name)
		}
		a.Notef("%s of clusters that are not chosen any more %s deleted, with all objects\n",
			plural.Of(held.GetHeldBackTotal(), "service"), plural.Are(held.GetHeldBackTotal()))
		for _, service := range held.GetHeldBack() {
			a.Notef("  %s\n", service)
		}
		if since := held.GetHeldBackSince(); view.IsSet(since) {
			a.Notef("the guard holds back the first of them since %s\n", a.FormatMoment(since))
		}
		if !yes && !a.AskAgreement(ctx) {
			return errors.New("nothing was done: say --yes to go on")
		}
		writing, cancel := context.WithTimeout(ctx, hubclient.WriteTimeout) // a person may have thought for long
		defer cancel()
		if _, err := h.Globals.ConfirmGlobalService(writing, &consolev1.ConfirmGlobalServiceRequest{
			Name: name, Confirmation: preview.GetConfirmation(),
		}); err != nil {
			return err
		}
		return a.Printf("globalservice/%s confirmed\n", name)
	})
	return cmd
}
