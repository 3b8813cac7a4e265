package apply

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"fairlead.dev/services/agent/internal/cluster"
	"fairlead.dev/services/agent/internal/health"
	"fairlead.dev/services/agent/internal/object"
	"fairlead.dev/services/agent/internal/order"
	"fairlead.dev/services/agent/internal/set"
	"fairlead.dev/services/agent/internal/watch"
)

// Hooks of a moment are run by the steps of order.Hooks: an object is made, followed until it has ended, and when all
// of the moment have ended well, or one has failed, deleted where its policy says so.

// runAnnotation tells which digest a hook's object was made for: an agent that is started anew does not run it twice.
const runAnnotation = "fairlead.dev/hook-run"

// runOf is how that annotation begins. A digest that comes back after another one is another revision, and runs its
// hooks again.
func runOf(r Request, item set.Item) string {
	run := r.Digest
	if r.Revision > 0 {
		run += "@" + strconv.FormatInt(r.Revision, 10)
	}
	if item.Nth > 0 {
		run += "#" + strconv.Itoa(item.Nth)
	}
	return run
}

// sealedRun is runOf with a proof that the agent made the object: whoever makes one beforehand knows the digest, and
// not the seal.
func sealedRun(r Request, item set.Item) string {
	sum := hmac.New(sha256.New, []byte(r.Record.Seal))
	for _, part := range []string{runOf(r, item), item.Group, item.Kind, item.Namespace, item.Name} {
		_, _ = fmt.Fprintf(sum, "%d:%s", len(part), part) // a hash takes everything
	}
	return runOf(r, item) + " " + hex.EncodeToString(sum.Sum(nil)[:16])
}

// isOfRun tells whether the agent made a hook's object for this run.
func isOfRun(r Request, item set.Item, meta metav1.Object) bool {
	made := meta.GetAnnotations()[runAnnotation]
	if made == sealedRun(r, item) || r.Unsealed && made == runOf(r, item) {
		return true
	}
	before := r
	before.Revision = 0
	return r.Unsealed && r.Unnumbered && made == runOf(before, item)
}

// Follower keeps what is seen of the objects of hooks; *watch.Watcher does. A Job may delete itself as soon as it has
// ended: asking for it now and then would miss how.
type Follower interface {
	Follow(service string, obj *unstructured.Unstructured)
	Last(uid types.UID) (watch.Last, bool)
	Unfollow(service string)
}

// Runs are the items of a set that a digest has: hooks of these moments only, numbered where they share a name, and
// those with metadata.generateName under the name of this run: another one for each digest, and the same one where a
// run goes on.
func Runs(digest string, items []set.Item, moments set.Hook) []set.Item {
	items = slices.DeleteFunc(slices.Clone(items), func(item set.Item) bool {
		return item.Hook != 0 && (item.Hook&moments == 0 || item.Flags&object.Hold != 0)
	})
	count := map[object.Key]int{}
	for i, item := range items {
		if item.Hook == 0 {
			continue
		}
		nth := count[item.Key]
		count[item.Key]++
		if items[i].Nth = nth; item.Flags&object.Generated != 0 {
			items[i].Name += fmt.Sprintf("%0*x", generated, uint64(object.SumOf(fmt.Appendf(nil, "%s#%d", digest, nth)))>>24)
			items[i].Nth = 0
		}
	}
	return items
}

// generated is how many characters, of hexadecimal digits, are added to metadata.generateName.
const generated = 10

// Beginning is a key with the metadata.generateName that its name may have been made of; ok is false if it can't have
// been.
func Beginning(key object.Key) (beginning object.Key, ok bool) {
	at := len(key.Name) - generated
	if at < 0 || strings.Trim(key.Name[at:], "0123456789abcdef") != "" {
		return object.Key{}, false
	}
	key.Name = key.Name[:at]
	return key, true
}

