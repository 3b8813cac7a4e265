package admin

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/hubclient"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
)

func adminCommand(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "admin",
		Short: "Administer the hub",
		Args:  app.OnlyBelow,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(adminToken(a), adminLoginLink(a), adminRevoke(a), adminRotateKey(a), checkBackend(a),
		testSinkAsBefore(a), adminBackup(a), adminRestore(a))
	return cmd
}

func adminLoginLink(a *app.App) *cobra.Command {
	var groups []string
	cmd := &cobra.Command{
		Use:   "login-link USER",
		Short: "Make a link with which a person logs in, once, within 10 minutes",
		Long: `Make a link with which a person logs in, once, within 10 minutes: in a browser, or with "fairlead login LINK".

Grants decide what the person may do: see "fairlead get grants".`,
		Example: "  fairlead admin login-link ada --group fairlead:admins",
		Args:    app.WantArgs(1, 1),
	}
	cmd.Flags().StringArrayVar(&groups, "group", nil, "group that the user is in; may be repeated")
	cmd.RunE = a.HubCommand(func(ctx context.Context, h *hubclient.Hub, args []string) error {
		ctx, cancel := context.WithTimeout(ctx, hubclient.CallTimeout)
		defer cancel()
		res, err := h.Logins.CreateLoginLink(ctx, &consolev1.CreateLoginLinkRequest{User: args[0], Groups: groups})
		if err != nil {
			return err
		}
		return a.Printf("%s\n", res.GetLink())
	})
	return cmd
}

func adminToken(a *app.App) *cobra.Command {
	var groups []string
	var lifetime time.Duration
	cmd := &cobra.Command{
		Use:   "token USER",
		Short: "Make a token for a user, to hand to that person",
		Long: `Make a token for a user, to hand to that person: "fairlead login URL --token-file FILE" takes it.

The token can't be renewed. Grants decide what the user may do: see "fairlead get grants".`,
		Example: "  fairlead admin token bob --group dev > bob.token",
		Args:    app.WantArgs(1, 1),
	}
	cmd.Flags().StringArrayVar(&groups, "group", nil, "group that the user is in; may be repeated")
	cmd.Flags().DurationVar(&lifetime, "lifetime", 12*time.Hour, "how long the token is good, at most 12h")
	cmd.RunE = a.HubCommand(func(ctx context.Context, h *hubclient.Hub, args []string) error {
		ctx, cancel := context.WithTimeout(ctx, hubclient.CallTimeout)
		defer cancel()
		res, err := h.Identity.CreateUserToken(ctx, &consolev1.CreateUserTokenRequest{User: args[0], Groups: groups, Lifetime: durationpb.New(lifetime)})
		if err != nil {
			return err
		}
		a.Notef("good until %s\n", res.GetToken().GetExpireTime().AsTime().Local().Format(time.DateTime))
		return a.Printf("%s\n", res.GetToken().GetToken())
	})
	return cmd
}

func adminRevoke(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:   "revoke SUBJECT",
		Short: "Make all tokens that somebody has invalid everywhere within 30 s",
		Long: `Make all tokens of user:NAME, agent:CLUSTER or service:NAME invalid everywhere within 30 s, and end the streams that run
with them. With token:ID only that token and those that it was renewed to; the audit trail has the ID.

If the hub knows no token of the name, the command says so: the name may be mistyped. Tokens that the hub does not know,
such as those that are newer than the backup from which its database was restored, are revoked all the same.

A person may log in again, unless the identity provider refuses. An agent needs a new join token, see "fairlead cluster join";
"fairlead token revoke" ends one API token.`,
		Example: "  fairlead admin revoke user:ada",
		Args:    app.WantArgs(1, 1),
		RunE: a.HubCommand(func(ctx context.Context, h *hubclient.Hub, args []string) error {
			kind, name, _ := strings.Cut(args[0], ":")
			if name == "" || kind != "user" && kind != "agent" && kind != "service" && kind != "token" {
				return fmt.Errorf("subject %q: must be user:NAME, agent:CLUSTER, service:NAME or token:ID", args[0])
			}
			ctx, cancel := context.WithTimeout(ctx, hubclient.CallTimeout)
			defer cancel()
			req := &consolev1.RevokeTokensRequest{Which: &consolev1.RevokeTokensRequest_Subject{Subject: args[0]}}
			if kind == "token" {
				req.Which = &consolev1.RevokeTokensRequest_TokenId{TokenId: name}
			}
			res, err := h.Identity.RevokeTokens(ctx, req)
			switch {
			case err != nil:
				return err
			case res.GetUnknown():
				return a.Printf("the hub knows no token of %s: is the name right? Tokens that it does not know are revoked, too\n", args[0])
			}
			return a.Printf("tokens of %s revoked\n", args[0])
		}),
	}
}

func adminRotateKey(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:   "rotate-key",
		Short: "Make a new key that signs tokens, from 30 s later on",
		Long: `Make a new key for signing tokens, in use after 30 s. The key before is trusted until the last token that it could have
signed has expired, seven days later.`,
		Args: app.WantArgs(0, 0),
		RunE: a.HubCommand(func(ctx context.Context, h *hubclient.Hub, _ []string) error {
			ctx, cancel := context.WithTimeout(ctx, hubclient.CallTimeout)
			defer cancel()
			res, err := h.Identity.RotateSigningKey(ctx, &consolev1.RotateSigningKeyRequest{})
			if err != nil {
				return err
			}
			return a.Printf("key %s signs in 30 s\n", res.GetKeyId())
		}),
	}
}
