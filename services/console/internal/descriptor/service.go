package descriptor

import (
	"context"

	"google.golang.org/protobuf/types/known/fieldmaskpb"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/store"
)

// Door is what the API of a kind works with.
type Door struct {
	Catalog *catalog.Catalog
	// By is who calls.
	By func(context.Context) catalog.By
	// Fail maps an error to one of the API, and logs it if nobody expected it.
	Fail func(context.Context, error) error
}

// Service has the bodies of the calls that each kind has.
type Service[T any, M Message] struct {
	Of[T, M]
	Door
}

// Get returns a resource as people see it.
func (s Service[T, M]) Get(ctx context.Context, req interface{ GetName() string }) (m M, err error) {
	found, err := catalog.Get(ctx, s.Catalog, s.Kind, req.GetName(), s.loadRows)
	if err != nil {
		return m, s.Fail(ctx, err)
	}
	shown, err := s.show(ctx, s.Catalog, []T{found})
	if err != nil {
		return m, s.Fail(ctx, err)
	}
	return shown[0], nil
}

// ListRequest is what all requests for lists have in common.
type ListRequest interface {
	GetPageSize() int32
	GetPageToken() string
	GetFilter() string
	GetOrderBy() string
	GetReadMask() *fieldmaskpb.FieldMask
}

// PageOf is the page that a request asks for.
func PageOf(req ListRequest) catalog.Page {
	return catalog.Page{Size: int(req.GetPageSize()), Token: req.GetPageToken(), Filter: req.GetFilter(), Order: req.GetOrderBy()}
}

// List returns a page of resources as people see them, and the token of the next page.
func (s Service[T, M]) List(ctx context.Context, req ListRequest) ([]M, string, error) {
	found, next, err := catalog.List(ctx, s.Catalog, s.Kind, PageOf(req), s.loadRows)
	if err != nil {
		return nil, "", s.Fail(ctx, err)
	}
	shown, err := s.show(ctx, s.Catalog, found)
	if err != nil {
		return nil, "", s.Fail(ctx, err)
	}
	out, err := Masked(req, shown)
	return out, next, err
}

// Update writes a resource.
func (s Service[T, M]) Update(ctx context.Context, m M, req interface{ GetAllowMissing() bool }) (out M, outcome consolev1.Outcome, err error) {
	in, err := s.Decode(m)
	if err != nil {
		return out, outcome, s.Fail(ctx, err)
	}
	e, err := s.Draft(s.Catalog, in, catalog.Expectation{ETag: m.GetMetadata().GetEtag(), AllowMissing: req.GetAllowMissing()})
	if err != nil {
		return out, outcome, s.Fail(ctx, err)
	}
	written, became, err := catalog.PutOne(ctx, s.Catalog, s.By(ctx), e, s.loadRows)
	if err != nil {
		return out, outcome, s.Fail(ctx, err)
	}
	return s.Encode(written), Outcome(became), nil
}

// Delete deletes a resource.
func (s Service[T, M]) Delete(ctx context.Context, req interface {
	GetName() string
	GetEtag() string
},
) error {
	if err := catalog.Drop(ctx, s.Catalog, s.By(ctx), s.Kind, req.GetName(), req.GetEtag()); err != nil {
		return s.Fail(ctx, err)
	}
	return nil
}

func (s Service[T, M]) loadRows(ctx context.Context, v store.View, rows []store.Resource) ([]T, error) {
	return s.load(ctx, s.Catalog.Loader, v, rows)
}

// Outcome is what became of an update, as the API has it.
func Outcome(o catalog.Outcome) consolev1.Outcome {
	switch o {
	case catalog.Created:
		return consolev1.Outcome_OUTCOME_CREATED
	case catalog.Updated:
		return consolev1.Outcome_OUTCOME_UPDATED
	case catalog.Unchanged:
		return consolev1.Outcome_OUTCOME_UNCHANGED
	}
	return consolev1.Outcome_OUTCOME_UNSPECIFIED
}
