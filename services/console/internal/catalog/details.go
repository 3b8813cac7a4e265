package catalog

import (
	"context"
	"time"

	"fairlead.dev/platform/refusal"
	"fairlead.dev/services/console/internal/resource"
	"fairlead.dev/services/console/internal/state"
	"fairlead.dev/services/console/internal/store"
	"fairlead.dev/services/console/internal/store/shown"
)

// ServiceDetail is a service with a long list that its agent handed over.
type ServiceDetail struct {
	Service state.Service
	Detail  shown.Detail
	// Connected and LastSeen are of the cluster: how far the list can be trusted.
	Connected bool
	LastSeen  time.Time
}

// Detail returns what is kept of one kind about a service; no Data: nothing.
func (c *Catalog) Detail(ctx context.Context, kind shown.DetailKind, name string) (ServiceDetail, error) {
	if !resource.IsName(name) {
		return ServiceDetail{}, refusal.Missing(store.KindService, name)
	}
	var of store.Resource
	list, err := c.details(ctx, kind, func(ctx context.Context, v store.View) ([]store.Resource, error) {
		rows, err := v.Named(ctx, store.KindService, []string{name})
		if r, ok := rows[name]; ok {
			of = r
			return []store.Resource{r}, err
		} else if err != nil {
			return nil, err
		}
		return nil, store.ErrNotFound
	})
	if err = c.shown(ctx, store.Ref{Kind: store.KindService, Name: name}, of, err); err != nil {
		return ServiceDetail{}, err
	}
	return list[0], nil
}

// Details returns what is kept about services, in the order of names, from the one after a name on. Fewer than limit:
// these are the last.
func (c *Catalog) Details(ctx context.Context, kind shown.DetailKind, after string, limit int) ([]ServiceDetail, error) {
	sees, err := c.guard.Sees(ctx)
	if err != nil {
		return nil, err
	}
	return c.details(ctx, kind, func(ctx context.Context, v store.View) ([]store.Resource, error) {
		return visible(ctx, v, store.KindService, after, limit, sees)
	})
}

func (c *Catalog) details(ctx context.Context, kind shown.DetailKind,
	find func(context.Context, store.View) ([]store.Resource, error),
) (out []ServiceDetail, err error) {
	err = c.store.Read(ctx, func(ctx context.Context, v store.View) error {
		rows, err := find(ctx, v)
		if err != nil {
			return err
		}
		services, err := c.Services(ctx, v, rows)
		if err != nil {
			return err
		}
		kept, err := v.Details(ctx, kind, state.UIDsOf(rows))
		if err != nil {
			return err
		}
		names := map[string]bool{}
		for _, s := range services {
			names[s.Spec.Cluster] = true
		}
		clusters, err := state.LoadNamed(ctx, v, store.KindCluster, names, c.Clusters)
		if err != nil {
			return err
		}
		out = make([]ServiceDetail, len(services))
		for i, s := range services {
			status := clusters[s.Spec.Cluster].Status
			out[i] = ServiceDetail{Service: s, Detail: kept[s.Meta.UID], Connected: status.Connected, LastSeen: status.LastSeen}
		}
		return nil
	})
	return out, err
}
