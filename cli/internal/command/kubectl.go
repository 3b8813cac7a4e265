package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"fairlead.dev/cli/internal/hub"
)

// passToKubectl returns a command that runs kubectl at a cluster. Flags of this command come before the cluster; what
// comes behind it is kubectl's.
func (a *app) passToKubectl(cmd *cobra.Command, verb ...string) *cobra.Command {
	cmd.Args = wantArgs(1, unlimited)
	cmd.Flags().SetInterspersed(false)
	cmd.RunE = a.hubCommand(func(ctx context.Context, h *hub.Hub, args []string) error {
		return a.runKubectl(ctx, h, args[0], append(verb, args[1:]...))
	})
	return cmd
}

func (a *app) kubectlCommand() *cobra.Command {
	return a.passToKubectl(&cobra.Command{
		Use:     "kubectl CLUSTER -- ARGS...",
		Short:   "Run kubectl at a cluster, through the tunnel",
		Long:    "Run kubectl at a cluster, through the tunnel. It is looked for beside this program and in PATH.",
		Example: "  fairlead kubectl edge-1 -- get pods -A",
	})
}

// runKubectl becomes kubectl, so that terminals, signals and the exit code are its own. The kubeconfig stays: it
// holds no token.
func (a *app) runKubectl(ctx context.Context, h *hub.Hub, cluster string, args []string) error {
	program, err := findKubectl()
	if err != nil {
		return err
	}
	store, err := a.openStore()
	if err != nil {
		return err
	}
	dir := filepath.Join(filepath.Dir(store.Path()), "kubeconfigs")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	file := filepath.Join(dir, filepath.Base(h.Context.Name)+"."+filepath.Base(cluster))
	if err := a.writeKubeconfig(ctx, h, cluster, file); err != nil {
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

// withServerPath has kubectl proxy lead to the cluster: its path at the hub is a part of the server's URL, which kubectl proxy leaves out unless it is
// told.
func withServerPath(args []string) []string {
	const flag = "--append-server-path"
	if len(args) == 0 || args[0] != "proxy" || slices.ContainsFunc(args, func(arg string) bool { return arg == flag || strings.HasPrefix(arg, flag+"=") }) {
		return args
	}
	return slices.Insert(slices.Clone(args), 1, flag)
}

func findKubectl() (string, error) {
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
