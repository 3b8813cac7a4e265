// Package diff tells what a sync would change, by dry runs of the API server: it changes nothing, and
// reads no value of a Secret.
package diff

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/services/agent/internal/cluster"
	"fairlead.dev/services/agent/internal/inventory"
	"fairlead.dev/services/agent/internal/kubeyaml"
	"fairlead.dev/services/agent/internal/object"
	"fairlead.dev/services/agent/internal/set"
)

// The contract's limits, in entries and bytes, less a little.
const (
	maxObjects = 500
	maxBytes   = 480 << 10
	maxFields  = 100
	maxValue   = 1 << 10
	maxMessage = 4000
)

// API is what is needed of the cluster; *cluster.Cluster has it.
type API interface {
	Live(ctx context.Context, ref object.Ref) (*unstructured.Unstructured, error)
	Metadata(ctx context.Context, ref object.Ref) (*metav1.PartialObjectMetadata, error)
	Rehearse(ctx context.Context, obj *unstructured.Unstructured) (*unstructured.Unstructured, error)
	// Disputed returns the fields of an object that have another value in the cluster, and an owner there. Disputed
	// reads no values.
	Disputed(ctx context.Context, obj *unstructured.Unstructured) (fields []string, err error)
}

// Objects is a set, or what is read like one.
type Objects interface {
	Items() ([]set.Item, error)
	Object(item set.Item) (*unstructured.Unstructured, kubeyaml.Position, error)
}

// Deps is what a diff is made with.
type Deps struct {
	API API
	// Explain puts a refusal of the API server into words that quote no value of a Secret.
	Explain func(ref object.Ref, err error) string
	// Recreates says whether a sync deletes the object and makes it anew after this refusal.
	Recreates func(item set.Item, err error) bool
	// Mask takes secrets out of texts; nil: there are none. MaskLive does so with values that are in the cluster; nil:
	// Mask.
	Mask, MaskLive func(string) string
	// Sent says whether an item is not to be looked at, since applying would not send it.
	Sent func(item set.Item) bool
	// Stays: nothing is removed.
	Stays bool
	// Ignored lists pointers of an object that are left to others; * is any key or index.
	Ignored func(item set.Item, obj *unstructured.Unstructured) []string
}

// Of compares what is wanted with the cluster. Objects of the record that are wanted no more would be removed, but for
// those that stay by their annotation.
func Of(ctx context.Context, deps Deps, objects Objects, record inventory.Record) (*deliveryv1.Diff, error) {
	items, err := objects.Items()
	if err != nil {
		return nil, err
	}
	if deps.MaskLive == nil {
		deps.MaskLive = deps.Mask
	}
	d := differ{Deps: deps, out: &deliveryv1.Diff{}, sum: sha256.New(), there: map[types.UID]bool{}, namespaces: map[string]bool{}, kinds: map[schema.GroupKind]bool{}}
	wanted := make(map[object.Key]bool, len(items))
	for _, item := range items {
		if wanted[item.Key] = true; item.Kind == "Namespace" && item.Group == "" {
			d.namespaces[item.Name] = true
		}
		if item.Flags&object.LeftOut != 0 {
			continue
		}
		if err := d.noteKind(objects, item); err != nil {
			return nil, err
		}
	}
	for _, item := range items {
		if item.Hook != 0 || item.Flags&object.LeftOut != 0 {
			continue // the object is run, not kept
		}
		if item.Flags&object.MakeOnce != 0 {
			if err := d.made(ctx, item); err != nil {
				return nil, err
			}
			continue
		}
		if item.Flags&object.Hold != 0 {
			d.out.Unchanged++ // a held object is never sent
			continue
		}
		if err := d.item(ctx, objects, item); err != nil {
			return nil, err
		}
	}
	for _, entry := range record.Entries {
		if wanted[entry.Key] {
			d.there[entry.UID] = true
		}
	}
	for _, entry := range record.Entries {
		if wanted[entry.Key] || deps.Stays || entry.UID != "" && d.there[entry.UID] {
			continue
		}
		goes, err := d.goes(ctx, record.Service, entry)
		if err != nil {
			return nil, err
		}
		if goes {
			d.out.Removed++
			d.add(&deliveryv1.ObjectDiff{Change: deliveryv1.Change_CHANGE_REMOVE}, entry.Ref)
		}
	}
	if len(d.out.GetObjects()) > 0 {
		d.out.Fingerprint = hex.EncodeToString(d.sum.Sum(nil))
	}
	return d.out, nil
}

