package rpc

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/identity"
)

// Bounds of the details that are on their way to the console: they are large and never urgent, and must not hold up
// reports.
const (
	detailsAtOnce, detailsWaiting = 4, 256
	maxDetailBytes                = 64 << 20
	detailTimeout                 = 20 * time.Second
)

// DetailKeeper makes details durable: the console.
type DetailKeeper interface {
	RecordDetails(context.Context, *consolev1.RecordDetailsRequest) (*consolev1.RecordDetailsResponse, error)
}

// Details implements DetailService.
type Details struct {
	console DetailKeeper
	turns   *class
	away    func()
	bytes   atomic.Int64 // of what waits
}

// NewDetails returns the handler. away counts the calls that are turned away.
func NewDetails(c DetailKeeper, away func()) *Details {
	return &Details{console: c, turns: newClass(detailsAtOnce, detailsWaiting, 0, away), away: away}
}

// ReportDetails implements DetailService.
func (d *Details) ReportDetails(ctx context.Context, req *deliveryv1.ReportDetailsRequest) (*deliveryv1.ReportDetailsResponse, error) {
	cluster, ok := identity.Cluster(ctx)
	if !ok {
		return nil, errNoAgent
	}
	size := int64(proto.Size(req))
	defer d.bytes.Add(-size)
	if d.bytes.Add(size) > maxDetailBytes {
		d.away()
		return nil, errTooMany(d.turns.pause())
	}
	if err := d.turns.enter(ctx); err != nil {
		return nil, err
	}
	defer d.turns.leave()
	ctx, cancel := context.WithTimeout(ctx, detailTimeout)
	defer cancel()
	_, err := d.console.RecordDetails(ctx, &consolev1.RecordDetailsRequest{Cluster: cluster, Detail: req.GetDetail()})
	switch code := connect.CodeOf(err); {
	case err == nil:
		return &deliveryv1.ReportDetailsResponse{}, nil
	case errors.Is(err, context.Canceled), code == connect.CodeInvalidArgument, code == connect.CodeResourceExhausted:
		return nil, err
	}
	return nil, connect.NewError(connect.CodeUnavailable,
		errors.New("the details are not durable yet: the console does not take them right now. Report again later"))
}
