// Package apply sends the objects of a service to the cluster by server-side apply.
//
// It goes by stages: namespaces and CRDs, then everything else, then what intercepts requests. Within
// a stage objects are sent side by side. An object's error is its own: the others of its stage are
// sent all the same, the stages after it are not.
package apply

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"fairlead.dev/services/agent/internal/cluster"
	"fairlead.dev/services/agent/internal/inventory"
	"fairlead.dev/services/agent/internal/manifest"
	"fairlead.dev/services/agent/internal/object"
)

const (
	// perService bounds the requests that one service has under way, so that a large one leaves room.
	perService = 8
	// inAll bounds the requests of all services together.
	inAll = 16
	// kindPatience is how long objects wait for the CRD that came with them. Usual is 0.1 s.
	kindPatience = 15 * time.Second
)

// API is what is needed of the cluster; *cluster.Cluster has it.
type API interface {
	Apply(ctx context.Context, obj *unstructured.Unstructured, dryRun bool) (*unstructured.Unstructured, error)
	Metadata(ctx context.Context, ref object.Ref) (*metav1.PartialObjectMetadata, error)
	AwaitKind(ctx context.Context, gvk schema.GroupVersionKind) error
}

// Item is an object that is ready to be sent.
type Item struct {
	manifest.Object

	// Sum of what is sent. It changes when the manifest does.
	Sum object.Sum
}

// Failure is why an object was not applied, in words.
type Failure struct {
	Item    Item
	Problem Problem
}

// Applier sends objects. It is safe for concurrent use.
type Applier struct {
	api   API
	slots chan struct{}
}

// New returns an applier.
func New(api API) *Applier {
	return &Applier{api: api, slots: make(chan struct{}, inAll)}
}

// Strangers finds the items that are objects of another service. Only those that the record does not
// list as made by this service are looked up.
func (a *Applier) Strangers(ctx context.Context, service string, items []Item, record inventory.Record) []Failure {
	made := make(map[object.Key]bool, len(record.Entries))
	for _, entry := range record.Entries {
		made[entry.Key] = entry.UID != ""
	}
	return a.each(ctx, items, func(ctx context.Context, item Item) *Problem {
		if made[item.Ref().Key] {
			return nil
		}
		meta, err := a.api.Metadata(ctx, item.Ref())
		if unknown := (*cluster.UnknownKindError)(nil); apierrors.IsNotFound(err) || errors.As(err, &unknown) {
			return nil
		}
		if err != nil {
			return explain(item, err)
		}
		if owner := object.Owner(meta); owner != "" && owner != service {
			return Taken(owner)
		}
		return nil
	})
}

// Rehearse sends the items that changed since the record as a dry run, so that a mistake is found
// before anything is changed. What can't be rehearsed passes: an object whose namespace or kind comes
// with it, and one that a webhook without dry run intercepts.
func (a *Applier) Rehearse(ctx context.Context, items []Item, record inventory.Record) []Failure {
	sent := make(map[object.Key]object.Sum, len(record.Entries))
	for _, entry := range record.Entries {
		sent[entry.Key] = entry.Sum
	}
	changed := slices.DeleteFunc(slices.Clone(items), func(item Item) bool { return sent[item.Ref().Key] == item.Sum })
	if len(changed) < 2 && len(items) == len(changed) {
		return nil // a single object is applied or not: there is nothing in between to protect
	}
	namespaces, kinds := ownNamespaces(items), ownKinds(items)
	return a.each(ctx, changed, func(ctx context.Context, item Item) *Problem {
		if namespaces[item.GetNamespace()] || kinds[item.GroupVersionKind().GroupKind()] {
			return nil
		}
		_, err := a.api.Apply(ctx, item.Unstructured, true)
		if err == nil || noDryRun(err) {
			return nil
		}
		return explain(item, err)
	})
}

// Applied is an object as it was after it was applied.
type Applied struct {
	Item   Item
	Object *unstructured.Unstructured
}

