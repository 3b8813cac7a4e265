// Package apply brings the objects of a service into the cluster by server-side apply, in the order that package
// order plans.
//
// Only what Decide names is sent; the objects of a step side by side, each read from the set when its turn comes. An
// object's error is its own: the others of its step are sent all the same, the steps after it are not. The package
// waits for nothing: where something has to become healthy, be deleted or be served first, Advance returns and says so,
// and goes on from there when it is called again.
package apply

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/plural"
	"fairlead.dev/services/agent/internal/cluster"
	"fairlead.dev/services/agent/internal/health"
	"fairlead.dev/services/agent/internal/inventory"
	"fairlead.dev/services/agent/internal/memory"
	"fairlead.dev/services/agent/internal/object"
	"fairlead.dev/services/agent/internal/order"
	"fairlead.dev/services/agent/internal/set"
	"fairlead.dev/services/agent/internal/upgrade"
)

// API is what is needed of the cluster; *cluster.Cluster has it.
type API interface {
	Apply(ctx context.Context, obj *unstructured.Unstructured, dryRun bool) (*unstructured.Unstructured, error)
	Get(ctx context.Context, ref object.Ref) (*unstructured.Unstructured, error)
	Whole(ctx context.Context, ref object.Ref) (*unstructured.Unstructured, error)
	Scan(ctx context.Context, gvk schema.GroupVersionKind, namespace string, most int, each func(*metav1.PartialObjectMetadata)) (all bool, err error)
	Metadata(ctx context.Context, ref object.Ref) (*metav1.PartialObjectMetadata, error)
	Select(ctx context.Context, gvk schema.GroupVersionKind, namespace string, opts metav1.ListOptions) ([]*unstructured.Unstructured, error)
	Patch(ctx context.Context, ref object.Ref, patch []byte) error
	Delete(ctx context.Context, ref object.Ref, uid types.UID) error
	Replace(ctx context.Context, ref object.Ref, uid types.UID, version string) error
	HasStatus(gvk schema.GroupVersionKind) bool
	health.Claims
}

// Applier sends objects. An Applier is safe for concurrent use.
type Applier struct {
	api      API
	width    *Width
	memory   *memory.Memory
	follower Follower
	now      func() time.Time
	// decisions counts what was sent, and what was not, by the reason.
	decisions *prometheus.CounterVec
}

// New returns an applier.
func New(api API, width *Width, known *memory.Memory, follower Follower) *Applier {
	return &Applier{api: api, width: width, memory: known, follower: follower, now: time.Now, decisions: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "fairlead_agent_decisions_total", Help: "Objects of services that were applied, by why they were sent; those that are unchanged, or held, were not.",
	}, []string{"reason"})}
}

// Register exports what is counted.
func (a *Applier) Register(metrics prometheus.Registerer) { metrics.MustRegister(a.decisions) }

// Request is what is to be applied for a service.
type Request struct {
	Service string
	// Digest that hooks are run for, once, and the revision that it is of the service; 0: it is none.
	Digest   string
	Revision int64
	// Unnumbered: an earlier version of the agent may have begun the digest, and made objects of hooks that name no
	// revision.
	Unnumbered bool
	// Unsealed: an earlier version of the agent may have made objects of hooks, without a seal.
	Unsealed bool
	// Again: hooks that failed for this digest are run again.
	Again bool
	Set   *set.Set
	Sync  *deliveryv1.SyncSpec
	// Record lists all that may be made.
	Record inventory.Record
	// Mask takes secrets out of what hooks and their pods say; nil: nothing does.
	Mask func(string) string
	// Note records which hooks have ended well, and which have failed, before their objects are deleted.
	Note func(ctx context.Context, ran, failed []object.Run) error
}

// Progress is how far a digest has come. A Progress is for one digest, and one user at a time.
type Progress struct {
	steps []order.Step
	// step is the one that comes next, since when it is waited for.
	step  int
	since time.Time
	items []set.Item
	own   map[schema.GroupKind]bool
	known knowledge
	rules []*health.Rule
	// adopted are objects of others that are taken over.
	adopted map[object.Key]bool
	// shared are ordinary objects that hooks share their name with: they are sent whenever the hooks run.
	shared map[object.Key]bool
	// failed is why the sync failed: what is left to do are its hooks.
	failed []Failure

	mu sync.Mutex // guards what follows
	// done lists what is as it should be.
	done map[object.Key]inventory.Entry
	// made are the hooks whose objects were made, ran those that have ended well, and fell those that have failed.
	made map[object.Run]types.UID
	ran  map[object.Run]bool
	fell map[object.Run]bool
	// reasons are why hooks had not ended.
	reasons map[object.Run]reason
	// dropped are hooks whose objects were deleted.
	dropped map[object.Key]bool
	// held are objects that people hold in the cluster.
	held map[object.Key]bool
}

