package admin

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/hubclient"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
)

func checkBackend(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:   "check-backend BACKEND [PATH]",
		Short: "Read from a backend of configuration now, and say how that went",
		Long: `Read a backend of configuration now, and report the result: whether the backend lets the hub in; with a PATH, which keys
are there. Values are not shown.`,
		Example: "  fairlead admin check-backend vault\n  fairlead admin check-backend vault shop/db",
		Args:    app.WantArgs(1, 2),
		RunE: a.HubCommand(func(ctx context.Context, h *hubclient.Hub, args []string) error {
			ctx, cancel := context.WithTimeout(ctx, hubclient.CallTimeout)
			defer cancel()
			got, err := h.Backends.GetBackend(ctx, &consolev1.GetBackendRequest{Name: args[0]})
			if err != nil {
				return err
			}
			req := &consolev1.CheckBackendRequest{Backend: got.GetBackend()}
			if len(args) > 1 {
				req.Path = args[1]
			}
			res, err := h.Backends.CheckBackend(ctx, req)
			switch {
			case err != nil:
				return err
			case res.GetProblem() != "":
				return fmt.Errorf("backend %q: %s", args[0], strings.TrimSpace(req.GetPath()+" "+res.GetProblem()))
			case req.GetPath() == "":
				return a.Printf("backend %q can be read\n", args[0])
			}
			return a.Printf("%s\n", strings.Join(res.GetKeys(), "\n"))
		}),
	}
}
