package start

import (
	"context"
	"errors"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/up"
)

func upCommand(a *app.App) *cobra.Command {
	var o up.Options
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Run everything on this machine: hub, Git server, two Kubernetes clusters with agents",
		Long: `Run everything on this machine, to try it and to develop with: the hub with embedded databases, a Git
server with a sample repository, two local Kubernetes clusters, and an agent for each. With
--nodelocal the first cluster has a real node, and pods run there; else pods are pretended. With
--kubeconfig or --context it uses clusters of yours instead.

The hub listens on this machine only and with TLS; its own certificate authority is in the data folder.
The Git server lets everybody on this machine push, and nobody else.

The command runs until Ctrl-C or the end of its terminal, which ends everything that it started; the data
stays, and the next start finds it again. A second Ctrl-C ends everything at once. The context "local" is the
current one of the command "fairlead" meanwhile; a second "fairlead up" beside it, with another --data-dir and
--port-base, has the context "local-PORT".`,
		Example: `  fairlead up
  fairlead up --empty
  fairlead up --kubeconfig ~/.kube/config --context kind-a --context kind-b --bind-admins`,
		Args: app.WantArgs(0, 0),
	}
	f := cmd.Flags()
	f.StringVar(&o.DataDir, "data-dir", "",
		"folder for everything that is kept; default: fairlead in $XDG_DATA_HOME or ~/.local/share")
	f.BoolVar(&o.Empty, "empty", false, "begin with no data: delete what the data folder holds from earlier runs")
	f.IntVar(&o.PortBase, "port-base", 7400,
		"port of the console; the gitcache, distributor, tunnel and pages have the next four, the Git server the 80th after it; 0: any free ports")
	f.StringVar(&o.Kubelocal, "kubelocal", a.Getenv("KUBELOCAL"),
		"path of kubelocal, which runs the local clusters; default: $KUBELOCAL, or found beside this program or in PATH")
	f.StringVar(&o.Prepare, "prepare", "",
		"program that builds the agent and kubelocal, and prints the path of kubelocal: it runs while the hub is up already, and the clusters join when it is done")
	f.StringVar(&o.Nodelocal, "nodelocal", "",
		"path of nodelocal, which gives the first local cluster a real node, whose pods run, where this machine allows it (root, Linux); default: pods are pretended")
	f.StringVar(&o.Agent, "agent", "", "path of the agent; default: found beside this program or in PATH")
	f.BoolVar(&o.NoClusters, "no-clusters", false, "run the hub and the Git server only, without clusters and agents")
	f.StringVar(&o.Kubeconfig, "kubeconfig", "",
		"kubeconfig of clusters of yours; default with --context: $KUBECONFIG or ~/.kube/config")
	f.StringArrayVar(&o.Contexts, "context", nil,
		"context of the kubeconfig that gets an agent; may be repeated; default with --kubeconfig: the current one")
	f.BoolVar(&o.BindAdmins, "bind-admins", false,
		"let the hub's administrators do everything in your clusters, through the tunnel")
	f.BoolVar(&o.Exec, "exec", false, "let kubectl exec and cp into pretended pods of the local clusters run commands on this machine, as you: nothing else runs in those pods")
	f.StringVar(&o.ListenHost, "listen-host", "127.0.0.1",
		"address of the hub's listeners; others than loopback need --tls-cert and --tls-key")
	f.StringVar(&o.AdvertiseHost, "advertise-host", "", "host name in the hub's URLs; default: --listen-host")
	f.StringVar(&o.CertFile, "tls-cert", "",
		"PEM file with a certificate for --advertise-host; default: one of the hub's own authority")
	f.StringVar(&o.KeyFile, "tls-key", "", "PEM file with the key of the certificate")
	f.StringVar(&o.CAFile, "tls-ca", "",
		"PEM file with the authority of the certificate; default: one that this system trusts")
	f.StringSliceVar(&o.AllowAddresses, "allow-addresses", nil,
		"ranges such as 10.0.0.0/8 that Git hosts, sinks and backends may be in, besides public addresses and this machine; default: none")
	f.StringVar(&o.ReadyFile, "ready-file", "", "file that gets, as JSON, where everything is once it is up")
	f.TextVar(&o.LogLevel, "log-level", o.LogLevel,
		"least level that goes to the hub's log file: debug, info, warn or error")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := completeUp(a, &o); err != nil {
			return err
		}
		ctx, stop := untilHangup(cmd.Context())
		defer stop()
		return up.Run(ctx, o)
	}
	return cmd
}

// untilHangup also ends a context when the terminal is closed, unless the person had that ignored, as with nohup.
func untilHangup(ctx context.Context) (context.Context, context.CancelFunc) {
	if signal.Ignored(syscall.SIGHUP) {
		return ctx, func() {}
	}
	return signal.NotifyContext(ctx, syscall.SIGHUP)
}

// completeUp fills in what depends on the environment.
func completeUp(a *app.App, o *up.Options) (err error) {
	if o.Store, err = a.OpenStore(); err != nil {
		return err
	}
	home := a.Getenv("HOME")
	if o.DataDir == "" {
		dir := a.Getenv("XDG_DATA_HOME")
		if dir == "" && home == "" {
			return errors.New("where to keep the data is unknown: give --data-dir, or set HOME")
		}
		if dir == "" {
			dir = filepath.Join(home, ".local", "share")
		}
		o.DataDir = filepath.Join(dir, "fairlead")
	}
	if len(o.Contexts) > 0 && o.Kubeconfig == "" {
		if o.Kubeconfig = a.Getenv("KUBECONFIG"); o.Kubeconfig == "" && home != "" {
			o.Kubeconfig = filepath.Join(home, ".kube", "config")
		}
	}
	o.User, o.Stdout, o.Stderr = a.DefaultUser(), a.Stdout, a.Stderr
	return nil
}
