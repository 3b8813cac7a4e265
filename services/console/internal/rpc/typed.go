package rpc

import (
	"context"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"fairlead.dev/services/console/internal/catalog"
)

// listRequest is what all list requests have in common.
type listRequest interface {
	GetPageSize() int32
	GetPageToken() string
	GetFilter() string
	GetOrderBy() string
	GetReadMask() *fieldmaskpb.FieldMask
}

// getTyped reads one resource and tells it as show does.
func getTyped[S any, M proto.Message](ctx context.Context, d Deps, t catalog.Type[S], name string, show func(context.Context, []catalog.Resource[S]) ([]M, error)) (out M, err error) {
	found, err := catalog.Get(ctx, d.Catalog, t, name)
	if err != nil {
		return out, d.fail(ctx, err)
	}
	shown, err := show(ctx, []catalog.Resource[S]{found})
	if err != nil {
		return out, d.fail(ctx, err)
	}
	return shown[0], nil
}

// listTyped reads a page of resources, tells them as show does, and returns the token of the next page.
func listTyped[S any, M proto.Message](ctx context.Context, d Deps, t catalog.Type[S], req listRequest, show func(context.Context, []catalog.Resource[S]) ([]M, error)) ([]M, string, error) {
	found, next, err := catalog.List(ctx, d.Catalog, t, page(req))
	if err != nil {
		return nil, "", d.fail(ctx, err)
	}
	shown, err := show(ctx, found)
	if err != nil {
		return nil, "", d.fail(ctx, err)
	}
	out, err := masked(req, shown)
	return out, next, err
}
