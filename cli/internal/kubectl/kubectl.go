// Package kubectl runs the person's own kubectl with a kubeconfig that leads through the tunnel.
package kubectl

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/contexts"
	"fairlead.dev/cli/internal/hubclient"
)

// Timeout bounds one call of kubectl: webhooks of a cluster may take their time.
const Timeout = time.Minute

// Run becomes kubectl, so that terminals, signals and the exit code are its own. The kubeconfig stays: it
// holds no token.
func Run(ctx context.Context, a *app.App, h *hubclient.Hub, cluster string, args []string) error {
	program, err := Find()
	if err != nil {
		return err
	}
	store, err := a.OpenStore()
	if err != nil {
		return err
	}
	file := keptKubeconfig(store.Path(), h.Context, cluster)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	if err := WriteKubeconfig(ctx, a, h, cluster, file); err != nil {
		return err
	}
	if i := slices.Index(args, "--"); i == 0 {
		args = args[1:] // the arguments behind "--" are kubectl's as they are
	}
	args = withServerPath(args)
	h.HTTP.CloseIdleConnections()
	err = syscall.Exec(program, append([]string{program, "--kubeconfig", file}, args...), os.Environ())
	return fmt.Errorf("run %s: %w", program, err)
}

// keptKubeconfig is the file that kubectl reads for a cluster of a context: no other cluster of any context has the
// same one, as it may be written between the start of a kubectl and its look at the file. Tokens in the environment may be
// for several hubs.
func keptKubeconfig(store string, of contexts.Context, cluster string) string {
	context := of.Name
	if context == hubclient.FromEnvironment {
		context = of.URL
	}
	name := url.PathEscape(context) + "." + url.PathEscape(cluster)
	return filepath.Join(filepath.Dir(store), "kubeconfigs", filepath.Base(store), name)
}

// withServerPath has kubectl proxy lead to the cluster: its path at the hub is a part of the server's URL, which
// kubectl proxy leaves out unless it is told.
func withServerPath(args []string) []string {
	const flag = "--append-server-path"
	if len(args) == 0 || args[0] != "proxy" ||
		slices.ContainsFunc(args, func(arg string) bool { return arg == flag || strings.HasPrefix(arg, flag+"=") }) {
		return args
	}
	return slices.Insert(slices.Clone(args), 1, flag)
}

// Find returns the kubectl of this machine.
func Find() (string, error) {
	if self, err := os.Executable(); err == nil {
		if path, err := exec.LookPath(filepath.Join(filepath.Dir(self), "kubectl")); err == nil {
			return path, nil
		}
	}
	path, err := exec.LookPath("kubectl")
	if err != nil {
		return "", errors.New("kubectl is neither beside this program nor in PATH: install it, see https://kubernetes.io/docs/tasks/tools/; `make up` puts one into bin/")
	}
	return filepath.Abs(path)
}
