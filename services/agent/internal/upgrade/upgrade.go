// Package upgrade brings in a release of the agent by a service that the agent itself applies, and goes back from one
// whose pods do not become ready: the agent that could is gone by then.
//
// Before the agent sends another pod template for its own workload, it makes a Job of the release that runs, the
// watcher. Only once the watcher says, by an annotation of the Job, that it looks at the workload, the template is
// sent. The watcher waits until all pods of it are ready, or puts back the template of before and notes at the workload
// what it went back from and why. A template that was gone back from is refused until another one is wanted.
package upgrade

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"fairlead.dev/services/agent/internal/cluster"
	"fairlead.dev/services/agent/internal/impersonate"
	"fairlead.dev/services/agent/internal/object"
)

const (
	// wentBackAnnotation of a workload is the sum of the pod template that a watcher went back from, a space, and why.
	wentBackAnnotation = "fairlead.dev/went-back"
	// stateAnnotation of a watcher's Job says how far the watcher is.
	stateAnnotation = "fairlead.dev/upgrade"
	watching, ended = "watching", "ended"
	// startPatience is how long a watcher may take to begin: its image is on the node already, or was pulled there
	// before.
	startPatience = 2 * time.Minute
)

// WaitError says that the agent's own workload is not as wanted yet, and why.
type WaitError struct{ Why string }

func (e *WaitError) Error() string { return e.Why }

// Self is the cluster as package apply sees it, for an agent that a service of its own may replace.
type Self struct {
	*cluster.Self

	// Patience is how long the pods of another release may take to be ready.
	Patience time.Duration
}

// Apply is that of the cluster but for the agent's own workload, whose pods are replaced under the eyes of a watcher. A
// *WaitError says that it is to be sent again later.
func (s *Self) Apply(ctx context.Context, obj *unstructured.Unstructured, dryRun bool) (*unstructured.Unstructured, error) {
	ref := object.RefOf(obj)
	if dryRun || ref.Group != "apps" || ref.Kind != "StatefulSet" && ref.Kind != "Deployment" {
		return s.Self.Apply(ctx, obj, dryRun)
	}
	own, err := s.Needs(impersonate.Own(ctx), ref)
	if err != nil {
		return nil, fmt.Errorf("find out whether the agent itself runs by it: %w", err)
	}
	if !own {
		return s.Self.Apply(ctx, obj, false)
	}
	return s.applyOwn(ctx, ref, obj)
}

// applyOwn sends the agent's own workload.
func (s *Self) applyOwn(ctx context.Context, ref object.Ref, obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	live, err := s.Get(impersonate.Own(ctx), ref)
	if err != nil {
		return nil, err
	}
	planned, err := s.Self.Apply(ctx, obj, true)
	if err != nil {
		return nil, err
	}
	sum := templateSum(obj)
	watcher := watcherRef(ref, sum)
	if templateSum(live) == templateSum(planned) {
		answer, err := s.Self.Apply(ctx, obj, false)
		if err != nil {
			return nil, err
		}
		return answer, s.awaitWatcher(impersonate.Own(ctx), watcher)
	}
	if before, why, ok := strings.Cut(live.GetAnnotations()[wentBackAnnotation], " "); ok && before == sum {
		return nil, refusal(fmt.Sprintf("the agent went back from this release of itself: %s. To try the same one again take the annotation %s off", why, wentBackAnnotation))
	}
	if err := s.startWatcher(impersonate.Own(ctx), watcher, live, sum); err != nil {
		return nil, err
	}
	if _, err := s.Self.Apply(ctx, obj, false); err != nil {
		return nil, err
	}
	return nil, &WaitError{"waits until the agent's next release is ready"}
}

// awaitWatcher waits for the verdict of a watcher, if there is one.
func (s *Self) awaitWatcher(ctx context.Context, watcher object.Ref) error {
	job, err := s.Get(ctx, watcher)
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if job.GetAnnotations()[stateAnnotation] == ended || failed(job) {
		return nil
	}
	return &WaitError{"waits until the agent's next release is ready"}
}

