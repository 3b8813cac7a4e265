package upgrade

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"fairlead.dev/platform/retry"
	"fairlead.dev/services/agent/internal/cluster"
	"fairlead.dev/services/agent/internal/object"
)

const (
	// Verb is the first argument of the agent's program in the Job.
	Verb = "watch-upgrade"
	// BeforeVariable holds the pod template of before, as JSON.
	BeforeVariable = "FAIRLEAD_UPGRADE_BEFORE"
	lookEvery      = 2 * time.Second
	// steadyFor is how long pods have to stay ready.
	steadyFor = 10 * time.Second
	// crashes of a container are enough to go back before the patience is over.
	crashes = 4
	// unsent is how long a watcher waits for the template that it was started for.
	unsent = 5 * time.Minute
	maxWhy = 400 // bytes
)

// Watcher looks at one upgrade of the agent's workload.
type Watcher struct {
	Cluster *cluster.Cluster
	Log     *slog.Logger
	// Workload is the agent's, and Job the one that the watcher runs in.
	Workload, Job object.Ref
	// Sum names the template that is brought in, and Before is the pod template to go back to, as JSON.
	Sum    string
	Before string
	// Patience is how long the pods may take to be ready.
	Patience time.Duration
}

// RunCommand is `agent watch-upgrade`.
func RunCommand(ctx context.Context, log *slog.Logger, args []string, getenv func(string) string) error {
	fs := flag.NewFlagSet(Verb, flag.ContinueOnError)
	kind, namespace, name := fs.String("kind", "", "StatefulSet or Deployment"), fs.String("namespace", "", "its namespace"), fs.String("name", "", "its name")
	job, sum := fs.String("job", "", "the Job that this is"), fs.String("sum", "", "names the template that is brought in")
	patience := fs.Duration("patience", 0, "how long the pods may take to be ready")
	if err := fs.Parse(args); err != nil {
		return err
	}
	config, err := cluster.Load("", "")
	if err != nil {
		return err
	}
	c, err := cluster.New(config)
	if err != nil {
		return err
	}
	defer c.Close()
	w := Watcher{
		Cluster: c, Log: log, Sum: *sum, Before: getenv(BeforeVariable), Patience: *patience,
		Workload: object.Ref{Key: object.Key{Group: "apps", Kind: *kind, Namespace: *namespace, Name: *name}, Version: "v1"},
		Job:      object.Ref{Key: object.Key{Group: "batch", Kind: "Job", Namespace: *namespace, Name: *job}, Version: "v1"},
	}
	return w.Run(ctx)
}

// Run says that it watches, waits for the verdict, and goes back if it has to. An error means that it is to be started
// again.
func (w *Watcher) Run(ctx context.Context) error {
	var before map[string]any
	if err := json.Unmarshal([]byte(w.Before), &before); err != nil {
		return fmt.Errorf("read the pod template of before: %w", err)
	}
	if err := w.noteState(ctx, watching); err != nil {
		return fmt.Errorf("say that the upgrade is watched: %w", err)
	}
	w.Log.Info("watching the agent's upgrade", "workload", w.Workload.Key.String(), "patience", w.Patience)
	why, err := w.judge(ctx, before)
	if err != nil {
		return err
	}
	if why != "" {
		w.Log.Error("the agent goes back to the release of before", "why", why)
		if err := w.goBack(ctx, before, why); err != nil {
			return fmt.Errorf("go back: %w", err)
		}
	} else {
		w.Log.Info("nothing to go back from")
	}
	return w.noteState(ctx, ended)
}

// judge says why to go back; "": there is no reason to.
func (w *Watcher) judge(ctx context.Context, before map[string]any) (why string, err error) {
	began, sent, steady := time.Now(), time.Time{}, time.Time{}
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	last := "its pods were not seen"
	var made time.Time // of the Job, which was before the template was sent; zero: not known
	if job, err := w.Cluster.Get(ctx, w.Job); err != nil {
		w.Log.Warn("the watcher's Job can't be read; pods of the release of before count, too", "err", err)
	} else {
		made = job.GetCreationTimestamp().Time
	}
	for {
		live, err := w.Cluster.Get(ctx, w.Workload)
		switch {
		case apierrors.IsNotFound(err):
			return "", nil
		case err != nil: // the API server may be away
			w.Log.Warn("the agent's workload can't be read; trying again", "err", err)
		case templateSum(live) == templateSum(&unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"template": before}}}):
			if sum, why, ok := strings.Cut(live.GetAnnotations()[wentBackAnnotation], " "); ok && sum == w.Sum { // and was interrupted in it
				return why, nil
			}
			if !sent.IsZero() || time.Since(began) > unsent { // somebody else went back, or the release was not sent
				return "", nil
			}
		default:
			if sent.IsZero() {
				sent = time.Now()
			}
			if ready(live) {
				if steady.IsZero() {
					steady = time.Now()
				}
				if time.Since(steady) >= steadyFor {
					return "", nil
				}
				break
			}
			steady = time.Time{}
			text, restarts, err := w.lookAtPods(ctx, live, made)
			if err != nil {
				w.Log.Warn("the agent's pods can't be read; trying again", "err", err)
				break
			}
			if text != "" {
				last = text
			}
			if restarts >= crashes {
				return last, nil
			}
		}
		if !sent.IsZero() && steady.IsZero() && time.Since(sent) > w.Patience {
			return fmt.Sprintf("not ready within %s: %s", w.Patience, last), nil
		}
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-tick.C:
		}
	}
}