// startHooks makes the objects of hooks that have not run for this digest.
func (a *Applier) startHooks(ctx context.Context, r Request, p *Progress, step order.Step) Result {
	var pending pendings
	failures := a.forEach(ctx, step.Items, func(ctx context.Context, item set.Item) *Problem {
		if p.isMade(item) || p.hasRun(item) {
			return nil
		}
		wait, problem := a.startHook(ctx, r, p, item)
		if wait != "" {
			pending.addPending(item, wait)
		}
		return problem
	})
	if len(failures) > 0 {
		return Result{Failures: failures}
	}
	return a.gatePending(p, pending.items, step.Timeout)
}

func (p *Progress) isMade(item set.Item) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, made := p.made[item.Run()]
	return made
}

// hasRun tells that a hook has ended before. Its object stays in the inventory as long as it is there.
func (p *Progress) hasRun(item set.Item) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ran[item.Run()] || p.isRenewed(item) {
		return false
	}
	if _, listed := p.done[item.Key]; !listed && !p.dropped[item.Key] && !p.shared[item.Key] {
		if entry, ok := p.known.entries[item.Key]; ok && entry.UID != "" {
			p.done[item.Key] = entry
		}
	}
	return true
}

// hasFailed tells that a hook has failed before.
func (p *Progress) hasFailed(item set.Item) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fell[item.Run()]
}

// isRenewed tells that the manifest of a hook is another one than the object in the cluster was made of, though the
// digest is the same: it has a certificate that was renewed, or depends on what the cluster can do. A hook that ends by
// itself is not run again for that. The caller holds mu.
func (p *Progress) isRenewed(item set.Item) bool {
	entry, listed := p.known.entries[item.Key]
	if now, made := p.done[item.Key]; made {
		entry = now
	}
	if !listed || entry.UID == "" || entry.Sum == 0 || entry.Sum == item.Sum || runsToCompletion(item) || p.shared[item.Key] {
		return false
	}
	// Of hooks with a common name the inventory has the one that was made last.
	return !slices.ContainsFunc(p.items, func(other set.Item) bool { return other.Hook != 0 && other.Key == item.Key && other.Sum != item.Sum })
}

func (a *Applier) startHook(ctx context.Context, r Request, p *Progress, item set.Item) (wait string, problem *Problem) {
	p.mu.Lock()
	renewed := p.ran[item.Run()] // else it would not be started again
	p.mu.Unlock()
	meta, err := a.api.Metadata(ctx, item.Ref)
	switch {
	case p.hasFailed(item) && (NotThere(err) || err == nil && !isOfRun(r, item, meta)):
		return "", nil // awaitHooks says so
	case NotThere(err):
		return "", a.makeHook(ctx, r, p, item)
	case err != nil:
		return "", explainError(item, err)
	case meta.DeletionTimestamp != nil:
		return beingDeleted(meta), nil
	case isOfRun(r, item, meta) && (!renewed || isHeld(meta)):
		return a.resumeHook(ctx, r, p, item, meta)
	case isHeld(meta):
		return "is a hook that is held by its annotation " + object.HoldAnnotation + " in the cluster, and runs once that is taken off", nil
	}
	owner := object.Owner(meta)
	if owner != "" && owner != r.Service {
		return "", Taken(owner)
	}
	if renewed {
		return "", a.makeHook(ctx, r, p, item)
	}
	if isMadeOnce(item) && owner == r.Service && !p.shared[item.Key] {
		p.noteHook(item, meta.UID, object.Owned(meta))
		return "", nil
	}
	if !p.isDeletedBefore(item, owner) {
		return "", a.makeHook(ctx, r, p, item)
	}
	if err := a.api.Delete(ctx, item.Ref, meta.UID); err != nil && !NotThere(err) {
		return "", explainError(item, err)
	}
	return earlier, nil
}

