// Package descriptor says what the console knows of a kind of resources, as one value. The engines (apply, diff,
// history, undelete, the index of live lists, streams, followers) walk a Table of these and know no kind by name.
package descriptor

import (
	"context"
	"fmt"
	"slices"

	"google.golang.org/protobuf/reflect/protoreflect"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/kind"
	"fairlead.dev/platform/server"
	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/resource"
	"fairlead.dev/services/console/internal/state"
	"fairlead.dev/services/console/internal/store"
)

// Message is a resource of any kind.
type Message = kind.Message

// Of is all that the console knows of a kind: T is its resource, as catalog has it, and M its message. Fields that may
// be nil say so.
type Of[T any, M Message] struct {
	Kind store.Kind
	// Decode reads what a person wrote.
	Decode func(M) (T, error)
	// Encode makes the message. Values of secrets are in none.
	Encode func(T) M
	// Draft checks a resource, and gets it ready to be written.
	Draft func(*catalog.Catalog, T, catalog.Expectation) (catalog.Edit, error)
	// Fixed says that a message is a resource that is always there, as it is: to write it changes nothing. nil: no
	// resource of the kind is always there.
	Fixed func(M) bool
	// Read makes a resource of what is stored, without a status.
	Read func(store.Resource) (T, error)
	// Load reads resources with the statuses that lists can be filtered by. nil: Read does.
	Load func(state.Loader, context.Context, store.View, []store.Resource) ([]T, error)
	// Show encodes resources with the rest of their statuses. nil: Encode does.
	Show func(context.Context, *catalog.Catalog, []T) ([]M, error)
	// Personal says that Show depends on the caller. Streams encode a resource once for all callers: they leave such a
	// status out.
	Personal bool
	// Mask puts marks where values of secrets are in a message of Encode, others for those that are not the ones of
	// before. nil: there are none.
	Mask func(c *catalog.Catalog, m M, before, after *store.Resource) error
	// Follow is what hub services are told of a change. nil: they are not told of the kind.
	Follow func(store.Change) (M, error)
	// Mount serves the kind's API; nil: package rpc mounts it, with what it works with besides a Door. Policy says who
	// may call.
	Mount  func(Door) server.Mount
	Policy identity.Policy
}

// Any is a descriptor of any kind.
type Any interface {
	Of() kind.Kind
	Stored() store.Kind
	// Drafted gets a message ready to be written.
	Drafted(c *catalog.Catalog, m Message) (catalog.Edit, error)
	// IsFixed says that a message is a resource that is always there, as it is.
	IsFixed(m Message) bool
	// Written is what a person writes down of a resource, with secret values masked: those that are not of before say
	// so.
	Written(c *catalog.Catalog, before, r *store.Resource) (Message, error)
	// Plain is what is written, with nothing in the place of secret values.
	Plain(r store.Resource) (Message, error)
	// Loaded reads resources, each as the kind has it, for Shown.
	Loaded(ctx context.Context, by state.Loader, v store.View, rows []store.Resource) ([]any, error)
	// Shown encodes what Loaded returned.
	Shown(ctx context.Context, c *catalog.Catalog, loaded []any) ([]Message, error)
	// Shared encodes what Loaded returned, for whoever may see the resources.
	Shared(ctx context.Context, c *catalog.Catalog, loaded []any) ([]Message, error)
	// Together says that Shown asks the database, once for all that it is given.
	Together() bool
	// Follows says whether hub services are told of the kind, and Followed what they are told of a change.
	Follows() bool
	Followed(c store.Change) (Message, error)
	// Serves is the kind's API, nil if package rpc serves it, and its policy.
	Serves() (func(Door) server.Mount, identity.Policy)
}

var _ Any = Of[any, Message]{}

// Plainly describes a kind that has no status: reading, checking and drafting are those of its type.
func Plainly[S any, M Message](t resource.Type[S], decode func(M) (resource.Of[S], error), encode func(resource.Of[S]) M) Of[resource.Of[S], M] {
	return Of[resource.Of[S], M]{
		Kind: t.Kind, Decode: decode, Encode: encode, Read: t.Decode,
		Draft: func(_ *catalog.Catalog, in resource.Of[S], want catalog.Expectation) (catalog.Edit, error) {
			return catalog.Draft(t, in, want)
		},
	}
}

// Always makes a decoder of one that refuses nothing.
func Always[T, M any](decode func(M) T) func(M) (T, error) {
	return func(m M) (T, error) { return decode(m), nil }
}

// DraftBy drafts by a function that needs no catalog.
func DraftBy[T any](
	draft func(*T, catalog.Expectation) (catalog.Edit, error),
) func(*catalog.Catalog, T, catalog.Expectation) (catalog.Edit, error) {
	return func(_ *catalog.Catalog, in T, want catalog.Expectation) (catalog.Edit, error) {
		return draft(&in, want)
	}
}

// MaskBy masks secret settings, of which the catalog says which changed.
func MaskBy[M any](mask func(m M, changed map[string]bool)) func(*catalog.Catalog, M, *store.Resource, *store.Resource) error {
	return func(c *catalog.Catalog, m M, before, after *store.Resource) error {
		changed, err := c.ChangedSettings(before, after)
		if err == nil {
			mask(m, changed)
		}
		return err
	}
}