// Apply sends the items. The failures are empty if all of them were applied. When giveUp is closed
// it no longer waits for new kinds.
func (a *Applier) Apply(ctx context.Context, items []Item, giveUp <-chan struct{}) ([]Applied, []Failure) {
	var mu sync.Mutex // guards applied
	var applied []Applied
	own := ownKinds(items)
	for stage := range stages {
		batch := slices.DeleteFunc(slices.Clone(items), func(item Item) bool { return Stage(item.GroupVersionKind()) != stage })
		failures := a.each(ctx, batch, func(ctx context.Context, item Item) *Problem {
			obj, err := a.send(ctx, item, own[item.GroupVersionKind().GroupKind()], giveUp)
			if err != nil {
				return explain(item, err)
			}
			mu.Lock()
			defer mu.Unlock()
			applied = append(applied, Applied{Item: item, Object: obj})
			return nil
		})
		if len(failures) > 0 {
			return applied, failures
		}
	}
	return applied, nil
}

// send applies one object. If its kind came with it, it waits until the kind is served.
func (a *Applier) send(ctx context.Context, item Item, ownKind bool, giveUp <-chan struct{}) (*unstructured.Unstructured, error) {
	if !ownKind {
		return a.api.Apply(ctx, item.Unstructured, false)
	}
	waitCtx, cancel := context.WithTimeout(ctx, kindPatience)
	defer cancel()
	for {
		obj, err := a.api.Apply(ctx, item.Unstructured, false)
		if unknown := (*cluster.UnknownKindError)(nil); err == nil || !errors.As(err, &unknown) {
			return obj, err
		}
		select {
		case <-waitCtx.Done():
			return nil, err
		case <-giveUp:
			return nil, err
		case <-time.After(kindPause):
		}
		if err := a.api.AwaitKind(waitCtx, item.GroupVersionKind()); err != nil {
			return nil, err
		}
	}
}

// kindPause is between two attempts on a kind that is listed and not served yet.
const kindPause = 50 * time.Millisecond

// each calls do for all items, a bounded number at a time, and collects failures in the order of items.
func (a *Applier) each(ctx context.Context, items []Item, do func(context.Context, Item) *Problem) []Failure {
	problems := make([]*Problem, len(items))
	work := make(chan int)
	var workers sync.WaitGroup
	for range min(perService, len(items)) {
		workers.Go(func() {
			for i := range work {
				a.slots <- struct{}{}
				problems[i] = do(ctx, items[i])
				<-a.slots
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

// stages is how many there are; see Stage.
const stages = 3

// Stage is when objects of a kind are applied; they are removed in the reverse order.
func Stage(gvk schema.GroupVersionKind) int {
	switch gvk.GroupKind() {
	case schema.GroupKind{Kind: "Namespace"},
		schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}:
		return 0
	// Last, because they route requests to something that has to run first.
	case schema.GroupKind{Group: "admissionregistration.k8s.io", Kind: "ValidatingWebhookConfiguration"},
		schema.GroupKind{Group: "admissionregistration.k8s.io", Kind: "MutatingWebhookConfiguration"},
		schema.GroupKind{Group: "apiregistration.k8s.io", Kind: "APIService"}:
		return stages - 1
	}
	return 1
}

// ownNamespaces are the namespaces that are among the items.
func ownNamespaces(items []Item) map[string]bool {
	own := map[string]bool{}
	for _, item := range items {
		if item.GroupVersionKind().GroupKind() == (schema.GroupKind{Kind: "Namespace"}) {
			own[item.GetName()] = true
		}
	}
	return own
}

// ownKinds are the kinds whose CRDs are among the items.
func ownKinds(items []Item) map[schema.GroupKind]bool {
	own := map[schema.GroupKind]bool{}
	for _, item := range items {
		if item.GetKind() == "CustomResourceDefinition" {
			group, _, _ := unstructured.NestedString(item.Object.Object, "spec", "group")
			kind, _, _ := unstructured.NestedString(item.Object.Object, "spec", "names", "kind")
			own[schema.GroupKind{Group: group, Kind: kind}] = true
		}
	}
	return own
}
