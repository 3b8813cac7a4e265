// Package prune removes objects that a service no longer has. It is called only after the service's
// new state was applied completely, or when the service is to leave the cluster.
//
// An object is deleted only if it still carries the service's mark, and only the very object that was
// looked at (UID precondition). A namespace and the definition of a kind take along what is in them: as
// long as somebody has something there, a service or anybody else, they only lose the mark. So do objects that say so
// by their annotation. What stays in doubt stays in the cluster.
//
// Nothing is waited for: what takes its time to go is looked at again by the next call.
package prune

import (
	"context"
	"errors"
	"fmt"
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

// finalizerPatience is after what time finalizers are told as a problem.
const finalizerPatience = 5 * time.Minute

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
}

// Inventories knows the objects of all services; *inventory.Store does.
type Inventories interface {
	Holds(ctx context.Context, match func(object.Key) bool) (holds bool, unreadable string)
}

// Left is an object that is still there, and why.
type Left struct {
	Entry inventory.Entry
	Why   string
}

// Pruner removes objects. It is safe for concurrent use.
type Pruner struct {
	api         API
	inventories Inventories
	width       *apply.Width
	now         func() time.Time
}

// New returns a pruner.
func New(api API, inventories Inventories, width *apply.Width) *Pruner {
	return &Pruner{api: api, inventories: inventories, width: width, now: time.Now}
}

// Remove takes all objects of a service out of the cluster, or, where its inventory says so, the mark off them.
func (p *Pruner) Remove(ctx context.Context, service string, record inventory.Record) []Left {
	if !record.Orphan {
		return p.Prune(ctx, service, record.Entries)
	}
	return p.each(ctx, record.Entries, func(ctx context.Context, entry inventory.Entry) string {
		meta, err := p.api.Metadata(ctx, entry.Ref)
		if gone(err) || err == nil && !ours(meta, service, entry) {
			return ""
		}
		if err != nil {
			return "can't be read: " + reason(err)
		}
		return p.disown(ctx, entry, meta.UID)
	})
}

// Prune removes the objects of a service, in the reverse order of applying, and returns those that are
// still there. Later groups are not begun while something of an earlier one is left.
func (p *Pruner) Prune(ctx context.Context, service string, entries []inventory.Entry) []Left {
	going := make(map[object.Key]bool, len(entries))
	for _, entry := range entries {
		going[entry.Key] = true
	}
	var left []Left
	for _, group := range order.Removal(entries) {
		if len(left) > 0 {
			for _, entry := range group {
				left = append(left, Left{Entry: entry, Why: "waits for the objects that have to go before it"})
			}
			continue
		}
		left = append(left, p.each(ctx, group, func(ctx context.Context, entry inventory.Entry) string {
			return p.one(ctx, service, entry, going)
		})...)
	}
	return left
}

