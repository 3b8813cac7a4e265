package audit

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/hubclient"
	"fairlead.dev/cli/internal/resource"
	"fairlead.dev/cli/internal/table"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/durable"
	"fairlead.dev/platform/plural"
)

// auditQuery is what a person asks the audit trail.
type auditQuery struct {
	filter *consolev1.AuditFilter
	limit  int
	follow bool
	format string
}

func auditCommand(a *app.App) *cobra.Command {
	q := auditQuery{filter: &consolev1.AuditFilter{}}
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Show who did what",
		Long: `Show who did what, the newest last. The trail is for administrators.

A read at a cluster that has ended is one line, tunnel.request; other requests to clusters have a line when they begin
(tunnel.request.begin) and one when they end (tunnel.request.end), with the same request id.`,
		Example: "  fairlead audit --user bob --since 1h\n  fairlead audit --cluster edge-1 --action tunnel.request --follow -o json",
		Args:    app.WantArgs(0, 0),
	}
	since := q.addFlags(cmd)
	cmd.Flags().IntVar(&q.limit, "limit", 100, "at most so many of the newest; 0: all")
	cmd.Flags().BoolVarP(&q.follow, "follow", "f", false, "go on with what happens, until interrupted")
	cmd.Flags().StringVarP(&q.format, "output", "o", app.FormatTable,
		"form of the output: table, or json with one event per line")
	cmd.RunE = a.HubCommand(func(ctx context.Context, h *hubclient.Hub, _ []string) error {
		if q.format != app.FormatTable && q.format != app.FormatJSON {
			return fmt.Errorf("unknown form of output %q: known are table, json", q.format)
		}
		if err := app.CheckLeast("limit", q.limit, 0); err != nil {
			return err
		}
		if err := q.settle(a.Now(), *since); err != nil {
			return err
		}
		return showAudit(ctx, a, h, q)
	})
	cmd.AddCommand(auditExport(a))
	return cmd
}

// addFlags adds the flags that choose events, and returns how far back is wanted.
func (q *auditQuery) addFlags(cmd *cobra.Command) *time.Duration {
	cmd.Flags().StringVar(&q.filter.Actor, "user", "", "only what this user did; also agent:NAME and service:NAME")
	cmd.Flags().StringVar(&q.filter.Cluster, "cluster", "", "only what was about this cluster")
	cmd.Flags().StringVar(&q.filter.Action, "action", "",
		"only this action, or those that begin so, up to a dot: tunnel.request, login.*")
	return cmd.Flags().Duration("since", 0, "only what is not older than this, such as 1h")
}

// settle makes the filter what the hub understands: of login.* and login. the hub has login.
func (q *auditQuery) settle(now time.Time, since time.Duration) error {
	if err := app.CheckLeast("since", since, 0); err != nil {
		return err
	}
	q.filter.Action = strings.TrimSuffix(strings.TrimSuffix(q.filter.GetAction(), "*"), ".")
	if since > 0 {
		q.filter.Since = timestamppb.New(now.Add(-since))
	}
	return nil
}

func auditExport(a *app.App) *cobra.Command {
	q := auditQuery{filter: &consolev1.AuditFilter{}, format: app.FormatJSON}
	var file string
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Write the audit trail as JSON, one event per line, the oldest first",
		Long: `Write the audit trail as JSON, one event per line, the oldest first.

The file appears only when it is complete, and only you can read it.`,
		Example: "  fairlead audit export --since 720h -o october.jsonl\n  fairlead audit export | jq .actor",
		Args:    app.WantArgs(0, 0),
	}
	since := q.addFlags(cmd)
	cmd.Flags().StringVarP(&file, "output-file", "o", "", "file to write, instead of stdout")
	cmd.RunE = a.HubCommand(func(ctx context.Context, h *hubclient.Hub, _ []string) error {
		if err := q.settle(a.Now(), *since); err != nil {
			return err
		}
		events, _, err := listAudit(ctx, h, q)
		if err != nil {
			return err
		}
		if file == "" {
			return writeEvents(a.Stdout, events, q.format)
		}
		if err := durable.Replace(file, 0o600, func(w io.Writer) error { return writeEvents(w, events, q.format) }); err != nil {
			return fmt.Errorf("export: %w", err)
		}
		a.Notef("%s %s in %s\n", plural.Of(len(events), "event"), plural.Are(len(events)), file)
		return nil
	})
	return cmd
}

