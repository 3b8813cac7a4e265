package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fairlead.dev/e2e/process"
)

// steered is a project with a window and with recordings, a service in it, and somebody who may look at one cluster and
// nothing more.
const steered = `
apiVersion: fairlead.dev/v1
kind: Project
metadata: {name: steered}
spec:
  sources: [sample]
  clusters: {all: true}
  namespaces: [steered]
  recording: optional
  windows:
    - {name: new year, action: deny, schedule: "0 0 1 1 *", duration: 1m, reason: nobody is on call}
---
apiVersion: fairlead.dev/v1
kind: Service
metadata: {name: steered}
spec: {source: sample, path: steered, cluster: %[1]s, namespace: steered, project: steered}
---
apiVersion: fairlead.dev/v1
kind: Grant
metadata: {name: steered-sven}
spec: {role: viewer, subjects: [{user: sven}], clusters: {names: [%[1]s]}}
`

const recorded = `
apiVersion: v1
kind: Pod
metadata: {name: recorded, namespace: steered}
spec: {containers: [{name: main, image: example.com/web}]}
`

// A person looks into a source, freezes a project and lets a sync over it, lends access to another person, replays a
// shell, and looks at the hub's replicas.
func TestPersonSteersAndLendsInABrowser(t *testing.T) {
	t.Parallel()
	needsABrowser(t)
	s := shared(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	cluster := s.Clusters[1]
	kubectl := func(args ...string) string {
		t.Helper()
		out, err := s.Kubectl(ctx, cluster.Kubeconfig, append([]string{"--namespace=steered"}, args...)...)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	kubectl("create", "namespace", "steered")
	pod := filepath.Join(t.TempDir(), "pod.yaml")
	if err := os.WriteFile(pod, []byte(recorded), 0o600); err != nil {
		t.Fatal(err)
	}
	kubectl("apply", "--filename", pod)
	kubectl("wait", "--for=condition=ready", "pod/recorded", "--timeout=180s")

	repository, err := s.Clone(ctx)
	if err != nil {
		t.Fatal(err)
	}
	push := func(message, marker string) error {
		_, err := repository.Push(ctx, message, map[string]string{
			"steered/marker.yaml": fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: marker}\ndata: {marker: %q}\n", marker),
			"steered/hostile.txt": "<img src=x onerror=window.stolen=1>\x1b[31m\u202e" + marker + "\n",
			"steered/binary.bin":  "\x00\x01" + marker,
		})
		return err
	}
	applied := func(marker string) error {
		return process.Await(ctx, "the marker "+marker+" is applied", func(ctx context.Context) error {
			got, err := s.Kubectl(ctx, cluster.Kubeconfig, "--namespace=steered", "get", "configmap", "marker",
				"--output=jsonpath={.data.marker}")
			if err == nil && got != marker {
				err = fmt.Errorf("it is %q", got)
			}
			return err
		})
	}
	if err := push("first <b>commit</b>", "first"); err != nil {
		t.Fatal(err)
	}
	// Files that are no manifests stay out of what is applied.
	if _, err := repository.Push(ctx, "leave files out", map[string]string{
		"steered/.fairleadignore": "*.txt\n*.bin\n",
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.FairleadStdin(ctx, fmt.Sprintf(steered, cluster.Name), "apply", "--filename", "-"); err != nil {
		t.Fatal(err)
	}
	if err := applied("first"); err != nil {
		t.Fatal(err)
	}
	var links []string
	for _, person := range [][]string{{"stella", "--group", "fairlead:admins"}, {"sven"}} {
		link, err := s.Fairlead(ctx, append([]string{"admin", "login-link"}, person...)...)
		if err != nil {
			t.Fatal(err)
		}
		links = append(links, strings.TrimSpace(link))
	}
	inChromium(ctx, t, "steer.mjs", func(event string) error {
		switch event {
		case "push":
			return push("second", "second")
		case "applied":
			return applied("second")
		case "shell":
			through, err := s.TunnelKubeconfig(ctx, cluster.Name)
			if err != nil {
				return err
			}
			_, err = s.Kubectl(ctx, through, "--namespace=steered", "exec", "recorded", "--", "echo", "seen in a shell")
			return err
		default:
			return fmt.Errorf("the script says %q", event)
		}
	}, links[0], links[1], "steered", cluster.Name, os.Getenv("SHOTS"))
}

// A person undoes levers, sees what a cluster made of a service's objects and what a draft would be configured with,
// and goes to a service by its name.
func TestPersonUndoesLeversInABrowser(t *testing.T) {
	t.Parallel()
	needsABrowser(t)
	s := shared(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	ship, err := s.NewShip(ctx, "undone", "undone")
	if err != nil {
		t.Fatal(err)
	}
	if err := ship.WaitApplied(ctx, "first"); err != nil {
		t.Fatal(err)
	}
	inChromium(ctx, t, "levers.mjs", func(event string) error {
		switch event {
		case "push":
			_, err := ship.Push(ctx, "second")
			return err
		case "detached":
			return ship.WaitApplied(ctx, "second")
		}
		return fmt.Errorf("the script says %q", event)
	},
		loginLink(ctx, t, s, "uma"), ship.Service(s.Clusters[0]), ship.Service(s.Clusters[1]), s.Clusters[0].Name,
		os.Getenv("SHOTS"))
}
