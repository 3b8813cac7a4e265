// Package prune removes objects that a service no longer has. The pruner is called only after the service's new state
// was applied completely, or when the service is to leave the cluster.
//
// An object is deleted only if it still carries the service's mark, and only the very object that was
// looked at (UID precondition). A namespace and the definition of a kind take along what is in them: as
// long as somebody has something there, a service or anybody else, they only lose the mark. So do objects that say so
// by their annotation. An object in doubt stays in the cluster: one of a kind that is not served now, too.
//
// The pruner waits for nothing: an object that takes its time to go is looked at again by the next call.
package prune

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"fairlead.dev/services/agent/internal/apply"
	"fairlead.dev/services/agent/internal/cluster"
	"fairlead.dev/services/agent/internal/inventory"
	"fairlead.dev/services/agent/internal/object"
	"fairlead.dev/services/agent/internal/order"
)

// Patience is after what time an object that does not go is told as a problem.
const Patience = 5 * time.Minute

// InTurn is why an object is left that nothing but others keeps.
const InTurn = "waits for the objects that have to go before it"

// API is what is needed of the cluster; *cluster.Cluster has it.
type API interface {
	Get(ctx context.Context, ref object.Ref) (*unstructured.Unstructured, error)
	Metadata(ctx context.Context, ref object.Ref) (*metav1.PartialObjectMetadata, error)
	Delete(ctx context.Context, ref object.Ref, uid types.UID) error
	Disown(ctx context.Context, ref object.Ref, uid types.UID) error
	// Inside names an object of a namespace that none of skip is and that somebody made; "" if there is none.
	Inside(ctx context.Context, namespace string, skip func(metav1.Object) bool) (string, error)
	// Instance names an object of a kind.
	Instance(ctx context.Context, gvk schema.GroupVersionKind, skip func(metav1.Object) bool) (string, error)
	// Served is a version in which a kind is served; "": there can be no object of it.
	Served(ctx context.Context, kind schema.GroupKind) (version string, err error)
}

// Inventories knows the objects of all services; *inventory.Store does.
type Inventories interface {
	// Holds names an object that matches, and its service; "": there is none.
	Holds(ctx context.Context, match func(object.Key) bool) (held, unreadable string)
	// Heir names a service that has the object in its manifests, too, and left it to its owner, or waits for it.
	Heir(key object.Key, may func(service string) bool) string
}

// Left is an object that is still there, and why.
type Left struct {
	Entry inventory.Entry
	Why   string
}

// Outcome is what became of objects that are not wanted any more.
type Outcome struct {
	// Left are those that are still to go.
	Left []Left
	// Kept says in sentences which of them stay without the mark, because of what is in them.
	Kept []string
}

// Pruner removes objects. A Pruner is safe for concurrent use.
type Pruner struct {
	// Undecided names another service of which it is not known yet which objects it has, as long as a removal of data of
	// this service waits for it; "": there is none. nil: it is known of all. Set it before the Pruner is used.
	Undecided func(service string) string

	api         API
	inventories Inventories
	stays       func(service string) bool
	width       *apply.Width
	now         func() time.Time
}

// New returns a pruner. stays tells a service that is not being removed.
func New(api API, inventories Inventories, stays func(service string) bool, width *apply.Width) *Pruner {
	return &Pruner{api: api, inventories: inventories, stays: stays, width: width, now: time.Now}
}

// Remove takes all objects of a service out of the cluster, or, where its inventory says so, the mark off them.
func (p *Pruner) Remove(ctx context.Context, service string, record inventory.Record) Outcome {
	if !record.Orphan {
		return p.Prune(ctx, service, record.Entries)
	}
	return Outcome{Left: p.Release(ctx, service, record.Entries)}
}

// Release takes a service's mark off objects, which stay. Release returns those that have it still.
func (p *Pruner) Release(ctx context.Context, service string, entries []inventory.Entry) []Left {
	return p.inParallel(ctx, entries, func(ctx context.Context, entry inventory.Entry) string {
		meta, why := p.readMetadata(ctx, &entry)
		if meta == nil || !ours(meta, service, entry) {
			return why
		}
		return p.disown(ctx, entry, meta.UID)
	})
}

