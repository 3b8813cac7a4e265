package access

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/hubclient"
	"fairlead.dev/cli/internal/resource"
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
		runs := make([][]string, len(ids))
		for i, id := range ids {
			runs[i] = []string{"login", strings.TrimPrefix(id, "login/")}
		}
		return resource.RunEach(runs, func(args []string) error { // a login that is over keeps none of the others open
			call, cancel := context.WithTimeout(ctx, hubclient.CallTimeout)
			defer cancel()
			if _, err := h.Logins.EndLogin(call, &consolev1.EndLoginRequest{Id: args[1]}); err != nil {
				return err
			}
			return a.Printf("login/%s ended\n", args[1])
		}, func(args []string, err error) { a.Notef("%s: %v\n", strings.Join(args, "/"), err) })
	})
}