// isDeletedBefore tells whether an object that is there already is deleted to make a hook's. A Job or Pod runs once, so
// that it always is. An object that holds data or other objects, one that was nobody's, and one that the service has as
// an ordinary object is applied over instead.
func (p *Progress) isDeletedBefore(item set.Item, owner string) bool {
	if runsToCompletion(item) {
		return true
	}
	policies := item.Flags & (object.DeleteBefore | object.DeleteSucceeded | object.DeleteFailed)
	return mayRecreate(item) && owner != "" && !p.shared[item.Key] && (policies == 0 || policies&object.DeleteBefore != 0)
}

// isMadeOnce tells the data that only install hooks make, such as the key that a database was set up with. Data that a
// failed installation has made stays, and so does data of an installation whose inventory was lost.
func isMadeOnce(item set.Item) bool {
	return item.Hook&^(object.PreInstall|object.PostInstall) == 0 && HoldsData(item.GVK().GroupKind())
}

// HoldsData tells the kinds of hooks' objects that others rely on for as long as the service is there.
func HoldsData(kind schema.GroupKind) bool {
	return kind == schema.GroupKind{Kind: "Secret"} || kind == schema.GroupKind{Kind: "PersistentVolumeClaim"}
}

// earlier is why a hook's object can't be made yet.
const earlier = "of an earlier run is being deleted"

func beingDeleted(meta metav1.Object) string {
	if finalizers := meta.GetFinalizers(); len(finalizers) > 0 {
		return earlier + ", and waits for its finalizers: " + strings.Join(finalizers, ", ")
	}
	return earlier
}

func isHeld(meta metav1.Object) bool {
	_, held := meta.GetAnnotations()[object.HoldAnnotation]
	return held
}

// resumeHook takes over an object that an agent before this one made for the same run.
func (a *Applier) resumeHook(ctx context.Context, r Request, p *Progress, item set.Item, meta *metav1.PartialObjectMetadata) (wait string, problem *Problem) {
	if !isAwaited(item) {
		p.noteHook(item, meta.UID, object.Owned(meta))
		return "", nil
	}
	obj, err := a.api.Get(ctx, item.Ref)
	if NotThere(err) {
		return earlier, nil
	}
	if err != nil {
		return "", explainError(item, err)
	}
	if state, _ := a.hookState(ctx, obj, p.rules); state == health.Degraded && r.Again {
		if err := a.api.Delete(ctx, item.Ref, obj.GetUID()); err != nil && !NotThere(err) {
			return "", explainError(item, err)
		}
		return earlier, nil
	}
	p.noteHook(item, obj.GetUID(), object.Owned(obj))
	a.follower.Follow(r.Service, obj)
	return "", nil
}

func (a *Applier) makeHook(ctx context.Context, r Request, p *Progress, item set.Item) *Problem {
	obj, _, err := r.Set.Object(item)
	if err != nil {
		return explainError(item, err)
	}
	obj.SetName(item.Name) // see Generated
	annotations := obj.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[runAnnotation] = sealedRun(r, item)
	obj.SetAnnotations(annotations)
	if p.shared[item.Key] {
		a.memory.Doubt(item.Key) // the ordinary object of this name is sent again, and not repaired until then
	}
	made, err := a.api.Apply(ctx, obj, false)
	if err != nil {
		return explainError(item, err)
	}
	p.noteHook(item, made.GetUID(), object.Owned(made))
	if isAwaited(item) {
		a.follower.Follow(r.Service, made)
	}
	return nil
}

// noteHook takes a hook's object for made.
func (p *Progress) noteHook(item set.Item, uid types.UID, owned object.Sum) {
	p.noteDone(item, uid, owned)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.made[item.Run()] = uid
	delete(p.dropped, item.Key)
	if p.shared[item.Key] {
		delete(p.done, item.Key)
	}
}

// runsToCompletion tells the kinds that end.
func runsToCompletion(item set.Item) bool {
	kind := item.GVK().GroupKind()
	return kind == schema.GroupKind{Group: "batch", Kind: "Job"} || kind == schema.GroupKind{Kind: "Pod"}
}

// isAwaited tells whether there is anything to wait for after a hook's object was made.
func isAwaited(item set.Item) bool {
	return runsToCompletion(item) || item.Flags&object.InTurn == 0 && !cluster.DataOnly(item.GVK())
}

