package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"

	"fairlead.dev/services/agent/internal/object"
)

const (
	// insideWidth bounds the lists under way when a namespace is looked into.
	insideWidth = 8
	// insidePage is how many objects of a kind are looked at, at a time.
	insidePage = 50
	// insideMost bounds the objects with owners that are kept in mind meanwhile.
	insideMost = 10_000
)

// Inside names an object in a namespace that somebody made and skip does not fit; "" if there is none. An object that a
// cluster puts into every namespace does not count, and neither does one that goes with its owner: with an owner that
// skip fits, or one that is not there any more. Everything else that has an owner counts, since somebody still works
// with that one.
func (c *Cluster) Inside(ctx context.Context, namespace string, skip func(metav1.Object) bool) (string, error) {
	kinds, err := c.allNamespaced(ctx)
	if err != nil {
		return "", err
	}
	l := look{skip: skip, goes: map[types.UID]bool{}}
	l.ctx, l.end = context.WithCancel(ctx)
	defer l.end()
	var running sync.WaitGroup
	work := make(chan namedKind)
	for range insideWidth {
		running.Go(func() {
			for kind := range work {
				l.through(kind, c.metadata.Resource(kind.resource).Namespace(namespace))
			}
		})
	}
	for _, kind := range kinds {
		work <- kind
	}
	close(work)
	running.Wait()
	switch {
	case l.found != "" || l.failed != nil:
		return l.found, l.failed
	case l.full:
		return "", &DoubtError{Why: fmt.Sprintf("more than %d objects in it have owners, which have to go first", insideMost)}
	}
	return c.owned(ctx, namespace, &l)
}

// look is one look into a namespace.
type look struct {
	ctx  context.Context //nolint:containedctx // of this one look
	end  context.CancelFunc
	skip func(metav1.Object) bool

	mu     sync.Mutex // guards what follows
	found  string
	failed error
	// goes are objects that hold nothing.
	goes     map[types.UID]bool
	children []child
	// full: there are more children.
	full bool
}

// child is an object with owners.
type child struct {
	name   string
	uid    types.UID
	owners []metav1.OwnerReference
}

// through looks through the objects of a kind.
func (l *look) through(kind namedKind, objects metadata.ResourceInterface) {
	found, err := stranger(l.ctx, objects, func(meta metav1.Object) bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		switch {
		case l.skip(meta):
			if len(l.goes) < insideMost { // the object is asked for, else
				l.goes[meta.GetUID()] = true
			}
		case len(meta.GetOwnerReferences()) > 0 && len(l.children) == insideMost:
			l.full = true // go on: somebody may have something without an owner
		case len(meta.GetOwnerReferences()) > 0:
			l.children = append(l.children, child{
				name: kind.kind + " " + meta.GetNamespace() + "/" + meta.GetName(),
				uid:  meta.GetUID(), owners: meta.GetOwnerReferences(),
			})
		default:
			return brought(kind.resource.GroupResource(), meta)
		}
		return true
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	switch gone := apierrors.IsNotFound(err) && !kind.unlisted; {
	case err != nil && !gone && !apierrors.IsMethodNotSupported(err) && l.ctx.Err() == nil:
		l.failed = fmt.Errorf("list %s: %w", kind.resource.GroupResource(), err)
	case found != nil && l.found == "":
		l.found, l.failed = kind.kind+" "+found.GetNamespace()+"/"+found.GetName(), nil
		l.end()
	}
}

// owned names the first object whose owner stays.
func (c *Cluster) owned(ctx context.Context, namespace string, l *look) (string, error) {
	listed := map[types.UID]bool{}
	for _, one := range l.children {
		listed[one.uid] = true
	}
	for _, one := range l.children {
		for _, owner := range one.owners {
			if _, known := l.goes[owner.UID]; known || listed[owner.UID] {
				continue
			}
			stays, err := c.stays(ctx, namespace, owner, l.skip)
			if err != nil {
				return "", err
			}
			l.goes[owner.UID] = !stays
		}
	}
	for again := true; again; {
		again = false
		l.children = slices.DeleteFunc(l.children, func(one child) bool {
			goes := !slices.ContainsFunc(one.owners, func(owner metav1.OwnerReference) bool { return !l.goes[owner.UID] })
			if goes {
				l.goes[one.uid], again = true, true
			}
			return goes
		})
	}
	if len(l.children) == 0 {
		return "", nil
	}
	return slices.MinFunc(l.children, func(a, b child) int { return cmp.Compare(a.name, b.name) }).name, nil
}

// stays says whether an owner is there, and is not about to go.
func (c *Cluster) stays(ctx context.Context, namespace string, owner metav1.OwnerReference, skip func(metav1.Object) bool) (bool, error) {
	ref := object.Ref{Key: object.Key{Kind: owner.Kind, Namespace: namespace, Name: owner.Name}}
	version, err := schema.ParseGroupVersion(owner.APIVersion)
	if err != nil {
		return true, nil //nolint:nilerr // nobody can tell
	}
	ref.Group, ref.Version = version.Group, version.Version
	if kind, err := c.Kind(ctx, ref.GVK()); err == nil && !kind.Namespaced {
		ref.Namespace = ""
	}
	meta, err := c.Metadata(ctx, ref)
	unknown := (*UnknownKindError)(nil)
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case errors.As(err, &unknown):
		return true, nil
	case err != nil:
		return true, fmt.Errorf("read the owner %s: %w", ref.Key, err)
	}
	return meta.UID == owner.UID && !skip(meta), nil
}

