// Command kubelocal is a Kubernetes cluster in one file: etcd, the control plane, kubectl, and kwok
// in place of nodes. The cluster is for tests and for trying things out on one machine, not for real work.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"syscall"

	"fairlead.dev/tools/kubelocal/internal/cluster"
)

const usage = `usage:
  kubelocal start --dir DIR [--name NAME] [--nodes 2] [--bind ADDRESS] [--audit-log] [--exec]
        run a cluster in the foreground until SIGTERM or Ctrl-C
  kubelocal kubectl ...
        the real kubectl (also when called under that name)
  kubelocal version
`

func main() {
	// The components parse os.Args themselves, so the first of them has to be their name.
	for skip := range min(2, len(os.Args)) {
		if run := component(filepath.Base(os.Args[skip])); run != nil {
			os.Args = os.Args[skip:]
			os.Exit(run())
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process, and its children with it
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "kubelocal:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) == 0 {
		args = []string{""}
	}
	switch args[0] {
	case "start":
		return start(ctx, args[1:], stdout, stderr)
	case "version":
		for _, module := range []string{"k8s.io/kubernetes", "go.etcd.io/etcd/server/v3", "sigs.k8s.io/kwok"} {
			fmt.Fprintln(stdout, module, moduleVersion(module))
		}
		return nil
	case "help", "-h", "--help":
		fmt.Fprint(stdout, usage)
		return nil
	}
	return fmt.Errorf("unknown command %q\n%s", args[0], usage)
}

func start(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	cfg := cluster.Config{Stdout: stdout, Stderr: stderr, Kubernetes: moduleVersion("k8s.io/kubernetes")}
	flags := flag.NewFlagSet("kubelocal start", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&cfg.Dir, "dir", "", "the folder that keeps all of the cluster's state (made when missing)")
	flags.StringVar(&cfg.Name, "name", "", "the cluster's name in its kubeconfig (default: the folder's name)")
	flags.IntVar(&cfg.Nodes, "nodes", 2, "how many nodes kwok plays; 0 starts neither kwok nor its kubelet, so that real nodes can join")
	flags.StringVar(&cfg.Bind, "bind", "127.0.0.1", "the IP address that the API server listens on, and that nodes and pods reach it at")
	flags.BoolVar(&cfg.AuditLog, "audit-log", false, "write every request's metadata to DIR/logs/audit.log")
	flags.BoolVar(&cfg.Exec, "exec", false, "let kubectl exec and cp run commands on this machine, as this user")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return nil
	case err != nil:
		return err
	case flags.NArg() > 0:
		return fmt.Errorf("start takes no arguments, only flags: %q", flags.Args())
	}
	return cluster.Run(ctx, cfg)
}

// moduleVersion is the version of a module that is linked in.
func moduleVersion(path string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			if module.Path == path {
				return module.Version
			}
		}
	}
	return "unknown"
}