// Prune removes the objects of a service, in the reverse order of applying, and returns those that are
// still there. Later groups are not begun while something of an earlier one is left.
func (p *Pruner) Prune(ctx context.Context, service string, entries []inventory.Entry) Outcome {
	going := make(map[object.Key]bool, len(entries))
	for _, entry := range entries {
		going[entry.Key] = true
	}
	var out Outcome
	var mu sync.Mutex // guards out.Kept
	for _, group := range p.groups(ctx, entries) {
		if len(out.Left) > 0 {
			for _, entry := range group {
				out.Left = append(out.Left, Left{Entry: entry, Why: InTurn})
			}
			continue
		}
		out.Left = append(out.Left, p.inParallel(ctx, group, func(ctx context.Context, entry inventory.Entry) string {
			kept, why := p.one(ctx, service, entry, going)
			if kept != "" {
				mu.Lock()
				defer mu.Unlock()
				out.Kept = append(out.Kept, entry.String()+" stays, without the service's mark: "+kept+".")
			}
			return why
		})...)
	}
	slices.Sort(out.Kept)
	return out
}

// groups is the order of the removal. ClusterRoles that are aggregated of others go before those: the cluster's
// controller writes such a role again whenever a part of it goes, and makes it anew if it does not know yet that the
// role is gone.
func (p *Pruner) groups(ctx context.Context, entries []inventory.Entry) [][]inventory.Entry {
	var groups [][]inventory.Entry
	for _, group := range order.Removal(entries) {
		var aggregated, rest []inventory.Entry
		for _, entry := range group {
			if p.aggregates(ctx, entry) {
				aggregated = append(aggregated, entry)
			} else {
				rest = append(rest, entry)
			}
		}
		if len(aggregated) > 0 && len(rest) > 0 {
			groups = append(groups, aggregated, rest)
		} else {
			groups = append(groups, group)
		}
	}
	return groups
}