// Instance names an object of a kind that skip does not fit; "" if there is none.
func (c *Cluster) Instance(ctx context.Context, gvk schema.GroupVersionKind, skip func(metav1.Object) bool) (string, error) {
	kind, err := c.Kind(ctx, gvk)
	if err != nil {
		return "", err
	}
	found, err := stranger(ctx, c.metadata.Resource(kind.Resource), skip)
	if found == nil {
		return "", c.unserved(gvk, err)
	}
	return object.Key{Kind: gvk.Kind, Namespace: found.GetNamespace(), Name: found.GetName()}.String(), nil
}

// stranger is the first object that skip does not fit; nil: there is none.
func stranger(ctx context.Context, objects metadata.ResourceInterface, skip func(metav1.Object) bool) (found metav1.Object, err error) {
	_, err = pages(ctx, objects, insidePage, math.MaxInt, func(meta *metav1.PartialObjectMetadata) bool {
		if !skip(meta) {
			found = meta
		}
		return found == nil
	})
	return found, err
}

// brought tells objects that are in a namespace by themselves.
func brought(resource schema.GroupResource, meta metav1.Object) bool {
	switch resource {
	case schema.GroupResource{Resource: "configmaps"}:
		return meta.GetName() == "kube-root-ca.crt" || meta.GetName() == "openshift-service-ca.crt"
	case schema.GroupResource{Resource: "serviceaccounts"}:
		return meta.GetName() == "default"
	case schema.GroupResource{Resource: "endpoints"}:
		return true // of a Service, which counts
	}
	return false
}

type namedKind struct {
	resource schema.GroupVersionResource
	kind     string
	// unlisted: the API server does not list it among its kinds, or not yet.
	unlisted bool
}

// allNamespaced lists the kinds of all groups whose objects live in namespaces and can be listed, each in one version.
// allNamespaced fails if it can't be told what there is: the list of kinds may be old, of a group whose server is down
// for instance, and new definitions get into it late.
func (c *Cluster) allNamespaced(ctx context.Context) ([]namedKind, error) {
	listed, err := c.listed(ctx)
	if err != nil {
		return nil, err
	}
	var kinds []namedKind
	known, taken := map[schema.GroupResource]bool{}, map[schema.GroupResource]bool{}
	passing := map[schema.GroupResource]bool{{Resource: "events"}: true, {Group: "coordination.k8s.io", Resource: "leases"}: true}
	take := func(resource schema.GroupVersionResource, kind string, unlisted bool) {
		if !taken[resource.GroupResource()] && !passing[resource.GroupResource()] {
			taken[resource.GroupResource()] = true
			kinds = append(kinds, namedKind{resource: resource, kind: kind, unlisted: unlisted})
		}
	}
	for _, group := range listed {
		name := group.Metadata.Name
		if name == "events.k8s.io" || strings.HasSuffix(name, "metrics.k8s.io") {
			continue
		}
		for _, version := range group.Versions { // the one that the server prefers comes first
			gv := schema.GroupVersion{Group: name, Version: version.Version}
			if version.Freshness == stale {
				served, err := c.discover(ctx, gv)
				if err != nil {
					return nil, fmt.Errorf("ask the API server for the kinds of %s: %w", gv, err)
				}
				for _, kind := range slices.Sorted(maps.Keys(served)) {
					known[served[kind].Resource.GroupResource()] = true
					if served[kind].Namespaced {
						take(served[kind].Resource, kind, false)
					}
				}
				continue
			}
			for _, resource := range version.Resources {
				known[schema.GroupResource{Group: name, Resource: resource.Resource}] = true
				if resource.Scope == "Namespaced" && slices.Contains(resource.Verbs, "list") {
					take(gv.WithResource(resource.Resource), resource.ResponseKind.Kind, false)
				}
			}
		}
	}
	err = c.eachDefinition(ctx, func(name string) bool {
		plural, group, _ := strings.Cut(name, ".")
		return !known[schema.GroupResource{Group: group, Resource: plural}]
	}, func(definition *unstructured.Unstructured) error {
		resource, kind := ReadDefinition(definition)
		switch scope, _, _ := unstructured.NestedString(definition.Object, "spec", "scope"); {
		case scope != "Namespaced" || !established(definition): // then nobody can have made an object of it
		case resource.Version == "":
			return &DoubtError{Why: definition.GetName() + " is served in no version"}
		default:
			take(resource, kind, true)
		}
		return nil
	})
	return kinds, err
}
