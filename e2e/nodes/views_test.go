package nodes_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"
)

// sick are pods that a kubelet can't run: their image is nowhere, their program ends, their node does not exist.
const sick = `apiVersion: v1
kind: Namespace
metadata: {name: sick}
---
apiVersion: v1
kind: Pod
metadata: {name: unpulled, namespace: sick}
spec: {containers: [{name: c, image: "node.local/nowhere:1"}]}
---
apiVersion: v1
kind: Pod
metadata: {name: ends, namespace: sick}
spec: {containers: [{name: c, image: "node.local/testpod:1", args: [exit, "7"]}]}
---
apiVersion: v1
kind: Pod
metadata: {name: homeless, namespace: sick}
spec: {nodeSelector: {nobody: has}, containers: [{name: c, image: "node.local/testpod:1", args: [serve, x]}]}
---
apiVersion: v1
kind: Pod
metadata: {name: done, namespace: sick}
spec: {restartPolicy: Never, containers: [{name: c, image: "node.local/testpod:1", args: [exit, "0"]}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: scaled, namespace: sick}
spec:
  replicas: 1
  selector: {matchLabels: {app: scaled}}
  template:
    metadata: {labels: {app: scaled}}
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{name: c, image: "node.local/testpod:1", args: [serve, x]}]
`

// viewSaysWhatKubectlCounts has pods fail in all ways that only a real kubelet has, a node cordoned and tainted, and a
// workload scaled, and compares the view of the cluster, while they are there and once they are gone, with what kubectl
// prints.
func (w *world) viewSaysWhatKubectlCounts(t *testing.T) {
	t.Helper()
	w.kubectl(t, "", "cordon", "node-1")
	w.await(t, "the view has a cordoned node", func(ctx context.Context) error {
		return w.compareView(ctx, map[string]int64{"nodes.cordoned": 1})
	})
	w.kubectl(t, "", "uncordon", "node-1")
	w.kubectl(t, sick, "apply", "-f", "-")
	w.await(t, "the view has sick pods", func(ctx context.Context) error {
		return w.compareView(ctx, map[string]int64{
			"nodes.cordoned": 0, "pulls.pods": 1, "pods.state.CrashLoopBackOff": 1, "pods.state.ImagePullBackOff": 1,
			"pods.state.Pending": 1, "pods.state.Completed": 1,
		})
	})
	w.kubectl(t, "", "taint", "node", "node-1", "nobody=comes:NoSchedule")
	w.kubectl(t, "", "scale", "deployment/scaled", "--namespace", "sick", "--replicas", "3")
	w.await(t, "the view has pods that no node takes", func(ctx context.Context) error {
		return w.compareView(ctx, map[string]int64{"workloads.deployments_not_well": 1, "pods.state.Pending": 3})
	})
	w.kubectl(t, "", "taint", "node", "node-1", "nobody=comes:NoSchedule-")
	w.await(t, "the view has a scaled workload", func(ctx context.Context) error {
		return w.compareView(ctx, map[string]int64{"workloads.deployments_not_well": 0, "pods.state.Pending": 1})
	})
	w.kubectl(t, "", "scale", "deployment/scaled", "--namespace", "sick", "--replicas", "0")
	w.await(t, "the view has a workload without pods", func(ctx context.Context) error {
		return w.compareView(ctx, map[string]int64{"workloads.deployments_not_well": 0, "pods.state.Pending": 1})
	})
	w.kubectl(t, "", "delete", "namespace", "sick", "--wait=false")
	w.await(t, "the view has no sick pods", func(ctx context.Context) error {
		return w.compareView(ctx, map[string]int64{
			"pulls.pods": 0, "pods.state.CrashLoopBackOff": 0, "pods.state.ImagePullBackOff": 0, "pods.state.Pending": 0,
		})
	})
}

// compareView says where the view of the cluster differs from what kubectl prints of pods and workloads, and from what
// else it has to have.
func (w *world) compareView(ctx context.Context, want map[string]int64) error {
	listed, err := w.tryKubectl(ctx, "", "get", "pods", "--all-namespaces", "--no-headers")
	if err != nil {
		return err
	}
	states := map[string]int64{}
	for line := range strings.Lines(listed) {
		pod := strings.Fields(line) // namespace, name, ready, status and more
		if len(pod) < 4 {
			return fmt.Errorf("kubectl prints %q", line)
		}
		states["pods.state."+pod[3]]++
	}
	want = maps.Clone(want)
	want["pods.total"] = int64(strings.Count(listed, "\n"))
	for state, n := range states {
		if expected, ok := want[state]; ok && expected != n {
			return fmt.Errorf("kubectl prints %d pods of %s, want %d:\n%s", n, state, expected, listed)
		}
		want[state] = n
	}
	replicas, err := w.tryKubectl(ctx, "", "get", "deployments,statefulsets,daemonsets", "--all-namespaces", "-o",
		"jsonpath={range .items[*]}{.spec.replicas}{.status.desiredNumberScheduled} "+
			"{.status.readyReplicas}{.status.numberReady},{end}")
	if err != nil {
		return err
	}
	want["workloads.desired"], want["workloads.ready"] = 0, 0
	for of := range strings.SplitSeq(strings.TrimSuffix(replicas, ","), ",") {
		desired, ready, _ := strings.Cut(of, " ")
		for name, text := range map[string]string{"workloads.desired": desired, "workloads.ready": cmp.Or(ready, "0")} {
			n, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return fmt.Errorf("kubectl prints %q: %w", replicas, err)
			}
			want[name] += n
		}
	}
	answer, err := w.tryFairlead(ctx, "", "top", "cluster", w.cluster, "-o", "json")
	if err != nil {
		return err
	}
	var view struct {
		Figures map[string]json.Number `json:"figures"`
	}
	if err := json.Unmarshal([]byte(answer), &view); err != nil {
		return fmt.Errorf("%w in %s", err, answer)
	}
	for name, n := range want {
		got, _ := view.Figures[name].Int64() // a figure that is not there is 0
		if got != n {
			err = errors.Join(err, fmt.Errorf("%s is %d, want %d", name, got, n))
		}
	}
	if err != nil {
		err = fmt.Errorf("%w; kubectl prints:\n%s", err, listed)
	}
	return err
}