// differ gathers a diff.
type differ struct {
	Deps

	out   *deliveryv1.Diff
	bytes int
	sum   interface {
		Write(p []byte) (int, error)
		Sum(b []byte) []byte
	}
	// there are the objects that the set has, also by the name of another group, as an Ingress or an Event may have.
	there map[types.UID]bool
	// namespaces and kinds come with the set: an object that needs one of them can't be tried before.
	namespaces map[string]bool
	kinds      map[schema.GroupKind]bool
}

// made tells of an object that is made if it is not there.
func (d *differ) made(ctx context.Context, item set.Item) error {
	live, err := d.API.Live(ctx, item.Ref)
	switch {
	case err != nil:
		return d.refused(ctx, item, err)
	case live != nil:
		d.out.Unchanged++
	default:
		d.out.Created++
		d.add(&deliveryv1.ObjectDiff{Change: deliveryv1.Change_CHANGE_CREATE}, item.Ref)
	}
	return nil
}

func (d *differ) item(ctx context.Context, objects Objects, item set.Item) error {
	if d.Sent != nil && d.Sent(item) {
		d.out.Unchanged++
		return nil
	}
	obj, _, err := objects.Object(item)
	if err != nil {
		return err
	}
	live, err := d.API.Live(ctx, item.Ref)
	if unknown := (*cluster.UnknownKindError)(nil); errors.As(err, &unknown) && d.late(item) {
		err = nil
	}
	if err != nil {
		return d.refused(ctx, item, err)
	}
	if live != nil {
		d.there[live.GetUID()] = true
	}
	next, err := d.API.Rehearse(ctx, obj)
	switch {
	case live == nil && d.brought(item, err):
		d.out.Created++
		d.add(&deliveryv1.ObjectDiff{Change: deliveryv1.Change_CHANGE_CREATE}, item.Ref)
	case err != nil && live != nil && d.Recreates(item, err):
		d.out.Changed++
		d.add(&deliveryv1.ObjectDiff{Change: deliveryv1.Change_CHANGE_RECREATE, Message: d.Explain(item.Ref, err)}, item.Ref)
	case err != nil:
		return d.refused(ctx, item, err)
	case live == nil:
		d.out.Created++
		d.add(&deliveryv1.ObjectDiff{Change: deliveryv1.Change_CHANGE_CREATE}, item.Ref)
	default:
		return d.compare(ctx, item, obj, live, next)
	}
	return nil
}

// goes tells whether an object that is wanted no more would be removed. An object that can't be read is said to go.
func (d *differ) goes(ctx context.Context, service string, entry inventory.Entry) (bool, error) {
	meta, err := d.API.Metadata(ctx, entry.Ref)
	switch {
	case ctx.Err() != nil:
		return false, ctx.Err()
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return true, nil //nolint:nilerr // it is on the list of what goes
	}
	// The record may have the UID of before a repair.
	return meta.GetLabels()[object.ServiceLabel] == service && !object.StaysPruned(meta) && !d.there[meta.UID], nil
}

// noteKind notes the kind that a CRD of the set brings.
func (d *differ) noteKind(objects Objects, item set.Item) error {
	if item.Kind != "CustomResourceDefinition" {
		return nil
	}
	obj, _, err := objects.Object(item)
	if err != nil {
		return err
	}
	group, _, _ := unstructured.NestedString(obj.Object, "spec", "group")
	kind, _, _ := unstructured.NestedString(obj.Object, "spec", "names", "kind")
	d.kinds[schema.GroupKind{Group: group, Kind: kind}] = true
	return nil
}

// late tells that the kind of an item comes with the set, or while it is applied.
func (d *differ) late(item set.Item) bool {
	return d.kinds[item.GVK().GroupKind()] || item.Flags&object.LateKind != 0
}

// brought says whether a dry run failed only for what comes with the set.
func (d *differ) brought(item set.Item, err error) bool {
	if err == nil {
		return false
	}
	if unknown := (*cluster.UnknownKindError)(nil); errors.As(err, &unknown) {
		return d.late(item)
	}
	return apierrors.IsNotFound(err) && d.namespaces[item.Namespace]
}

// refused takes an answer of the API server about one object for a part of the diff; what says nothing about it
// ends the diff.
func (d *differ) refused(ctx context.Context, item set.Item, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	status, unknown := apierrors.APIStatus(nil), (*cluster.UnknownKindError)(nil)
	away := apierrors.IsTooManyRequests(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err)
	if away || !errors.As(err, &status) && !errors.As(err, &unknown) {
		return fmt.Errorf("compare %s: %s", item.Key, d.Explain(item.Ref, err))
	}
	d.out.Changed++
	d.add(&deliveryv1.ObjectDiff{Change: deliveryv1.Change_CHANGE_REFUSED, Message: d.Explain(item.Ref, err)}, item.Ref)
	return nil
}

