package nodes_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// agentService is the agent as a service of the hub.
const agentService = `apiVersion: fairlead.dev/v1
kind: Service
metadata: {name: agent}
spec: {source: sample, path: apps/agent, cluster: edge, namespace: fairlead-system, sync: {onDelete: orphan}}
`

// upgradePatience is shorter than that of a product: a release that hangs takes all of it.
const upgradePatience = 30 * time.Second

// An agent that is a service of the hub upgrades itself, and goes back from a release whose probe fails, from one that
// ends at once and from one whose image can't be had: it says so, goes on with other services, and takes the next
// release. Two agents, of which one leads, do so too, and with least rights only their StatefulSet is in the folder: a
// ClusterRole is not theirs to change.
func TestAgentUpgradesItselfAndGoesBack(t *testing.T) {
	if !*long {
		t.Skip("make nodes runs it")
	}
	t.Parallel()
	for name, i := range map[string]itself{
		"one with all rights":   {replicas: 1, values: "rbac: {bindAdmins: true}\n"},
		"two with least rights": {replicas: 2, values: "rbac: {mode: least, bindAdmins: true}\nreplicas: 2\n", kind: "StatefulSet"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			start(t, 1).upgradeItself(t, i)
		})
	}
}

// itself is an agent that is a service of the hub.
type itself struct {
	replicas int
	values   string // of its chart
	kind     string // of its objects that are in the folder; empty: all but Secrets
}

func (w *world) upgradeItself(t *testing.T, i itself) {
	t.Helper()
	w.installHub(t, hubValues)
	w.logIn(t)
	w.restrict(t, "fairlead-system")
	manifest := w.installAgentByManifest(t, i)
	w.serveGit(t)
	w.push(t, "first")
	w.fairlead(t, catalog, "apply", "-f", filepath.Join(w.secrets, "git/secret.yaml"), "-f", "-")
	w.awaitRunning(t, "first")
	w.write(t, "apps/agent/agent.yaml", manifest)
	w.push(t, "second")
	w.fairlead(t, agentService, "apply", "-f", "-")
	w.awaitAgents(t, i.replicas, "fairlead/agent:dev", "Healthy")
	w.awaitRunning(t, "second")

	w.mustRun(t, nil, w.program, "exec", "--dir", w.lab, "--node", "node-1", "--",
		"ctr", "--namespace=k8s.io", "images", "tag", "docker.io/fairlead/agent:dev", "docker.io/fairlead/agent:next")
	next := strings.ReplaceAll(manifest, "fairlead/agent:dev", "fairlead/agent:next")
	w.write(t, "apps/agent/agent.yaml", next)
	began := time.Now()
	w.push(t, "third")
	w.awaitAgents(t, i.replicas, "fairlead/agent:next", "Healthy")
	w.awaitRunning(t, "third")
	t.Logf("the agent has upgraded itself in %.1f s", time.Since(began).Seconds())

	for name, broken := range map[string]struct{ manifest, why string }{
		"probe":  {strings.ReplaceAll(next, "--health-listen=:7404", "--health-listen=:7999"), "its probe fails"},
		"ends":   {strings.ReplaceAll(next, "--data-dir=/data", "--no-such-flag"), "exit code"},
		"absent": {strings.ReplaceAll(next, "fairlead/agent:next", "fairlead/agent:absent"), "fairlead/agent:absent"},
	} {
		if broken.manifest == next {
			t.Fatalf("%s: the release is not broken", name)
		}
		began := time.Now()
		w.write(t, "apps/agent/agent.yaml", broken.manifest)
		w.push(t, name)
		w.awaitAgents(t, i.replicas, "fairlead/agent:next", "the agent went back from this release of itself", broken.why)
		w.awaitRunning(t, name)
		t.Logf("%s: the agent went back and said so %.1f s after the push", name, time.Since(began).Seconds())
	}

	w.write(t, "apps/agent/agent.yaml", strings.ReplaceAll(manifest, "--log-level=info", "--log-level=debug"))
	w.push(t, "mended")
	w.awaitAgents(t, i.replicas, "fairlead/agent:dev", "Healthy")
	w.awaitRunning(t, "mended")
	if note := w.kubectl(t, "", "get", "statefulset/fairlead-agent", "--namespace=fairlead-system", "--output=jsonpath={.metadata.annotations}"); strings.Contains(note, "went-back") {
		t.Errorf("after a release that is ready the agent's StatefulSet has %s", note)
	}
}

// installAgentByManifest applies what `fairlead cluster manifest` prints, and returns what of it is for the folder.
func (w *world) installAgentByManifest(t *testing.T, i itself) string {
	t.Helper()
	w.fairlead(t, "apiVersion: fairlead.dev/v1\nkind: Cluster\nmetadata: {name: edge}\n", "apply", "-f", "-")
	values := filepath.Join(w.dir, "agent.yaml")
	if err := os.WriteFile(values, fmt.Appendf(nil, "%supgradePatience: %s\n", i.values, upgradePatience), 0o600); err != nil {
		t.Fatal(err)
	}
	manifest := w.fairlead(t, "", "cluster", "manifest", "edge", "--image", "fairlead/agent:dev", "--values", values)
	w.kubectl(t, manifest, "apply", "--server-side", "-f", "-")
	w.kubectl(t, "", "rollout", "status", "--namespace=fairlead-system", "statefulset/fairlead-agent", "--timeout=3m")
	var kept []string
	for part := range strings.SplitSeq(manifest, "\n---\n") {
		if i.kind == "" && !strings.Contains(part, "kind: Secret\n") || strings.Contains(part, "\nkind: "+i.kind+"\n") {
			kept = append(kept, part)
		}
	}
	return strings.Join(kept, "\n---\n")
}

// awaitAgents waits until all pods of the agent run an image and are ready, and the hub says some words about its
// service.
func (w *world) awaitAgents(t *testing.T, replicas int, image string, words ...string) {
	t.Helper()
	w.await(t, "agents run "+image, func(ctx context.Context) error {
		pods, err := w.tryKubectl(ctx, "", "get", "pods", "--namespace=fairlead-system", "--selector=app.kubernetes.io/component=agent",
			`--output=jsonpath={range .items[*]}{.spec.containers[0].image} {.status.conditions[?(@.type=="Ready")].status},{end}`)
		if err == nil && pods != strings.Repeat(image+" True,", replicas) {
			err = fmt.Errorf("the pods are %q", pods)
		}
		said, more := w.tryFairlead(ctx, "", "describe", "service", "agent")
		for _, word := range words {
			if !strings.Contains(said, word) {
				err = errors.Join(err, fmt.Errorf("the service does not say %q", word))
			}
		}
		if err != nil {
			return errors.Join(err, errors.New(said), more)
		}
		return more
	})
}
