package command

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"fairlead.dev/cli/internal/hub"
	"fairlead.dev/cli/internal/table"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
)

func (v view) sinkRow(s *consolev1.Sink) (r row) {
	name, state, status := s.GetMetadata().GetName(), "Ready", s.GetStatus()
	switch problem := status.GetProblem(); {
	case s.GetSpec().GetDisabled():
		state = "Disabled"
	case problem.GetMessage() != "":
		state = "Failing"
		r.notes = []note{{about: name, text: problem.GetMessage(), since: problem.GetSince()}}
	}
	waiting, interval := "", ""
	if status.GetWaiting() > 0 {
		waiting = fmt.Sprint(status.GetWaiting())
	}
	if s.GetSpec().GetInterval() != nil {
		interval = s.GetSpec().GetInterval().AsDuration().String()
	}
	r.cells = []cell{
		{"NAME", name},
		{"STATE", state},
		{"TO", sinkTo(s.GetSpec())},
		{"PROJECT", s.GetSpec().GetProject()},
		{"SENT", v.agoText(status.GetSendTime())},
		{"WAITING", waiting},
	}
	r.more = []cell{{"EVENTS", fmt.Sprint(status.GetSent())}, {"GIVEN-UP", fmt.Sprint(status.GetDropped())}, {"INTERVAL", interval}}
	return r
}

// sinkTo is for people: of a URL the host, for what is behind it is long.
func sinkTo(spec *consolev1.SinkSpec) string {
	at := func(kind, address string) string {
		if u, err := url.Parse(address); err == nil && u.Host != "" {
			return kind + " " + u.Host
		}
		return kind
	}
	switch to := spec.GetTo().(type) {
	case *consolev1.SinkSpec_Webhook:
		return at("webhook", to.Webhook.GetUrl())
	case *consolev1.SinkSpec_Teams:
		return "teams"
	case *consolev1.SinkSpec_PagerDuty:
		return at("pagerduty", to.PagerDuty.GetUrl())
	case *consolev1.SinkSpec_Alertmanager:
		return at("alertmanager", to.Alertmanager.GetUrl())
	case *consolev1.SinkSpec_Grafana:
		return at("grafana", to.Grafana.GetUrl())
	case *consolev1.SinkSpec_Github:
		return at("github", to.Github.GetUrl())
	case *consolev1.SinkSpec_Gitlab:
		return at("gitlab", to.Gitlab.GetUrl())
	case *consolev1.SinkSpec_Gitea:
		return at("gitea", to.Gitea.GetUrl())
	case *consolev1.SinkSpec_Bitbucket:
		return at("bitbucket", to.Bitbucket.GetUrl())
	case *consolev1.SinkSpec_Email:
		return "email " + strings.Join(to.Email.GetTo(), ",")
	}
	return "slack"
}

// testTimeout is longer than a console tries to send.
const testTimeout = 30 * time.Second

// sinkCommand is what people do with sinks besides reading and writing them.
func (a *app) sinkCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sink",
		Short: "Try where events are sent to",
		Args:  onlyBelow,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.testSink("test"))
	return cmd
}

// testSinkAsBefore is for scripts that call it as it was called before.
func (a *app) testSinkAsBefore() *cobra.Command {
	cmd := a.testSink("test-sink")
	cmd.Hidden = true
	return cmd
}

// testSink sends a test event.
func (a *app) testSink(verb string) *cobra.Command {
	return &cobra.Command{
		Use:   verb + " NAME",
		Short: "Send a test event to a sink now, and say what the other side answers",
		Long: `Send a test event to a sink now, and say what the other side answers. It is sent once, whatever else waits for the sink,
by its template, to where its events go. Whoever may change the sink may test it.`,
		Example: "  fairlead sink test chat",
		Args:    wantArgs(1, 1),
		RunE: a.hubCommand(func(ctx context.Context, h *hub.Hub, args []string) error {
			ctx, cancel := context.WithTimeout(ctx, testTimeout)
			defer cancel()
			res, err := h.Sinks.TestSink(ctx, &consolev1.TestSinkRequest{Name: args[0]})
			if err != nil {
				return sinkKind().explainMissing(args[0], err)
			}
			if !res.GetAccepted() {
				return fmt.Errorf("sink %q does not take it: %s", args[0], table.CleanLine(res.GetAnswer()))
			}
			return a.printf("sink %q took it within %s: %s\n", args[0], res.GetDuration().AsDuration().Round(time.Millisecond), table.CleanLine(res.GetAnswer()))
		}),
	}
}