func showAudit(ctx context.Context, a *app.App, h *hubclient.Hub, q auditQuery) error {
	events, resume, err := listAudit(ctx, h, q)
	if err != nil {
		return err
	}
	if len(events) == 0 && !q.follow {
		if err := noteNoEvents(ctx, a, h, q); err != nil {
			return err
		}
	}
	if err := writeEvents(a.Stdout, events, q.format); err != nil || !q.follow {
		return err
	}
	req := &consolev1.WatchAuditEventsRequest{Filter: q.filter, ResumeToken: resume}
	take := func(m *consolev1.WatchAuditEventsResponse) error {
		req.ResumeToken = m.GetResumeToken()
		return writeEvents(a.Stdout, m.GetEvents(), q.format)
	}
	return app.FollowStream(ctx, a, h, h.Audit.WatchAuditEvents, req, take)
}

// noteNoEvents says that nothing fits and, of an action that may be mistyped, which actions there are.
func noteNoEvents(ctx context.Context, a *app.App, h *hubclient.Hub, q auditQuery) error {
	var newest []*consolev1.AuditEvent
	if q.filter.GetAction() != "" {
		var err error
		newest, _, err = listAudit(ctx, h, auditQuery{filter: &consolev1.AuditFilter{}, limit: resource.PageSize})
		if err != nil {
			return err
		}
	}
	if len(newest) == 0 {
		a.Notef("no events\n")
		return nil
	}
	var actions []string
	for _, e := range newest {
		actions = append(actions, e.GetAction())
	}
	slices.Sort(actions)
	known := strings.Join(slices.Compact(actions), ", ")
	a.Notef("no events; the newest %d of all have the actions %s\n", len(newest), known)
	return nil
}

// listAudit returns the newest events, the oldest of them first, and where to go on.
func listAudit(
	ctx context.Context, h *hubclient.Hub, q auditQuery,
) (events []*consolev1.AuditEvent, resume string, err error) {
	for token := ""; ; {
		size := resource.PageSize
		if q.limit > 0 {
			size = min(size, q.limit-len(events))
		}
		call, cancel := context.WithTimeout(ctx, hubclient.CallTimeout)
		res, err := h.Audit.ListAuditEvents(call, &consolev1.ListAuditEventsRequest{Filter: q.filter, PageSize: int32(size), PageToken: token})
		cancel()
		if err != nil {
			return nil, "", err
		}
		if resume == "" {
			resume = res.GetResumeToken()
		}
		events = append(events, res.GetEvents()...)
		if token = res.GetNextPageToken(); token == "" || q.limit > 0 && len(events) >= q.limit {
			slices.Reverse(events)
			return events, resume, nil
		}
	}
}

func writeEvents(w io.Writer, events []*consolev1.AuditEvent, format string) error {
	for _, e := range events {
		line, err := eventLine(e, format)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	return nil
}

func eventLine(e *consolev1.AuditEvent, format string) (string, error) {
	if format == app.FormatJSON {
		return app.JSONLine(e)
	}
	what := e.GetVerb() + " " + e.GetResource()
	if e.GetName() != "" {
		what += " " + e.GetName()
	}
	if e.GetNamespace() != "" {
		what += " in " + e.GetNamespace()
	}
	if e.GetCluster() != "" {
		what += " at " + e.GetCluster()
	}
	outcome := ""
	if e.GetCode() != 0 {
		outcome = fmt.Sprintf(" %d", e.GetCode())
	}
	if d := e.GetDuration().AsDuration(); d > 0 {
		outcome += fmt.Sprintf(" in %s, %s", d.Round(time.Millisecond),
			table.FormatBytes(e.GetBytesSent()+e.GetBytesReceived()))
	}
	if e.GetReason() != "" {
		outcome += ": " + e.GetReason()
	}
	who := strings.TrimPrefix(e.GetActor().GetKind()+":"+e.GetActor().GetName(), "user:")
	if as := e.GetImpersonated().GetName(); as != "" {
		who += " as " + as
	}
	did := strings.TrimSpace(e.GetAction() + " " + strings.TrimSpace(what))
	return table.CleanLine(fmt.Sprintf("%s %s %s%s", e.GetTime().AsTime().UTC().Format("2006-01-02 15:04:05.000"), who, did, outcome)), nil
}
