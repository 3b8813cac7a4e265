package lever

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/hubclient"
	"fairlead.dev/cli/internal/resource"
	"fairlead.dev/cli/internal/table"
	"fairlead.dev/cli/internal/view"
	artifactv1 "fairlead.dev/gen/fairlead/artifact/v1"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/catalogyaml"
)

// historySize is how many entries of a history are shown unless told otherwise.
const historySize = 20

func historyCommand(a *app.App) *cobra.Command {
	var format string
	var changes bool
	var limit int32
	cmd := &cobra.Command{
		Use:   "history service NAME",
		Short: "Show what was delivered of a service, and how long each step took",
		Long: `Show the deployments of a service, the newest first: the cause of each, its result, when it was delivered, how long each
step took after the one before (commit, fetched, delivered, applied, healthy), and how the last run of its tests went.
Levers stand between them, on lines without a number, as do a deletion and its undoing; the levers of now stand below.
Where deployments differ in SOURCE or PATH, the table shows that. "fairlead rollback service NAME NUMBER" goes back to a
deployment.

With --changes: the changes of the service in the catalog, with author and time, also of a deleted service.`,
		Example: `  fairlead history service shop
  fairlead history service shop --changes`,
		Args: app.WantArgs(2, 2),
	}
	cmd.Flags().StringVarP(&format, "output", "o", app.FormatTable, "form of the output: table, json or yaml")
	cmd.Flags().BoolVar(&changes, "changes", false, "what was changed in the catalog")
	cmd.Flags().Int32Var(&limit, "limit", historySize, "at most so many, up to 1000")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if k, err := resource.FindKind(args[0]); err != nil || k.ID != catalogyaml.Service {
			return app.UsageError(cmd)
		}
		if err := app.CheckPlainFormat(format); err != nil {
			return err
		}
		return a.HubCommand(func(ctx context.Context, h *hubclient.Hub, args []string) error {
			if changes {
				return showChanges(ctx, a, h, args[0], format, limit)
			}
			return showDeployments(ctx, a, h, args[0], format, limit)
		})(cmd, args[1:])
	}
	return cmd
}

func showDeployments(ctx context.Context, a *app.App, h *hubclient.Hub, name, format string, limit int32) error {
	got, err := h.History.ListDeployments(ctx, &consolev1.ListDeploymentsRequest{Service: name, PageSize: limit})
	if err != nil {
		return err
	}
	if format != app.FormatTable {
		return a.ShowPlain(format, got)
	}
	if len(got.GetDeployments()) == 0 {
		a.Notef("nothing was delivered of service %q yet: `fairlead trace service %s` says why\n", name, name)
		return nil
	}
	pulled, err := leversBetween(ctx, h, name, got)
	if err != nil {
		return err
	}
	now, err := h.Services.GetService(ctx, &consolev1.GetServiceRequest{Name: name})
	isDeleted := connect.CodeOf(err) == connect.CodeNotFound
	if err != nil && !isDeleted {
		return err
	}
	v := view.View{Now: a.Now()}
	origin := originColumns(got.GetDeployments())
	t := v.NewTable(slices.Insert([]string{
		"NUMBER", "COMMIT", "BY", "OUTCOME", "WHEN", "FETCHED", "DELIVERED", "APPLIED", "HEALTHY", "TESTS",
	}, afterCommit, origin.heads...))
	for _, d := range got.GetDeployments() {
		for len(pulled) > 0 && pulled[0].GetTime().AsTime().After(d.GetDeliverTime().AsTime()) {
			v.AddRow(t, slices.Insert(leverCells(v, pulled[0]), afterCommit, make([]string, len(origin.heads))...))
			pulled = pulled[1:]
		}
		committed, fetched := d.GetCommit().GetCommitTime(), d.GetFetchTime()
		if d.GetCause() != consolev1.DeploymentCause_DEPLOYMENT_CAUSE_COMMIT {
			committed, fetched = nil, nil // the content was there before
		}
		why := catalogyaml.Short(d.GetCause())
		if author, _, _ := strings.Cut(d.GetAuthor(), " <"); author != "" {
			why += ", " + author
		}
		v.AddRow(t, slices.Insert([]string{
			strconv.FormatInt(d.GetNumber(), 10), revisionOf(now.GetService(), d.GetCommit()),
			why, catalogyaml.Short(d.GetOutcome()), v.AgoText(d.GetDeliverTime()),
			formatStep(committed, fetched), formatStep(fetched, d.GetDeliverTime()),
			formatStep(d.GetDeliverTime(), d.GetApplyTime()),
			formatStep(d.GetApplyTime(), d.GetHealthyTime()), view.SummarizeTests(d.GetTests()),
		}, afterCommit, origin.cells(d)...))
	}
	if err := a.WriteTable(t); err != nil {
		return err
	}
	if isDeleted {
		return nil
	}
	return a.Printf("%s", v.NotesText(v.PullNotes(now.GetService())))
}

