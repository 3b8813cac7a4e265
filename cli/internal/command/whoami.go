package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"fairlead.dev/cli/internal/hub"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
)

func (a *app) whoamiCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "whoami",
		Short: "Say who the hub says that you are, and what you may",
		Args:  wantArgs(0, 0),
		RunE: a.hubCommand(func(ctx context.Context, h *hub.Hub, _ []string) error {
			ctx, cancel := context.WithTimeout(ctx, callTimeout)
			defer cancel()
			is, err := h.Access.GetCaller(ctx, &consolev1.GetCallerRequest{})
			if err != nil {
				return err
			}
			if err := a.printf("%s at %s\n", is.GetSubject(), h.Context.URL); err != nil {
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
				if err := a.printf("groups: %s\n", strings.Join(is.GetGroups(), ", ")); err != nil {
					return err
				}
			}
			if isSet(is.GetExpireTime()) {
				what += "\nuntil " + is.GetExpireTime().AsTime().Local().Format(time.DateTime)
			}
			return a.printf("%s\n", what)
		}),
	}
}

func (a *app) logoutCommand() *cobra.Command {
	others := false
	cmd := &cobra.Command{
		Use:   "logout [ID... | --others]",
		Short: "End your login at a hub, and forget its context; or end other logins of yours",
		Long: `End your login at the hub of the context: the token becomes invalid everywhere within 30 s, and the context is forgotten. Where the hub can't be
reached, the context is forgotten all the same, and the token ends by itself.

With IDs of "fairlead get logins" those logins of yours end instead, and with --others all but the one that is used here: in browsers and of commands, with
the shells and streams that run by them. API tokens stay: "fairlead token revoke" ends them.`,
		Example: "  fairlead logout\n  fairlead get logins\n  fairlead logout 7YCZWJ3CYZ2OZ4QPAMUVTGCIZV\n  fairlead logout --others",
		Args:    wantArgs(0, unlimited),
		RunE: func(cmd *cobra.Command, args []string) error {
			if others && len(args) > 0 {
				return usageError(cmd)
			}
			if others || len(args) > 0 {
				return a.endLogins(args)(cmd, nil)
			}
			if a.Getenv(hub.FromEnvironment) != "" {
				return errors.New("the token is in FAIRLEAD_TOKEN, and not of a login: `fairlead token revoke ID` revokes it")
			}
			store, err := a.openStore()
			if err != nil {
				return err
			}
			h, err := a.connectHub(cmd.Context())
			if err != nil {
				return err
			}
			defer h.HTTP.CloseIdleConnections()
			ctx, cancel := context.WithTimeout(cmd.Context(), callTimeout)
			defer cancel()
			if _, err := h.Logins.Logout(ctx, &consolev1.LogoutRequest{}); err != nil {
				a.notef("the token could not be revoked, and ends by itself at %s: %v\n", h.Context.Expires.Local().Format(time.DateTime), err)
			}
			if err := store.Remove(h.Context.Name); err != nil {
				return err
			}
			return a.printf("logged out of %s; context %q is gone\n", h.Context.URL, h.Context.Name)
		},
	}
	cmd.Flags().BoolVar(&others, "others", false, "end all of your logins but the one that is used here")
	return cmd
}

// connectServer connects to the hub of --server, FAIRLEAD_SERVER or the context, with the token of the environment if there is one.
func (a *app) connectServer(ctx context.Context) (*hub.Hub, error) {
	store, err := a.openStore()
	if err != nil {
		return nil, err
	}
	at, token := a.server, a.Getenv(hub.FromEnvironment)
	if at == "" && token != "" {
		at = a.Getenv("FAIRLEAD_SERVER")
	}
	at = strings.TrimRight(at, "/")
	if at == "" && token == "" {
		return hub.Connect(ctx, store, a.context)
	}
	var ca string
	if at == "" {
		of, err := store.Get(a.context)
		if err != nil {
			return nil, fmt.Errorf("FAIRLEAD_TOKEN is set, and it is not known for which hub: give --server URL, or set FAIRLEAD_SERVER (%w)", err)
		}
		at, ca = of.URL, of.CA
	} else {
		of, found, err := store.At(at)
		switch {
		case err != nil:
			return nil, err
		case token == "" && !found:
			return nil, fmt.Errorf("not logged in to %s: run `fairlead login %s`, or set FAIRLEAD_TOKEN", at, at)
		case token == "":
			return hub.Connect(ctx, store, of.Name)
		}
		ca = of.CA
	}
	if name := a.Getenv("FAIRLEAD_CA_FILE"); name != "" {
		pem, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("FAIRLEAD_CA_FILE: %w", err)
		}
		ca = string(pem)
	}
	return hub.ConnectToken(ctx, at, ca, strings.TrimSpace(token))
}
