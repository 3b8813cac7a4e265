package app

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"time"

	"connectrpc.com/connect"

	"fairlead.dev/cli/internal/hubclient"
	"fairlead.dev/platform/retry"
)

// maxOutagePause bounds a pause of an Outage: a person waits.
const maxOutagePause = 5 * time.Second

// Outage is how a command goes on while the hub gives no answer, as while its console restarts: the command asks again
// after growing pauses, and says so once.
type Outage struct {
	app    *App
	pauses retry.Backoff
	// isSaid: the person has read that the hub is asked again.
	isSaid bool
}

// NewOutage returns an Outage that has not begun.
func (a *App) NewOutage() *Outage {
	return &Outage{app: a, pauses: retry.Backoff{Floor: WaitPause, Max: maxOutagePause}}
}

// WaitOut pauses after an error, and reports whether to ask again: not after an error that another try would meet, too,
// and not when ctx is over.
func (o *Outage) WaitOut(ctx context.Context, err error) bool {
	if ctx.Err() != nil || !isOutage(err) {
		return false
	}
	if !o.isSaid {
		o.isSaid = true
		o.app.Notef("the hub is asked again: %v\n", err)
	}
	return retry.Sleep(ctx, o.pauses.After(err))
}

// End says that the hub has answered.
func (o *Outage) End() {
	o.isSaid = false
	o.pauses.Reset()
}

// isOutage reports whether the hub may answer in a moment. An error that the hub itself did not send is of the way
// there; a certificate or a host name that is wrong stays wrong.
func isOutage(err error) bool {
	if _, ok := errors.AsType[*connect.Error](err); !ok {
		return false
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return false
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok && dns.IsNotFound {
		return false
	}
	switch connect.CodeOf(err) {
	case connect.CodeUnavailable, connect.CodeDeadlineExceeded:
		return true
	case connect.CodeUnknown, connect.CodeInternal: // a connection that broke in the middle of an answer
		return !connect.IsWireError(err)
	}
	return false
}

// errStreamEnded is of a stream that the hub ended without a word.
var errStreamEnded = connect.NewWireError(connect.CodeUnavailable, errors.New("the hub has ended the stream"))

// FollowStream calls take with each message of a stream until the person has seen enough. A stream that has begun and
// breaks is opened again: take keeps in req from where.
func FollowStream[Req, M any](ctx context.Context, a *App, h *hubclient.Hub,
	open func(context.Context, *Req) (*connect.ServerStreamForClient[M], error), req *Req, take func(*M) error,
) error {
	begun := false
	for outage := a.NewOutage(); ; {
		stream, err := open(ctx, req)
		if err == nil {
			for stream.Receive() {
				begun = true
				outage.End()
				if err := take(stream.Msg()); err != nil {
					_ = stream.Close() // the error of take is the one
					return err
				}
			}
			if err = stream.Err(); err == nil {
				err = errStreamEnded
			}
			_ = stream.Close() // it is over
		}
		if err = h.ExplainError(err); begun && outage.WaitOut(ctx, err) {
			continue
		}
		if ctx.Err() != nil {
			return nil //nolint:nilerr // interrupted, as it is meant to end
		}
		return err
	}
}
