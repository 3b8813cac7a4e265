package apply

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"fairlead.dev/services/agent/internal/cluster"
	"fairlead.dev/services/agent/internal/health"
	"fairlead.dev/services/agent/internal/object"
	"fairlead.dev/services/agent/internal/order"
	"fairlead.dev/services/agent/internal/set"
)

// runAnnotation tells which digest a hook's object was made for: an agent that is started anew does not run it twice.
const runAnnotation = "fairlead.dev/hook-run"

// runOf is what that annotation says.
func runOf(r Request, item set.Item) string {
	if item.Nth == 0 {
		return r.Digest
	}
	return r.Digest + "#" + strconv.Itoa(item.Nth)
}

// startHooks makes the objects of hooks that have not run for this digest.
func (a *Applier) startHooks(ctx context.Context, r Request, p *Progress, step order.Step) Result {
	var pending pendings
	failures := a.each(ctx, step.Items, func(ctx context.Context, item set.Item) *Problem {
		if p.isMade(item) || p.hasRun(item) {
			return nil
		}
		wait, problem := a.startHook(ctx, r, p, item)
		if wait != "" {
			pending.add(item, wait)
		}
		return problem
	})
	if len(failures) > 0 {
		return Result{Failures: failures}
	}
	// An agent that was killed may have noted that they ended, and not deleted them.
	a.dropHooks(ctx, r, p, slices.DeleteFunc(slices.Clone(step.Items), func(item set.Item) bool { return !p.hasRun(item) }), object.DeleteSucceeded)
	return a.waits(p, pending.items, step.Timeout)
}

func (p *Progress) isMade(item set.Item) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.made[item.Run()]
}

// hasRun tells that a hook has ended before. Its object stays in the inventory as long as it is there.
func (p *Progress) hasRun(item set.Item) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ran[item.Run()] {
		return false
	}
	if _, listed := p.done[item.Key]; !listed && !p.dropped[item.Key] {
		if entry, ok := p.known.entries[item.Key]; ok && entry.UID != "" {
			p.done[item.Key] = entry
		}
	}
	return true
}

func (a *Applier) startHook(ctx context.Context, r Request, p *Progress, item set.Item) (wait string, problem *Problem) {
	meta, err := a.api.Metadata(ctx, item.Ref)
	switch {
	case notThere(err):
		return "", a.makeHook(ctx, r, p, item)
	case err != nil:
		return "", explain(item, err)
	case meta.DeletionTimestamp != nil:
		return earlier, nil
	case meta.Annotations[runAnnotation] == runOf(r, item):
		p.note(item, meta.UID, object.Owned(meta))
		return "", nil
	case isHeld(meta):
		return "is a hook that is held by its annotation " + object.HoldAnnotation + " in the cluster, and runs once that is taken off", nil
	}
	owner := object.Owner(meta)
	if owner != "" && owner != r.Service {
		return "", Taken(owner)
	}
	// What holds data or other objects, and what was nobody's, is not deleted for it, but taken as it is.
	if !mayRecreate(item) || owner == "" && item.Kind != "Job" && item.Kind != "Pod" {
		return "", a.makeHook(ctx, r, p, item)
	}
	if err := a.api.Delete(ctx, item.Ref, meta.UID); err != nil && !notThere(err) {
		return "", explain(item, err)
	}
	return earlier, nil
}

// earlier is why a hook's object can't be made yet.
const earlier = "of an earlier run is being deleted"

func isHeld(meta metav1.Object) bool {
	_, held := meta.GetAnnotations()[object.HoldAnnotation]
	return held
}

func (a *Applier) makeHook(ctx context.Context, r Request, p *Progress, item set.Item) *Problem {
	obj, _, err := r.Set.Object(item)
	if err != nil {
		return explain(item, err)
	}
	annotations := obj.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[runAnnotation] = runOf(r, item)
	obj.SetAnnotations(annotations)
	made, err := a.api.Apply(ctx, obj, false)
	if err != nil {
		return explain(item, err)
	}
	p.note(item, made.GetUID(), object.Owned(made))
	return nil
}

// awaitHooks looks how the hooks of a step are. A hook that failed ends the sync.
func (a *Applier) awaitHooks(ctx context.Context, r Request, p *Progress, step order.Step) Result {
	var pending pendings
	var mu sync.Mutex // guards ended
	var ended []set.Item
	overdue := a.now().Sub(p.since) > step.Timeout
	failures := a.each(ctx, step.Items, func(ctx context.Context, item set.Item) *Problem {
		if p.hasRun(item) {
			return nil
		}
		done, problem := a.look(ctx, p, item)
		switch {
		case problem != nil:
			return problem
		case done:
			mu.Lock()
			defer mu.Unlock()
			ended = append(ended, item)
		case overdue:
			return &Problem{Text: fmt.Sprintf("the hook did not end within %s", step.Timeout), Advice: hookAdvice, Mistake: true}
		default:
			pending.add(item, "is a hook that has not ended yet")
		}
		return nil
	})
	if err := a.endHooks(ctx, r, p, ended); err != nil {
		return Result{Err: err}
	}
	if len(failures) > 0 {
		return a.failHooks(ctx, r, p, failures)
	}
	result := a.waits(p, pending.items, step.Timeout)
	if result.Waits != nil {
		result.Waits.Overdue = false // it was in time when they were looked at
	}
	return result
}