func (d *differ) compare(ctx context.Context, item set.Item, sent, live, next *unstructured.Unstructured) error {
	var ignored []string
	if d.Ignored != nil {
		ignored = d.Ignored(item, sent)
	}
	fields := Fields(live, next, ignored, d.Mask, d.MaskLive)
	if item.Group == "" && item.Kind == "Secret" && !slices.ContainsFunc(fields, isData) {
		differs, err := d.dataDiffers(ctx, sent, live, next)
		if err != nil {
			return d.refused(ctx, item, err)
		}
		if differs {
			fields = append(fields, &deliveryv1.FieldDiff{Pointer: "/data"})
		}
	}
	if len(fields) == 0 {
		d.out.Unchanged++
		return nil
	}
	d.out.Changed++
	d.add(&deliveryv1.ObjectDiff{Change: deliveryv1.Change_CHANGE_UPDATE, Fields: fields[:min(len(fields), maxFields)]}, item.Ref)
	return nil
}

func isData(f *deliveryv1.FieldDiff) bool { return f.GetPointer() == "/data" }

// dataDiffers tells whether an apply changes a Secret, of which no values are read: the API server moves the time of
// Fairlead's fields with every change. The time has whole seconds, so an apply within the second of the last one shows
// by the fields that Fairlead has then, or by those whose values are disputed.
func (d *differ) dataDiffers(ctx context.Context, sent, live, next *unstructured.Unstructured) (bool, error) {
	before, after := ownEntry(live), ownEntry(next)
	if before.at != after.at || !reflect.DeepEqual(before.data, after.data) {
		return true, nil
	}
	disputed, err := d.API.Disputed(ctx, sent)
	return slices.ContainsFunc(disputed, func(field string) bool { return !strings.HasPrefix(field, ".metadata.") }), err
}

// own is what an object says of Fairlead's fields: when they changed last, and which of the data are among them.
type own struct {
	at   string
	data any
}

func ownEntry(obj *unstructured.Unstructured) own {
	for _, entry := range obj.GetManagedFields() {
		if entry.Manager != object.FieldManager || entry.Operation != metav1.ManagedFieldsOperationApply || entry.Subresource != "" || entry.Time == nil {
			continue
		}
		var fields map[string]any
		if entry.FieldsV1 != nil && json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) != nil {
			fields = nil // as of an object that names none
		}
		return own{at: entry.Time.String(), data: fields["f:data"]}
	}
	return own{}
}

func (d *differ) add(one *deliveryv1.ObjectDiff, ref object.Ref) {
	if d.Mask != nil {
		one.Message = d.Mask(one.GetMessage())
	}
	one.Message = bounded(one.GetMessage(), maxMessage) // once it is masked: a secret that is cut is not found
	one.Group, one.Version, one.Kind, one.Namespace, one.Name = ref.Group, ref.Version, ref.Kind, ref.Namespace, ref.Name
	fmt.Fprintf(d.sum, "%q %d\n", ref.Key, one.GetChange())
	size := len(one.GetMessage()) + len(ref.Kind) + len(ref.Namespace) + len(ref.Name) + 64
	for _, f := range one.GetFields() {
		fmt.Fprintf(d.sum, "%q %q %q\n", f.GetPointer(), f.GetLive(), f.GetWanted())
		size += len(f.GetPointer()) + len(f.GetLive()) + len(f.GetWanted()) + len(f.GetManager()) + 16
	}
	if len(d.out.GetObjects()) == maxObjects && !d.makeRoom(one) {
		return
	}
	if d.bytes+size > maxBytes {
		one.Fields = nil
		one.Message = cmp.Or(one.GetMessage(), "The diff is too long to show the fields of this object.")
		size = len(one.GetMessage()) + 256
	}
	d.bytes += size
	d.out.Objects = append(d.out.Objects, one)
}

// makeRoom takes an object from a full list for one that is refused: that has to be told, and counted.
func (d *differ) makeRoom(one *deliveryv1.ObjectDiff) bool {
	isRefused := func(o *deliveryv1.ObjectDiff) bool { return o.GetChange() == deliveryv1.Change_CHANGE_REFUSED }
	if !isRefused(one) {
		return false
	}
	for i, o := range slices.Backward(d.out.GetObjects()) {
		if !isRefused(o) {
			d.out.Objects = slices.Delete(d.out.Objects, i, i+1)
			return true
		}
	}
	return false
}
