package cluster

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/hubclient"
	"fairlead.dev/cli/internal/resource"
	"fairlead.dev/cli/internal/table"
	"fairlead.dev/cli/internal/view"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
)

// clusterAccess asks for access to a cluster for a while, and lends it.
func clusterAccess(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "access",
		Short: "Ask for access to a cluster for a while, and lend it",
		Long: `Ask for access to a cluster for a while, and lend it.

A request names a role and a time. An administrator approves it, or another person who may edit the cluster and has at
least that role there by a grant without an end. Meanwhile the lent access is a grant ("fairlead get grants" shows it), and
it ends by itself, with the streams that run by it. At the cluster people also have the group fairlead:lent:ROLE, for its
RBAC to bind ("fairlead cluster join NAME --bind fairlead:lent:operator=edit").
Requests and decisions are in the audit trail, and events that sinks tell about: --filter 'type : access.'.`,
		Args: app.OnlyBelow,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(requestAccess(a), listAccess(a), approveAccess(a), denyAccess(a), revokeAccess(a))
	return cmd
}

func requestAccess(a *app.App) *cobra.Command {
	var role, reason string
	var lasts time.Duration
	cmd := &cobra.Command{
		Use:   "request CLUSTER --role ROLE --for DURATION --reason TEXT",
		Short: "Ask for a role at a cluster",
		Long: `Ask for a role at a cluster that you may see. The request waits for 24 h at most.

Roles are viewer, deployer, operator, admin and those of "fairlead get roles"; view and edit, as Kubernetes has them, stand for viewer and operator.`,
		Example: `  fairlead cluster access request edge-1 --role edit --for 1h --reason "incident 7: web is down"`,
		Args:    app.WantArgs(1, 1),
	}
	cmd.Flags().StringVar(&role, "role", "", "`role` to ask for")
	cmd.Flags().DurationVar(&lasts, "for", 0, "how long, from the approval on, such as 1h; 7 days at most")
	cmd.Flags().StringVar(&reason, "reason", "", "why, for those who decide and for the audit trail")
	cmd.RunE = a.HubCommand(func(ctx context.Context, h *hubclient.Hub, args []string) error {
		switch {
		case role == "":
			return errors.New("--role is missing: name the role that you need, such as operator")
		case lasts <= 0:
			return errors.New("--for is missing: say for how long, such as --for 1h")
		case reason == "":
			return errors.New("--reason is missing: say why to those who decide")
		}
		ctx, cancel := context.WithTimeout(ctx, hubclient.CallTimeout)
		defer cancel()
		res, err := h.Lending.CreateAccessRequest(ctx, &consolev1.CreateAccessRequestRequest{
			Cluster: args[0],
			Role:    role, Duration: durationpb.New(lasts), Reason: reason,
		})
		if err != nil {
			return err
		}
		r := res.GetRequest()
		a.Notef("It waits for somebody who may approve it: fairlead cluster access approve %s\n", r.GetId())
		return a.Printf("access/%s requested: role %s at %s for %s\n", r.GetId(), r.GetRole(), r.GetCluster(),
			r.GetDuration().AsDuration())
	})
	return cmd
}