// ready tells that all pods of a workload are of its template, and ready.
func ready(live *unstructured.Unstructured) bool {
	wanted, found, _ := unstructured.NestedInt64(live.Object, "spec", "replicas")
	if !found {
		wanted = 1
	}
	number := func(name string) int64 {
		n, _, _ := unstructured.NestedInt64(live.Object, "status", name)
		return n
	}
	return number("observedGeneration") >= live.GetGeneration() && number("updatedReplicas") == wanted &&
		number("readyReplicas") == wanted && number("replicas") == wanted
}

// pods are those that a workload selects.
func (w *Watcher) pods(ctx context.Context, live *unstructured.Unstructured) ([]*unstructured.Unstructured, error) {
	labels, _, _ := unstructured.NestedStringMap(live.Object, "spec", "selector", "matchLabels")
	return w.Cluster.Select(ctx, schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, w.Workload.Namespace,
		metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: labels})})
}

// lookAtPods says what keeps one of the pods from being ready, and how often its container was started again. Pods from
// before since are of the release that is replaced, which may be so because it crashes.
func (w *Watcher) lookAtPods(ctx context.Context, live *unstructured.Unstructured, since time.Time) (
	text string, restarts int64, err error,
) {
	pods, err := w.pods(ctx, live)
	if err != nil {
		return "", 0, err
	}
	for _, pod := range pods {
		if object.ConditionOf(pod, "Ready").IsTrue() || pod.GetDeletionTimestamp() != nil || pod.GetCreationTimestamp().Time.Before(since) {
			continue
		}
		statuses, _, _ := unstructured.NestedSlice(pod.Object, "status", "containerStatuses")
		for _, one := range statuses {
			status, _ := one.(map[string]any)
			count, _, _ := unstructured.NestedInt64(status, "restartCount")
			name, _, _ := unstructured.NestedString(status, "name")
			restarts = max(restarts, count)
			text = fmt.Sprintf("pod %s, container %s: %s", pod.GetName(), name, describeContainer(status, count))
		}
		if len(statuses) == 0 {
			text = fmt.Sprintf("pod %s: %s", pod.GetName(), describePod(pod))
		}
	}
	return text[:min(len(text), maxWhy)], restarts, nil
}

// describeContainer says what a container that is not ready does.
func describeContainer(status map[string]any, restarts int64) string {
	var texts []string
	for _, field := range [][]string{{"state", "waiting"}, {"state", "terminated"}, {"lastState", "terminated"}} {
		state, found, _ := unstructured.NestedMap(status, field...)
		if !found {
			continue
		}
		reason, _ := state["reason"].(string)
		if code, ok := state["exitCode"].(int64); ok {
			reason = fmt.Sprintf("%s, exit code %d", reason, code)
		}
		if message, _ := state["message"].(string); message != "" {
			reason += " (" + strings.Join(strings.Fields(message), " ") + ")"
		}
		texts = append(texts, reason)
	}
	if len(texts) == 0 {
		texts = append(texts, "it runs, and its probe fails")
	}
	if restarts > 0 {
		texts = append(texts, fmt.Sprintf("started again %d times", restarts))
	}
	return strings.Join(texts, "; ")
}

// describePod says why a pod has no containers yet.
func describePod(pod *unstructured.Unstructured) string {
	for _, condition := range object.Conditions(pod) {
		if condition.Status == "False" && condition.Message != "" {
			return condition.Message
		}
	}
	phase, _, _ := unstructured.NestedString(pod.Object, "status", "phase")
	return phase
}

// goBack puts the template of before back, with a note.
func (w *Watcher) goBack(ctx context.Context, before map[string]any, why string) error {
	live, err := w.Cluster.Get(ctx, w.Workload)
	if err != nil {
		return err
	}
	if err := w.Cluster.Restore(ctx, w.Workload, before, wentBackAnnotation, w.Sum+" "+why); err != nil {
		return err
	}
	return w.dropStuck(ctx, live)
}

// dropStuck deletes pods that are not ready: the controller of a StatefulSet may wait for such a pod before it replaces
// it.
func (w *Watcher) dropStuck(ctx context.Context, live *unstructured.Unstructured) error {
	if live.GetKind() != "StatefulSet" {
		return nil
	}
	pods, err := w.pods(ctx, live)
	if err != nil {
		return err
	}
	var errs []error
	for _, pod := range pods {
		if object.ConditionOf(pod, "Ready").IsTrue() {
			continue
		}
		ref := object.Ref{Key: object.Key{Kind: "Pod", Namespace: pod.GetNamespace(), Name: pod.GetName()}, Version: "v1"}
		if err := w.Cluster.Delete(ctx, ref, pod.GetUID()); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// noteState says at the Job how far the watcher is. The API server may be away for a while.
func (w *Watcher) noteState(ctx context.Context, state string) error {
	const pause = time.Second
	for {
		err := w.Cluster.Annotate(ctx, w.Job, stateAnnotation, state)
		if err == nil || apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
			return err
		}
		w.Log.Warn("the watcher's Job can't be written; trying again", "err", err)
		if !retry.Sleep(ctx, pause) {
			return ctx.Err()
		}
	}
}
