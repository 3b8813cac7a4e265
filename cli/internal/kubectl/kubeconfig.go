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

// WriteKubeconfig replaces a file by a kubeconfig for a cluster, which kubectl uses through the tunnel.
func WriteKubeconfig(ctx context.Context, a *app.App, h *hubclient.Hub, cluster, file string) error {
	text, err := makeKubeconfig(ctx, a, h, cluster)
	if err != nil {
		return err
	}
	return writeFile(file, text)
}

// PrintKubeconfig prints a kubeconfig for a cluster.
func PrintKubeconfig(ctx context.Context, a *app.App, h *hubclient.Hub, cluster string) error {
	text, err := makeKubeconfig(ctx, a, h, cluster)
	if err != nil {
		return err
	}
	return a.Printf("%s", text)
}

// AddToKubeconfig brings the kubeconfig for a cluster into a file of the person. What else is in the file stays.
func AddToKubeconfig(ctx context.Context, a *app.App, h *hubclient.Hub, cluster, file string) error {
	text, err := makeKubeconfig(ctx, a, h, cluster)
	if err != nil {
		return err
	}
	if real, err := filepath.EvalSymlinks(file); err == nil {
		file = real // a link stays one
	}
	before, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(bytes.TrimSpace(before)) == 0 {
		return writeFile(file, text)
	}
	if err != nil {
		return fmt.Errorf("read kubeconfig: %w", err)
	}
	merged, err := mergeKubeconfigs(before, text)
	if err != nil {
		return fmt.Errorf("%s %w, and stays as it is: name another file", file, err)
	}
	return writeFile(file, merged)
}

func writeFile(file string, text []byte) error {
	path, err := filepath.Abs(file)
	if err != nil {
		return err
	}
	if err := durable.WriteFile(path, text, 0o600); err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	return nil
}

// makeKubeconfig returns a kubeconfig for a cluster that there is.
func makeKubeconfig(ctx context.Context, a *app.App, h *hubclient.Hub, cluster string) ([]byte, error) {
	if err := CheckCluster(ctx, h, cluster); err != nil {
		return nil, err
	}
	if len(h.Context.Endpoints.Tunnels) == 0 {
		return nil, errors.New("the hub did not say where its tunnels are: set --advertise-tunnels at the console, then run `fairlead login` again")
	}
	return kubeconfigFor(a, h.Context, cluster)
}

// errNoKubeconfig is of a file that holds something else. A parser's words may repeat what stands in the file: secrets.
var errNoKubeconfig = errors.New("is no kubeconfig")

// mergeKubeconfigs adds the entries of a kubeconfig to another one, in place of those with the same names, and makes its
// context the current one.
func mergeKubeconfigs(into, added []byte) ([]byte, error) {
	var all, more named
	if yaml.Unmarshal(into, &all) != nil || all["kind"] != "Config" {
		return nil, errNoKubeconfig
	}
	if err := yaml.Unmarshal(added, &more); err != nil {
		return nil, err
	}
	for _, list := range []string{"clusters", "users", "contexts"} {
		entries, isList := all[list].([]any)
		if !isList && all[list] != nil {
			return nil, errNoKubeconfig
		}
		ours, _ := more[list].([]any) // of a kubeconfig of this command
		for _, entry := range ours {
			entries = append(slices.DeleteFunc(entries, func(old any) bool { return nameOf(old) == nameOf(entry) }), entry)
		}
		all[list] = entries
	}
	all["current-context"] = more["current-context"]
	return yaml.Marshal(all)
}

// nameOf is the name of an entry of a kubeconfig.
func nameOf(entry any) any {
	of, _ := entry.(named)
	return of["name"]
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

// credentialPlugin is what clients run for a token. Where FAIRLEAD_TOKEN takes the place of a context the clients have it
// in their environment, too. Else the token there may be for another hub, and the plugin gets an empty one, which is none.
func credentialPlugin(self, config string, of contexts.Context) named {
	args := []string{CredentialVerb, "--context", of.Name}
	env := []named{{"name": "FAIRLEAD_CONFIG", "value": config}}
	if of.Name == hubclient.FromEnvironment {
		args = []string{CredentialVerb, "--server", of.URL}
	} else {
		env = append(env, named{"name": hubclient.FromEnvironment, "value": ""}, named{"name": "FAIRLEAD_SERVER", "value": ""})
	}
	return named{
		"apiVersion": CredentialVersion, "command": self, "args": args,
		"env": env, "interactiveMode": "Never", "provideClusterInfo": false,
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
		"users":           []named{{"name": name, "user": named{"exec": credentialPlugin(self, store.Path(), c)}}},
		"contexts":        []named{{"name": name, "context": named{"cluster": name, "user": name}}},
	})
	if err != nil {
		return nil, fmt.Errorf("write kubeconfig: %w", err)
	}
	return text, nil
}
