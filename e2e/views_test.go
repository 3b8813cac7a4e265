package e2e

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// viewed are objects of a cluster whose kubelets pretend: they make each node Ready and run its pods. The pod gets no
// node, so that the test alone writes its status. The cluster makes the namespace's default service account in its own
// time; the pod has another one.
const viewed = `apiVersion: v1
kind: Namespace
metadata: {name: viewed}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: viewer, namespace: viewed}
---
apiVersion: v1
kind: Node
metadata: {name: viewed-node}
spec: {unschedulable: true}
---
apiVersion: v1
kind: Pod
metadata: {name: broken, namespace: viewed}
spec: {schedulerName: none, serviceAccountName: viewer, containers: [{name: c, image: registry.example/app, resources: {requests: {cpu: 250m}}}]}
---
apiVersion: v1
kind: Event
metadata: {name: mount, namespace: viewed}
type: Warning
reason: FailedMount
message: "mount of https://ada:hunter2@storage.example failed"
count: 4
involvedObject: {kind: Pod, namespace: viewed, name: broken}
`

const crashing = `{"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}], "containerStatuses": [
  {"name": "c", "image": "i", "imageID": "i", "ready": false, "restartCount": 3, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}}`

// Changes in a cluster are seen at the hub, with no request to the cluster.
func TestCommandsShowWhatAgentsSee(t *testing.T) {
	t.Parallel()
	s := shared(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c := s.Clusters[0]
	file := filepath.Join(t.TempDir(), "viewed.yaml")
	if err := os.WriteFile(file, []byte(viewed), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Kubectl(ctx, c.Kubeconfig, "apply", "-f", file); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Kubectl(ctx, c.Kubeconfig, "patch", "pod", "broken", "-n", "viewed", "--subresource=status",
		"--type=merge", "-p", crashing); err != nil {
		t.Fatal(err)
	}
	shows := func(args string, wanted ...string) {
		t.Helper()
		for {
			out, err := s.Fairlead(ctx, strings.Fields(args)...)
			if err != nil {
				t.Fatalf("%s: %v", args, err)
			}
			missing := ""
			for _, want := range wanted {
				if !strings.Contains(out, want) {
					missing = want
				}
			}
			if strings.Contains(out, "hunter2") {
				t.Fatalf("%s shows a password:\n%s", args, out)
			}
			if missing == "" {
				return
			}
			select {
			case <-ctx.Done():
				t.Fatalf("%s does not show %q:\n%s", args, missing, out)
			case <-time.After(500 * time.Millisecond):
			}
		}
	}
	shows("get pods --cluster "+c.Name+" --namespace viewed", c.Name, "broken", "CrashLoopBackOff", "3")
	shows("get nodes --cluster "+c.Name, "viewed-node", "SchedulingDisabled")
	shows("get warnings --namespace viewed", "Pod/broken", "FailedMount", "4", "storage.example failed")
	shows("top cluster "+c.Name, "current", "state.CrashLoopBackOff=1", "cordoned=1", "Cluster "+c.Name)
	shows("top cluster", c.Name, "NOT-READY")
	shows("top fleet --group-by missing", "CLUSTERS", "NOT-READY")
	shows("get clusters -o wide", "NOT-READY", "WARNINGS/H")
	if _, err := s.Kubectl(ctx, c.Kubeconfig, "delete", "pod", "broken", "-n", "viewed", "--force",
		"--grace-period=0"); err != nil {
		t.Fatal(err)
	}
	for {
		out, err := s.Fairlead(ctx, "get", "pods", "--cluster", c.Name, "--namespace", "viewed")
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out, "broken") {
			break
		}
		select {
		case <-ctx.Done():
			t.Fatalf("a pod that is gone is shown:\n%s", out)
		case <-time.After(500 * time.Millisecond):
		}
	}
	if out, err := s.Fairlead(ctx, "get", "pods", "--cluster", "nonsense"); err == nil {
		t.Errorf("of a cluster that is not there: %s", out)
	}
	if out, err := s.Fairlead(ctx, "get", "pods", "broken"); err == nil ||
		!strings.Contains(err.Error(), "fairlead kubectl") {
		t.Errorf("by name: %s %v", out, err)
	}
}
