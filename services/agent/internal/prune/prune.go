// Package prune removes objects that a service no longer has. It is called only after the service's
// new state was applied completely, or when the service is to leave the cluster.
//
// An object is deleted only if it still carries the service's mark, and only the very object that was
// looked at (UID precondition). A namespace and the definition of a kind take along what is in them: as
// long as any service has something there they only lose the mark. What stays in doubt stays in the cluster.
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
)

const (
	// width bounds the requests under way.
	width = 8
	// patience is how long objects are waited for that take their time to go. A worker is held for
	// it, so it is short: what is left is looked at again later.
	patience = 2 * time.Second
	// pause is between two looks at an object that goes.
	pause = 200 * time.Millisecond
)

// API is what is needed of the cluster; *cluster.Cluster has it.
type API interface {
	Get(ctx context.Context, ref object.Ref) (*unstructured.Unstructured, error)
	Metadata(ctx context.Context, ref object.Ref) (*metav1.PartialObjectMetadata, error)
	Delete(ctx context.Context, ref object.Ref, uid types.UID) error
	Disown(ctx context.Context, ref object.Ref) error
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
}

// New returns a pruner.
func New(api API, inventories Inventories) *Pruner {
	return &Pruner{api: api, inventories: inventories}
}

// Prune removes the objects of a service, in the reverse order of applying, and returns those that are
// still there. Later stages are not begun while something of an earlier one is left.
func (p *Pruner) Prune(ctx context.Context, service string, entries []inventory.Entry) []Left {
	stages := map[int][]inventory.Entry{}
	going := make(map[object.Key]bool, len(entries))
	var order []int
	for _, entry := range entries {
		going[entry.Key] = true
		stage := apply.Stage(entry.GVK())
		if !slices.Contains(order, stage) {
			order = append(order, stage)
		}
		stages[stage] = append(stages[stage], entry)
	}
	slices.Sort(order)
	slices.Reverse(order)
	var left []Left
	for _, stage := range order {
		if len(left) > 0 {
			for _, entry := range stages[stage] {
				left = append(left, Left{Entry: entry, Why: "waits for the objects that have to go before it"})
			}
			continue
		}
		left = append(left, p.stage(ctx, service, stages[stage], going)...)
	}
	return left
}

// stage deletes objects side by side and waits for them a moment.
func (p *Pruner) stage(ctx context.Context, service string, entries []inventory.Entry, going map[object.Key]bool) []Left {
	waitCtx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	reasons := make([]string, len(entries))
	work := make(chan int)
	var workers sync.WaitGroup
	for range min(width, len(entries)) {
		workers.Go(func() {
			for i := range work {
				reasons[i] = p.one(ctx, waitCtx, service, entries[i], going)
			}
		})
	}
	for i := range entries {
		work <- i
	}
	close(work)
	workers.Wait()
	var left []Left
	for i, why := range reasons {
		if why != "" {
			left = append(left, Left{Entry: entries[i], Why: why})
		}
	}
	return left
}

// one removes an object and says why it is still there; "" if it is gone or none of ours.
func (p *Pruner) one(ctx, waitCtx context.Context, service string, entry inventory.Entry, going map[object.Key]bool) string {
	meta, err := p.api.Metadata(ctx, entry.Ref)
	switch {
	case gone(err):
		return ""
	case err != nil:
		return "can't be read: " + reason(err)
	case !ours(meta, service, entry):
		return ""
	}
	used, why := p.used(ctx, entry, going)
	switch {
	case why != "":
		return why
	case used:
		if err := p.api.Disown(ctx, entry.Ref); err != nil && !gone(err) {
			return "can't be let go of: " + reason(err)
		}
		return ""
	}
	if meta.DeletionTimestamp == nil {
		if err := p.api.Delete(ctx, entry.Ref, meta.UID); err != nil && !gone(err) {
			return "can't be deleted: " + reason(err)
		}
	}
	return p.await(waitCtx, entry.Ref, meta.UID)
}

// ours tells whether the service's mark is still on the object. The UID that was recorded proves an
// object whose managers were rewritten, as a restore from a backup does not keep it either way.
func ours(meta *metav1.PartialObjectMetadata, service string, entry inventory.Entry) bool {
	return object.Owner(meta) == service ||
		meta.GetLabels()[object.ServiceLabel] == service && entry.UID != "" && meta.UID == entry.UID
}

// used tells what is never deleted: the cluster's own namespaces, and namespaces and definitions of kinds
// with an object in them that is not going, too. It loses the mark, so that somebody else may have it. why:
// it can't be told now.
func (p *Pruner) used(ctx context.Context, entry inventory.Entry, going map[object.Key]bool) (used bool, why string) {
	var inside func(object.Key) bool
	switch entry.GVK().GroupKind() {
	case schema.GroupKind{Kind: "Namespace"}:
		if entry.Name == "default" || entry.Name == inventory.Namespace || strings.HasPrefix(entry.Name, "kube-") {
			return true, ""
		}
		inside = func(key object.Key) bool { return key.Namespace == entry.Name }
	case schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}:
		definition, err := p.api.Get(ctx, entry.Ref)
		if err != nil && !gone(err) {
			return false, "can't be read: " + reason(err)
		}
		if err != nil {
			return false, ""
		}
		group, _, _ := unstructured.NestedString(definition.Object, "spec", "group")
		kind, _, _ := unstructured.NestedString(definition.Object, "spec", "names", "kind")
		inside = func(key object.Key) bool { return key.Group == group && key.Kind == kind }
	default:
		return false, ""
	}
	used, unreadable := p.inventories.Holds(ctx, func(key object.Key) bool { return !going[key] && inside(key) })
	if !used && unreadable != "" {
		return false, fmt.Sprintf("waits until the inventory of service %q can be read", unreadable)
	}
	return used, ""
}

// await waits until the object is gone or another one has its name.
func (p *Pruner) await(ctx context.Context, ref object.Ref, uid types.UID) string {
	for {
		meta, err := p.api.Metadata(ctx, ref)
		switch {
		case gone(err) || err == nil && meta.UID != uid:
			return ""
		case err != nil:
			return "is being deleted"
		}
		select {
		case <-ctx.Done():
			if len(meta.Finalizers) > 0 {
				return "waits for its finalizers: " + strings.Join(meta.Finalizers, ", ")
			}
			return "is being deleted"
		case <-time.After(pause):
		}
	}
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
