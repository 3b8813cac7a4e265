package command

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"fairlead.dev/cli/internal/hub"
	"fairlead.dev/cli/internal/table"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/manifest"
)

// eventQuery is what a person asks of events.
type eventQuery struct {
	filter string
	limit  int
	watch  bool
	format string
}

func (a *app) eventsCommand() *cobra.Command {
	var q eventQuery
	var since time.Duration
	cmd := &cobra.Command{
		Use:         "events [KIND NAME...]",
		Annotations: map[string]string{readsReferences: "yes"},
		Short:       "Show what happened",
		Long: `Show what happened, the newest last: commits fetched, delivered and applied, services that fail and recover, drift
repaired, roll backs, other configuration, guards that trip, clusters joined, lost and back. docs/events.md lists the types and the fields of the filter.
With names, as KIND NAME... or KIND/NAME..., it is what happened to these.`,
		Example: "  fairlead events service/shop --watch\n  fairlead events --filter 'service = shop' --since 1h\n  fairlead events --filter 'severity >= WARNING AND cluster = edge-1' --watch",
		Args:    wantArgs(0, unlimited),
	}
	cmd.Flags().StringVar(&q.filter, "filter", "", "only those that fit, such as 'type : service AND severity >= WARNING'")
	cmd.Flags().DurationVar(&since, "since", 0, "only what is not older than this, such as 1h")
	cmd.Flags().IntVar(&q.limit, "limit", 100, "at most so many of the newest; 0: all")
	cmd.Flags().BoolVarP(&q.watch, "watch", "w", false, "go on with what happens, until interrupted")
	cmd.Flags().StringVarP(&q.format, "output", "o", formatTable, "form of the output: table, or json with one event per line")
	cmd.RunE = a.hubCommand(func(ctx context.Context, h *hub.Hub, args []string) error {
		if err := q.addResources(args); err != nil {
			return err
		}
		if q.format != formatTable && q.format != formatJSON {
			return fmt.Errorf("unknown form of output %q: known are table, json", q.format)
		}
		if since > 0 {
			recent := fmt.Sprintf("time > %ds", int(since.Seconds()))
			if q.filter != "" {
				recent += " AND (" + q.filter + ")"
			}
			q.filter = recent
		}
		return a.showEvents(ctx, h, q)
	})
	return cmd
}

// addResources adds to a filter which resources it is about.
func (q *eventQuery) addResources(args []string) error {
	if len(args) == 0 {
		return nil
	}
	refs, err := parseReferences(args)
	if err != nil {
		return err
	}
	filter, err := eventsAbout(refs)
	q.filter = joinFilters(filter, q.filter)
	return err
}

func (a *app) showEvents(ctx context.Context, h *hub.Hub, q eventQuery) error {
	list, resume, err := listEvents(ctx, h, q)
	if err != nil {
		return err
	}
	if len(list) == 0 && !q.watch {
		a.notef("no events\n")
	}
	if err := a.printHappened(list, q.format); err != nil || !q.watch {
		return err
	}
	stream, err := h.Events.WatchEvents(ctx, &consolev1.WatchEventsRequest{Filter: q.filter, ResumeToken: resume})
	if err != nil {
		return h.ExplainError(err)
	}
	defer stream.Close()
	for stream.Receive() {
		if err := a.printHappened(stream.Msg().GetEvents(), q.format); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return nil // interrupted, as it is meant to end
	}
	return h.ExplainError(stream.Err())
}

// listEvents returns the newest events, the oldest of them first, and where to go on.
func listEvents(ctx context.Context, h *hub.Hub, q eventQuery) (list []*consolev1.Event, resume string, err error) {
	for token := ""; ; {
		size := pageSize
		if q.limit > 0 {
			size = min(size, q.limit-len(list))
		}
		call, cancel := context.WithTimeout(ctx, callTimeout)
		res, err := h.Events.ListEvents(call, &consolev1.ListEventsRequest{Filter: q.filter, PageSize: int32(size), PageToken: token})
		cancel()
		if err != nil {
			return nil, "", err
		}
		if resume == "" {
			resume = res.GetResumeToken()
		}
		list = append(list, res.GetEvents()...)
		if token = res.GetNextPageToken(); token == "" || q.limit > 0 && len(list) >= q.limit {
			slices.Reverse(list)
			return list, resume, nil
		}
	}
}

func (a *app) printHappened(list []*consolev1.Event, format string) error {
	for _, e := range list {
		line := happenedLine(e)
		if format == formatJSON {
			var err error
			if line, err = jsonLine(e); err != nil {
				return err
			}
		}
		if err := a.printf("%s\n", line); err != nil {
			return err
		}
	}
	return nil
}

func happenedLine(e *consolev1.Event) string {
	var what []string
	for _, part := range []struct{ kind, name string }{
		{"service", e.GetService()},
		{"cluster", e.GetCluster()},
		{"source", e.GetSource()},
		{"sink", e.GetSink()},
		{"global service", e.GetGlobalService()},
		{"alert", e.GetAlert()},
		{"group", e.GetGroup()},
	} {
		if part.name != "" {
			what = append(what, part.kind+" "+part.name)
		}
	}
	text := e.GetMessage()
	if len(what) > 0 {
		text = strings.Join(what, " at ") + ": " + text
	}
	if e.GetActor() != "" {
		text += " (" + strings.TrimPrefix(e.GetActor(), "user:") + ")"
	}
	level := manifest.Short(e.GetSeverity())
	return fmt.Sprintf("%s %-7s %-22s %s", e.GetTime().AsTime().UTC().Format("2006-01-02 15:04:05"), level, table.CleanLine(e.GetType()), table.CleanLine(text))
}
