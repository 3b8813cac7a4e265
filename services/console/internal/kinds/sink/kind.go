// Package sink is the kind Sink: where events are sent to.
package sink

import (
	"context"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/descriptor"
	"fairlead.dev/services/console/internal/resource"
)

// Kind describes the kind.
func Kind() descriptor.Of[resource.Sink, *consolev1.Sink] {
	d := descriptor.Plainly(resource.Sinks(), descriptor.Always(decode), encode)
	d.Show, d.Policy = show, policy()
	d.Mask = descriptor.MaskBy(func(m *consolev1.Sink, changed map[string]bool) { mask(m.GetSpec(), changed) })
	return d
}

// show encodes sinks with their statuses.
func show(ctx context.Context, c *catalog.Catalog, list []resource.Sink) ([]*consolev1.Sink, error) {
	sendings, err := c.Sendings(ctx)
	out := make([]*consolev1.Sink, len(list))
	for i, in := range list {
		of := sendings[in.Meta.UID]
		status := &consolev1.SinkStatus{SendTime: descriptor.Stamp(of.SendTime), Waiting: int64(of.Waiting), Dropped: of.Dropped, Sent: of.Sent}
		if of.Problem != "" {
			status.Problem = &consolev1.Problem{Message: of.Problem, Since: descriptor.Stamp(of.ProblemTime)}
			if of.Waiting > 0 {
				status.RetryTime = descriptor.Stamp(of.Next)
			}
		}
		out[i] = encode(in)
		out[i].Status = status
	}
	return out, err
}