// awaitHooks looks how the hooks of a step are. A hook that failed ends the sync.
func (a *Applier) awaitHooks(ctx context.Context, r Request, p *Progress, step order.Step) Result {
	var pending pendings
	var mu sync.Mutex // guards ended
	var ended []set.Item
	overdue := a.now().Sub(p.since) > step.Timeout
	failures := a.forEach(ctx, step.Items, func(ctx context.Context, item set.Item) *Problem {
		if p.hasRun(item) {
			return nil
		}
		if p.hasFailed(item) && !p.isMade(item) {
			return &Problem{Text: "the hook failed before, and its object is gone", Advice: hookAdvice, Mistake: true}
		}
		done, problem := a.lookAtHook(ctx, r, p, item)
		switch {
		case problem != nil:
			return problem
		case done:
			mu.Lock()
			defer mu.Unlock()
			ended = append(ended, item)
		case overdue:
			return &Problem{Text: fmt.Sprintf("the hook did not end within %s", step.Timeout) + a.whyNot(ctx, r, p,
				item, true), Advice: hookAdvice, Mistake: true}
		default:
			pending.addPending(item, "is a hook that has not ended yet"+a.whyNot(ctx, r, p, item, false))
		}
		return nil
	})
	if err := ctx.Err(); err != nil {
		return Result{Err: err} // no hook has failed by that
	}
	if err := a.noteEnded(ctx, r, p, ended, failures); err != nil {
		return Result{Err: err}
	}
	if len(failures) > 0 {
		return a.failHooks(ctx, r, p, step, failures)
	}
	result := a.gatePending(p, pending.items, step.Timeout)
	if result.Waits != nil {
		result.Waits.Overdue = false // the step was in time when its hooks were looked at
	}
	return result
}

const hookAdvice = "Look at its logs, fix it and push; or ask for a sync to run it again."

// lookAtHook tells how one hook is: still running, done, or failed.
func (a *Applier) lookAtHook(ctx context.Context, r Request, p *Progress, item set.Item) (done bool, problem *Problem) {
	if !isAwaited(item) {
		return true, nil
	}
	last, err := a.readLast(ctx, p, item)
	if err != nil {
		return false, nil // the hook is looked at again
	}
	switch state, message := a.hookState(ctx, last.Object, p.rules); state {
	case health.Healthy:
		return true, nil
	case health.Degraded:
		text := "the hook failed"
		if message != "" {
			text += ": " + r.maskText(message)
		}
		return false, &Problem{Text: text + a.whyNot(ctx, r, p, item, true), Advice: hookAdvice, Mistake: true}
	}
	switch {
	case !last.Gone:
		return false, nil
	case last.Missed && a.eventTells(ctx, item, last.Object, "Completed"):
		return true, nil
	case last.Missed:
		return false, &Problem{Text: "the hook went away while the API server was not heard, so that nobody knows how it ended", Advice: hookAdvice, Mistake: true}
	}
	return false, &Problem{Text: "the hook went away before it had ended: somebody deleted it", Advice: hookAdvice, Mistake: true}
}

// streamPatience is how long the stream of a hook's object may take to tell of an object that is not there.
const streamPatience = 10 * time.Second

// readLast is what was seen of a hook's object. Without a stream the API server is asked.
func (a *Applier) readLast(ctx context.Context, p *Progress, item set.Item) (watch.Last, error) {
	p.mu.Lock()
	uid := p.made[item.Run()]
	p.mu.Unlock()
	last, ok := a.follower.Last(uid)
	if ok && (last.Live || last.Gone) {
		return last, nil
	}
	obj, err := a.api.Get(ctx, item.Ref)
	switch {
	case err != nil && !NotThere(err):
		return watch.Last{}, err
	case err == nil && obj.GetUID() == uid:
		return watch.Last{Object: obj}, nil
	case ok && a.now().Sub(p.since) < streamPatience:
		return last, nil // the stream begins where the object was made, and is about to tell how it went
	case !ok:
		last.Object = &unstructured.Unstructured{Object: map[string]any{"apiVersion": item.GVK().GroupVersion().String(), "kind": item.Kind}}
	}
	last.Gone, last.Missed = true, true
	return last, nil
}

