package cluster

import (
	"context"
	"fmt"
	"strings"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/hubclient"
	"fairlead.dev/cli/internal/resource"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/durable"
)

func clusterCommand(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "cluster",
		Aliases: []string{"clusters"},
		Short:   "Let clusters join and leave, and lend people access to them",
		Args:    app.OnlyBelow,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(clusterJoin(a), clusterBind(a), clusterManifest(a), makeJoinToken(a), clusterLeave(a),
		clusterAccess(a))
	return cmd
}

func clusterLeave(a *app.App) *cobra.Command {
	var p app.Parting
	cmd := &cobra.Command{
		Use:   "leave CLUSTER",
		Short: "Take a cluster's credentials away; nothing is deleted, there or here",
		Long: `Take the credentials of a cluster's agents away, everywhere within 30 s, and mark the cluster as left. Nothing is deleted,
there or here: applied objects stay. The cluster joins again with a new join token. If an agent has joined, the command
shows the consequences and asks first; scripts say --yes, and --dry-run only shows them.`,
		Example: "  fairlead cluster leave edge-1",
		Args:    app.WantArgs(1, 1),
	}
	cmd.Flags().BoolVarP(&p.Yes, "yes", "y", false, "go on without asking")
	cmd.Flags().BoolVar(&p.DryRun, "dry-run", false, "show what it means, and do nothing")
	cmd.RunE = a.HubCommand(func(ctx context.Context, h *hubclient.Hub, args []string) error {
		if goOn, err := a.AskToPart(ctx, h, args[0], p); err != nil || !goOn {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, hubclient.CallTimeout)
		defer cancel()
		if _, err := h.Logins.LeaveCluster(ctx, &consolev1.LeaveClusterRequest{Cluster: args[0]}); err != nil {
			return resource.ClusterKind().ExplainMissing(args[0], err)
		}
		return a.Printf("cluster/%s has left\n", args[0])
	})
	return cmd
}

func makeJoinToken(a *app.App) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "join-token CLUSTER",
		Short: "Make a token with which one agent can join as this cluster",
		Long: `Make a token with which one agent can join as this cluster. It works once, within 15 minutes.

The token goes to stdout, and a hint how to use it to stderr; or the token goes to a file that only you can read.`,
		Example: "  fairlead cluster join-token edge-1 > join-token",
		Args:    app.WantArgs(1, 1),
	}
	cmd.Flags().StringVar(&output, "output-file", "", "file for the token, instead of stdout")
	cmd.RunE = a.HubCommand(func(ctx context.Context, h *hubclient.Hub, args []string) error {
		return joinToken(ctx, a, h, args, output)
	})
	return cmd
}

func joinToken(ctx context.Context, a *app.App, h *hubclient.Hub, args []string, output string) error {
	ctx, cancel := context.WithTimeout(ctx, hubclient.CallTimeout)
	defer cancel()
	res, err := h.Identity.CreateJoinToken(ctx, &consolev1.CreateJoinTokenRequest{Cluster: args[0]})
	if err != nil {
		if connect.CodeOf(err) == connect.CodeNotFound && !strings.Contains(err.Error(), "may not view") { // which says more
			return fmt.Errorf(`no cluster %q: see "fairlead get clusters". "fairlead cluster join %s" makes it, and brings an agent into it; this, given to "fairlead apply", only makes it:

apiVersion: fairlead.dev/v1
kind: Cluster
metadata: {name: %s}`, args[0], args[0], args[0])
		}
		return err
	}
	if output != "" {
		return durable.WriteFile(output, []byte(res.GetJoinToken()+"\n"), 0o600)
	}
	if err := a.Printf("%s\n", res.GetJoinToken()); err != nil {
		return err
	}
	left := res.GetExpireTime().AsTime().Sub(a.Now()).Round(time.Minute)
	a.Notef(`
Good for one agent, for %.0f minutes. Put it into a file that only you can read, and where cluster %q can be reached:

  agent --hub-url %s --join-token-file FILE --data-dir DIR
`, left.Minutes(), args[0], h.Context.URL)
	if h.Context.CA != "" {
		a.Notef("\nThis hub has a certificate authority of its own: add --hub-ca-file FILE, with this in the file:\n\n%s", h.Context.CA)
	}
	return nil
}
