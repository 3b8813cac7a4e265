package rpc

import (
	"context"
	"errors"
	"fmt"
	"time"

	"connectrpc.com/connect"

	"fairlead.dev/services/distributor/internal/plan"
	"fairlead.dev/services/distributor/internal/status"
)

// toConnect maps the plan's errors. In every case the agent keeps what it has.
func toConnect(err error, cluster string) error {
	switch {
	case errors.Is(err, plan.ErrNotReady):
		return connect.NewError(connect.CodeUnavailable, errors.New("the catalog is not loaded yet: keep what you have and ask again"))
	case errors.Is(err, plan.ErrUnknownCluster):
		return connect.NewError(connect.CodeNotFound,
			fmt.Errorf("cluster %q is not in the catalog: what is applied stays. Create the cluster again, or remove its agent", cluster))
	}
	return err
}

// reportError says of every failure that repeating helps, but for reports that the console refuses. pause is when those
// that were too many may come again.
func reportError(err error, pause func() time.Duration) error {
	code := connect.CodeOf(err)
	switch {
	case errors.Is(err, status.ErrBusy):
		return errTooMany(pause())
	case errors.Is(err, context.Canceled), code == connect.CodeInvalidArgument, code == connect.CodeResourceExhausted:
		return err
	}
	return connect.NewError(connect.CodeUnavailable,
		errors.New("the reports are not durable yet: the console does not take them right now. Report again later"))
}
