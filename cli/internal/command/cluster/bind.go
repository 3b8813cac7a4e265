package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/hubclient"
	"fairlead.dev/cli/internal/kubectl"
	"fairlead.dev/cli/internal/resource"
	"fairlead.dev/deploy"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/version"
)

// clusterBind gives people's groups rights in a cluster that has an agent already. The bindings are those of the
// agent's chart, so that a later join or `helm upgrade` with the same values finds them.
func clusterBind(a *app.App) *cobra.Command {
	j := joining{app: a}
	cmd := &cobra.Command{
		Use:   "bind CLUSTER",
		Short: "Give groups of people rights in a cluster, such as the first administrator's",
		Long: `Give groups of people rights in a cluster. Through the tunnel people may do what the cluster's RBAC gives their groups, and
nothing else: not even the hub's administrators (group fairlead:admins) may do more.

kubectl applies the bindings with the rights of your kubeconfig (--context or --kubeconfig): they go past the hub, so nobody gives rights to themselves through it.
Without these flags the command prints the manifest, for somebody who may apply it.

A later "fairlead cluster join" or "helm upgrade" deletes bindings that are not given to it again: use the same
--bind-admins and --bind, or the values rbac.bindAdmins and rbac.bind, there.`,
		Example: "  fairlead cluster bind edge-1 --admins --context edge-1\n  fairlead cluster bind edge-1 --bind developers=view | kubectl --context edge-1 apply --server-side -f -",
		Args:    app.WantArgs(1, 1),
	}
	f := cmd.Flags()
	f.BoolVar(&j.values.bindAdmins, "admins", false,
		"let the hub's administrators (group fairlead:admins) do everything in the cluster")
	f.StringArrayVar(&j.values.bind, "bind", nil,
		"let a group do what a ClusterRole of the cluster says, as `GROUP=ROLE` such as developers=view; may be repeated")
	f.StringVar(&j.kubeconfig, "kubeconfig", "",
		"kubeconfig of the cluster; default with --context: as kubectl finds it")
	f.StringVar(&j.context, "context", "", "context of the kubeconfig; default with --kubeconfig: its current one")
	cmd.MarkFlagsOneRequired("admins", "bind")
	cmd.RunE = a.HubCommand(func(ctx context.Context, h *hubclient.Hub, args []string) error {
		j.cluster = args[0]
		return j.applyBindings(ctx, h)
	})
	return cmd
}

func (j *joining) applyBindings(ctx context.Context, h *hubclient.Hub) error {
	if err := j.requireCluster(ctx, h); err != nil {
		return err
	}
	manifest, err := j.values.renderBindings()
	if err != nil {
		return err
	}
	if !j.appliesManifest() {
		return j.app.Printf("%s", manifest)
	}
	// A cluster without an agent is another one than the person means: the context is named wrongly more often than the
	// cluster.
	if _, err := j.runKubectl(ctx, nil, kubectl.Timeout, "get", "serviceaccount", "fairlead-agent", "--namespace", deploy.Namespace, "-o", "name"); err != nil {
		return j.explainNoAgent(err)
	}
	out, err := j.runKubectl(ctx, manifest, kubectl.Timeout, "apply", "--server-side", "--field-manager=fairlead-join", "--force-conflicts", "-f", "-")
	if err != nil {
		return fmt.Errorf("apply the bindings: %w", err)
	}
	return j.app.Printf("%s", out)
}

// explainNoAgent says of a cluster in which no agent runs what it may be.
func (j *joining) explainNoAgent(err error) error {
	err = fmt.Errorf("look for the agent of cluster %s: %w", j.cluster, err)
	if !strings.Contains(err.Error(), "(NotFound)") {
		return err
	}
	return fmt.Errorf("%w. Either this is another cluster: give its own --context or --kubeconfig. Or its agent runs "+
		"outside of it: leave out --context and --kubeconfig, and the manifest is printed for "+
		"`kubectl apply --server-side -f -`", err)
}

// requireCluster refuses a cluster that the hub doesn't have.
func (j *joining) requireCluster(ctx context.Context, h *hubclient.Hub) error {
	ctx, cancel := context.WithTimeout(ctx, hubclient.CallTimeout)
	defer cancel()
	if _, err := h.Clusters.GetCluster(ctx, &consolev1.GetClusterRequest{Name: j.cluster}); err != nil {
		return resource.ClusterKind().ExplainMissing(j.cluster, err)
	}
	return nil
}

// renderBindings renders the documents of the agent's chart that bind people's groups.
func (v *agentValues) renderBindings() ([]byte, error) {
	// The chart wants to know where the hub is, and how the agent joins; nothing of that is in the bindings.
	values := map[string]any{
		"hub": map[string]any{"url": "https://hub"}, "join": map[string]any{"tokens": []any{"none"}},
	}
	if err := v.bindTo(values); err != nil {
		return nil, err
	}
	manifest, err := deploy.Agent(values, version.String())
	if err != nil {
		return nil, fmt.Errorf("render the bindings: %w", err)
	}
	var out bytes.Buffer
	for document := range strings.SplitSeq(string(manifest), "---\n") {
		if strings.Contains(document, "kind: ClusterRoleBinding\n") && strings.Contains(document, bindLabel+": ") &&
			!strings.Contains(document, bindLabel+": agent-") {
			out.WriteString("---\n" + document)
		}
	}
	if out.Len() == 0 {
		return nil, errors.New("the agent's chart has rendered no bindings")
	}
	return out.Bytes(), nil
}
