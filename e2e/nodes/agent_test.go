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

// An agent that is a service of the hub upgrades itself, and goes back from a release whose probe fails, from one that ends
// at once and from one whose image can't be had: it says so, goes on with other services, and takes the next release.
func TestAgentUpgradesItselfAndGoesBack(t *testing.T) {
	if !*long {
		t.Skip("make nodes runs it")
	}
	t.Parallel()
	w := start(t, 1)
	w.installHub(t, hubValues)
	w.logIn(t)
	w.restrict(t, "fairlead-system")
	manifest := w.installAgentByManifest(t)
	w.serveGit(t)
	w.push(t, "first")
	w.fairlead(t, catalog, "apply", "-f", filepath.Join(w.secrets, "git/secret.yaml"), "-f", "-")
	w.awaitRunning(t, "first")
	w.write(t, "apps/agent/agent.yaml", manifest)
	w.push(t, "second")
	w.fairlead(t, agentService, "apply", "-f", "-")
	w.awaitAgent(t, "fairlead/agent:dev", "Healthy")
	w.awaitRunning(t, "second")

	w.mustRun(t, nil, w.program, "exec", "--dir", w.lab, "--node", "node-1", "--",
		"ctr", "--namespace=k8s.io", "images", "tag", "docker.io/fairlead/agent:dev", "docker.io/fairlead/agent:next")
	next := strings.ReplaceAll(manifest, "fairlead/agent:dev", "fairlead/agent:next")
	w.write(t, "apps/agent/agent.yaml", next)
	began := time.Now()
	w.push(t, "third")
	w.awaitAgent(t, "fairlead/agent:next", "Healthy")
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
		w.awaitAgent(t, "fairlead/agent:next", "the agent went back from this release of itself", broken.why)
		w.awaitRunning(t, name)
		t.Logf("%s: the agent went back and said so %.1f s after the push", name, time.Since(began).Seconds())
	}

	w.write(t, "apps/agent/agent.yaml", strings.ReplaceAll(manifest, "--log-level=info", "--log-level=debug"))
	w.push(t, "mended")
	w.awaitAgent(t, "fairlead/agent:dev", "Healthy")
	w.awaitRunning(t, "mended")
	if note := w.kubectl(t, "", "get", "statefulset/fairlead-agent", "--namespace=fairlead-system", "--output=jsonpath={.metadata.annotations}"); strings.Contains(note, "went-back") {
		t.Errorf("after a release that is ready the agent's StatefulSet has %s", note)
	}
}

// installAgentByManifest applies what `fairlead cluster manifest` prints, and returns it without the join token.
func (w *world) installAgentByManifest(t *testing.T) string {
	t.Helper()
	w.fairlead(t, "apiVersion: fairlead.dev/v1\nkind: Cluster\nmetadata: {name: edge}\n", "apply", "-f", "-")
	values := filepath.Join(w.dir, "agent.yaml")
	if err := os.WriteFile(values, fmt.Appendf(nil, "rbac: {bindAdmins: true}\nupgradePatience: %s\n", upgradePatience), 0o600); err != nil {
		t.Fatal(err)
	}
	manifest := w.fairlead(t, "", "cluster", "manifest", "edge", "--image", "fairlead/agent:dev", "--values", values)
	w.kubectl(t, manifest, "apply", "--server-side", "-f", "-")
	w.kubectl(t, "", "rollout", "status", "--namespace=fairlead-system", "statefulset/fairlead-agent", "--timeout=3m")
	var kept []string
	for part := range strings.SplitSeq(manifest, "\n---\n") {
		if !strings.Contains(part, "kind: Secret\n") {
			kept = append(kept, part)
		}
	}
	return strings.Join(kept, "\n---\n")
}

// awaitAgent waits until the agent's pod runs an image and is ready, and the hub says some words about its service.
func (w *world) awaitAgent(t *testing.T, image string, words ...string) {
	t.Helper()
	w.await(t, "the agent runs "+image, func(ctx context.Context) error {
		pod, err := w.tryKubectl(ctx, "", "get", "pod/fairlead-agent-0", "--namespace=fairlead-system",
			`--output=jsonpath={.spec.containers[0].image} {.status.conditions[?(@.type=="Ready")].status}`)
		if err == nil && pod != image+" True" {
			err = fmt.Errorf("the pod is %q", pod)
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