// Begin plans. The error is a *manifest.Error if the manifests don't allow a plan.
func (a *Applier) Begin(r Request, items []set.Item, adopted map[object.Key]bool) (*Progress, error) {
	own, err := ownKinds(r.Set, items)
	if err != nil {
		return nil, err
	}
	items = slices.DeleteFunc(slices.Clone(items), func(item set.Item) bool { return item.Flags&object.NotKept != 0 }) // Make has made them
	steps, err := order.Plan(items, func(kind schema.GroupKind) bool { return own[kind] }, func(item set.Item) bool {
		switch r.Sync.GetPostHooks() {
		case deliveryv1.PostHooks_POST_HOOKS_SENT:
			return false
		case deliveryv1.PostHooks_POST_HOOKS_HEALTHY:
			return true
		}
		return item.Flags&object.InTurn == 0
	})
	if err != nil {
		return nil, err
	}
	p := a.newProgress(r, items, steps)
	p.own, p.adopted, p.shared = own, adopted, Shared(items)
	if again := slices.DeleteFunc(slices.Clone(items), func(item set.Item) bool { return item.Hook != 0 || !p.shared[item.Key] }); len(again) > 0 {
		p.steps = append(p.steps, order.Step{Items: again}) // hooks after the objects may have taken their place
	}
	return p, nil
}

// BeginHooks plans to run the hooks of some moments, which are one, and nothing else.
func (a *Applier) BeginHooks(r Request, hooks []set.Item, moments set.Hook) *Progress {
	return a.newProgress(r, hooks, order.Hooks(hooks, moments))
}

func (a *Applier) newProgress(r Request, items []set.Item, steps []order.Step) *Progress {
	a.follower.Unfollow(r.Service) // the objects that an earlier digest waited for
	p := &Progress{
		steps: steps, items: items, since: a.now(), known: a.knowledgeOf(r.Service, r.Record, items), rules: health.Compile(r.Sync.GetHealth()),
		done: map[object.Key]inventory.Entry{}, made: map[object.Run]types.UID{}, ran: map[object.Run]bool{}, fell: map[object.Run]bool{}, reasons: map[object.Run]reason{},
		dropped: map[object.Key]bool{}, held: map[object.Key]bool{},
	}
	p.recallHooks(r)
	return p
}

// Shared are the names that ordinary objects and hooks share.
func Shared(items []set.Item) map[object.Key]bool {
	shared, hooks := map[object.Key]bool{}, map[object.Key]bool{}
	for _, item := range items {
		if item.Hook != 0 {
			hooks[item.Key] = true
		}
	}
	for _, item := range items {
		if item.Hook == 0 && hooks[item.Key] {
			shared[item.Key] = true
		}
	}
	return shared
}

// recallHooks takes over which hooks have run for the digest, and which have failed, by the record.
func (p *Progress) recallHooks(r Request) {
	if r.Record.Progress.Digest != r.Digest {
		return
	}
	for _, run := range r.Record.Progress.Ran {
		p.ran[run] = true
	}
	if r.Again {
		return
	}
	for _, run := range r.Record.Progress.Failed {
		p.fell[run] = true
	}
}

// Done counts the objects that are as they should be, and lists them for the inventory.
func (p *Progress) Done() map[object.Key]inventory.Entry {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.done)
}

// Applied says how many of the objects are as they should be, for people: hooks are no part of either number.
func (p *Progress) Applied() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	done, all := 0, 0
	for _, item := range p.items {
		if item.Hook != 0 {
			continue
		}
		all++
		if _, ok := p.done[item.Key]; ok {
			done++
		}
	}
	return plural.Part(done, all, "object") + " " + plural.Are(all) + " applied"
}

// noteDone takes an object for done.
func (p *Progress) noteDone(item set.Item, uid types.UID, owned object.Sum) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done[item.Key] = inventory.Entry{
		Ref: item.Ref, UID: uid, Sum: item.Sum, Owned: owned, Wave: item.Wave, Hook: item.Hook != 0,
	}
}

