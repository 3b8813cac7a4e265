package catalog

import (
	"context"

	"fairlead.dev/services/console/internal/state"
	"fairlead.dev/services/console/internal/store"
)

// Resource is one of a kind that has no status of its own.
type Resource[S any] struct {
	Meta state.Meta
	Spec S
}

// Type is such a kind.
type Type[S any] struct {
	Kind store.Kind
	// Check says what is wrong, and brings the rest into the form that is stored. nil: nothing can be.
	Check func(*Resource[S]) error
	// Refs are the resources that it names. nil: none.
	Refs func(S) []Reference
}

// Draft gets a resource ready to be written.
func (t Type[S]) Draft(in Resource[S], want Expectation) (Edit, error) {
	if !dnsLabel.MatchString(in.Meta.Name) {
		return Edit{}, badName(in.Meta.Name)
	}
	if t.Check != nil {
		if err := t.Check(&in); err != nil {
			return Edit{}, err
		}
	}
	e := Edit{draft: store.Draft{Kind: t.Kind, Name: in.Meta.Name, Labels: in.Meta.Labels}, spec: in.Spec, want: want}
	if t.Refs != nil {
		e = e.naming(t.Refs(in.Spec))
	}
	return e, nil
}

// Decode reads what is stored.
func (t Type[S]) Decode(r store.Resource) (out Resource[S], err error) {
	out.Meta = state.MetaOf(r)
	err = state.Decode(r, &out.Spec)
	return out, err
}

// Load reads resources.
func (t Type[S]) Load(_ context.Context, _ store.View, rows []store.Resource) ([]Resource[S], error) {
	out := make([]Resource[S], len(rows))
	for i, r := range rows {
		var err error
		if out[i], err = t.Decode(r); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Put writes a resource.
func Put[S any](ctx context.Context, c *Catalog, by By, t Type[S], in Resource[S], want Expectation) (Resource[S], Outcome, error) {
	e, err := t.Draft(in, want)
	if err != nil {
		return Resource[S]{}, "", err
	}
	return PutOne(ctx, c, by, e, t.Load)
}
