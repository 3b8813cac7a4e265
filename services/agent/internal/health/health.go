// Package health says how objects in the cluster are: by their status, as kstatus reads it. It only
// reads, never waits, and keeps nothing.
package health

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"fairlead.dev/services/agent/internal/cluster"
	"fairlead.dev/services/agent/internal/object"
)

// width bounds the reads of all services together: health never crowds out an apply.
const width = 4

// State is how an object is.
type State string

// The states, as they stand in reports.
const (
	Healthy     State = "Healthy"
	Progressing State = "Progressing"
	Degraded    State = "Degraded"
	Missing     State = "Missing"
	// Unknown: the cluster could not be asked. Never shown as healthy.
	Unknown State = "Unknown"
)

// Health is the state of one object, and what it says itself.
type Health struct {
	Ref     object.Ref
	State   State
	Message string
	// Steady: the kind has no status, so nothing but a deletion can change its health.
	Steady bool
}

// Of reads the health of an object: by the rule, or without one by kstatus.
func Of(obj *unstructured.Unstructured, rule *Rule) Health {
	h := Health{Ref: object.RefOf(obj)}
	if obj.GetDeletionTimestamp() != nil {
		h.State, h.Message = Progressing, Leaving
		return h
	}
	if rule != nil {
		h.State, h.Message = rule.of(obj)
		return h
	}
	result, err := status.Compute(obj)
	if err != nil {
		// kstatus can't read the status, as with a condition of an odd type. Not a word about health then.
		h.State, h.Message = Progressing, fmt.Sprintf("its status can't be read: %v", err)
		return h
	}
	switch result.Status {
	case status.CurrentStatus:
		h.State = Healthy
	case status.FailedStatus:
		h.State, h.Message = Degraded, orElse(result.Message, "it has failed")
	default: // InProgress, Unknown
		h.State, h.Message = Progressing, orElse(result.Message, "it is on its way")
	}
	return h
}

// Leaving is said of an object that was deleted and is still there.
const Leaving = "it is being deleted"

// OfMeta is the health of an object of which nothing else can be read.
func OfMeta(meta metav1.Object) Health {
	if meta.GetDeletionTimestamp() != nil {
		return Health{State: Progressing, Message: Leaving}
	}
	return Health{State: Healthy}
}

// Of is the health of an object that was just read or applied.
func (c *Checker) Of(ref object.Ref, obj *unstructured.Unstructured) Health {
	_, hasStatus := obj.Object["status"]
	h := Of(obj, nil)
	h.Ref, h.Steady = ref, h.State != Progressing && !hasStatus && !c.api.HasStatus(ref.GVK())
	return h
}

// API is what is needed of the cluster; *cluster.Cluster has it.
type API interface {
	Get(ctx context.Context, ref object.Ref) (*unstructured.Unstructured, error)
	HasStatus(gvk schema.GroupVersionKind) bool
}

// Checker reads objects. It is safe for concurrent use.
type Checker struct {
	api   API
	slots chan struct{}
}

// New returns a checker.
func New(api API) *Checker {
	return &Checker{api: api, slots: make(chan struct{}, width)}
}

// Check reads the health of objects, in their order. It returns early, with an error, if ctx ends.
func (c *Checker) Check(ctx context.Context, refs []object.Ref) ([]Health, error) {
	found := make([]Health, len(refs))
	work := make(chan int)
	var workers sync.WaitGroup
	for range min(width, len(refs)) {
		workers.Go(func() {
			for i := range work {
				found[i] = c.one(ctx, refs[i])
			}
		})
	}
	for i := range refs {
		if ctx.Err() != nil {
			break
		}
		work <- i
	}
	close(work)
	workers.Wait()
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	return found, nil
}

func (c *Checker) one(ctx context.Context, ref object.Ref) Health {
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-ctx.Done():
		return Health{Ref: ref, State: Unknown}
	}
	obj, err := c.api.Get(ctx, ref)
	unknown := (*cluster.UnknownKindError)(nil)
	switch {
	case err == nil:
		h := c.Of(ref, obj)
		return h
	case apierrors.IsNotFound(err) || errors.As(err, &unknown):
		return Health{Ref: ref, State: Missing, Message: "the object is not in the cluster any more"}
	}
	return Health{Ref: ref, State: Unknown, Message: "the API server does not say: " + string(apierrors.ReasonForError(err))}
}
