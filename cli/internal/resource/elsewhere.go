package resource

import (
	"fmt"
	"strings"
)

// People who come from Flux, Argo CD and kubectl type first what they know. A word that means something else here, or
// is called otherwise here, is answered with the words that work.

// KindElsewhere says what a kind of another tool is here; empty: nothing is known of it.
func KindElsewhere(name string) string {
	switch strings.ToLower(name) {
	case "kustomization", "kustomizations", "ks", "helmrelease", "helmreleases", "hr":
		return "a Kustomization or HelmRelease of Flux is a service: `fairlead get services`"
	case "gitrepository", "gitrepositories", "helmrepository", "helmrepositories", "ocirepository", "ocirepositories",
		"bucket", "buckets", "repo", "repos", "repository", "repositories", "git":
		return "where files come from is a source: `fairlead get sources`"
	case "application", "applications", "app", "apps":
		return "an Application of Argo CD is a service: `fairlead get services`"
	case "applicationset", "applicationsets", "appset", "appsets":
		return "an ApplicationSet of Argo CD is a global service: `fairlead get globalservices`"
	case "appproject", "appprojects", "proj":
		return "an AppProject of Argo CD is a project: `fairlead get projects`"
	case "alert", "alerts", "provider", "providers", "receiver", "receivers":
		return "where events go is a sink: `fairlead get sinks`"
	case "all":
		return "`fairlead get services,sources,clusters` shows several kinds at once"
	case "event", "events", "ev":
		return "`fairlead events` shows what happened"
	case "context", "contexts":
		return "`fairlead context` lists the hubs that you are logged in to"
	}
	if kind := KubernetesKind(name); kind != "" {
		return fmt.Sprintf("%ss of clusters are in `fairlead get objects --kind %s`, `fairlead tree service NAME --live` and `fairlead kubectl CLUSTER -- get %s`", kind, kind, strings.ToLower(name))
	}
	return ""
}

// KubernetesKind is a kind of Kubernetes by what people call it; empty: it is none of those that everybody types.
func KubernetesKind(name string) string {
	short := map[string]string{
		"po": "Pod", "deploy": "Deployment", "rs": "ReplicaSet",
		"sts": "StatefulSet", "ds": "DaemonSet", "cm": "ConfigMap", "ns": "Namespace",
		"no": "Node", "ing": "Ingress", "pvc": "PersistentVolumeClaim", "pv": "PersistentVolume",
		"sa": "ServiceAccount", "svc": "Service", "cj": "CronJob", "crd": "CustomResourceDefinition",
		"ingress": "Ingress", "ingresses": "Ingress", "hpa": "HorizontalPodAutoscaler", "netpol": "NetworkPolicy",
		"secret": "Secret", "service": "Service", "serviceaccount": "ServiceAccount",
	}
	name = strings.ToLower(name)
	if kind, ok := short[name]; ok {
		return kind
	}
	for _, kind := range []string{
		"Pod", "Deployment", "ReplicaSet", "StatefulSet", "DaemonSet",
		"ConfigMap", "Namespace", "Node", "PersistentVolumeClaim", "PersistentVolume",
		"CronJob", "Job", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding",
		"CustomResourceDefinition", "HorizontalPodAutoscaler", "Endpoint",
	} {
		if name == strings.ToLower(kind) || name == strings.ToLower(kind)+"s" {
			return kind
		}
	}
	return ""
}
