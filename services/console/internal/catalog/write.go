package catalog

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	platform "fairlead.dev/platform/identity"
	"fairlead.dev/platform/refusal"
	"fairlead.dev/services/console/internal/identity"
	"fairlead.dev/services/console/internal/resource"
	"fairlead.dev/services/console/internal/state"
	"fairlead.dev/services/console/internal/store"
)

// By is who writes.
type By struct {
	Identity platform.Identity
	// Subject is how the log and the history name it.
	Subject string
	// Remote is the address that it called from.
	Remote  string
	TraceID string
	// Time is when the request came; zero: it is not known.
	Time time.Time
	// Reason is why it writes, for the audit trail; empty: because it wants to.
	Reason string
}

// Self is the console, at work for somebody or something: it may write anything.
func Self(subject string) By {
	return By{Identity: platform.Identity{Kind: platform.KindService, Name: platform.ServiceConsole}, Subject: subject}
}

// Self says whether it is the console's own work.
func (b By) Self() bool { return b.Identity.Has(platform.RoleConsole) }

// SeesAll says whether the caller sees everything.
func (b By) SeesAll() bool { return b.Self() || b.Identity.Has(platform.RoleAdmin) }

// Write is a write on its way, as hooks see it.
type Write struct {
	Tx *store.Tx
	By By
	// End is when the write has to be done, or ends with errLate; zero: it may take its time. The end is checked
	// between resources: a database that is left in the middle of a statement may undo more than that.
	End time.Time
	// Declarer is the service whose folder is brought into the catalog, or that goes with what it declared; empty:
	// there is none.
	Declarer string
	// Confirmed says that a person has seen what a guard held back, and lets it go.
	Confirmed bool
	// leaving are the clusters that the write deletes, or the one that it is part of.
	leaving map[string]bool
	// left are those of the clusters of services that it deletes which have left.
	left map[string]bool
	// changing are the global services that the write changes after its clusters. A cluster's hook leaves them to their
	// own, which knows by relabelled how clusters were before the write changed their labels, by name.
	changing   map[string]bool
	relabelled map[string]store.Resource
	action     string // of the resource that the hook is called for
	catalog    *Catalog
	side       *[]Written // of the resource that the hook is called for
	notes      *[]string  // of the same
}

// Put writes more within the same write. Its results stand beside the resource that the hook was called for.
func (w *Write) Put(ctx context.Context, by By, edits []Edit) error {
	more := *w
	more.By = by
	written, err := w.catalog.PutIn(ctx, more, edits)
	*w.side = append(*w.side, written...)
	return err
}

// Deletes says whether a cluster goes in the same write: then no agent removes the objects of a service of it.
func (w *Write) Deletes(cluster string) bool { return w.leaving[cluster] }

// HasLeft says whether the cluster of a service that is deleted has left, and no agent has joined it again since.
func (w *Write) HasLeft(cluster string) bool { return w.left[cluster] }

// Action is how the history names what an operator did to the resource that the hook was called for, such as held;
// empty: it was written or deleted.
func (w *Write) Action() string { return w.action }

// Note says what comes of the write of the resource that the hook was called for.
func (w *Write) Note(text string) { *w.notes = append(*w.notes, text) }

// Hook takes part in writes.
type Hook interface {
	// Wrote is called within the transaction, once per resource that was written or deleted. before is nil for a new
	// resource, after for a deleted one. An *Error that it returns undoes the write and is told to the caller.
	Wrote(ctx context.Context, w *Write, before, after *store.Resource) error
}

// Edit is a resource on its way into the store, or out of it.
type Edit struct {
	draft store.Draft
	// spec becomes that of the draft.
	spec any
	want Expectation
	// finish, if there is one, completes the draft when the current resource (nil: none) is known.
	finish func(*store.Draft, *store.Resource) error
	// references are what the fields name.
	references []resource.Reference
	// removal: the resource of this kind and name goes.
	removal bool
	// broken is what is wrong with it by itself.
	broken error
	// requests: it sets what a service is asked to test.
	requests bool
	// pulls: it sets levers, so its spec is the one in force.
	pulls bool
	// planned: a global service writes it, and has checked it.
	planned bool
	// before is the resource as it was before its deletion, which the edit undoes; nil: it is another edit.
	before *store.Resource
	// said is what the folder that a service comes of said of levers before; nil: it comes of none.
	said *string
	// notes say what came of levers that the edit met.
	notes []string
	// tells are events that are told if it changes what is there.
	tells []store.Event
}