// Dropped tells the hooks whose objects were deleted by their policies.
func (p *Progress) Dropped(key object.Key) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dropped[key]
}

// noteExpiry notes of an object that is done whether it goes by itself, as it came back, or as the list has it.
func (p *Progress) noteExpiry(key object.Key, expires bool, ended time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	entry := p.done[key]
	entry.Expires, entry.Ended = expires, ended
	p.done[key] = entry
}

func (p *Progress) isDone(key object.Key) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, ok := p.done[key]
	return ok
}

// Gate is what is waited for.
type Gate struct {
	// Why says it in words: "Deployment shop/db is not ready: ...".
	Why string
	// Items that are not there yet, at most a few.
	Items []Failure
	// Overdue: it takes longer than its timeout, or one of the items has failed for good.
	Overdue bool
	// Look is when to look again, if nothing is heard.
	Look time.Duration
}

// Result is how far it came. With no failures and no gate all is done.
type Result struct {
	Failures []Failure
	Waits    *Gate
	// Final: trying again changes nothing before the next digest, since a hook failed.
	Final bool
	// Err is why it can't go on, if no object is to blame.
	Err error
	// Held are objects that are not as wanted, because people hold them in the cluster. All else is done.
	Held []object.Key
}

// Advance goes on to the end, the next gate, or a failure.
func (a *Applier) Advance(ctx context.Context, r Request, p *Progress) Result {
	for p.step < len(p.steps) {
		step := p.steps[p.step]
		var result Result
		switch {
		case step.Drop:
			a.dropHooks(ctx, r, p, step.Items, object.DeleteSucceeded)
			a.follower.Unfollow(r.Service)
		case step.Hook != 0 && step.Gate:
			result = a.awaitHooks(ctx, r, p, step)
		case step.Hook != 0:
			result = a.startHooks(ctx, r, p, step)
		case step.Gate:
			result = a.gateHealth(ctx, p, step)
		default:
			result = a.sendStep(ctx, r, p, step)
		}
		if result.Final && p.failed == nil {
			p.failed = result.Failures
			p.steps, p.step, p.since = order.Hooks(p.items, object.SyncFail), 0, a.now()
			continue
		}
		if len(result.Failures) > 0 || result.Waits != nil || result.Err != nil {
			return result
		}
		p.step++
		p.since = a.now()
	}
	if p.failed != nil {
		return Result{Failures: p.failed, Final: true}
	}
	return Result{Held: slices.SortedFunc(maps.Keys(p.held), object.Compare)}
}

// pendings collects what has to be waited for.
type pendings struct {
	mu    sync.Mutex // guards items
	items []Failure
}

func (p *pendings) addPending(item set.Item, why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.items = append(p.items, Failure{Item: item, Problem: Problem{Text: why}})
}

const (
	// kindPatience is how long objects wait for the kind that came with them. Usual is 0.1 s.
	kindPatience = 15 * time.Second
	// lookFirst and lookMax are between two looks at what is waited for.
	lookFirst, lookMax = 50 * time.Millisecond, 5 * time.Second
)

// gatePending turns what is pending into a gate.
func (a *Applier) gatePending(p *Progress, pending []Failure, timeout time.Duration) Result {
	if len(pending) == 0 {
		return Result{}
	}
	const few = 20
	waited := a.now().Sub(p.since)
	gate := &Gate{Items: pending[:min(len(pending), few)], Overdue: waited > timeout, Look: min(max(waited/4, lookFirst), lookMax)}
	gate.Why = pending[0].Item.Key.String() + " " + pending[0].Problem.Text
	if more := len(pending) - 1; more == 1 {
		gate.Why += ", and one more object"
	} else if more > 1 {
		gate.Why += ", and " + countWords(more, "more object")
	}
	return Result{Waits: gate}
}

