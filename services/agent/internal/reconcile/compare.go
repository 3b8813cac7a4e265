package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/services/agent/internal/apply"
	"fairlead.dev/services/agent/internal/desired"
	"fairlead.dev/services/agent/internal/diff"
	"fairlead.dev/services/agent/internal/impersonate"
	"fairlead.dev/services/agent/internal/inventory"
	"fairlead.dev/services/agent/internal/object"
	"fairlead.dev/services/agent/internal/set"
)

// The errors that keep CompareNow from answering.
var (
	ErrUnknownService = errors.New("no such service is meant for this cluster")
	// ErrNotRendered: the service was not rendered yet as the hub wants it.
	ErrNotRendered = errors.New("it is not rendered yet")
	// ErrMayNotRead: the person may not read an object of the service.
	ErrMayNotRead = errors.New("may not read")
)

// CompareNow tells what a sync of a service would change, as of now, whatever its mode is. Dry runs are made as the
// service's account, and objects are read as the person, who so learns no value and no name that they could not read
// themselves; of a Secret it is only told that it differs. CompareNow renders, changes and remembers nothing.
func (c *Controller) CompareNow(ctx context.Context, name string, person impersonate.Person) (*deliveryv1.ServiceDetail, error) {
	k, service, record, err := c.findCompared(ctx, name)
	if err != nil {
		return nil, err
	}
	ctx = impersonate.As(ctx, service.Sync.GetImpersonate())
	objects, err := c.Sets.Open(name, setOf(service))
	if errors.Is(err, fs.ErrNotExist) && record.Has(service.Digest) {
		objects, err = k.site.appliedSet(record)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNotRendered
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = objects.Close() }()
	release, err := takeTurn(ctx, c.comparing)
	if err != nil {
		return nil, err
	}
	defer release()
	mask := k.site.secretMask(service)
	out, err := k.site.compareAs(ctx, person, service, record, objects, mask, mask)
	if errors.Is(err, ErrMayNotRead) {
		return nil, err
	}
	if err != nil {
		return nil, k.site.maskedError(err.Error())
	}
	return &deliveryv1.ServiceDetail{Service: name, Digest: service.Digest, Detail: &deliveryv1.ServiceDetail_Diff{Diff: out}}, nil
}

// findCompared finds a service that people ask about.
func (c *Controller) findCompared(ctx context.Context, name string) (*keeper, desired.Service, inventory.Record, error) {
	k := c.keeperOf(name)
	service, what := c.Desired.Get(name)
	switch {
	case what != desired.Apply:
		return nil, service, inventory.Record{}, ErrUnknownService
	case k == nil:
		return nil, service, inventory.Record{}, ErrNotRendered
	}
	if failure := c.accountProblem(service, service.Sync.GetImpersonate()); failure != nil {
		return nil, service, inventory.Record{}, errors.New(failure.text)
	}
	record, err := c.Inventory.Get(ctx, name)
	return k, service, record, err
}

// takeTurn waits until nothing else is done for people that takes the same place: they don't keep services waiting.
func takeTurn(ctx context.Context, place chan struct{}) (release func(), err error) {
	select {
	case place <- struct{}{}:
		return func() { <-place }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// compareAs compares objects with the cluster for a person. Its errors are not masked.
func (s *site) compareAs(ctx context.Context, person impersonate.Person, service desired.Service, record inventory.Record, objects diff.Objects, mask, maskLive func(string) string) (*deliveryv1.Diff, error) {
	reader := &readAs{API: s.controller.Compare, person: person}
	out, err := diff.Of(ctx, diff.Deps{
		API: reader, Explain: apply.Explain, Recreates: apply.Recreates, Mask: mask, MaskLive: maskLive,
		Ignored: func(item set.Item, obj *unstructured.Unstructured) []string {
			return apply.Ignored(service.Sync, item, obj)
		},
		Stays: service.Sync.GetPrune().GetDisabled(),
	}, objects, record)
	if reader.refused != nil {
		return nil, reader.refused
	}
	if err != nil {
		return nil, errors.New(reader.hideNames(err.Error()))
	}
	reader.concealUnread(out)
	return out, nil
}

// readAs reads objects as a person.
type readAs struct {
	diff.API
	person impersonate.Person
	// refused: the person may not read an object, and gets no answer.
	refused error
	// hidden are the Secrets that the person may not read: that one differs is told, and not which. Most people may not
	// read Secrets, and would have no comparison of a service that has one.
	hidden map[object.Key]bool
}

// Live implements diff.API. Of a Secret the agent reads no more than the metadata.
func (r *readAs) Live(ctx context.Context, ref object.Ref) (*unstructured.Unstructured, error) {
	obj, err := r.API.Live(impersonate.AsPerson(ctx, r.person), ref)
	if !apierrors.IsForbidden(err) {
		return obj, err
	}
	if err := r.refuseObject(ref); err != nil {
		return nil, err
	}
	return r.API.Live(ctx, ref)
}

// Metadata implements diff.API. Metadata is asked for objects that would be removed.
func (r *readAs) Metadata(ctx context.Context, ref object.Ref) (*metav1.PartialObjectMetadata, error) {
	meta, err := r.API.Metadata(impersonate.AsPerson(ctx, r.person), ref)
	if !apierrors.IsForbidden(err) {
		return meta, err
	}
	if err := r.refuseObject(ref); err != nil {
		return nil, err
	}
	return r.API.Metadata(ctx, ref)
}

// refuseObject notes that the person may not read an object. An error names its kind and its namespace, which a remedy
// needs, and not the object.
func (r *readAs) refuseObject(ref object.Ref) error {
	if ref.IsSecret() {
		if r.hidden == nil {
			r.hidden = map[object.Key]bool{}
		}
		r.hidden[ref.Key] = true
		return nil
	}
	r.refused = fmt.Errorf("%w objects of kind %s%s", ErrMayNotRead, ref.Kind, inNamespace(ref.Namespace))
	return r.refused
}

// concealUnread leaves out what differs in Secrets, and the names of those that the person may not read.
func (r *readAs) concealUnread(out *deliveryv1.Diff) {
	for _, o := range out.GetObjects() {
		key := object.Key{Group: o.GetGroup(), Kind: o.GetKind(), Namespace: o.GetNamespace(), Name: o.GetName()}
		if !key.IsSecret() {
			continue
		}
		o.Fields = nil
		if r.hidden[key] {
			o.Namespace, o.Name, o.Message = "", "", "You may not read it in the cluster, and it is not named."
			continue
		}
		o.Message = cmp.Or(o.GetMessage(), "What differs in a Secret is not shown.")
	}
}

// hideNames takes the names of Secrets that the person may not read out of a text.
func (r *readAs) hideNames(text string) string {
	for key := range r.hidden {
		text = strings.ReplaceAll(text, key.String(), "a Secret")
	}
	return text
}
