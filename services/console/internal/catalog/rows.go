package catalog

import (
	"context"
	"encoding/json"
	"fmt"

	"fairlead.dev/services/console/internal/state"
	"fairlead.dev/services/console/internal/store"
	"fairlead.dev/services/console/internal/store/places"
)

// Rows returns all resources of a kind, seen by the caller or not: for what follows from all of them.
func (c *Catalog) Rows(ctx context.Context, kind store.Kind) (out []store.Resource, err error) {
	err = c.store.Read(ctx, func(ctx context.Context, v store.View) error {
		out, err = AllRows(ctx, v, kind)
		return err
	})
	return out, err
}

// AllRows is Rows within a transaction.
func AllRows(ctx context.Context, v store.View, kind store.Kind) (out []store.Resource, err error) {
	for after := ""; ; after = out[len(out)-1].Name {
		rows, err := v.List(ctx, kind, after, maxPageSize)
		if err != nil {
			return nil, err
		}
		if out = append(out, rows...); len(rows) < maxPageSize {
			return out, nil
		}
	}
}

// AlertStates are what alerts have found, by uid.
func (c *Catalog) AlertStates(ctx context.Context) (out map[string]store.AlertState, err error) {
	err = c.store.Read(ctx, func(ctx context.Context, v store.View) error {
		out, err = v.AlertStates(ctx)
		return err
	})
	return out, err
}

// Named are the resources of a kind that have these names, by name, whoever may see them.
func (c *Catalog) Named(ctx context.Context, kind store.Kind, names []string) (out map[string]store.Resource, err error) {
	if len(names) == 0 {
		return nil, nil
	}
	err = c.store.Read(ctx, func(ctx context.Context, v store.View) error {
		out, err = v.Named(ctx, kind, names)
		return err
	})
	return out, err
}

// Visible are those of the names of a kind that the caller sees; all: the caller sees all that there may be.
func (c *Catalog) Visible(ctx context.Context, kind store.Kind, names []string) (sees map[string]bool, all bool, err error) {
	may, err := c.guard.Sees(ctx)
	if err != nil {
		return nil, false, err
	}
	var rows map[string]store.Resource
	err = c.store.Read(ctx, func(ctx context.Context, v store.View) error {
		rows, err = v.Named(ctx, kind, names)
		return err
	})
	sees = make(map[string]bool, len(rows))
	for name, r := range rows {
		sees[name] = may == nil || may(r)
	}
	return sees, SeesAllOf(kind, may), err
}

// SeesAllOf says whether a caller sees all that there may be of a kind, by what Sees returned.
func SeesAllOf(kind store.Kind, sees func(store.Resource) bool) bool {
	return sees == nil || sees(store.Resource{Kind: kind, Spec: []byte("{}")})
}

// Readings say how backends are read, by uid.
func (c *Catalog) Readings(ctx context.Context, uids []string) (out map[string]places.Reading, err error) {
	err = c.store.Read(ctx, func(ctx context.Context, v store.View) error {
		out, err = v.Readings(ctx, uids)
		return err
	})
	return out, err
}

// CountServices says how many services that the caller in ctx sees name each of these resources.
func (c *Catalog) CountServices(ctx context.Context, kind store.Kind, names []string) (counts map[string]int, err error) {
	sees, err := c.guard.Sees(ctx)
	if err != nil {
		return nil, err
	}
	if SeesAllOf(store.KindService, sees) {
		err = c.store.Read(ctx, func(ctx context.Context, v store.View) error {
			counts, err = v.CountReferrers(ctx, store.KindService, kind, names)
			return err
		})
		return counts, err
	}
	var shares []store.Share
	err = c.store.Read(ctx, func(ctx context.Context, v store.View) error {
		shares, err = v.Shares(ctx, kind, names)
		return err
	})
	if err != nil {
		return nil, err
	}
	counts = map[string]int{}
	for _, s := range shares {
		spec, err := json.Marshal(state.ServiceSpec{Project: s.Project, Cluster: s.Cluster})
		if err != nil {
			return nil, fmt.Errorf("encode a service of project %q: %w", s.Project, err)
		}
		if sees(store.Resource{Kind: store.KindService, Spec: spec}) {
			counts[s.Name] += s.Services
		}
	}
	return counts, nil
}

// Sendings say how events are sent to sinks, by uid.
func (c *Catalog) Sendings(ctx context.Context) (out map[string]store.Sending, err error) {
	err = c.store.Read(ctx, func(ctx context.Context, v store.View) error {
		out, err = v.Sendings(ctx)
		return err
	})
	return out, err
}