// sendStep sends the objects of a step, as far as they need it.
func (a *Applier) sendStep(ctx context.Context, r Request, p *Progress, step order.Step) Result {
	var pending pendings
	failures := a.forEach(ctx, step.Items, func(ctx context.Context, item set.Item) *Problem {
		if p.isDone(item.Key) {
			return nil
		}
		reason, known, ok := p.known.decideItem(item)
		stays := item.Flags&object.Hold != 0 || known.State == memory.Held
		isSent := reason != "" || p.shared[item.Key] && !stays
		if isSent && known.State == memory.Unseen && known.UID != "" { // a hold of it is known by no watch yet
			meta, err := a.api.Metadata(ctx, item.Ref)
			if err != nil && !NotThere(err) {
				return explainError(item, err)
			}
			if err == nil && isHeld(meta) {
				known.State, ok, isSent = memory.Held, true, false
			}
		}
		if !isSent {
			switch {
			case ok && known.Manifest == item.Sum: // else it is held, and stays as it was
				p.noteDone(item, known.UID, known.Owned)
				p.noteExpiry(item.Key, p.known.entries[item.Key].Expires, known.Ended)
			case wouldBeHeld(item, known, ok):
				p.mu.Lock()
				defer p.mu.Unlock()
				p.held[item.Key] = true
			}
			return nil
		}
		answer, wait, problem := a.sendOne(ctx, r, p, item)
		if wait != "" {
			pending.addPending(item, wait)
		}
		if answer != nil {
			p.noteDone(item, answer.GetUID(), object.Owned(answer))
			expires, ended := object.Expiry(answer)
			p.noteExpiry(item.Key, expires, ended)
			a.noteWritten(ctx, p, item, answer)
		}
		return problem
	})
	if len(failures) > 0 {
		return Result{Failures: failures}
	}
	return a.gatePending(p, pending.items, time.Hour)
}

// sendOne sends one object. wait says what has to happen first.
func (a *Applier) sendOne(ctx context.Context, r Request, p *Progress, item set.Item) (answer *unstructured.Unstructured, wait string, problem *Problem) {
	if p.adopted[item.Key] {
		if err := a.adoptFields(ctx, item.Ref); err != nil {
			return nil, "", explainError(item, err)
		}
	}
	answer, err := a.applyObject(ctx, r, item, false)
	unknown, waits := (*cluster.UnknownKindError)(nil), (*upgrade.WaitError)(nil)
	switch {
	case err == nil:
		return answer, "", nil
	case errors.As(err, &waits):
		return nil, waits.Why, nil
	case apierrors.ReasonForError(err) == metav1.StatusReasonUnknown && !errors.As(err, &unknown):
		a.memory.Doubt(item.Key) // the request may have arrived
	case errors.As(err, &unknown) && !unknown.Wide && (p.own[item.GVK().GroupKind()] || item.Flags&object.LateKind != 0) && a.now().Sub(p.since) < kindPatience:
		return nil, "waits until its kind is served", nil
	case Recreates(item, err):
		wait, problem = a.recreateObject(ctx, item)
		return nil, wait, problem
	}
	return nil, "", explainError(item, err)
}

// applyObject sends an object as it stands in the set, less the fields that are left to others.
func (a *Applier) applyObject(ctx context.Context, r Request, item set.Item, dryRun bool) (*unstructured.Unstructured, error) {
	obj, _, err := r.Set.Object(item)
	if err != nil {
		return nil, err
	}
	if pointers := Ignored(r.Sync, item, obj); len(pointers) > 0 {
		mark := obj.GetLabels()[object.ServiceLabel]
		if err := a.spareFields(ctx, item, obj, pointers); err != nil {
			return nil, err
		}
		if mark != "" { // the mark is left to nobody, also where all labels are
			obj.SetLabels(withLabel(obj.GetLabels(), object.ServiceLabel, mark))
		}
	}
	answer, err := a.api.Apply(ctx, obj, dryRun)
	if err == nil && !dryRun {
		a.memory.Altered(item.Key, object.Altered(obj.Object, answer.Object))
		if item.Flags&object.Scaled != 0 {
			a.releaseScale(ctx, item, answer)
		}
	}
	return answer, err
}

func withLabel(labels map[string]string, name, value string) map[string]string {
	if labels == nil {
		labels = map[string]string{}
	}
	labels[name] = value
	return labels
}

// Make makes those of the items that the cluster lacks. The made objects are nobody's then, and are not looked at
// again.
func (a *Applier) Make(ctx context.Context, r Request, items []set.Item) []Failure {
	return a.forEach(ctx, items, func(ctx context.Context, item set.Item) *Problem {
		if _, err := a.api.Metadata(ctx, item.Ref); !NotThere(err) {
			if err != nil {
				return explainError(item, err)
			}
			return nil
		}
		if _, err := a.applyObject(ctx, r, item, false); err != nil {
			return explainError(item, err)
		}
		return nil
	})
}

