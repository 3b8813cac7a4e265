package kubectl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"sigs.k8s.io/yaml"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/contexts"
	"fairlead.dev/cli/internal/hubclient"
	"fairlead.dev/cli/internal/resource"
	"fairlead.dev/platform/durable"
)

const (
	CredentialVerb    = "kubectl-credential" //nolint:gosec // an API, no secret
	CredentialVersion = "client.authentication.k8s.io/v1"
)

// WriteKubeconfig writes a kubeconfig for a cluster, which kubectl uses through the tunnel.
func WriteKubeconfig(ctx context.Context, a *app.App, h *hubclient.Hub, cluster, file string) error {
	if err := CheckCluster(ctx, h, cluster); err != nil {
		return err
	}
	if len(h.Context.Endpoints.Tunnels) == 0 {
		return errors.New("the hub did not say where its tunnels are: set --advertise-tunnels at the console, then run `fairlead login` again")
	}
	return a.Printf("%s", text)
}

// AddToKubeconfig brings the kubeconfig for a cluster into a file of the person. What else is in the file stays.
func AddToKubeconfig(ctx context.Context, a *app.App, h *hubclient.Hub, cluster, file string) error {
	text, err := makeKubeconfig(ctx, a, h, cluster)
	if err != nil {
		return err
	}
	if file == "" {
		return a.Printf("%s", text)
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

// CheckCluster refuses a cluster that the console does not have. While the console is away the tunnel answers for it,
// if it is known where a tunnel is.
func CheckCluster(ctx context.Context, h *hubclient.Hub, cluster string) error {
	ctx, cancel := context.WithTimeout(ctx, hubclient.AsideTimeout)
	defer cancel()
	_, err := resource.ClusterKind().ReadOne(ctx, h, cluster)
	if hubclient.IsAway(err) && len(h.Context.Endpoints.Tunnels) > 0 {
		return nil
	}
	return err
}

type named = map[string]any

// credentialPlugin is what clients run for a token.
func credentialPlugin(self, config, context string) named {
	return named{
		"apiVersion": CredentialVersion, "command": self, "args": []string{CredentialVerb, "--context", context},
		"env":             []named{{"name": "FAIRLEAD_CONFIG", "value": config}},
		"interactiveMode": "Never", "provideClusterInfo": false,
		"installHint": "the fairlead command is needed: see `fairlead kubeconfig --help`",
	}
}

// kubeconfigFor writes what kubectl, Headlamp, k9s and others read.
func kubeconfigFor(a *app.App, c contexts.Context, cluster string) ([]byte, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("write kubeconfig: %w", err)
	}
	store, err := a.OpenStore()
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
