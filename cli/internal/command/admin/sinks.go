package admin

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/hubclient"
	"fairlead.dev/cli/internal/resource"
	"fairlead.dev/cli/internal/table"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
)

// testTimeout is longer than a console tries to send.
const testTimeout = 30 * time.Second

// sinkCommand is what people do with sinks besides reading and writing them.
func sinkCommand(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sink",
		Short: "Test the receivers of events",
		Args:  app.OnlyBelow,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(testSink(a, "test"))
	return cmd
}

// testSinkAsBefore is for scripts that call it as it was called before.
func testSinkAsBefore(a *app.App) *cobra.Command {
	cmd := testSink(a, "test-sink")
	cmd.Hidden = true
	return cmd
}

// testSink sends a test event.
func testSink(a *app.App, verb string) *cobra.Command {
	return &cobra.Command{
		Use:   verb + " SINK",
		Short: "Send a test event to a sink now, and say what the other side answers",
		Long: `Send a test event to a sink now, and show the receiver's answer. The event is sent once, whatever else waits for the sink,
with the sink's template. This takes the right to change the sink.`,
		Example: "  fairlead sink test chat",
		Args:    app.WantArgs(1, 1),
		RunE: a.HubCommand(func(ctx context.Context, h *hubclient.Hub, args []string) error {
			ctx, cancel := context.WithTimeout(ctx, testTimeout)
			defer cancel()
			res, err := h.Sinks.TestSink(ctx, &consolev1.TestSinkRequest{Name: args[0]})
			if err != nil {
				return resource.SinkKind().ExplainMissing(args[0], err)
			}
			if !res.GetAccepted() {
				return fmt.Errorf("sink %q does not take it: %s", args[0], table.CleanLine(res.GetAnswer()))
			}
			return a.Printf("sink %q took it within %s: %s\n", args[0],
				res.GetDuration().AsDuration().Round(time.Millisecond), table.CleanLine(res.GetAnswer()))
		}),
	}
}
