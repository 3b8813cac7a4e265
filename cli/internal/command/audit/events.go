package audit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/event"
	"fairlead.dev/cli/internal/hubclient"
	"fairlead.dev/cli/internal/resource"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
)

func eventsCommand(a *app.App) *cobra.Command {
	var q event.Query
	var since time.Duration
	cmd := &cobra.Command{
		Use:         "events [KIND NAME...]",
		Annotations: map[string]string{resource.ReadsReferences: "yes"},
		Short:       "Show what happened",
		Long: `Show what happened, the newest last: commits fetched, delivered and applied, services that fail and recover, drift
repaired, roll backs, other configuration, guards that trip, clusters joined, lost and back. docs/events.md lists the types and the fields of the filter.
With names, as KIND NAME... or KIND/NAME..., only events of these resources.`,
		Example: "  fairlead events service/shop --watch\n  fairlead events --filter 'service = shop' --since 1h\n  fairlead events --filter 'severity >= WARNING AND cluster = edge-1' --watch",
		Args:    app.WantArgs(0, app.Unlimited),
	}
	cmd.Flags().StringVar(&q.Filter, "filter", "",
		"only those that fit, such as 'type : service AND severity >= WARNING'")
	cmd.Flags().DurationVar(&since, "since", 0, "only what is not older than this, such as 1h")
	cmd.Flags().IntVar(&q.Limit, "limit", 100, "at most so many of the newest; 0: all")
	cmd.Flags().BoolVarP(&q.Watch, "watch", "w", false, "go on with what happens, until interrupted")
	cmd.Flags().StringVarP(&q.Format, "output", "o", app.FormatTable,
		"form of the output: table, or json with one event per line")
	cmd.RunE = a.HubCommand(func(ctx context.Context, h *hubclient.Hub, args []string) error {
		if err := errors.Join(app.CheckLeast("limit", q.Limit, 0), app.CheckLeast("since", since, 0)); err != nil {
			return err
		}
		if err := q.AddResources(args); err != nil {
			return err
		}
		if q.Format != app.FormatTable && q.Format != app.FormatJSON {
			return fmt.Errorf("unknown form of output %q: known are table, json", q.Format)
		}
		if since > 0 {
			recent := fmt.Sprintf("time > %ds", int(since.Seconds()))
			if q.Filter != "" {
				recent += " AND (" + q.Filter + ")"
			}
			q.Filter = recent
		}
		return showEvents(ctx, a, h, q)
	})
	return cmd
}

func showEvents(ctx context.Context, a *app.App, h *hubclient.Hub, q event.Query) error {
	list, resume, err := event.List(ctx, h, q)
	if err != nil {
		return err
	}
	if len(list) == 0 && !q.Watch {
		a.Notef("no events\n")
	}
	if err := event.PrintHappened(a, list, q.Format); err != nil || !q.Watch {
		return err
	}
	req := &consolev1.WatchEventsRequest{Filter: q.Filter, ResumeToken: resume}
	return app.FollowStream(ctx, a, h, h.Events.WatchEvents, req, func(m *consolev1.WatchEventsResponse) error {
		req.ResumeToken = m.GetResumeToken()
		return event.PrintHappened(a, m.GetEvents(), q.Format)
	})
}
