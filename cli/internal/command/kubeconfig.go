package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"fairlead.dev/cli/internal/contexts"
	"fairlead.dev/cli/internal/hub"
	"fairlead.dev/platform/durable"
)

func (a *app) kubeconfigCommand() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "kubeconfig CLUSTER",
		Short: "Print a kubeconfig that reaches a cluster through the tunnel",
		Long: `Print a kubeconfig that reaches a cluster through the tunnel.

It holds no token: kubectl and others run this command for one that is good for ten minutes, and again when
that is over. It works as long as you are logged in. Grants at the hub decide what you may do at the cluster
("fairlead get grants"), and besides the RBAC of the cluster, by your user and groups.`,
		Example: "  fairlead kubeconfig edge-1 --output-file edge-1.kubeconfig\n  kubectl --kubeconfig edge-1.kubeconfig get namespaces",
		Args:    wantArgs(1, 1),
	}
	cmd.Flags().StringVar(&file, "output-file", "", "write to this file, which only you can read, instead of to stdout")
	cmd.RunE = a.hubCommand(func(ctx context.Context, h *hub.Hub, args []string) error {
		return a.writeKubeconfig(ctx, h, args[0], file)
	})
	return cmd
}

func (a *app) writeKubeconfig(ctx context.Context, h *hub.Hub, cluster, file string) error {
	if _, err := clusterKind().readOne(ctx, h, cluster); err != nil {
		return err
	}
	if len(h.Context.Endpoints.Tunnels) == 0 {
		return errors.New("the hub did not say where its tunnels are: set --advertise-tunnels at the console, then run `fairlead login` again")
	}
	text, err := a.kubeconfigFor(h.Context, cluster)
	if err != nil {
		return err
	}
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

type named = map[string]any

// credentialPlugin is what clients run for a token.
func credentialPlugin(self, config, context string) named {
	return named{
		"apiVersion": credentialVersion, "command": self, "args": []string{credentialVerb, "--context", context},
		"env":             []named{{"name": "FAIRLEAD_CONFIG", "value": config}},
		"interactiveMode": "Never", "provideClusterInfo": false,
		"installHint": "the fairlead command is needed: see `fairlead kubeconfig --help`",
	}
}

// kubeconfigFor writes what kubectl, Headlamp, k9s and others read.
func (a *app) kubeconfigFor(c contexts.Context, cluster string) ([]byte, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("write kubeconfig: %w", err)
	}
	store, err := a.openStore()
	if err != nil {
		return nil, err
	}
	name := cluster + "." + c.Name
	server := map[string]any{"server": c.Endpoints.Tunnels[0] + "/clusters/" + cluster}
	if c.CA != "" {
		server["certificate-authority-data"] = []byte(c.CA) // As base64.
	}
	text, err := yaml.Marshal(map[string]any{
		"apiVersion":      "v1",
		"kind":            "Config",
		"current-context": name,
		"clusters":        []named{{"name": name, "cluster": server}},
		"users":           []named{{"name": name, "user": named{"exec": credentialPlugin(self, store.Path(), c.Name)}}},
		"contexts":        []named{{"name": name, "context": named{"cluster": name, "user": name}}},
	})
	if err != nil {
		return nil, fmt.Errorf("write kubeconfig: %w", err)
	}
	return text, nil
}