// Broken stands for a resource that can't be written, so that what is wrong with it is told with all the rest.
func Broken(kind store.Kind, name string, err error) Edit {
	return Edit{draft: store.Draft{Kind: kind, Name: name}, broken: err}
}

// Removal is the deletion of a resource.
func Removal(kind store.Kind, name, etag string) Edit {
	return Edit{draft: store.Draft{Kind: kind, Name: name}, want: Expectation{ETag: etag}, removal: true}
}

// Label puts a label on what will be written.
func (e *Edit) Label(key, value string) {
	e.draft.Labels = maps.Clone(e.draft.Labels)
	if e.draft.Labels == nil {
		e.draft.Labels = map[string]string{}
	}
	e.draft.Labels[key] = value
}

// Written is what became of one resource.
type Written struct {
	Kind    store.Kind
	Name    string
	Outcome Outcome
	// Before is nil for a new resource, After for a deleted one.
	Before, After *store.Resource
	// Side is what hooks wrote because of it.
	Side []Written
	// Notes say what comes of it: which levers of a service stay, and which end; which agents are configured anew.
	Notes []string
}

// errDry undoes a write that was only to show what would come of it.
var errDry = errors.New("dry run")

// PutAll writes and deletes resources of any kinds, all or nothing, in the order in which they depend on each
// other. The error names everything that is wrong. After a dry run nothing of it has happened.
func (c *Catalog) PutAll(ctx context.Context, by By, edits []Edit, dry bool) (written []Written, err error) {
	err = c.store.Write(ctx, by.Subject, func(ctx context.Context, tx *store.Tx) (err error) {
		if written, err = c.PutIn(ctx, Write{Tx: tx, By: by}, edits); err == nil && dry {
			err = errDry
		}
		return err
	})
	if errors.Is(err, errDry) {
		return written, nil
	}
	if err != nil {
		return nil, err
	}
	c.tell(ctx, by, written)
	return written, nil
}

// tell logs what was written.
func (c *Catalog) tell(ctx context.Context, by By, written []Written) {
	for _, w := range written {
		c.tell(ctx, by, w.Side)
		switch w.Outcome {
		case Unchanged:
		case Removed:
			c.log.InfoContext(ctx, "catalog written", "actor", by.Subject, "kind", w.Kind, "name", w.Name, "outcome", w.Outcome)
		default:
			c.log.InfoContext(ctx, "catalog written", "actor", by.Subject, "kind", w.Kind, "name", w.Name, "outcome", w.Outcome, "revision", w.After.Revision)
		}
	}
}

// PutIn is PutAll within a transaction. The results are in the order of the edits.
func (c *Catalog) PutIn(ctx context.Context, of Write, edits []Edit) ([]Written, error) {
	of.leaving = clustersDeleted(of.leaving, edits)
	w := &writing{catalog: c, Write: of, edits: edits, out: make([]Written, len(edits)), failed: map[store.Ref]bool{}}
	if err := w.once(); err != nil {
		return nil, err
	}
	if err := w.lookAhead(ctx); err != nil {
		return nil, err
	}
	for _, kind := range store.Kinds() {
		if err := w.put(ctx, kind); err != nil {
			return nil, err
		}
	}
	for _, kind := range slices.Backward(store.Kinds()) {
		if err := w.remove(ctx, kind); err != nil {
			return nil, err
		}
	}
	return w.out, refusal.Together(w.faults)
}

// clustersDeleted adds the clusters that edits delete to those of the write that these are part of.
func clustersDeleted(before map[string]bool, edits []Edit) map[string]bool {
	all := maps.Clone(before)
	for i := range edits {
		if e := &edits[i]; e.removal && e.draft.Kind == store.KindCluster {
			if all == nil {
				all = map[string]bool{}
			}
			all[e.draft.Name] = true
		}
	}
	return all
}

