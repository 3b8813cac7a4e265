package pods

import (
	"context"

	"github.com/spf13/cobra"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/hubclient"
	"fairlead.dev/cli/internal/kubectl"
)

// passToKubectl returns a command that runs kubectl at a cluster. Flags of this command come before the cluster; what
// comes behind it is kubectl's.
func passToKubectl(a *app.App, cmd *cobra.Command, verb ...string) *cobra.Command {
	cmd.Args = app.WantArgs(1, app.Unlimited)
	cmd.Flags().SetInterspersed(false)
	cmd.RunE = a.HubCommand(func(ctx context.Context, h *hubclient.Hub, args []string) error {
		return kubectl.Run(ctx, a, h, args[0], append(verb, args[1:]...))
	})
	return cmd
}

func kubectlCommand(a *app.App) *cobra.Command {
	return passToKubectl(a, &cobra.Command{
		Use:     "kubectl CLUSTER -- ARGS...",
		Short:   "Run kubectl at a cluster, through the tunnel",
		Long:    "Run kubectl at a cluster, through the tunnel. It is looked for beside this program and in PATH.",
		Example: "  fairlead kubectl edge-1 -- get pods -A",
	})
}