// startWatcher returns nil once a watcher looks at the workload.
func (s *Self) startWatcher(ctx context.Context, watcher object.Ref, live *unstructured.Unstructured, sum string) error {
	job, err := s.Get(ctx, watcher)
	switch {
	case apierrors.IsNotFound(err):
		if job, err = watcherJob(watcher, live, sum, s.Patience); err != nil {
			return err
		}
		if err := s.Create(ctx, job); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("make the Job that goes back if the agent's next release is not ready: %w", err)
		}
	case err != nil:
		return err
	case job.GetAnnotations()[stateAnnotation] == watching && !failed(job):
		return nil
	case job.GetAnnotations()[stateAnnotation] == ended || failed(job) || time.Since(job.GetCreationTimestamp().Time) > startPatience:
		if err := s.Self.Delete(ctx, watcher, job.GetUID()); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return &WaitError{fmt.Sprintf("waits until %s runs, which goes back if the agent's next release is not ready", watcher.Key)}
}

// failed tells that a Job has been given up.
func failed(job *unstructured.Unstructured) bool {
	return object.ConditionOf(job, "Failed").IsTrue()
}

// templateSum names the pod template of a workload.
func templateSum(obj *unstructured.Unstructured) string {
	template, _, _ := unstructured.NestedMap(obj.Object, "spec", "template")
	data, err := json.Marshal(template)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(data)
	const enough = 8
	return hex.EncodeToString(sum[:enough])
}

func watcherRef(workload object.Ref, sum string) object.Ref {
	const most = 40 // with the sum a Job's name has 63 letters at most
	name := workload.Name[:min(len(workload.Name), most)]
	return object.Ref{Key: object.Key{Group: "batch", Kind: "Job", Namespace: workload.Namespace, Name: name + "-upgrade-" + sum[:12]}, Version: "v1"}
}

// watcherJob is a Job by the pod template that runs, reduced to what the watcher needs.
func watcherJob(watcher object.Ref, live *unstructured.Unstructured, sum string, patience time.Duration) (*unstructured.Unstructured, error) {
	template, _, err := unstructured.NestedMap(live.Object, "spec", "template")
	if err != nil {
		return nil, err
	}
	before, err := json.Marshal(template)
	if err != nil {
		return nil, fmt.Errorf("encode the pod template: %w", err)
	}
	spec, _, _ := unstructured.NestedMap(template, "spec")
	container := agentContainer(spec)
	if container == nil {
		return nil, errors.New("the agent's own workload has no container")
	}
	run := map[string]any{
		"name":  "watcher",
		"image": container["image"],
		"args": []any{
			Verb, "--kind=" + live.GetKind(), "--namespace=" + live.GetNamespace(), "--name=" + live.GetName(),
			"--job=" + watcher.Name, "--sum=" + sum, "--patience=" + patience.String(),
		},
		// A pod template is far below what a process may be given as one variable (128 KiB).
		"env": []any{map[string]any{"name": BeforeVariable, "value": strings.ReplaceAll(string(before), "$(", "$$(")}},
	}
	copyFields(run, container, "command", "imagePullPolicy", "resources", "securityContext")
	pod := map[string]any{"restartPolicy": "OnFailure", "containers": []any{run}}
	copyFields(pod, spec, "serviceAccountName", "securityContext", "imagePullSecrets", "nodeSelector", "tolerations",
		"priorityClassName", "runtimeClassName", "hostNetwork", "dnsPolicy", "hostAliases")
	labels := map[string]any{"app.kubernetes.io/name": "fairlead-agent-upgrade", "app.kubernetes.io/part-of": "fairlead"}
	const tries, kept = 6, int64(600)
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "batch/v1", "kind": "Job",
		"metadata": map[string]any{"name": watcher.Name, "namespace": watcher.Namespace, "labels": labels},
		"spec": map[string]any{
			"backoffLimit": int64(tries), "ttlSecondsAfterFinished": kept,
			"template": map[string]any{"metadata": map[string]any{"labels": labels}, "spec": pod},
		},
	}}, nil
}

// agentContainer is the one called agent, or else the first one.
func agentContainer(spec map[string]any) map[string]any {
	containers, _, _ := unstructured.NestedSlice(spec, "containers")
	var first map[string]any
	for _, one := range containers {
		container, _ := one.(map[string]any)
		if container["name"] == "agent" {
			return container
		}
		if first == nil {
			first = container
		}
	}
	return first
}

func copyFields(to, from map[string]any, names ...string) {
	for _, name := range names {
		if value, ok := from[name]; ok {
			to[name] = value
		}
	}
}

// refusal is an answer that only another manifest changes.
func refusal(message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusBadRequest, Reason: metav1.StatusReasonBadRequest, Message: message,
	}}
}