// aggregates tells a ClusterRole that has an aggregationRule. A ClusterRole that can't be read is taken for any other:
// its removal says why.
func (p *Pruner) aggregates(ctx context.Context, entry inventory.Entry) bool {
	if entry.GVK().GroupKind() != (schema.GroupKind{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole"}) {
		return false
	}
	role, err := p.api.Get(ctx, entry.Ref)
	if err != nil {
		return false
	}
	_, is := role.Object["aggregationRule"]
	return is
}

// inParallel calls do for entries, as many at a time as the width allows, and returns those of which do says why they
// are still there.
func (p *Pruner) inParallel(
	ctx context.Context, entries []inventory.Entry, do func(context.Context, inventory.Entry) string,
) []Left {
	const workers = 8
	reasons := make([]string, len(entries))
	work := make(chan int)
	var running sync.WaitGroup
	for range min(workers, len(entries)) {
		running.Go(func() {
			for i := range work {
				give, err := p.width.Take(ctx)
				if err != nil {
					reasons[i] = "waits for its turn"
					continue
				}
				reasons[i] = do(ctx, entries[i])
				give()
			}
		})
	}
	for i := range entries {
		work <- i
	}
	close(work)
	running.Wait()
	var left []Left
	for i, why := range reasons {
		if why != "" {
			left = append(left, Left{Entry: entries[i], Why: why})
		}
	}
	return left
}

// readMetadata reads an object's metadata, in another version if its own is not served any more. Without metadata it is
// gone, unless why says that this can't be told.
func (p *Pruner) readMetadata(
	ctx context.Context, entry *inventory.Entry,
) (meta *metav1.PartialObjectMetadata, why string) {
	meta, err := p.api.Metadata(ctx, entry.Ref)
	if unknown, ok := errors.AsType[*cluster.UnknownKindError](err); ok && unknown.Wide {
		return nil, "" // objects of the kind are in no namespace
	}
	if unserved(err) {
		version, unknown := p.api.Served(ctx, entry.GVK().GroupKind())
		if unknown == nil && version == "" {
			return nil, ""
		}
		if unknown != nil || version == entry.Version {
			return nil, "is of a kind that the cluster does not serve at the moment, so that nobody knows whether it is there. It is kept on the list until its kind is served again, or its definition is removed"
		}
		entry.Version = version
		meta, err = p.api.Metadata(ctx, entry.Ref)
	}
	switch {
	case apierrors.IsNotFound(err):
		return nil, ""
	case err != nil:
		return nil, "can't be read: " + reason(err)
	}
	return meta, ""
}

// one removes an object and says why it is still there; "" if it is gone or none of ours, or it was let go of: then
// kept says what for, unless it asked for that itself.
func (p *Pruner) one(ctx context.Context, service string, entry inventory.Entry, going map[object.Key]bool) (kept, why string) {
	meta, why := p.readMetadata(ctx, &entry)
	switch {
	case meta == nil || !ours(meta, service, entry):
		return "", why
	case meta.DeletionTimestamp != nil:
		return "", p.leaving(ctx, entry, meta)
	}
	if _, held := meta.Annotations[object.HoldAnnotation]; held {
		return "", "is held by its annotation " + object.HoldAnnotation + " in the cluster, and goes once that is taken off"
	}
	if object.StaysPruned(meta) {
		return "", p.disown(ctx, entry, meta.UID)
	}
	kept, why = p.used(ctx, service, entry, going)
	switch {
	case why != "":
		return "", why
	case kept != "":
		if why = p.disown(ctx, entry, meta.UID); why != "" {
			kept = ""
		}
		return kept, why
	}
	if err := p.api.Delete(ctx, entry.Ref, meta.UID); err != nil && !apierrors.IsNotFound(err) {
		return "", "can't be deleted: " + reason(err)
	}
	after, why := p.readMetadata(ctx, &entry)
	switch {
	case why != "":
		return "", "is being deleted"
	case after == nil || after.UID != meta.UID:
		return "", ""
	}
	return "", p.leaving(ctx, entry, after)
}

func (p *Pruner) disown(ctx context.Context, entry inventory.Entry, uid types.UID) string {
	if err := p.api.Disown(ctx, entry.Ref, uid); err != nil && !apierrors.IsNotFound(err) {
		return "can't be let go of: " + reason(err)
	}
	return ""
}

// leaving says why an object that was deleted is still there.
func (p *Pruner) leaving(ctx context.Context, entry inventory.Entry, meta metav1.Object) string {
	finalizers := strings.Join(meta.GetFinalizers(), ", ")
	isLate := p.now().Sub(meta.GetDeletionTimestamp().Time) > Patience
	since := meta.GetDeletionTimestamp().UTC().Format(time.RFC3339)
	switch {
	case finalizers == "" && isLate:
		return fmt.Sprintf("is being deleted since %s%s", since, p.contents(ctx, entry))
	case finalizers == "":
		return "is being deleted"
	case isLate:
		return fmt.Sprintf("waits for its finalizers since %s: %s. "+
			"See to it that what should take them off runs, or take them off", since, finalizers)
	default:
		return "waits for its finalizers: " + finalizers
	}
}

// contents is what a namespace that is being deleted says of the objects that keep it, such as their finalizers; "" of
// other objects, and if it can't be read.
func (p *Pruner) contents(ctx context.Context, entry inventory.Entry) string {
	if entry.GVK().GroupKind() != (schema.GroupKind{Kind: "Namespace"}) {
		return ""
	}
	namespace, err := p.api.Get(ctx, entry.Ref)
	if err != nil {
		return ""
	}
	var texts []string
	for _, condition := range object.Conditions(namespace) {
		if condition.IsTrue() && condition.Message != "" {
			texts = append(texts, strings.TrimRight(condition.Message, "."))
		}
	}
	if len(texts) == 0 {
		return ""
	}
	return ": " + strings.Join(texts, "; ")
}

// ours tells whether the service's mark is still on the object. The UID that was recorded proves an
// object whose managers were rewritten, as a restore from a backup does not keep it either way.
func ours(meta *metav1.PartialObjectMetadata, service string, entry inventory.Entry) bool {
	return object.Owner(meta) == service ||
		meta.GetLabels()[object.ServiceLabel] == service && entry.UID != "" && meta.UID == entry.UID
}

// Inherits tells a kind whose objects stay for another service that has them in its manifests, too.
func Inherits(kind schema.GroupKind) bool { return isData(kind) || isDefinition(kind) }

func isData(kind schema.GroupKind) bool {
	return kind.Group == "" && (kind.Kind == "PersistentVolumeClaim" || kind.Kind == "PersistentVolume")
}

func isDefinition(kind schema.GroupKind) bool {
	return kind == schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}
}

