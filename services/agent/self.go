package agent

import (
	"os"
	"strings"

	"fairlead.dev/services/agent/internal/cluster"
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
