package access

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/hubclient"
	"fairlead.dev/cli/internal/table"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
)

func tokenCommand(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "token",
		Aliases: []string{"tokens"},
		Short:   "Make, list and revoke API tokens, for programs",
		Args:    app.OnlyBelow,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(tokenCreate(a), tokenList(a), &cobra.Command{
		Use:   "revoke ID",
		Short: "Make a token, and those that it was exchanged for, invalid everywhere within 30 s",
		Args:  app.WantArgs(1, 1),
		RunE: a.HubCommand(func(ctx context.Context, h *hubclient.Hub, args []string) error {
			ctx, cancel := context.WithTimeout(ctx, hubclient.CallTimeout)
			defer cancel()
			if _, err := h.Tokens.RevokeToken(ctx, &consolev1.RevokeTokenRequest{Id: args[0]}); err != nil {
				return err
			}
			return a.Printf("token/%s revoked\n", args[0])
		}),
	})
	return cmd
}

func tokenCreate(a *app.App) *cobra.Command {
	var in consolev1.CreateTokenRequest
	var lifetime time.Duration
	limits := &consolev1.TokenLimits{}
	var clusters []string
	cmd := &cobra.Command{
		Use:   "create",
		Short: "Make a token for yourself, or for a service account",
		Long: `Make a token for yourself, or for a service account. The token may do what its owner may, within the limits given here.

The token is printed to stdout, and never shown again. The console takes it as it is ("Authorization: Bearer ..."), and so
does "fairlead login URL --token-file FILE".`,
		Example: "  fairlead token create --service-account ci --role deployer --project shop > ci.token",
		Args:    app.WantArgs(0, 0),
	}
	cmd.Flags().StringVar(&in.ServiceAccount, "service-account", "", "owner; default: you")
	cmd.Flags().StringVar(&in.Description, "description", "", "what it is for")
	cmd.Flags().DurationVar(&lifetime, "lifetime", 30*24*time.Hour, "how long it is good, at most a year (8760h)")
	cmd.Flags().StringVar(&limits.Role, "role", "", "no more than this role")
	cmd.Flags().StringArrayVar(&limits.Projects, "project", nil, "only resources of this project; may be repeated")
	cmd.Flags().StringArrayVar(&clusters, "cluster", nil, "only this cluster; may be repeated")
	cmd.RunE = a.HubCommand(func(ctx context.Context, h *hubclient.Hub, _ []string) error {
		if len(clusters) > 0 {
			limits.Clusters = &consolev1.ClusterSelector{Names: clusters}
		}
		in.Limits, in.Lifetime = limits, durationpb.New(lifetime)
		ctx, cancel := context.WithTimeout(ctx, hubclient.CallTimeout)
		defer cancel()
		res, err := h.Tokens.CreateToken(ctx, &in)
		if err != nil {
			return err
		}
		a.Notef("token %s, good until %s\n", res.GetInfo().GetId(),
			res.GetInfo().GetExpireTime().AsTime().Local().Format(time.DateTime))
		return a.Printf("%s\n", res.GetToken())
	})
	return cmd
}

func tokenList(a *app.App) *cobra.Command {
	var subject string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List your tokens; administrators see all",
		Args:  app.WantArgs(0, 0),
	}
	cmd.Flags().StringVar(&subject, "subject", "", "only those of user:NAME or serviceaccount:NAME")
	cmd.RunE = a.HubCommand(func(ctx context.Context, h *hubclient.Hub, _ []string) error {
		listed := 0
		t := table.New("ID", "OWNER", "LIMITS", "EXPIRES", "USED", "DESCRIPTION")
		for token := ""; ; {
			res, err := h.Tokens.ListTokens(ctx, &consolev1.ListTokensRequest{Subject: subject, PageToken: token, PageSize: 1000})
			if err != nil {
				return err
			}
			for _, info := range res.GetTokens() {
				t.AddRow(info.GetId(), info.GetSubject(), limitsText(info.GetLimits()),
					a.FormatMoment(info.GetExpireTime()),
					a.FormatMoment(info.GetLastUseTime()), info.GetDescription())
			}
			listed += len(res.GetTokens())
			if token = res.GetNextPageToken(); token == "" {
				break
			}
		}
		if listed == 0 {
			a.Notef("no tokens yet: make one with `fairlead token create`\n")
			return nil
		}
		return a.WriteTable(t)
	})
	return cmd
}

func limitsText(l *consolev1.TokenLimits) string {
	var parts []string
	if l.GetRole() != "" {
		parts = append(parts, "role "+l.GetRole())
	}
	if len(l.GetProjects()) > 0 {
		parts = append(parts, "projects "+strings.Join(l.GetProjects(), " "))
	}
	if names := l.GetClusters().GetNames(); len(names) > 0 {
		parts = append(parts, "clusters "+strings.Join(names, " "))
	}
	if len(l.GetClusters().GetLabels()) > 0 {
		parts = append(parts, "some clusters")
	}
	return strings.Join(parts, ", ")
}
