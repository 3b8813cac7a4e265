package access

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/hubclient"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/plural"
)

// endLogins ends the caller's logins of some ids, or without any all but the one that is used here.
func endLogins(a *app.App, ids []string) func(*cobra.Command, []string) error {
	return a.HubCommand(func(ctx context.Context, h *hubclient.Hub, _ []string) error {
		if len(ids) == 0 {
			call, cancel := context.WithTimeout(ctx, hubclient.CallTimeout)
			defer cancel()
			res, err := h.Logins.EndOtherLogins(call, &consolev1.EndOtherLoginsRequest{})
			if err != nil {
				return err
			}
			return a.Printf("%s ended\n", plural.Of(int(res.GetEnded()), "other login"))
		}
		for _, id := range ids {
			id = strings.TrimPrefix(id, "login/")
			call, cancel := context.WithTimeout(ctx, hubclient.CallTimeout)
			_, err := h.Logins.EndLogin(call, &consolev1.EndLoginRequest{Id: id})
			cancel()
			if err != nil {
				return err
			}
			if err := a.Printf("login/%s ended\n", id); err != nil {
				return err
			}
		}
		return nil
	})
}
