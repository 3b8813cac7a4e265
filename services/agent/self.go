package agent

import (
	"context"
	"log/slog"
	"os"
	"strings"

	"fairlead.dev/platform/telemetry"
	"fairlead.dev/services/agent/internal/cluster"
	"fairlead.dev/services/agent/internal/upgrade"
)

// accountNamespace is where Kubernetes tells a pod its namespace.
const accountNamespace = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// self is the cluster with an eye on the pod that the agent runs in, if it runs in one.
func (a *Agent) self() *cluster.Self {
	if a.cfg.Pod != "" {
		namespace, name, _ := strings.Cut(a.cfg.Pod, "/")
		return &cluster.Self{Cluster: a.cluster, Namespace: namespace, Pod: name}
	}
	namespace, err := os.ReadFile(accountNamespace)
	host, unknown := os.Hostname()
	if err != nil || unknown != nil || a.cfg.Kubeconfig != "" || a.cfg.Context != "" {
		return &cluster.Self{Cluster: a.cluster}
	}
	return &cluster.Self{Cluster: a.cluster, Namespace: strings.TrimSpace(string(namespace)), Pod: host}
}

// WatchUpgradeVerb is the first argument of the agent's program in the Job that watches an upgrade of the agent.
const WatchUpgradeVerb = upgrade.Verb

// WatchUpgrade waits until the next release of the agent is ready, or goes back to the one before. The agent starts it
// as a Job.
func WatchUpgrade(ctx context.Context, args []string, getenv func(string) string) error {
	return upgrade.RunCommand(ctx, telemetry.NewLogger(os.Stderr, slog.LevelInfo, "json", "agent"), args, getenv)
}
