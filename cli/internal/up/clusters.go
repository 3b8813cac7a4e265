package up

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	// clusterLimit bounds a local cluster's way to ready: kubelocal itself gives up after a minute.
	clusterLimit = 90 * time.Second
	// nodeLimit is that of one with a real node, which imports images and waits for its node besides.
	nodeLimit = 3 * time.Minute
)

// cluster is one Kubernetes cluster that gets an agent.
type cluster struct {
	Name       string `json:"name"`
	Kubeconfig string `json:"kubeconfig"`
	Context    string `json:"context,omitempty"`
	RealPods   bool   `json:"realPods,omitempty"` // A local cluster with a real node.
	local      bool
	// fault says why the cluster did not come up; nil: it has, or is on its way.
	fault error
}

// working are the clusters without a fault.
func working(clusters []cluster) []cluster {
	return slices.DeleteFunc(slices.Clone(clusters), func(c cluster) bool { return c.fault != nil })
}

// kindText says what is special about a cluster, for people.
func (c cluster) kindText() string {
	if c.RealPods {
		return " with a real node"
	}
	return ""
}

// localNames are the clusters that we run ourselves.
func localNames() []string { return []string{"local-a", "local-b"} }

// planClusters says which clusters there are to be.
func (o Options) planClusters() ([]cluster, error) {
	if o.NoClusters && (o.Kubeconfig != "" || len(o.Contexts) > 0) {
		return nil, errors.New("--no-clusters goes with neither --kubeconfig nor --context")
	}
	if o.NoClusters {
		return nil, nil
	}
	if o.Kubeconfig == "" && len(o.Contexts) == 0 {
		var clusters []cluster
		for _, name := range localNames() {
			clusters = append(clusters, cluster{Name: name, local: true})
		}
		return clusters, nil
	}
	file := o.Kubeconfig
	if file == "" {
		return nil, errors.New("--context needs a kubeconfig: give --kubeconfig, or set KUBECONFIG")
	}
	file, err := filepath.Abs(file)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(file); err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	contexts := o.Contexts
	if len(contexts) == 0 {
		contexts = []string{""} // The current one.
	}
	seen := map[string]string{}
	var clusters []cluster
	for _, context := range contexts {
		name := clusterName(context)
		if other, ok := seen[name]; ok {
			return nil, fmt.Errorf("contexts %q and %q would both be cluster %q: rename one", other, context, name)
		}
		seen[name] = context
		clusters = append(clusters, cluster{Name: name, Kubeconfig: file, Context: context})
	}
	return clusters, nil
}

// clusterName makes a DNS label of a context's name.
func clusterName(context string) string {
	name := strings.Trim(strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', '0' <= r && r <= '9':
			return r
		case 'A' <= r && r <= 'Z':
			return r + 'a' - 'A'
		default:
			return '-'
		}
	}, context), "-")
	name = strings.Trim(name[:min(len(name), 63)], "-")
	if name == "" {
		return "my-cluster"
	}
	return name
}

// startLocal keeps a local cluster running, and returns its kubeconfig once it is ready.
func (u *up) startLocal(ctx context.Context, c cluster) (kubeconfig string, err error) {
	program, limit, hint := u.kubelocalChild, clusterLimit, ""
	if c.RealPods {
		program, limit, hint = u.nodelocalChild, nodeLimit, "; --nodelocal= does without a real node"
	}
	local, err := program(c.Name)
	if err != nil {
		return "", err
	}
	ready := make(chan string, 1)
	local.line = func(line string) {
		if file, ok := readyLine(line); ok {
			select {
			case ready <- file:
			default: // The cluster was started again, and nothing waits for it.
			}
		}
	}
	stop, err := u.children.keepRunning(local) //nolint:contextcheck // a child lives as long as all of up
	if err != nil {
		return "", err
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case kubeconfig = <-ready:
		return kubeconfig, nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	case <-timer.C:
		stop()
		return "", fmt.Errorf("cluster %s is not ready after %s%s (see %s%s)", c.Name, limit, local.said.quoteLast(),
			u.data.joinPath("logs", "cluster-"+c.Name+".log"), hint)
	}
}

// kubelocalChild is the program that runs a cluster with pretended nodes.
func (u *up) kubelocalChild(name string) (*child, error) {
	dir, err := u.data.makeDir("clusters", name)
	if err != nil {
		return nil, err
	}
	args := []string{"start", "--dir", dir, "--name", name}
	if u.options.Exec {
		args = append(args, "--exec")
	}
	return &child{name: "cluster " + name, path: u.options.Kubelocal, args: args}, nil
}

// readyLine takes "READY name=... server=... kubeconfig=..." apart. The kubeconfig is last and may have
// spaces in its path.
func readyLine(line string) (kubeconfig string, ok bool) {
	rest, ok := strings.CutPrefix(line, "READY ")
	if !ok {
		return "", false
	}
	_, kubeconfig, ok = strings.Cut(rest, " kubeconfig=")
	return kubeconfig, ok && kubeconfig != ""
}

// adminsBinding lets the hub's administrators do everything in a cluster, through the tunnel.
const adminsBinding = `apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: fairlead-admins
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects:
  - {apiGroup: rbac.authorization.k8s.io, kind: Group, name: "fairlead:admins"}
`

// bindAdmins writes adminsBinding into a cluster.
func (u *up) bindAdmins(ctx context.Context, c cluster) error {
	kubectl, args := u.findKubectl()
	args = append(args, "--kubeconfig", c.Kubeconfig)
	if c.Context != "" {
		args = append(args, "--context", c.Context)
	}
	cmd := exec.CommandContext(ctx, kubectl,
		append(args, "apply", "--server-side", "--field-manager=fairlead-up", "-f", "-")...)
	cmd.Env = childEnvironment(os.Environ())
	cmd.Stdin = strings.NewReader(adminsBinding)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("bind fairlead:admins in cluster %s: %w: %s", c.Name, err, bytes.TrimSpace(out))
	}
	return nil
}

// findKubectl returns a kubectl: the one inside kubelocal, or the user's.
func (u *up) findKubectl() (path string, args []string) {
	if u.options.Kubelocal != "" {
		return u.options.Kubelocal, []string{"kubectl"}
	}
	return "kubectl", nil
}