// writing is a PutIn on its way.
type writing struct {
	catalog *Catalog
	Write
	edits []Edit
	out   []Written
	// failed is what there is a fault about, and faults what is to be told.
	failed map[store.Ref]bool
	faults []refusal.Fault
}

func (e *Edit) ref() store.Ref { return store.Ref{Kind: e.draft.Kind, Name: e.draft.Name} }

// fault notes a refusal; any other error ends all.
func (w *writing) fault(i int, err error) error {
	if err == nil {
		return nil
	}
	refused, ok := errors.AsType[*refusal.Error](err)
	if !ok {
		return err
	}
	ref := w.edits[i].ref()
	w.failed[ref] = true
	w.faults = append(w.faults, refusal.Fault{Index: i, Kind: string(ref.Kind), Name: ref.Name, Err: refused})
	return nil
}

func (w *writing) once() error {
	seen := make(map[store.Ref]bool, len(w.edits))
	for i := range w.edits {
		ref := w.edits[i].ref()
		if seen[ref] {
			return refusal.New(refusal.Invalid, "%s %q is there twice: a batch writes each once", ref.Kind, ref.Name)
		}
		seen[ref] = true
	}
	return nil
}

// lookAhead finds the global services that a write of clusters changes, too.
func (w *writing) lookAhead(ctx context.Context) error {
	clusters := false
	for i := range w.edits {
		clusters = clusters || w.edits[i].draft.Kind == store.KindCluster && !w.edits[i].removal
	}
	if !clusters {
		return nil
	}
	of, found, err := w.find(ctx, store.KindGlobalService, false)
	w.changing, w.relabelled = map[string]bool{}, map[string]store.Resource{}
	for _, i := range of {
		e := w.edits[i] // a copy: put completes the edit, and reports its faults
		if current, ok := found[e.draft.Name]; ok && w.catalog.complete(&e, &current) == nil {
			w.changing[e.draft.Name] = !unchanged(current, e.draft)
		}
	}
	return err
}

// unchanged says whether a draft is what is there.
func unchanged(before store.Resource, d store.Draft) bool {
	return bytes.Equal(before.Spec, d.Spec) && bytes.Equal(before.Sealed, d.Sealed) && maps.Equal(before.Labels, d.Labels)
}

// find looks for the resources of the edits of a kind.
func (w *writing) find(ctx context.Context, kind store.Kind, removal bool) (of []int, found map[string]store.Resource, err error) {
	var names []string
	for i := range w.edits {
		if e := &w.edits[i]; e.draft.Kind == kind && e.removal == removal {
			of, names = append(of, i), append(names, e.draft.Name)
		}
	}
	if len(of) == 0 {
		return nil, nil, nil
	}
	found, err = w.Tx.Named(ctx, kind, names)
	return of, found, err
}

// put writes what differs from what is there.
func (w *writing) put(ctx context.Context, kind store.Kind) error {
	of, found, err := w.find(ctx, kind, false)
	if err != nil {
		return err
	}
	var drafted []int
	for _, i := range of {
		e := &w.edits[i]
		w.out[i] = Written{Kind: kind, Name: e.draft.Name}
		if current, ok := found[e.draft.Name]; ok {
			w.out[i].Before = &current
		}
		err := w.open(ctx, e, w.out[i].Before)
		if err == nil {
			err = w.catalog.complete(e, w.out[i].Before)
			w.out[i].Notes = e.notes
		}
		if err != nil {
			if err := w.fault(i, err); err != nil {
				return err
			}
			continue
		}
		drafted = append(drafted, i)
	}
	drafted, err = w.checkRefs(ctx, drafted)
	if err != nil {
		return err
	}
	if err := w.create(ctx, drafted); err != nil {
		return err
	}
	for _, i := range drafted {
		if err := w.change(ctx, i); err != nil {
			return err
		}
	}
	return w.hookAll(ctx, drafted)
}

