package acceptance

import (
	"maps"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/await"
	"fairlead.dev/services/agent/internal/object"
)

// The agent's own Deployment, with all that it needs, comes from a service. The agent brings in the next release of
// itself, is ended by that before it has heard that the new one is ready, and the next one goes on. Nothing that keeps
// it running is removed or made anew, by a change of that service or with it.
func TestAgentOfItsOwnService(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	name, ns := w.service("agent"), w.namespace
	files := map[string]string{
		"account.yaml": "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: runs}\n---\napiVersion: v1\nkind: ServiceAccount\nmetadata: {name: other}\n",
		"rights.yaml": strings.NewReplacer("NS", ns, "ROLE",
			ns).Replace("apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: ROLE}\nrules: []\n---\n" +
			"apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: ROLE}\nroleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: ROLE}\nsubjects: [{kind: ServiceAccount, name: runs, namespace: NS}]\n---\n" +
			"apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: ROLE-other}\nrules: []\n"),
		"mounted.yaml": configMap("mounted", "1"),
		"free.yaml":    configMap("free", "1"),
		"agent.yaml":   ownDeployment("1"),
		"later.yaml":   "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: later, annotations: {fairlead.dev/wave: \"1\"}}\ndata: {x: \"1\"}\n",
	}
	t.Cleanup(func() {
		_, _ = kube.Cluster(t).Kubectl(t.Context(), "", "delete", "clusterrole,clusterrolebinding", ns,
			"--ignore-not-found")
	})
	spec := &deliveryv1.SyncSpec{Prune: &deliveryv1.PruneSpec{MaxPercent: proto.Int32(100)}}
	stop := w.start()
	w.hub.awaitPhase(t, name, w.hub.pushSynced(t, name, ns, files, spec), healthy)
	stop()
	w.pod = ns + "/" + w.podOf("1")

	stop = w.start()
	files["agent.yaml"] = ownDeployment("2", "nodeSelector: {"+ns+": here}")
	files["later.yaml"] = strings.Replace(files["later.yaml"], `{x: "1"}`, `{x: "2"}`, 1)
	digest := w.hub.pushSynced(t, name, ns, files, spec)
	waits := func(what string) {
		t.Helper()
		w.hub.await(t, name, func(r *deliveryv1.ServiceReport) bool {
			return r.GetPhase() == applying && strings.Contains(r.GetMessage(), what)
		})
	}
	waits("runs, which goes back if the agent's next release is not ready")
	w.sayAsWatcher("watching")
	waits("Deployment " + ns + "/agent is not healthy yet") // the agent's pod is gone, and the agent is not
	stop()                                                  // as the Deployment's controller has it
	w.pod = ns + "/" + w.podOf("2")
	w.start()
	waits("Deployment " + ns + "/agent waits until the agent's next release is ready")
	w.mustData("later", "1")
	nodes, err := kube.Cluster(t).Kubectl(t.Context(), "", "get", "nodes", "-o", "name")
	if err != nil {
		t.Fatal(err)
	}
	kubectl(w, "", "label", strings.Fields(nodes)[0], ns+"=here")
	w.sayAsWatcher("ended")
	w.hub.awaitPhase(t, name, digest, healthy)
	w.mustData("later", "2")

	w.hub.awaitPhase(t, name,
		w.hub.pushSynced(t, name, ns, map[string]string{"later.yaml": files["later.yaml"]}, spec), healthy)
	rbac := "rbac.authorization.k8s.io/v1"
	w.mustBeGone("v1", "ServiceAccount", ns, "other")
	w.mustBeGone("v1", "ConfigMap", ns, "free")
	w.mustBeGone(rbac, "ClusterRole", "", ns+"-other")
	needed := func(when string) {
		t.Helper()
		for _, one := range [][4]string{
			{"apps/v1", "Deployment", ns, "agent"},
			{"v1", "ServiceAccount", ns, "runs"},
			{"v1", "ConfigMap", ns, "mounted"},
			{rbac, "ClusterRole", "", ns},
			{rbac, "ClusterRoleBinding", "", ns},
		} {
			found, err := w.get(one[0], one[1], one[2], one[3])
			if err != nil || found.GetDeletionTimestamp() != nil {
				t.Errorf("%s: %s %s is gone, and so is the agent: %v", when, one[1], one[3], err)
			} else if owner := object.Owner(found); owner != "" {
				t.Errorf("%s: %s %s still has the mark of %s", when, one[1], one[3], owner)
			}
		}
	}
	needed("left the manifests")

	w.hub.awaitPhase(t, name, w.hub.pushSynced(t, name, ns, files, spec), healthy)
	changed := maps.Clone(files)
	changed["agent.yaml"] = strings.Replace(strings.ReplaceAll(ownDeployment("2"), "a: b", "a: c"), "{name: agent}",
		"{name: agent, annotations: {fairlead.dev/recreate: allowed}}", 1)
	w.hub.pushSynced(t, name, ns, changed, spec)
	w.hub.await(t, name, func(r *deliveryv1.ServiceReport) bool {
		return r.GetPhase() == failed && strings.Contains(r.GetMessage(), "the agent itself runs by it")
	})

	w.hub.awaitPhase(t, name, w.hub.pushSynced(t, name, ns, files, spec), healthy)
	w.hub.remove(name)
	w.hub.await(t, name, func(r *deliveryv1.ServiceReport) bool { return r.GetPhase() == removed })
	needed("left with the service")
	w.mustBeGone("v1", "ConfigMap", ns, "free")
}

// sayAsWatcher says what the agent's program does in the Job that watches an upgrade: no container runs here.
func (w *world) sayAsWatcher(state string) {
	w.t.Helper()
	kubectl(w, "", "annotate", "jobs", "--all", "--overwrite", "--namespace="+w.namespace, "fairlead.dev/upgrade="+state)
}

// podOf is the pod of a release of the agent's Deployment.
func (w *world) podOf(release string) string {
	w.t.Helper()
	var name string
	await.True(w.t, "there is a pod of release "+release, func() bool {
		out, err := kube.Cluster(w.t).Kubectl(w.t.Context(), "", "-n", w.namespace, "get", "pods", "-l",
			"release="+release, "-o", "name")
		if err != nil {
			w.t.Fatal(err)
		}
		name = strings.TrimPrefix(strings.TrimSpace(out), "pod/")
		return name != ""
	})
	return name
}

func ownDeployment(release string, more ...string) string {
	return strings.NewReplacer("RELEASE", release, "MORE", strings.Join(more, "")).Replace(`apiVersion: apps/v1
kind: Deployment
metadata: {name: agent}
spec:
  replicas: 1
  strategy: {type: Recreate}
  selector: {matchLabels: {a: b}}
  template:
    metadata: {labels: {a: b, release: "RELEASE"}}
    spec:
      MORE
      serviceAccountName: runs
      containers: [{name: c, image: pause}]
      volumes: [{name: v, configMap: {name: mounted}}]
`)
}