func listAccess(a *app.App) *cobra.Command {
	var all bool
	var format string
	var limit int
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "Show requests: your own, and those that you may decide about",
		Example: "  fairlead cluster access list\n  fairlead cluster access list --all -o json",
		Args:    app.WantArgs(0, 0),
	}
	cmd.Flags().IntVar(&limit, "limit", 200, "list so many of the newest at most; 0: all")
	cmd.Flags().BoolVar(&all, "all", false, "those that are over, too; they are kept for 90 days")
	cmd.Flags().StringVarP(&format, "output", "o", app.FormatTable, "form of the output: table, wide, json, yaml")
	cmd.RunE = a.HubCommand(func(ctx context.Context, h *hubclient.Hub, _ []string) error {
		if err := app.CheckLeast("limit", limit, 0); err != nil {
			return err
		}
		if limit == 0 {
			limit = math.MaxInt
		}
		list := &consolev1.ListAccessRequestsResponse{}
		for token := ""; len(list.GetRequests()) < limit; {
			res, err := h.Lending.ListAccessRequests(ctx,
				&consolev1.ListAccessRequestsRequest{PageSize: int32(min(limit-len(list.GetRequests()), resource.PageSize)), PageToken: token, All: all})
			if err != nil {
				return err
			}
			list.Requests = append(list.Requests, res.GetRequests()...)
			if token = res.GetNextPageToken(); token == "" {
				break
			}
		}
		switch format {
		case app.FormatJSON, app.FormatYAML:
			return a.ShowPlain(format, list)
		case app.FormatTable, app.FormatWide:
		default:
			return fmt.Errorf("unknown form of output %q: known are table, wide, json, yaml", format)
		}
		if len(list.GetRequests()) == 0 {
			a.Notef("no requests\n")
			return nil
		}
		v := view.View{Now: a.Now(), Wide: format == app.FormatWide}
		t := v.NewTable([]string{"ID", "STATE", "CLUSTER", "ROLE", "SUBJECT", "FOR", "AGE", "REASON"}, "DECIDER", "UNTIL")
		for _, r := range list.GetRequests() {
			until := ""
			if view.IsSet(r.GetUntilTime()) {
				until = r.GetUntilTime().AsTime().Local().Format(time.RFC3339)
			}
			v.AddRow(t, []string{
				r.GetId(), accessState(r), r.GetCluster(), r.GetRole(), r.GetSubject(),
				r.GetDuration().AsDuration().String(), v.AgoText(r.GetCreateTime()), r.GetReason(),
			}, r.GetDecider(), until)
		}
		return t.Write(a.Stdout)
	})
	return cmd
}

// accessState is the state of a request in a word.
func accessState(r *consolev1.AccessRequest) string {
	return strings.ToLower(strings.TrimPrefix(r.GetState().String(), "ACCESS_REQUEST_STATE_"))
}

// accessVerb is a command that decides about one request.
func accessVerb(a *app.App, use, short, long string, do func(ctx context.Context, h *hubclient.Hub, id, reason string) (*consolev1.AccessRequest, error)) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: use + " ID", Short: short, Long: long,
		Example: fmt.Sprintf("  fairlead cluster access %s 019a8b2f4c11d0e6a1b2c3d4e5f60718", use),
		Args:    app.WantArgs(1, 1),
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for everybody who sees the request and for the audit trail")
	cmd.RunE = a.HubCommand(func(ctx context.Context, h *hubclient.Hub, args []string) error {
		ctx, cancel := context.WithTimeout(ctx, hubclient.CallTimeout)
		defer cancel()
		r, err := do(ctx, h, strings.TrimPrefix(args[0], "access/"), reason)
		if err != nil {
			return err
		}
		until := ""
		if r.GetState() == consolev1.AccessRequestState_ACCESS_REQUEST_STATE_APPROVED {
			until = " until " + r.GetUntilTime().AsTime().Local().Format(time.RFC3339)
		}
		return a.Printf("access/%s %s: role %s at %s for %s%s\n",
			r.GetId(), accessState(r), r.GetRole(), r.GetCluster(), table.CleanLine(r.GetSubject()), until)
	})
	return cmd
}

func approveAccess(a *app.App) *cobra.Command {
	return accessVerb(a, "approve", "Lend what a request asks for",
		`Approve a request: the access is lent from now on. Nobody approves a request of their own.`,
		func(ctx context.Context, h *hubclient.Hub, id, reason string) (*consolev1.AccessRequest, error) {
			res, err := h.Lending.ApproveAccessRequest(ctx, &consolev1.ApproveAccessRequestRequest{Id: id, Reason: reason})
			return res.GetRequest(), err
		})
}

func denyAccess(a *app.App) *cobra.Command {
	return accessVerb(a, "deny", "Refuse what a request asks for", `Deny a request: the access is not lent.`,
		func(ctx context.Context, h *hubclient.Hub, id, reason string) (*consolev1.AccessRequest, error) {
			res, err := h.Lending.DenyAccessRequest(ctx, &consolev1.DenyAccessRequestRequest{Id: id, Reason: reason})
			return res.GetRequest(), err
		})
}

func revokeAccess(a *app.App) *cobra.Command {
	return accessVerb(a, "revoke", "End what is lent before its time, or take a request back",
		`End lent access before its time, with the streams that run by it within 30 s, or take back a request that waits. The
requester may do so, and everybody who could approve the request.`,
		func(ctx context.Context, h *hubclient.Hub, id, reason string) (*consolev1.AccessRequest, error) {
			res, err := h.Lending.RevokeAccessRequest(ctx, &consolev1.RevokeAccessRequestRequest{Id: id, Reason: reason})
			return res.GetRequest(), err
		})
}
