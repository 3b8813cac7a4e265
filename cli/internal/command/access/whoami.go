package access

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/hubclient"
	"fairlead.dev/cli/internal/table"
	"fairlead.dev/cli/internal/view"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
)

func whoamiCommand(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:   "whoami",
		Short: "Show your name at the hub, your groups and your rights",
		Args:  app.WantArgs(0, 0),
		RunE: a.HubCommand(func(ctx context.Context, h *hubclient.Hub, _ []string) error {
			ctx, cancel := context.WithTimeout(ctx, hubclient.CallTimeout)
			defer cancel()
			is, err := h.Access.GetCaller(ctx, &consolev1.GetCallerRequest{})
			if err != nil {
				return err
			}
			if err := a.Printf("%s at %s\n", table.CleanLine(is.GetSubject()), h.Context.URL); err != nil {
				return err
			}
			var grants []string
			for _, g := range is.GetGrants() {
				grants = append(grants, g.GetMetadata().GetName())
			}
			what := "administrator: everything"
			switch {
			case is.GetAdministrator():
			case len(grants) > 0:
				what = "grants: " + strings.Join(grants, ", ")
			default:
				what = "no grants: ask an administrator for one"
			}
			if len(is.GetGroups()) > 0 {
				if err := a.Printf("groups: %s\n", table.CleanLine(strings.Join(is.GetGroups(), ", "))); err != nil {
					return err
				}
			}
			if view.IsSet(is.GetExpireTime()) {
				what += "\nuntil " + is.GetExpireTime().AsTime().Local().Format(time.DateTime)
			}
			return a.Printf("%s\n", what)
		}),
	}
}

func logoutCommand(a *app.App) *cobra.Command {
	others := false
	cmd := &cobra.Command{
		Use:   "logout [ID... | --others]",
		Short: "End your login at a hub, and forget its context; or end other logins of yours",
		Long: `End your login at the hub of the context: the token becomes invalid everywhere within 30 s, and the context is forgotten. If
the hub can't be reached, the context is forgotten all the same, and the token ends at its own time.

With IDs of "fairlead get logins" those logins of yours end instead, and with --others all but the one in use here: in
browsers and of commands, with the shells and streams that run by them. API tokens stay: "fairlead token revoke" ends them.`,
		Example: "  fairlead logout\n  fairlead get logins\n  fairlead logout 7YCZWJ3CYZ2OZ4QPAMUVTGCIZV\n  fairlead logout --others",
		Args:    app.WantArgs(0, app.Unlimited),
		RunE: func(cmd *cobra.Command, args []string) error {
			if others && len(args) > 0 {
				return app.UsageError(cmd)
			}
			if others || len(args) > 0 {
				return endLogins(a, args)(cmd, nil)
			}
			if a.EnvironmentToken() != "" {
				return errors.New("the token is in FAIRLEAD_TOKEN, and not of a login: `fairlead token revoke ID` revokes it")
			}
			store, err := a.OpenStore()
			if err != nil {
				return err
			}
			h, err := a.ConnectHub(cmd.Context())
			if err != nil {
				return err
			}
			defer h.HTTP.CloseIdleConnections()
			ctx, cancel := context.WithTimeout(cmd.Context(), hubclient.CallTimeout)
			defer cancel()
			if _, err := h.Logins.Logout(ctx, &consolev1.LogoutRequest{}); err != nil {
				a.Notef("the token could not be revoked, and ends by itself at %s: %v\n",
					h.Context.Expires.Local().Format(time.DateTime), err)
			}
			if err := store.Remove(h.Context.Name); err != nil {
				return err
			}
			return a.Printf("logged out of %s; context %q is gone\n", h.Context.URL, h.Context.Name)
		},
	}
	cmd.Flags().BoolVar(&others, "others", false, "end all of your logins but the one in use here")
	return cmd
}
