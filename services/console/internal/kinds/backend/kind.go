// Package backend is the kind Backend: where values of configuration are read from.
package backend

import (
	"context"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/descriptor"
	"fairlead.dev/services/console/internal/resource"
)

// Kind describes the kind.
func Kind() descriptor.Of[resource.Backend, *consolev1.Backend] {
	d := descriptor.Plainly(resource.Backends(), descriptor.Always(decode), encode)
	d.Show, d.Policy = show, policy()
	return d
}

// show encodes backends with their statuses.
func show(ctx context.Context, c *catalog.Catalog, list []resource.Backend) ([]*consolev1.Backend, error) {
	uids := make([]string, len(list))
	for i, b := range list {
		uids[i] = b.Meta.UID
	}
	readings, err := c.Readings(ctx, uids)
	out := make([]*consolev1.Backend, len(list))
	for i, b := range list {
		of := readings[b.Meta.UID]
		out[i] = encode(b)
		out[i].Status = &consolev1.BackendStatus{ReadTime: descriptor.Stamp(of.ReadTime)}
		if of.Problem != "" {
			out[i].Status.Problem = &consolev1.Problem{Message: of.Problem, Since: descriptor.Stamp(of.ProblemTime)}
		}
	}
	return out, err
}