// hookState reads how a hook is. Jobs and pods are done when they have ended, and not when they run.
func (a *Applier) hookState(
	ctx context.Context, obj *unstructured.Unstructured, rules []*health.Rule,
) (health.State, string) {
	switch obj.GroupVersionKind().GroupKind() {
	case schema.GroupKind{Group: "batch", Kind: "Job"}:
		if object.ConditionOf(obj, "Complete").IsTrue() {
			return health.Healthy, ""
		}
		if failed := object.ConditionOf(obj, "Failed"); failed.IsTrue() {
			return health.Degraded, failed.Message
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
	h := health.With(ctx, a.api, obj, health.Find(rules, obj.GroupVersionKind().GroupKind()))
	return h.State, h.Message
}

// noteEnded writes down which hooks ended, well or not, before anything is done about their objects.
func (a *Applier) noteEnded(ctx context.Context, r Request, p *Progress, well []set.Item, failures []Failure) error {
	if len(well)+len(failures) == 0 {
		return nil
	}
	p.mu.Lock()
	for _, item := range well {
		p.ran[item.Run()] = true
		delete(p.fell, item.Run())
	}
	for _, failure := range failures {
		p.fell[failure.Item.Run()] = true
	}
	ran, failed := sortRuns(p.ran), sortRuns(p.fell)
	p.mu.Unlock()
	return r.Note(ctx, ran, failed)
}

func sortRuns(runs map[object.Run]bool) []object.Run {
	return slices.SortedFunc(maps.Keys(runs), func(a, b object.Run) int {
		return cmp.Or(object.Compare(a.Key, b.Key), cmp.Compare(a.Nth, b.Nth))
	})
}

// failHooks ends the sync. The policies are carried out over the hooks that failed, and over those before them.
func (a *Applier) failHooks(ctx context.Context, r Request, p *Progress, step order.Step, failures []Failure) Result {
	failed := map[object.Run]bool{}
	var items, well []set.Item
	for _, failure := range failures {
		failed[failure.Item.Run()] = true
		items = append(items, failure.Item)
	}
	for _, item := range slices.Concat(step.Earlier, step.Items) {
		if !failed[item.Run()] && p.hasRun(item) {
			well = append(well, item)
		}
	}
	a.dropHooks(ctx, r, p, items, object.DeleteFailed)
	a.dropHooks(ctx, r, p, well, object.DeleteSucceeded)
	a.follower.Unfollow(r.Service)
	return Result{Failures: failures, Final: true}
}

// dropHooks deletes the objects of hooks with this flag, one after the other, and not those of others of the same name.
// An object that can't be deleted, or that people hold, stays in the inventory, and so does one that takes others
// along: it goes when it leaves the manifests, if nobody has anything in it. A Job or Pod apart, an ordinary object of
// the same name is no hook's to delete.
func (a *Applier) dropHooks(ctx context.Context, r Request, p *Progress, items []set.Item, flag object.Flags) {
	for _, item := range items {
		if item.Flags&flag == 0 || item.Kind == "Namespace" || item.Kind == "CustomResourceDefinition" || p.shared[item.Key] && !runsToCompletion(item) {
			continue
		}
		meta, err := a.api.Metadata(ctx, item.Ref)
		if err != nil && !NotThere(err) || err == nil && (isHeld(meta) || !isOfRun(r, item, meta)) {
			continue
		}
		if err == nil {
			err = a.api.Delete(ctx, item.Ref, meta.UID)
		}
		if err == nil || NotThere(err) || apierrors.IsConflict(err) {
			p.mu.Lock()
			delete(p.done, item.Key)
			p.dropped[item.Key] = true
			p.mu.Unlock()
		}
	}
}