// each goes through entries, as many at a time as the width allows, and returns those of which do says why they are
// still there.
func (p *Pruner) each(ctx context.Context, entries []inventory.Entry, do func(context.Context, inventory.Entry) string) []Left {
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

// one removes an object and says why it is still there; "" if it is gone or none of ours.
func (p *Pruner) one(ctx context.Context, service string, entry inventory.Entry, going map[object.Key]bool) string {
	meta, err := p.api.Metadata(ctx, entry.Ref)
	switch {
	case gone(err):
		return ""
	case err != nil:
		return "can't be read: " + reason(err)
	case !ours(meta, service, entry):
		return ""
	case meta.DeletionTimestamp != nil:
		return p.leaving(meta)
	}
	if wishes, err := object.WishesOf(meta.Annotations); err == nil && wishes.Flags&object.PruneNever != 0 {
		return p.disown(ctx, entry, meta.UID)
	}
	used, why := p.used(ctx, service, entry, going)
	switch {
	case why != "":
		return why
	case used:
		return p.disown(ctx, entry, meta.UID)
	}
	if err := p.api.Delete(ctx, entry.Ref, meta.UID); err != nil && !gone(err) {
		return "can't be deleted: " + reason(err)
	}
	after, err := p.api.Metadata(ctx, entry.Ref)
	switch {
	case gone(err) || err == nil && after.UID != meta.UID:
		return ""
	case err != nil:
		return "is being deleted"
	}
	return p.leaving(after)
}

func (p *Pruner) disown(ctx context.Context, entry inventory.Entry, uid types.UID) string {
	if err := p.api.Disown(ctx, entry.Ref, uid); err != nil && !gone(err) {
		return "can't be let go of: " + reason(err)
	}
	return ""
}

// leaving says why an object that was deleted is still there.
func (p *Pruner) leaving(meta metav1.Object) string {
	finalizers := strings.Join(meta.GetFinalizers(), ", ")
	switch since := p.now().Sub(meta.GetDeletionTimestamp().Time); {
	case finalizers == "":
		return "is being deleted"
	case since > finalizerPatience:
		return fmt.Sprintf("waits for its finalizers since %s: %s. See to it that what should take them off runs, or take them off",
			meta.GetDeletionTimestamp().UTC().Format(time.RFC3339), finalizers)
	default:
		return "waits for its finalizers: " + finalizers
	}
}

// ours tells whether the service's mark is still on the object. The UID that was recorded proves an
// object whose managers were rewritten, as a restore from a backup does not keep it either way.
func ours(meta *metav1.PartialObjectMetadata, service string, entry inventory.Entry) bool {
	return object.Owner(meta) == service ||
		meta.GetLabels()[object.ServiceLabel] == service && entry.UID != "" && meta.UID == entry.UID
}

// used tells what is never deleted: the cluster's own namespaces, and namespaces and definitions of kinds
// with an object in them that is not going, too, whoever made it. It loses the mark, so that somebody else may have it.
// why: it can't be told now.
func (p *Pruner) used(ctx context.Context, service string, entry inventory.Entry, going map[object.Key]bool) (used bool, why string) {
	var inside func(object.Key) bool
	var stranger func() (string, error)
	skip := func(meta metav1.Object) bool {
		return object.Owner(meta) == service && meta.GetDeletionTimestamp() != nil
	}
	switch entry.GVK().GroupKind() {
	case schema.GroupKind{Kind: "Namespace"}:
		if entry.Name == "default" || entry.Name == inventory.Namespace || strings.HasPrefix(entry.Name, "kube-") {
			return true, ""
		}
		inside = func(key object.Key) bool { return key.Namespace == entry.Name }
		stranger = func() (string, error) { return p.api.Inside(ctx, entry.Name, skip) }
	case schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}:
		definition, err := p.api.Get(ctx, entry.Ref)
		if err != nil && !gone(err) {
			return false, "can't be read: " + reason(err)
		}
		if err != nil {
			return false, ""
		}
		gvk := served(definition)
		inside = func(key object.Key) bool { return key.Group == gvk.Group && key.Kind == gvk.Kind }
		stranger = func() (string, error) { return p.api.Instance(ctx, gvk, skip) }
	default:
		return false, ""
	}
	used, unreadable := p.inventories.Holds(ctx, func(key object.Key) bool { return !going[key] && inside(key) })
	if used {
		return true, ""
	}
	if unreadable != "" {
		return false, fmt.Sprintf("waits until the inventory of service %q can be read", unreadable)
	}
	found, err := stranger()
	if err != nil && !gone(err) {
		return false, "can't be looked into: " + reason(err)
	}
	return found != "", ""
}

// served is the kind that a definition brings, as it can be read.
func served(definition *unstructured.Unstructured) schema.GroupVersionKind {
	gvk := schema.GroupVersionKind{}
	gvk.Group, _, _ = unstructured.NestedString(definition.Object, "spec", "group")
	gvk.Kind, _, _ = unstructured.NestedString(definition.Object, "spec", "names", "kind")
	versions, _, _ := unstructured.NestedSlice(definition.Object, "spec", "versions")
	for _, one := range versions {
		if version, ok := one.(map[string]any); ok && version["served"] == true {
			gvk.Version, _ = version["name"].(string)
			break
		}
	}
	return gvk
}

// gone tells that an object is not there: it is not found, or its kind is not served any more.
func gone(err error) bool {
	unknown := (*cluster.UnknownKindError)(nil)
	return apierrors.IsNotFound(err) || errors.As(err, &unknown)
}

// reason keeps to the kind of an error: the text of one about a Secret may quote it.
func reason(err error) string {
	if err == nil {
		return ""
	}
	if status := apierrors.ReasonForError(err); status != metav1.StatusReasonUnknown {
		return string(status)
	}
	return "the API server can't be reached"
}
