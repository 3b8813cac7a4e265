package lever

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/hubclient"
	"fairlead.dev/cli/internal/resource"
	"fairlead.dev/cli/internal/view"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/catalogyaml"
)

// aboutAlert is a command about one alert.
func aboutAlert(
	a *app.App, cmd *cobra.Command, do func(ctx context.Context, h *hubclient.Hub, name string) (string, error),
) *cobra.Command {
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if k, err := resource.FindKind(args[0]); err != nil || k.ID != catalogyaml.Alert {
			return app.UsageError(cmd)
		}
		return a.HubCommand(func(ctx context.Context, h *hubclient.Hub, args []string) error {
			words, err := do(ctx, h, args[0])
			if err != nil {
				return err
			}
			return a.Printf("alert/%s %s\n", args[0], words)
		})(cmd, args[1:])
	}
	return cmd
}

func acknowledgeCommand(a *app.App) *cobra.Command {
	var reason, group string
	cmd := &cobra.Command{
		Use: "acknowledge alert NAME --reason TEXT", Short: "Say that you work on what an alert has found",
		Long: `Say that you work on the findings of an alert, until they end.

Your name and reason are shown with the alert, and an event (alert.acknowledged) goes to the sinks that want it. The next
finding of the alert makes an event as before: "fairlead silence" keeps events back for a while. This takes the role
deployer at all clusters.`,
		Example: `  fairlead acknowledge alert nodes --reason "the rack moves"
  fairlead acknowledge alert nodes --group eu-1 --reason "incident 7"`,
		Args: app.WantArgs(2, 2),
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for everybody to see")
	cmd.Flags().StringVar(&group, "group", "",
		"value of the label by which the alert groups clusters; default: all groups")
	return aboutAlert(a, cmd, func(ctx context.Context, h *hubclient.Hub, name string) (string, error) {
		if reason == "" {
			return "", errors.New("--reason is missing: say to others what you do about it")
		}
		_, err := h.Alerts.AcknowledgeAlert(ctx, &consolev1.AcknowledgeAlertRequest{Name: name, Group: group, Reason: reason})
		return "is acknowledged" + view.FormatReason(reason), err
	})
}

func silenceCommand(a *app.App) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "silence alert NAME --for TIME --reason TEXT", Short: "Have an alert make no events for a while",
		Long: `Let an alert make no event when it begins to fire, for a while: --for or --until. If it began meanwhile and still fires at
the end, it makes its event then. The end of what fired before makes its event at once.

This takes the role deployer at all clusters. "fairlead unsilence alert NAME" ends a silence.`,
		Example: `  fairlead silence alert nodes --for 2h --reason "the rack moves"
  fairlead silence alert nodes --until 2026-11-30T06:00:00Z --reason "the sale"`,
		Args: app.WantArgs(2, 2),
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for everybody to see")
	ends := endFlags(a, cmd)
	return aboutAlert(a, cmd, func(ctx context.Context, h *hubclient.Hub, name string) (string, error) {
		until, err := ends.endTime()
		switch {
		case err != nil:
			return "", err
		case until == nil:
			return "", errors.New("--for or --until is missing: say how long, such as --for 2h")
		case reason == "":
			return "", errors.New("--reason is missing: say to others why the alert is silent")
		}
		_, err = h.Alerts.SilenceAlert(ctx, &consolev1.SilenceAlertRequest{Name: name, Reason: reason, UntilTime: until})
		return "is silent until " + until.AsTime().Local().Format(time.RFC3339) + view.FormatReason(reason), err
	})
}

func unsilenceCommand(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "unsilence alert NAME", Short: "End the silence of an alert",
		Long:    "End the silence of an alert. Groups that began to fire meanwhile, and still fire, make their events now.",
		Example: "  fairlead unsilence alert nodes", Args: app.WantArgs(2, 2),
	}
	return aboutAlert(a, cmd, func(ctx context.Context, h *hubclient.Hub, name string) (string, error) {
		_, err := h.Alerts.SilenceAlert(ctx, &consolev1.SilenceAlertRequest{Name: name})
		return "is not silent any more", err
	})
}