// Stored is the name of the kind in the store.
func (d Of[T, M]) Stored() store.Kind { return d.Kind }

// Of is the kind in the table of the suite.
func (d Of[T, M]) Of() kind.Kind {
	k, ok := kind.Named(string(d.Kind))
	if !ok {
		panic(fmt.Sprintf("kind %q: Resource in proto/ has no field for it", d.Kind)) // a test sees to it
	}
	return k
}

// Drafted implements Any.
func (d Of[T, M]) Drafted(c *catalog.Catalog, m Message) (catalog.Edit, error) {
	in, err := d.Decode(m.(M)) //nolint:forcetypeassert // the table is asked by the kind of the message
	if err != nil {
		return catalog.Edit{}, err
	}
	return d.Draft(c, in, catalog.Expectation{ETag: m.GetMetadata().GetEtag(), AllowMissing: true})
}

// IsFixed implements Any.
func (d Of[T, M]) IsFixed(m Message) bool {
	return d.Fixed != nil && d.Fixed(m.(M)) //nolint:forcetypeassert // the table is asked by the kind of the message
}

// Plain implements Any.
func (d Of[T, M]) Plain(r store.Resource) (Message, error) {
	m, err := d.plain(r)
	return m, err
}

func (d Of[T, M]) plain(r store.Resource) (M, error) {
	in, err := d.Read(r)
	if err != nil {
		var none M
		return none, err
	}
	m := d.Encode(in)
	onlyWritten(m, r)
	return m, nil
}

// onlyWritten leaves what a person writes: metadata.name and labels, and spec or data.
func onlyWritten(m Message, r store.Resource) {
	of := m.ProtoReflect()
	of.Range(func(fd protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
		if !slices.Contains([]protoreflect.Name{"spec", "data"}, fd.Name()) {
			of.Clear(fd)
		}
		return true
	})
	head := &consolev1.Metadata{Name: r.Name, Labels: r.Labels}
	of.Set(of.Descriptor().Fields().ByName("metadata"), protoreflect.ValueOfMessage(head.ProtoReflect()))
}

// Written implements Any.
func (d Of[T, M]) Written(c *catalog.Catalog, before, r *store.Resource) (Message, error) {
	m, err := d.plain(*r)
	if err == nil && d.Mask != nil {
		err = d.Mask(c, m, before, r)
	}
	return m, err
}

// Loaded implements Any.
func (d Of[T, M]) Loaded(ctx context.Context, by state.Loader, v store.View, rows []store.Resource) ([]any, error) {
	list, err := d.load(ctx, by, v, rows)
	if err != nil {
		return nil, err
	}
	out := make([]any, len(list))
	for i := range list {
		out[i] = list[i]
	}
	return out, nil
}

func (d Of[T, M]) load(ctx context.Context, by state.Loader, v store.View, rows []store.Resource) ([]T, error) {
	if d.Load != nil {
		return d.Load(by, ctx, v, rows)
	}
	out := make([]T, len(rows))
	for i, r := range rows {
		var err error
		if out[i], err = d.Read(r); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Shown implements Any.
func (d Of[T, M]) Shown(ctx context.Context, c *catalog.Catalog, loaded []any) ([]Message, error) {
	list := make([]T, len(loaded))
	for i := range loaded {
		list[i] = loaded[i].(T) //nolint:forcetypeassert // Loaded returned it
	}
	shown, err := d.show(ctx, c, list)
	out := make([]Message, len(shown))
	for i, m := range shown {
		out[i] = m
	}
	return out, err
}

func (d Of[T, M]) show(ctx context.Context, c *catalog.Catalog, list []T) ([]M, error) {
	if d.Show != nil {
		return d.Show(ctx, c, list)
	}
	out := make([]M, len(list))
	for i, in := range list {
		out[i] = d.Encode(in)
	}
	return out, nil
}

// Shared implements Any.
func (d Of[T, M]) Shared(ctx context.Context, c *catalog.Catalog, loaded []any) ([]Message, error) {
	if d.Personal {
		d.Show = nil
	}
	return d.Shown(ctx, c, loaded)
}

// Follows implements Any.
func (d Of[T, M]) Follows() bool { return d.Follow != nil }

// Followed implements Any.
func (d Of[T, M]) Followed(c store.Change) (Message, error) { return d.Follow(c) }

// Together implements Any.
func (d Of[T, M]) Together() bool { return d.Show != nil }

// Serves implements Any.
func (d Of[T, M]) Serves() (func(Door) server.Mount, identity.Policy) { return d.Mount, d.Policy }

// Table is the descriptors of all kinds.
type Table []Any

// Stored returns the descriptor of a kind; nil: there is none.
func (t Table) Stored(k store.Kind) Any {
	if i := slices.IndexFunc(t, func(d Any) bool { return d.Stored() == k }); i >= 0 {
		return t[i]
	}
	return nil
}

// Load reads resources of a kind with their statuses, each as its kind has it; nil: the kind is not known.
func (t Table) Load(ctx context.Context, by state.Loader, v store.View, k store.Kind, rows []store.Resource) ([]any, error) {
	d := t.Stored(k)
	if d == nil {
		return nil, nil
	}
	return d.Loaded(ctx, by, v, rows)
}