// afterCommit is the place of further columns.
const afterCommit = 2

// columns are further ones of deployments.
type columns struct {
	heads []string
	texts []func(*consolev1.Deployment) string
}

func (c columns) cells(d *consolev1.Deployment) (texts []string) {
	for _, text := range c.texts {
		texts = append(texts, text(d))
	}
	return texts
}

// originColumns are where deployments come from, as far as they differ in it: for most services it is the same always,
// and an old console has not noted it.
func originColumns(deployments []*consolev1.Deployment) (made columns) {
	for _, origin := range []struct {
		head string
		text func(*consolev1.Deployment) string
	}{{"SOURCE", (*consolev1.Deployment).GetSource}, {"PATH", (*consolev1.Deployment).GetPath}} {
		known := map[string]bool{}
		for _, d := range deployments {
			if d.GetSource() != "" {
				known[origin.text(d)] = true
			}
		}
		if len(known) > 1 {
			made.heads, made.texts = append(made.heads, origin.head), append(made.texts, origin.text)
		}
	}
	return made
}

// revisionOf is a revision of a service as lists show it: of several sources with that of each.
func revisionOf(s *consolev1.Service, r *artifactv1.Revision) string {
	if len(s.GetSpec().GetSources()) > 0 {
		return strings.TrimSpace(view.ShortHash(r.GetCommit()) + " " + r.GetSubject())
	}
	return view.ShortHash(r.GetCommit())
}

// leversBetween are what operators pulled since the oldest of the deployments, the newest first.
func leversBetween(
	ctx context.Context, h *hubclient.Hub, name string, of *consolev1.ListDeploymentsResponse,
) (pulled []*consolev1.Revision, err error) {
	oldest := of.GetDeployments()[len(of.GetDeployments())-1].GetDeliverTime().AsTime()
	for req := (&consolev1.ListRevisionsRequest{
		Kind: consolev1.Kind_KIND_SERVICE, Name: name, PageSize: leverPage,
	}); ; {
		page, err := h.History.ListRevisions(ctx, req)
		if err != nil {
			return nil, err
		}
		for _, r := range page.GetRevisions() {
			if r.GetTime().AsTime().Before(oldest) {
				return pulled, nil
			}
			switch r.GetAction() {
			case "held", "resumed", "pinned", "released", "rolled back", "sync asked", "sync asked over closed windows",
				"confirmed", "deleted", "undeleted":
				pulled = append(pulled, r)
			}
		}
		if req.PageToken = page.GetNextPageToken(); req.GetPageToken() == "" {
			return pulled, nil
		}
	}
}

// leverPage is how many revisions are looked at in one call.
const leverPage = 200

// leverCells are a lever as a line between deployments: without a number, an outcome and steps.
func leverCells(v view.View, r *consolev1.Revision) []string {
	s := r.GetResource().GetService()
	sync, lever := s.GetSpec().GetSync(), s.GetLevers().GetMode()
	what, commit := r.GetAction(), ""
	if mode := sync.GetMode(); what == "held" {
		switch mode {
		case deliveryv1.SyncMode_SYNC_MODE_SUSPEND:
			what = "suspended"
		case deliveryv1.SyncMode_SYNC_MODE_DRY_RUN:
			what = "dry run"
		case deliveryv1.SyncMode_SYNC_MODE_MANUAL:
			what = "manual mode"
		}
	}
	if what == "pinned" || what == "rolled back" {
		commit, lever = view.ShortHash(sync.GetPin()), s.GetLevers().GetPin()
	}
	what += ", " + r.GetAuthor()
	switch r.GetAction() {
	case "held", "pinned", "rolled back":
		what += view.FormatReason(cmp.Or(lever.GetReason(), sync.GetReason()))
		if at := lever.GetUntilTime(); view.IsSet(at) {
			what += ", until " + at.AsTime().Local().Format(time.RFC3339)
		}
	}
	return []string{"", commit, what, "", v.AgoText(r.GetTime()), "", "", "", "", ""}
}

