package command

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"fairlead.dev/cli/internal/contexts"
	"fairlead.dev/cli/internal/hub"
	"fairlead.dev/platform/durable"
)

func (a *app) kubeconfig() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "kubeconfig CLUSTER",
		Short: "Print a kubeconfig that reaches a cluster through the tunnel",
		Long: `Print a kubeconfig that reaches a cluster through the tunnel.

It holds your own token: keep it as you keep a password. It is good as long as the token is, which
is at most 12 hours; get a new one then. The RBAC of the cluster decides what you may do in it, by
your user and groups.`,
		Example: "  fairlead kubeconfig edge-1 --output-file edge-1.kubeconfig\n  kubectl --kubeconfig edge-1.kubeconfig get namespaces",
		Args:    wants(1, 1),
	}
	cmd.Flags().StringVar(&file, "output-file", "", "write to this file, which only you can read, instead of to stdout")
	cmd.RunE = a.hubCommand(func(ctx context.Context, h *hub.Hub, args []string) error {
		return a.writeKubeconfig(ctx, h, args[0], file)
	})
	return cmd
}

func (a *app) writeKubeconfig(ctx context.Context, h *hub.Hub, cluster, file string) error {
	if _, err := clusterKind().one(ctx, h, cluster); err != nil {
		return err
	}
	if len(h.Context.Endpoints.Tunnels) == 0 {
		return errors.New("the hub did not say where its tunnels are: set --advertise-tunnels at the console, then run `fairlead login` again")
	}
	text, err := kubeconfigFor(h.Context, cluster)
	if err != nil {
		return err
	}
	a.notef("good until %s: get a new one then\n", h.Context.Expires.Local().Format(time.DateTime))
	if file == "" {
		return a.printf("%s", text)
	}
	path, err := filepath.Abs(file)
	if err != nil {
		return err
	}
	if err := durable.WriteFile(path, text, 0o600); err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	return nil
}

// kubeconfigFor writes what kubectl, Headlamp, k9s and others read.
func kubeconfigFor(c contexts.Context, cluster string) ([]byte, error) {
	name := cluster + "." + c.Name
	server := map[string]any{"server": c.Endpoints.Tunnels[0] + "/clusters/" + cluster}
	if c.CA != "" {
		server["certificate-authority-data"] = []byte(c.CA) // As base64.
	}
	type named = map[string]any
	text, err := yaml.Marshal(map[string]any{
		"apiVersion":      "v1",
		"kind":            "Config",
		"current-context": name,
		"clusters":        []named{{"name": name, "cluster": server}},
		"users":           []named{{"name": name, "user": named{"token": c.Token}}},
		"contexts":        []named{{"name": name, "context": named{"cluster": name, "user": name}}},
	})
	if err != nil {
		return nil, fmt.Errorf("write kubeconfig: %w", err)
	}
	return text, nil
}