// One applies one object of a set, or tries it with dryRun, whatever is known of it.
func (a *Applier) One(ctx context.Context, r Request, item set.Item, dryRun bool) (*unstructured.Unstructured, *Problem) {
	give, err := a.width.Take(ctx)
	if err != nil {
		return nil, explainError(item, err)
	}
	defer give()
	answer, err := a.applyObject(ctx, r, item, dryRun)
	if err != nil {
		return nil, explainError(item, err)
	}
	if !dryRun {
		a.noteWritten(ctx, &Progress{rules: health.Compile(r.Sync.GetHealth())}, item, answer)
	}
	return answer, nil
}

// noteWritten tells the memory what an apply has made.
func (a *Applier) noteWritten(ctx context.Context, p *Progress, item set.Item, answer *unstructured.Unstructured) {
	gvk := item.GVK()
	var content object.Sum
	h := health.OfMeta(answer)
	if !cluster.DataOnly(gvk) {
		h = health.With(ctx, a.api, answer, health.Find(p.rules, gvk.GroupKind()))
		if a.api.HasStatus(gvk) {
			content = object.Content(answer)
		}
	}
	a.memory.Wrote(item.Key, item.Sum, answer, content)
	a.memory.Saw(gvk, answer, content, h)
	if object.IsJob(gvk.GroupKind()) {
		expires, ended := object.Expiry(answer)
		a.memory.Expiring(item.Key, answer, expires, ended)
	}
}

// recreateObject deletes an object that can't be changed to what is wanted, and nobody else's: it is made when it is
// gone.
func (a *Applier) recreateObject(ctx context.Context, item set.Item) (wait string, problem *Problem) {
	const again = "is being deleted, to be made anew"
	meta, err := a.api.Metadata(ctx, item.Ref)
	switch {
	case NotThere(err):
		return again, nil
	case err != nil:
		return "", explainError(item, err)
	case meta.DeletionTimestamp != nil:
		return again, nil
	case isHeld(meta): // the watch is about to tell
		return "is held by its annotation " + object.HoldAnnotation + " in the cluster", nil
	case object.Owner(meta) == "":
		return "", &Problem{
			Text: "it can't be changed to what is wanted, and was not made by a service: " +
				"only those are deleted to be made anew",
			Advice: "Delete it, or change what is wanted.",
		}
	}
	if takes, err := a.takesClaims(ctx, item); err != nil {
		return "", explainError(item, err)
	} else if takes {
		return "", claimsGo()
	}
	a.memory.Doubt(item.Key) // the object must not be made as it was
	if err := a.api.Replace(ctx, item.Ref, meta.UID, meta.ResourceVersion); err != nil && !NotThere(err) && !apierrors.IsConflict(err) {
		return "", explainError(item, err)
	}
	return again, nil
}