// formatStep returns how long a step took; empty if it, or the one before, is not known.
func formatStep(begin, end *timestamppb.Timestamp) string {
	if begin == nil || end == nil {
		return ""
	}
	return "+" + max(end.AsTime().Sub(begin.AsTime()), 0).Round(100*time.Millisecond).String()
}

func showChanges(ctx context.Context, a *app.App, h *hubclient.Hub, name, format string, limit int32) error {
	got, err := h.History.ListRevisions(ctx, &consolev1.ListRevisionsRequest{Kind: consolev1.Kind_KIND_SERVICE, Name: name, PageSize: limit})
	if err != nil {
		return err
	}
	if format != app.FormatTable {
		return a.ShowPlain(format, got)
	}
	for _, r := range got.GetRevisions() {
		author, at := table.CleanLine(r.GetAuthor()), r.GetTime().AsTime().Format(time.RFC3339)
		if err := a.Printf("revision %d %s by %s at %s\n%s\n", r.GetRevision(), r.GetAction(), author, at,
			table.CleanText(r.GetDiff())); err != nil {
			return err
		}
	}
	return nil
}

func rollbackCommand(a *app.App) *cobra.Command {
	var reason string
	var keep bool
	cmd := leverCommand("rollback service NAME [NUMBER]", "Go back to what was delivered of a service before", `Go back to a deployment of "fairlead history service NAME": the one with the NUMBER, or else the last healthy one before the
current one with another content. The service gets the spec and the commit of that deployment; its cluster, project and
configuration, windows and a manual mode of its file stay as they are. Other changes of the service in the catalog wait
meanwhile. When its ref points to another commit than now, the service follows
the ref again by itself: push the repair, and it is delivered. With --keep the rollback stays until "fairlead pin service
NAME --release"; with --for or --until also until that time. On a held service the rollback takes the place of the hold, and
is kept.

With --filter, --cluster or --global, or the name of a global service, several services go back at once, each to its own last
one: the command shows them, and asks on a terminal; scripts say --yes, and --dry-run only shows them.`, `  fairlead rollback service shop --reason "2.0 loses orders" --wait
  fairlead rollback service shop 7 --keep
  fairlead rollback globalservice logs --reason "2.0 loses lines"`, app.WantArgs(1, 3))
	cmd.Flags().StringVar(&reason, "reason", "", "why, for everybody to see")
	cmd.Flags().BoolVar(&keep, "keep", false, "stay there, whatever is pushed")
	ends := endFlags(a, cmd)
	return pullMany(a, cmd, "roll back", nil, func(ctx context.Context, h *hubclient.Hub, args []string) (*consolev1.Service, error) {
		number := int64(0)
		if len(args) > 1 {
			var err error
			if number, err = strconv.ParseInt(args[1], 10, 64); err != nil || number <= 0 {
				return nil, fmt.Errorf("%q is no number of a deployment: `fairlead history service %s` lists them", args[1], args[0])
			}
		}
		until, err := ends.endTime()
		if err != nil {
			return nil, err
		}
		before, err := h.Services.GetService(ctx, &consolev1.GetServiceRequest{Name: args[0]})
		if err != nil {
			return nil, err
		}
		out, err := h.History.RollbackService(ctx, &consolev1.RollbackServiceRequest{
			Service:    args[0],
			Deployment: number, Reason: reason, Keep: keep, UntilTime: until,
		})
		if err != nil {
			return nil, err
		}
		if sync := before.GetService().GetSpec().GetSync(); sync.GetMode() == deliveryv1.SyncMode_SYNC_MODE_HOLD {
			a.Notef("it was held%s: the rollback takes the place of the hold, and stays until `fairlead pin service %s --release`\n", view.FormatReason(sync.GetReason()), args[0])
		}
		a.Notef("back to deployment %d, %s\n", out.GetDeployment().GetNumber(),
			view.ShortHash(out.GetDeployment().GetCommit().GetCommit()))
		return out.GetService(), nil
	})
}