// used tells why something is never deleted: the cluster's own namespaces, definitions of kinds that another service
// left to this one, data that another service waits for, as after this one was renamed, and namespaces and definitions
// with an object in them that is not going, too, whoever made it. Such an object loses the mark, so that somebody else
// may have it. why: it can't be told now.
func (p *Pruner) used(ctx context.Context, service string, entry inventory.Entry, going map[object.Key]bool) (used, why string) {
	var inside func(object.Key) bool
	var stranger func() (string, error)
	skip := func(meta metav1.Object) bool {
		return object.Owner(meta) == service && meta.GetDeletionTimestamp() != nil
	}
	heirs := func() string {
		heir := p.inventories.Heir(entry.Key, func(name string) bool { return name != service && p.stays(name) })
		if heir == "" {
			return ""
		}
		return fmt.Sprintf("service %q has it in its manifests, too, and takes it over", heir)
	}
	switch kind := entry.GVK().GroupKind(); {
	case isData(kind):
		undecided := ""
		if p.Undecided != nil {
			undecided = p.Undecided(service)
		}
		// Asked for after that: a service that was decided meanwhile has said what it waits for.
		if used := heirs(); used != "" || undecided == "" {
			return used, ""
		}
		return "", fmt.Sprintf("waits until it is known whether service %q has it in its manifests, too", undecided)
	case kind == schema.GroupKind{Kind: "Namespace"}:
		if entry.Name == "default" || entry.Name == inventory.Namespace || strings.HasPrefix(entry.Name, "kube-") {
			return "it is the cluster's own", ""
		}
		inside = func(key object.Key) bool { return key.Namespace == entry.Name }
		stranger = func() (string, error) { return p.api.Inside(ctx, entry.Name, skip) }
	case isDefinition(kind):
		definition, err := p.api.Get(ctx, entry.Ref)
		if apierrors.IsNotFound(err) {
			return "", ""
		}
		if err != nil {
			return "", "can't be read: " + reason(err)
		}
		if used := heirs(); used != "" {
			return used, ""
		}
		resource, kind := cluster.ReadDefinition(definition)
		inside = func(key object.Key) bool { return key.Group == resource.Group && key.Kind == kind }
		stranger = func() (string, error) { return p.api.Instance(ctx, resource.GroupVersion().WithKind(kind), skip) }
	default:
		return "", ""
	}
	held, unreadable := p.inventories.Holds(ctx, func(key object.Key) bool { return !going[key] && inside(key) })
	if held == "" && unreadable != "" {
		return "", fmt.Sprintf("waits until the inventory of service %q can be read", unreadable)
	}
	if held == "" {
		var err error
		if held, err = stranger(); err != nil {
			return "", "can't be looked into: " + reason(err)
		}
	}
	if held == "" {
		return "", ""
	}
	if entry.Kind == "Namespace" {
		return held + " is in it", ""
	}
	return "there is " + held, ""
}

// unserved tells that the kind was asked for, and not the object.
func unserved(err error) bool {
	unknown := (*cluster.UnknownKindError)(nil)
	return errors.As(err, &unknown)
}

// reason keeps to the kind of an error: the text of one about a Secret may quote it.
func reason(err error) string {
	if err == nil {
		return ""
	}
	if unserved(err) {
		return "its kind is not served at the moment"
	}
	if doubt := (*cluster.DoubtError)(nil); errors.As(err, &doubt) {
		return doubt.Why
	}
	if status := apierrors.ReasonForError(err); status != metav1.StatusReasonUnknown {
		return string(status)
	}
	return "the API server can't be reached"
}