// takesClaims tells a StatefulSet in the cluster whose claims are deleted when it is.
func (a *Applier) takesClaims(ctx context.Context, item set.Item) (bool, error) {
	if item.GVK().GroupKind() != (schema.GroupKind{Group: "apps", Kind: "StatefulSet"}) {
		return false, nil
	}
	live, err := a.api.Get(ctx, item.Ref)
	if NotThere(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	policy, _, _ := unstructured.NestedString(live.Object, "spec", "persistentVolumeClaimRetentionPolicy", "whenDeleted")
	return policy == "Delete", nil
}

func claimsGo() *Problem {
	return &Problem{
		Text: "it can't be changed to what is wanted, and is not deleted to be made anew, since its claims, " +
			"and the data in them, would go with it (persistentVolumeClaimRetentionPolicy.whenDeleted: Delete)",
		Advice: "Undo the change, or set whenDeleted to Retain first, in a revision of its own.", Mistake: true,
	}
}

// Recreates says whether an object whose apply was refused is deleted and made anew.
func Recreates(item set.Item, err error) bool {
	return item.Flags&object.Recreate != 0 && isImmutable(err) && mayRecreate(item)
}

// mayRecreate: what takes data or other objects along is never deleted for a change.
func mayRecreate(item set.Item) bool {
	switch item.Kind {
	case "Namespace", "PersistentVolumeClaim", "PersistentVolume", "CustomResourceDefinition":
		return false
	}
	return true
}

// gateHealth looks at objects that have to be healthy.
func (a *Applier) gateHealth(ctx context.Context, p *Progress, step order.Step) Result {
	var failed, pending []Failure
	for _, item := range step.Items {
		state, message := a.readHealth(ctx, p, item)
		if state == health.Healthy {
			continue
		}
		text, isFailed := "is not healthy yet", false
		if state == health.Degraded && runsToCompletion(item) {
			var why string
			if why, isFailed = a.readFailure(ctx, item); isFailed {
				text, message = "has failed", why
			}
		}
		if message != "" {
			text += " (" + message + ")"
		}
		text += a.whyUnhealthy(ctx, p, item)
		failure := Failure{Item: item, Problem: Problem{Text: text, Advice: "What comes after it waits."}}
		if isFailed {
			failed = append(failed, failure)
		} else {
			pending = append(pending, failure)
		}
	}
	result := a.gatePending(p, slices.Concat(failed, pending), step.Timeout)
	if len(failed) > 0 { // time changes nothing
		result.Waits.Overdue, result.Waits.Look = true, lookMax
	}
	return result
}

// readFailure tells a Job or Pod that has failed for good, and why.
func (a *Applier) readFailure(ctx context.Context, item set.Item) (why string, isFailed bool) {
	obj, err := a.api.Get(ctx, item.Ref)
	if err != nil {
		return "", false
	}
	state, message := a.hookState(ctx, obj, nil)
	return joinParts(object.ConditionOf(obj, "Failed").Reason, message), state == health.Degraded
}

// readHealth is what the watches say, or, as long as they say nothing, the API server. They may have seen a claim
// before anything said that it waits for its first pod.
func (a *Applier) readHealth(ctx context.Context, p *Progress, item set.Item) (health.State, string) {
	known, ok := a.memory.Get(item.Key)
	asks := known.Health == health.Progressing && health.IsClaim(item.GVK().GroupKind())
	if ok && known.State != memory.Unseen && known.Health != health.Unknown && !asks {
		return known.Health, ""
	}
	if item.Version == "" { // of another service, or of none
		return health.Missing, "no service has it"
	}
	obj, err := a.api.Get(ctx, item.Ref)
	if NotThere(err) {
		return health.Missing, "it is not in the cluster"
	}
	if err != nil {
		return health.Unknown, "the API server does not say"
	}
	h := health.OfMeta(obj)
	if !cluster.DataOnly(item.GVK()) {
		h = health.With(ctx, a.api, obj, health.Find(p.rules, item.GVK().GroupKind()))
	}
	return h.State, h.Message
}

// NotThere tells that an object is not found, or that its kind is not served.
func NotThere(err error) bool {
	unknown := (*cluster.UnknownKindError)(nil)
	return apierrors.IsNotFound(err) || errors.As(err, &unknown)
}

// forEach calls do for all items, as many at a time as the width allows, and collects failures in the order of items.
func (a *Applier) forEach(ctx context.Context, items []set.Item, do func(context.Context, set.Item) *Problem) []Failure {
	problems := make([]*Problem, len(items))
	work := make(chan int)
	var workers sync.WaitGroup
	for range min(maxWidth, len(items)) {
		workers.Go(func() {
			for i := range work {
				give, err := a.width.Take(ctx)
				if err != nil {
					problems[i] = explainError(items[i], err)
					continue
				}
				problems[i] = do(ctx, items[i])
				give()
			}
		})
	}
	for i := range items {
		work <- i
	}
	close(work)
	workers.Wait()
	var failures []Failure
	for i, problem := range problems {
		if problem != nil {
			failures = append(failures, Failure{Item: items[i], Problem: *problem})
		}
	}
	return failures
}

// ownKinds are the kinds whose CRDs are among the items.
func ownKinds(objects *set.Set, items []set.Item) (map[schema.GroupKind]bool, error) {
	own := map[schema.GroupKind]bool{}
	for _, item := range items {
		if item.GVK().GroupKind() != (schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}) {
			continue
		}
		obj, _, err := objects.Object(item)
		if err != nil {
			return nil, err
		}
		group, _, _ := unstructured.NestedString(obj.Object, "spec", "group")
		kind, _, _ := unstructured.NestedString(obj.Object, "spec", "names", "kind")
		own[schema.GroupKind{Group: group, Kind: kind}] = true
	}
	return own, nil
}
