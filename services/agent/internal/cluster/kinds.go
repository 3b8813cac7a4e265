package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"fairlead.dev/platform/retry"
	"fairlead.dev/services/agent/internal/object"
)

// Kind is how the API server serves a kind.
type Kind struct {
	Resource   schema.GroupVersionResource
	Namespaced bool
	// Status: the kind has a status of its own, which controllers write.
	Status bool
}

// UnknownKindError tells that the API server does not serve a kind.
type UnknownKindError struct {
	GVK schema.GroupVersionKind
	// Wide: the API server serves the kind for the whole cluster, and an object in a namespace was meant.
	Wide bool
}

func (e *UnknownKindError) Error() string {
	if e.Wide {
		return fmt.Sprintf("the cluster has kind %s of %s outside of namespaces, and the object was read as one in a namespace. Ask for a sync to have the service rendered again",
			e.GVK.Kind, e.GVK.GroupVersion())
	}
	return fmt.Sprintf("the cluster does not know kind %s of %s. Install its CustomResourceDefinition, or mend apiVersion and kind",
		e.GVK.Kind, e.GVK.GroupVersion())
}

// DoubtError tells why nobody can say what there is of something.
type DoubtError struct{ Why string }

func (e *DoubtError) Error() string { return e.Why }

// kinds remembers what was asked: only the groups that manifests use are ever looked up, one small
// request each. A kind that is not found is never remembered.
type kinds struct {
	mu sync.Mutex // guards what follows
	// known holds the kinds of each version of a group that was asked for.
	known map[schema.GroupVersion]map[string]Kind
}

// Kind finds out how a kind is served. Errors: *UnknownKindError, those of the API.
func (c *Cluster) Kind(ctx context.Context, gvk schema.GroupVersionKind) (Kind, error) {
	if kind, ok := c.kinds.get(gvk); ok {
		return kind, nil
	}
	served, err := c.discover(ctx, gvk.GroupVersion())
	if apierrors.IsNotFound(err) {
		return Kind{}, &UnknownKindError{GVK: gvk}
	}
	if err != nil {
		return Kind{}, fmt.Errorf("ask the API server for the kinds of %s: %w", gvk.GroupVersion(), err)
	}
	c.kinds.put(gvk.GroupVersion(), served)
	kind, ok := served[gvk.Kind]
	if !ok {
		return Kind{}, &UnknownKindError{GVK: gvk}
	}
	return kind, nil
}

// kindOf finds out how the kind of an object is served. An object with a namespace is of no kind outside of namespaces:
// the API server would drop the namespace, by which the object was judged. Errors: those of Kind.
func (c *Cluster) kindOf(ctx context.Context, ref object.Ref) (Kind, error) {
	kind, err := c.Kind(ctx, ref.GVK())
	if err == nil && !kind.Namespaced && ref.Namespace != "" {
		return Kind{}, &UnknownKindError{GVK: ref.GVK(), Wide: true}
	}
	return kind, err
}

// Namespaced says whether objects of a kind live in namespaces.
func (c *Cluster) Namespaced(ctx context.Context, gvk schema.GroupVersionKind) (bool, error) {
	kind, err := c.Kind(ctx, gvk)
	return kind.Namespaced, err
}

// HasStatus says whether objects of a kind have a status, as far as the kind was asked for before.
func (c *Cluster) HasStatus(gvk schema.GroupVersionKind) bool {
	kind, _ := c.kinds.get(gvk)
	return kind.Status
}

// AwaitKind waits until a kind is served; the API server needs a moment after a new CRD.
func (c *Cluster) AwaitKind(ctx context.Context, gvk schema.GroupVersionKind) error {
	const pause = 50 * time.Millisecond
	for {
		_, err := c.Kind(ctx, gvk)
		unknown := (*UnknownKindError)(nil)
		if err == nil || !errors.As(err, &unknown) {
			return err
		}
		if !retry.Sleep(ctx, pause) {
			return fmt.Errorf("wait for kind %s: %w", gvk.Kind, err)
		}
	}
}

func (c *Cluster) discover(ctx context.Context, gv schema.GroupVersion) (map[string]Kind, error) {
	data, err := c.raw.Get().AbsPath(rootOf(gv)).Do(ctx).Raw()
	if err != nil {
		return nil, err
	}
	var list metav1.APIResourceList
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, fmt.Errorf("read answer: %w", err)
	}
	served := make(map[string]Kind, len(list.APIResources))
	status := map[string]bool{} // by resource
	for _, resource := range list.APIResources {
		if name, sub, ok := strings.Cut(resource.Name, "/"); ok { // such as deployments/scale
			status[name] = status[name] || sub == "status"
			continue
		}
		served[resource.Kind] = Kind{Resource: gv.WithResource(resource.Name), Namespaced: resource.Namespaced}
	}
	for name, kind := range served {
		kind.Status = status[kind.Resource.Resource]
		served[name] = kind
	}
	return served, nil
}

// failed looks at an error of the API: a kind that is gone is forgotten, so that it is looked up anew.
func (c *Cluster) failed(ref object.Ref, err error) error {
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) || status.Status().Reason != metav1.StatusReasonNotFound {
		return err
	}
	// The answer about a missing object names it; the one about a missing kind names nothing.
	if details := status.Status().Details; details != nil && details.Name != "" && details.Kind != "" &&
		!strings.Contains(status.Status().Message, "could not find the requested resource") {
		return err
	}
	return c.unserved(ref.GVK(), err)
}

// unserved takes a "not found" for what it is where no object was asked for.
func (c *Cluster) unserved(gvk schema.GroupVersionKind, err error) error {
	if !apierrors.IsNotFound(err) {
		return err
	}
	c.kinds.forget(gvk.GroupVersion())
	return &UnknownKindError{GVK: gvk}
}

// Refresh forgets what is known of a group, because a CRD of it has changed. The next question asks again.
func (c *Cluster) Refresh(group string) {
	c.kinds.mu.Lock()
	defer c.kinds.mu.Unlock()
	maps.DeleteFunc(c.kinds.known, func(gv schema.GroupVersion, _ map[string]Kind) bool { return gv.Group == group })
}

func (k *kinds) get(gvk schema.GroupVersionKind) (Kind, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	kind, ok := k.known[gvk.GroupVersion()][gvk.Kind]
	return kind, ok
}

func (k *kinds) put(gv schema.GroupVersion, served map[string]Kind) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.known == nil {
		k.known = map[schema.GroupVersion]map[string]Kind{}
	}
	k.known[gv] = served
}

func (k *kinds) forget(gv schema.GroupVersion) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.known, gv)
}
