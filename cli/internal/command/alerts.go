package command

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"fairlead.dev/cli/internal/hub"
	"fairlead.dev/cli/internal/table"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/manifest"
	"fairlead.dev/platform/plural"
)

// aboutAlert is a command about one alert.
func (a *app) aboutAlert(cmd *cobra.Command, do func(ctx context.Context, h *hub.Hub, name string) (string, error)) *cobra.Command {
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if k, err := findKind(args[0]); err != nil || k.kind != manifest.Alert {
			return usageError(cmd)
		}
		return a.hubCommand(func(ctx context.Context, h *hub.Hub, args []string) error {
			words, err := do(ctx, h, args[0])
			if err != nil {
				return err
			}
			return a.printf("alert/%s %s\n", args[0], words)
		})(cmd, args[1:])
	}
	return cmd
}

func (a *app) acknowledgeCommand() *cobra.Command {
	var reason, group string
	cmd := &cobra.Command{
		Use: "acknowledge alert NAME --reason TEXT", Short: "Say that you work on what an alert has found",
		Long: `Say that you work on what an alert has found, until that is over.

Your name and reason are shown with the alert, and an event (alert.acknowledged) goes to the sinks that want it. What the alert finds next makes
an event as before: "fairlead silence" has it make none for a while. This takes the role deployer at all clusters.`,
		Example: `  fairlead acknowledge alert nodes --reason "the rack moves"
  fairlead acknowledge alert nodes --group eu-1 --reason "incident 7"`,
		Args: wantArgs(2, 2),
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for everybody to see")
	cmd.Flags().StringVar(&group, "group", "", "value of the label by which the alert groups clusters; default: all groups")
	return a.aboutAlert(cmd, func(ctx context.Context, h *hub.Hub, name string) (string, error) {
		if reason == "" {
			return "", errors.New("--reason is missing: say to others what you do about it")
		}
		_, err := h.Alerts.AcknowledgeAlert(ctx, &consolev1.AcknowledgeAlertRequest{Name: name, Group: group, Reason: reason})
		return "is acknowledged" + formatReason(reason), err
	})
}

func (a *app) silenceCommand() *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "silence alert NAME --for TIME --reason TEXT", Short: "Have an alert make no events for a while",
		Long: `Have an alert make no events about what begins, for a while: --for or --until. What began meanwhile and still holds at the end makes its event
then. The end of what began before makes its event at once.

This takes the role deployer at all clusters. "fairlead unsilence alert NAME" ends a silence.`,
		Example: `  fairlead silence alert nodes --for 2h --reason "the rack moves"
  fairlead silence alert nodes --until 2026-11-30T06:00:00Z --reason "the sale"`,
		Args: wantArgs(2, 2),
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for everybody to see")
	ends := a.endFlags(cmd)
	return a.aboutAlert(cmd, func(ctx context.Context, h *hub.Hub, name string) (string, error) {
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
		return "is silent until " + until.AsTime().Local().Format(time.RFC3339) + formatReason(reason), err
	})
}

func (a *app) unsilenceCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "unsilence alert NAME", Short: "End the silence of an alert",
		Long:    "End the silence of an alert. What it found meanwhile, and still holds, makes its event now.",
		Example: "  fairlead unsilence alert nodes", Args: wantArgs(2, 2),
	}
	return a.aboutAlert(cmd, func(ctx context.Context, h *hub.Hub, name string) (string, error) {
		_, err := h.Alerts.SilenceAlert(ctx, &consolev1.SilenceAlertRequest{Name: name})
		return "is not silent any more", err
	})
}

func (v view) alertRow(a *consolev1.Alert) (r row) {
	s, name := a.GetStatus(), a.GetMetadata().GetName()
	state, clusters := "Quiet", 0
	if s == nil {
		state = "-" // streams have no status of alerts
	}
	for _, g := range s.GetFiring() {
		clusters += int(g.GetTotal())
		if state != "Firing" && !isSet(g.GetSinceTime()) {
			state = "Flapping"
		} else {
			state = "Firing"
		}
		since := g.GetSinceTime()
		if isSet(g.GetFlapsSinceTime()) {
			since = g.GetFlapsSinceTime()
		}
		r.notes = append(r.notes, note{about: name, text: v.describeGroup(g), since: since})
	}
	if silence := s.GetSilence(); silence != nil {
		state += ", silent"
		r.notes = append(r.notes, note{about: name, text: fmt.Sprintf("silent until %s, by %s%s: `fairlead unsilence alert %s` ends it",
			silence.GetUntilTime().AsTime().Local().Format(time.RFC3339), silence.GetAuthor(), formatReason(silence.GetReason()), name)})
	}
	r.cells = []cell{
		{"NAME", name},
		{"STATE", state},
		{"CLUSTERS", fmt.Sprint(clusters)},
		{"PENDING", fmt.Sprint(s.GetPending())},
		{"UNKNOWN", fmt.Sprint(s.GetUnknown())},
		{"WHEN", a.GetSpec().GetWhen()},
	}
	r.more = []cell{{"FOR", a.GetSpec().GetFor().AsDuration().String()}, {"DESCRIPTION", a.GetSpec().GetDescription()}}
	return r
}

// describeGroup says what an alert has found in a group.
func (v view) describeGroup(g *consolev1.AlertGroup) string {
	names := g.GetClusters()[:min(len(g.GetClusters()), maxAbout)]
	text := plural.Of(int(g.GetTotal()), "cluster")
	if g.GetGroup() != "" {
		text = g.GetGroup() + ": " + text
	}
	if len(names) > 0 {
		text += ": " + strings.Join(names, ", ")
	}
	if more := int(g.GetTotal()) - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	if isSet(g.GetFlapsSinceTime()) {
		text += "; the alert begins and ends again and again there: its next event comes once it has not done so for 10m"
	}
	if n := g.GetUnknown(); n > 0 {
		text += fmt.Sprintf("; %d of them give no answer, the first since %s ago", n, table.FormatAge(v.now, g.GetUnknownSinceTime().AsTime()))
	}
	if ack := g.GetAcknowledged(); ack != nil {
		text += fmt.Sprintf(" (acknowledged by %s%s)", ack.GetAuthor(), formatReason(ack.GetReason()))
	}
	return text
}
