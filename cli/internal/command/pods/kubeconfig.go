package pods

import (
	"context"

	"github.com/spf13/cobra"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/hubclient"
	"fairlead.dev/cli/internal/kubectl"
)

func kubeconfigCommand(a *app.App) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "kubeconfig CLUSTER",
		Short: "Print a kubeconfig that reaches a cluster through the tunnel",
		Long: `Print a kubeconfig that reaches a cluster through the tunnel.

The file holds no token: kubectl and other clients run this command for a token of ten minutes, and again when
it has expired. The file works as long as you are logged in. Grants at the hub ("fairlead get grants") and the RBAC
of the cluster, by your user and groups, decide what you may do at the cluster.

A file that is a kubeconfig already, such as ~/.kube/config, keeps its other entries, and the cluster becomes its
current context.`,
		Example: "  fairlead kubeconfig edge-1 --output-file edge-1.kubeconfig\n  kubectl --kubeconfig edge-1.kubeconfig get namespaces",
		Args:    app.WantArgs(1, 1),
	}
	cmd.Flags().StringVar(&file, "output-file", "",
		"add it to this file, which only you can read, instead of printing it to stdout")
	cmd.RunE = a.HubCommand(func(ctx context.Context, h *hubclient.Hub, args []string) error {
		if file == "" {
			return kubectl.PrintKubeconfig(ctx, a, h, args[0])
		}
		return kubectl.AddToKubeconfig(ctx, a, h, args[0], file)
	})
	return cmd
}