const hookAdvice = "Look at its logs, fix it and push; or ask for a sync to run it again."

// look tells how one hook is: still running, done, or failed.
func (a *Applier) look(ctx context.Context, p *Progress, item set.Item) (done bool, problem *Problem) {
	obj, err := a.api.Get(ctx, item.Ref)
	if notThere(err) {
		return false, &Problem{Text: "the hook went away before it had ended", Advice: hookAdvice, Mistake: true}
	}
	if err != nil {
		return false, nil // it is looked at again
	}
	state, message := hookState(obj, p.rules)
	switch state {
	case health.Healthy:
		return true, nil
	case health.Degraded:
		return false, &Problem{Text: "the hook failed: " + message, Advice: hookAdvice, Mistake: true}
	}
	return false, nil
}

// hookState reads how a hook is. Jobs and pods are done when they have ended, and not when they run.
func hookState(obj *unstructured.Unstructured, rules []*health.Rule) (health.State, string) {
	switch obj.GroupVersionKind().GroupKind() {
	case schema.GroupKind{Group: "batch", Kind: "Job"}:
		conditions, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
		for _, one := range conditions {
			condition, _ := one.(map[string]any)
			if condition["status"] != "True" {
				continue
			}
			message, _ := condition["message"].(string)
			switch condition["type"] {
			case "Complete":
				return health.Healthy, ""
			case "Failed":
				return health.Degraded, message
			}
		}
		return health.Progressing, ""
	case schema.GroupKind{Kind: "Pod"}:
		phase, _, _ := unstructured.NestedString(obj.Object, "status", "phase")
		message, _, _ := unstructured.NestedString(obj.Object, "status", "message")
		switch phase {
		case "Succeeded":
			return health.Healthy, ""
		case "Failed":
			return health.Degraded, message
		}
		return health.Progressing, ""
	}
	if cluster.DataOnly(obj.GroupVersionKind()) {
		return health.Healthy, ""
	}
	h := health.Of(obj, health.Find(rules, obj.GroupVersionKind().GroupKind()))
	return h.State, h.Message
}

// endHooks notes hooks that ended well, and then deletes those that are to go.
func (a *Applier) endHooks(ctx context.Context, r Request, p *Progress, ended []set.Item) error {
	if len(ended) == 0 {
		return nil
	}
	p.mu.Lock()
	for _, item := range ended {
		p.ran[item.Run()] = true
	}
	ran := slices.SortedFunc(maps.Keys(p.ran), func(a, b object.Run) int {
		return cmp.Or(object.Compare(a.Key, b.Key), cmp.Compare(a.Nth, b.Nth))
	})
	p.mu.Unlock()
	if err := r.Note(ctx, ran); err != nil {
		return err
	}
	a.dropHooks(ctx, r, p, ended, object.DeleteSucceeded)
	return nil
}

// failHooks ends the sync.
func (a *Applier) failHooks(ctx context.Context, r Request, p *Progress, failures []Failure) Result {
	var items []set.Item
	for _, failure := range failures {
		items = append(items, failure.Item)
	}
	a.dropHooks(ctx, r, p, items, object.DeleteFailed)
	return Result{Failures: failures, Final: true}
}

// dropHooks deletes the objects of hooks with this flag, not those of others of the same name. One that can't be deleted, or that
// people hold, stays in the inventory, and so does what takes others along: it goes when it leaves the manifests, if nobody has anything in it.
func (a *Applier) dropHooks(ctx context.Context, r Request, p *Progress, items []set.Item, flag object.Flags) {
	for _, item := range items {
		entry, ok := p.Done()[item.Key]
		if !ok || item.Flags&flag == 0 || item.Kind == "Namespace" || item.Kind == "CustomResourceDefinition" {
			continue
		}
		meta, err := a.api.Metadata(ctx, item.Ref)
		if err != nil && !notThere(err) || err == nil && (isHeld(meta) || meta.Annotations[runAnnotation] != runOf(r, item)) {
			continue
		}
		if err := a.api.Delete(ctx, item.Ref, entry.UID); err == nil || notThere(err) || apierrors.IsConflict(err) {
			p.mu.Lock()
			delete(p.done, item.Key)
			p.dropped[item.Key] = true
			p.mu.Unlock()
		}
	}
}