// complete finishes the draft of an edit.
func (c *Catalog) complete(e *Edit, current *store.Resource) (err error) {
	if e.broken != nil {
		return e.broken
	}
	if err := e.expected(current); err != nil {
		return err
	}
	if err := e.keepTestRequest(current); err != nil {
		return err
	}
	if err := e.keepLevers(current); err != nil {
		return err
	}
	if err := e.keepFreeze(current); err != nil {
		return err
	}
	if err := e.checkNamespace(current); err != nil {
		return err
	}
	if e.draft.Spec, err = json.Marshal(e.spec); err != nil {
		return fmt.Errorf("encode %s %q: %w", e.draft.Kind, e.draft.Name, err)
	}
	if _, ok := e.spec.(state.ServiceSpec); ok && current != nil && state.SameJSON(e.draft.Spec, current.Spec) {
		e.draft.Spec = current.Spec // a spec that differs only in form is no change
	}
	if e.finish != nil {
		return e.finish(&e.draft, current)
	}
	switch spec := e.spec.(type) {
	case resource.SinkSpec:
		return c.sealCredentials(&e.draft, spec, current)
	case resource.Configured:
		return c.sealSettings(&e.draft, spec.Settings(), current)
	}
	return nil
}

// open refuses a write whose outcome would tell what the caller may not see. A caller that may create the resource
// learns that the name is taken, and no more.
func (w *writing) open(ctx context.Context, e *Edit, current *store.Resource) error {
	if e.broken != nil {
		return nil //nolint:nilerr // what is broken is told with all the other faults
	}
	creates := e.want.ETag == MustBeNew || e.want.ETag == "" && e.want.AllowMissing
	if current != nil || !creates {
		hidden := w.catalog.guard.MayTouch(ctx, w.By, e.ref(), current)
		if _, refused := errors.AsType[*refusal.Error](hidden); !refused || !creates {
			return hidden
		}
	}
	spec, err := json.Marshal(e.spec)
	if err != nil {
		return fmt.Errorf("encode %s %q: %w", e.draft.Kind, e.draft.Name, err)
	}
	draft := store.Resource{Kind: e.draft.Kind, Name: e.draft.Name, Labels: e.draft.Labels, Spec: spec}
	if err := w.catalog.guard.MayMake(ctx, w.By, draft); err != nil || current == nil {
		return err
	}
	return taken(e.ref())
}

// taken refuses to make what there is already, and tells nothing of it.
func taken(ref store.Ref) error {
	return refusal.New(refusal.Forbidden,
		"%s %q can't be made: the name is taken by one that you may not see", ref.Kind, ref.Name)
}

// expected compares what is there with what the caller believes.
func (e *Edit) expected(current *store.Resource) error {
	switch etag := e.want.ETag; {
	case etag == MustBeNew && current != nil:
		return refusal.New(refusal.Conflict, "%s %q exists already, and it was to be a new one: choose another name, or change that one", e.draft.Kind, e.draft.Name)
	case current != nil && etag != "" && etag != current.ETag():
		return refusal.New(refusal.Conflict, "%s %q: metadata.etag: it was changed in the meantime, and is at revision %d. Read it again and merge, or leave the etag out to write over it", e.draft.Kind, e.draft.Name, current.Revision)
	case current != nil || etag == MustBeNew:
		return nil
	case etag != "":
		return refusal.New(refusal.Conflict, "%s %q: metadata.etag: it was deleted in the meantime. Leave the etag out to create it anew", e.draft.Kind, e.draft.Name)
	case !e.want.AllowMissing:
		return refusal.Missing(e.draft.Kind, e.draft.Name)
	}
	return nil
}

// create writes the new ones of these edits, all at once.
func (w *writing) create(ctx context.Context, of []int) error {
	var drafts []store.Draft
	var fresh []int
	for _, i := range of {
		if w.out[i].Before == nil {
			drafts, fresh = append(drafts, w.edits[i].draft), append(fresh, i)
		}
	}
	created, err := w.Tx.Create(ctx, drafts...)
	if err != nil {
		return err
	}
	for n, i := range fresh {
		w.out[i].After, w.out[i].Outcome = &created[n], Created
	}
	for _, i := range fresh {
		if err := w.hook(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

// change writes an edit over what is there.
func (w *writing) change(ctx context.Context, i int) error {
	before, d := w.out[i].Before, w.edits[i].draft
	if before == nil {
		return nil
	}
	if unchanged(*before, d) {
		w.out[i].After, w.out[i].Outcome = before, Unchanged
		// Else "unchanged" would tell anybody what is there, the values of a secret included.
		return w.fault(i, w.catalog.guard.MayWrite(ctx, w.By, *before))
	}
	if err := forgetMoved(ctx, w.Tx, *before, d); err != nil {
		return err
	}
	after, err := w.Tx.Update(ctx, *before, d)
	if err != nil {
		return err
	}
	w.Tx.Tell(w.edits[i].tells...)
	w.out[i].After, w.out[i].Outcome = &after, Updated
	return w.hook(ctx, i)
}

// Clearer is a hook that makes room for a deletion.
type Clearer interface {
	// Clear is called within the transaction, before a resource is deleted that others may name.
	Clear(ctx context.Context, w *Write, r store.Resource) error
}

// errLate undoes a write that takes too long.
var errLate = errors.New("takes too long")

func (w *writing) hook(ctx context.Context, i int) error {
	if !w.End.IsZero() && w.catalog.now().After(w.End) {
		return errLate
	}
	of := w.forHooks(i)
	for _, hook := range w.catalog.hooks {
		if err := hook.Wrote(ctx, of, w.out[i].Before, w.out[i].After); err != nil {
			return w.fault(i, err)
		}
	}
	return nil
}

// forHooks is the write for the hooks of one of its resources.
func (w *writing) forHooks(i int) *Write {
	of := w.Write
	of.action, of.catalog = w.edits[i].draft.Action, w.catalog
	of.side, of.notes = &w.out[i].Side, &w.out[i].Notes
	return &of
}

// Batcher is a hook with work that is cheaper for many resources at once.
type Batcher interface {
	// WroteAll is called within the transaction when all resources of a kind are written and Wrote was called for each,
	// unless something is wrong with one of them. An *Error that it returns may say by the indices of its faults which
	// it is about.
	WroteAll(ctx context.Context, tx *store.Tx, written []Written) error
}

func (w *writing) hookAll(ctx context.Context, of []int) error {
	var written []Written
	var which []int
	for _, i := range of {
		if w.out[i].Outcome != Unchanged {
			written, which = append(written, w.out[i]), append(which, i)
		}
	}
	if len(written) == 0 || len(w.faults) > 0 {
		return nil
	}
	for _, hook := range w.catalog.hooks {
		if b, ok := hook.(Batcher); ok {
			err := b.WroteAll(ctx, w.Tx, written)
			refused, ok := errors.AsType[*refusal.Error](err)
			if !ok || len(refused.Faults) == 0 {
				if err != nil {
					return err
				}
				continue
			}
			for _, f := range refused.Faults {
				_ = w.fault(which[f.Index], f.Err) // a refusal is noted
			}
			return nil
		}
	}
	return nil
}

// checkRefs returns the edits that name nothing that does not exist.
func (w *writing) checkRefs(ctx context.Context, of []int) (whole []int, err error) {
	named := map[store.Kind]map[string]bool{}
	for _, i := range of {
		for _, ref := range w.edits[i].draft.Refs {
			if named[ref.Kind] == nil {
				named[ref.Kind] = map[string]bool{}
			}
			named[ref.Kind][ref.Name] = true
		}
	}
	exists := map[store.Ref]bool{} // or comes with this write
	for kind, names := range named {
		found, err := w.Tx.Named(ctx, kind, state.TrueKeys(names))
		if err != nil {
			return nil, err
		}
		for name := range found {
			exists[store.Ref{Kind: kind, Name: name}] = true
		}
	}
	for _, i := range w.namedFirst(of) {
		all := true
		for _, ref := range w.edits[i].draft.Refs {
			if exists[ref] {
				continue
			}
			if all = false; w.failed[ref] {
				w.failed[w.edits[i].ref()] = true // the resource was to come, and its fault is reported
				continue
			}
			if err := w.fault(i, w.absent(ctx, &w.edits[i], ref)); err != nil {
				return nil, err
			}
		}
		if all {
			whole = append(whole, i)
			exists[w.edits[i].ref()] = true
		}
	}
	slices.Sort(whole)
	return whole, nil
}

// namedFirst are edits of one kind in an order in which those that name none of that kind come first: a source that
// names another one comes after it.
func (w *writing) namedFirst(of []int) []int {
	namesAnother := func(i int) int {
		e := &w.edits[i]
		if slices.ContainsFunc(e.draft.Refs, func(ref store.Ref) bool { return ref.Kind == e.draft.Kind }) {
			return 1
		}
		return 0
	}
	of = slices.Clone(of)
	slices.SortStableFunc(of, func(a, b int) int { return namesAnother(a) - namesAnother(b) })
	return of
}

// absent refuses a reference to what does not exist.
func (w *writing) absent(ctx context.Context, e *Edit, ref store.Ref) error {
	if err := w.catalog.guard.MayName(ctx, w.By, ref); err != nil {
		return err
	}
	return &refusal.Error{
		Reason: refusal.Precondition, Absent: true,
		Message: fmt.Sprintf("%s %q: %s: %s %q does not exist: create it first", e.draft.Kind, e.draft.Name, e.fieldOf(ref), ref.Kind, ref.Name),
	}
}

// remove deletes what nobody names.
func (w *writing) remove(ctx context.Context, kind store.Kind) error {
	of, found, err := w.find(ctx, kind, true)
	if err != nil {
		return err
	}
	if of, err = w.referrersFirst(of, found); err != nil {
		return err
	}
	if w.left, err = leftOf(ctx, w.Tx.View, found); err != nil {
		return err
	}
	for _, i := range of {
		e := &w.edits[i]
		w.out[i] = Written{Kind: kind, Name: e.draft.Name, Outcome: Removed}
		current, ok := found[e.draft.Name]
		var before *store.Resource
		if ok {
			before = &current
		}
		if err = w.catalog.guard.MayTouch(ctx, w.By, e.ref(), before); err != nil {
			err = w.fault(i, err)
			if err != nil {
				return err
			}
			continue
		}
		if !ok {
			err = refusal.Missing(kind, e.draft.Name)
		} else if err = e.expected(before); err == nil {
			w.out[i].Before = before
			err = w.removeOne(ctx, i, current)
		}
		if err == nil {
			err = w.hook(ctx, i)
		} else {
			err = w.fault(i, err)
		}
		if err != nil {
			return err
		}
	}
	if kind != store.KindService {
		return nil
	}
	return w.waitedFor(ctx)
}

// referrersFirst are removals of one kind in an order in which sources that name others are removed before these.
func (w *writing) referrersFirst(of []int, found map[string]store.Resource) ([]int, error) {
	names := map[int]int{}
	for _, i := range of {
		r, ok := found[w.edits[i].draft.Name]
		if !ok || r.Kind != store.KindSource {
			continue
		}
		var spec state.SourceSpec
		if err := state.Decode(r, &spec); err != nil {
			return nil, err
		}
		names[i] = len(spec.Git.ChartSources)
	}
	of = slices.Clone(of)
	slices.SortStableFunc(of, func(a, b int) int { return cmp.Compare(names[b], names[a]) })
	return of, nil
}

// waitedFor refuses to remove services, or to move them to another cluster, that others wait for which stay.
func (w *writing) waitedFor(ctx context.Context) error {
	for i := range w.edits {
		before, after := w.out[i].Before, w.out[i].After
		if before == nil || before.Kind != store.KindService || w.failed[w.edits[i].ref()] {
			continue
		}
		var was, is state.ServiceSpec
		if err := state.Decode(*before, &was); err != nil {
			return err
		}
		if after != nil {
			if err := state.Decode(*after, &is); err != nil {
				return err
			}
			if is.Cluster == was.Cluster {
				continue
			}
		}
		users, err := w.waitersOf(ctx, was.Cluster, before.Name)
		if err != nil {
			return err
		}
		if len(users) == 0 {
			continue
		}
		named, err := w.seen(ctx, users)
		if err != nil {
			return err
		}
		refused := refusal.New(refusal.Precondition, "service %q is waited for by %s (spec.sync.dependsOn): delete or change them first", before.Name, named)
		if after != nil {
			refused = refusal.New(refusal.Precondition, "service %q: spec.cluster: it is waited for in cluster %q by %s (spec.sync.dependsOn): change them first, or move them with it", before.Name, was.Cluster, named)
		}
		if err := w.fault(i, refused); err != nil {
			return err
		}
	}
	return nil
}

// waitersOf are services of a cluster that wait for another one: as many as are shown, and one more.
func (w *writing) waitersOf(ctx context.Context, cluster, name string) (users []store.Ref, err error) {
	waiting, err := w.Tx.Waiting(ctx, cluster, name)
	for _, r := range waiting {
		var other state.ServiceSpec
		if err := state.Decode(r, &other); err != nil {
			return nil, err
		}
		if slices.Contains(other.WaitsFor(), name) && len(users) <= ShownReferrers {
			users = append(users, store.Ref{Kind: r.Kind, Name: r.Name})
		}
	}
	return users, err
}

func (w *writing) removeOne(ctx context.Context, i int, current store.Resource) error {
	of := w.forHooks(i)
	for _, hook := range w.catalog.hooks {
		if c, ok := hook.(Clearer); ok {
			if err := c.Clear(ctx, of, current); err != nil {
				return err
			}
		}
	}
	users, err := w.Tx.Referrers(ctx, store.Ref{Kind: current.Kind, Name: current.Name}, ShownReferrers+1)
	if err != nil {
		return err
	}
	if len(users) > 0 {
		named, err := w.seen(ctx, users)
		if err != nil {
			return err
		}
		return refusal.New(refusal.Precondition, "%s %q is still named by %s: delete or change them first", current.Kind, current.Name, named)
	}
	if current.Kind == store.KindCluster {
		if err := w.Tx.Revoke(ctx, identity.Revocation(identity.AgentSubject(current.Name), w.Tx.Now())); err != nil {
			return err
		}
	}
	return w.Tx.Delete(ctx, current)
}

// listed is for a person: `service "a", service "b" and more`.
func listed(refs []store.Ref, more bool) string {
	var parts []string
	for _, r := range refs {
		parts = append(parts, fmt.Sprintf("%s %q", r.Kind, r.Name))
	}
	text := strings.Join(parts, ", ")
	if more {
		text += " and more"
	}
	return text
}

// seen lists those of some resources that the caller sees, and says that there are others.
func (w *writing) seen(ctx context.Context, refs []store.Ref) (string, error) {
	shown := refs[:min(len(refs), ShownReferrers)]
	more := len(refs) > len(shown)
	if w.By.SeesAll() {
		return listed(shown, more), nil
	}
	sees, err := w.catalog.guard.Sees(ctx)
	if err != nil {
		return "", err
	}
	hidden := 0
	shown = slices.DeleteFunc(slices.Clone(shown), func(ref store.Ref) bool {
		r, getErr := w.Tx.Get(ctx, ref.Kind, ref.Name)
		err = errors.Join(err, getErr)
		unseen := sees != nil && !sees(r)
		if unseen {
			hidden++
		}
		return unseen
	})
	switch {
	case err != nil:
		return "", err
	case len(shown) == 0:
		return "resources that you may not see", nil
	case hidden > 0:
		return listed(shown, false) + " and others that you may not see", nil
	}
	return listed(shown, more), nil
}

// Drop deletes a resource that nothing names.
func Drop(ctx context.Context, c *Catalog, by By, kind store.Kind, name, etag string) error {
	if !resource.IsName(name) {
		return refusal.Missing(kind, name)
	}
	_, err := c.PutAll(ctx, by, []Edit{Removal(kind, name, etag)}, false)
	return err
}

// naming completes an edit with what its fields name.
func (e Edit) naming(refs []resource.Reference) Edit {
	e.draft.Refs, e.references = resource.Distinct(refs), refs
	return e
}

// fieldOf is the first field that names a resource.
func (e *Edit) fieldOf(ref store.Ref) string {
	for _, r := range e.references {
		if r.Ref == ref {
			return r.Field
		}
	}
	return "spec"
}
