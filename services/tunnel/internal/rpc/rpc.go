// Package rpc is the tunnel's Connect service: agents' sessions come in here.
package rpc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"connectrpc.com/connect"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	tunnelv1 "fairlead.dev/gen/fairlead/tunnel/v1"
	"fairlead.dev/gen/fairlead/tunnel/v1/tunnelv1connect"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/mux"
	"fairlead.dev/platform/refusal"
	"fairlead.dev/services/tunnel/internal/directory"
	"fairlead.dev/services/tunnel/internal/session"
)

// Catalog says which clusters there are, and who may see which.
type Catalog interface {
	Ready() error
	Cluster(name string) (*consolev1.Cluster, bool)
	Grants() []*consolev1.Grant
	Roles() []*consolev1.Role
}

// Deps is what the service works with.
type Deps struct {
	Sessions *session.Registry
	Catalog  Catalog
	Peers    Peers
	// Began notes whose session begins, for the alarm about copied tokens.
	Began func(by identity.Identity, at time.Time)
	// Replica is this replica's URL.
	Replica func() string
	// HTTP and Options are those of clients that call other replicas.
	HTTP    connect.HTTPClient
	Options []connect.ClientOption
	Log     *slog.Logger
}

// Peers knows the other replicas.
type Peers interface {
	ID() string
	Draining() bool
	Others() []directory.Peer
	News() <-chan struct{}
}

// NewHandler returns the service's path and handler.
func NewHandler(deps Deps, opts ...connect.HandlerOption) (string, http.Handler) {
	path, h := tunnelv1connect.NewTunnelServiceHandler(&service{deps}, opts...)
	return path, withControl(h)
}

type service struct{ Deps }

// errDraining ends streams when this replica goes away.
var errDraining = errors.New("this replica is going away: ask again")

// Connect implements TunnelServiceHandler.
func (s *service) Connect(ctx context.Context, stream *connect.BidiStream[tunnelv1.ConnectRequest, tunnelv1.ConnectResponse]) error {
	return s.serve(ctx, func() (mux.Carrier, error) { return newCarrier(ctx, stream), nil })
}

// serve runs the caller's session until it ends, and says why in Connect's words. The carrier is opened when nothing
// speaks against a session.
func (s *service) serve(ctx context.Context, open func() (mux.Carrier, error)) *connect.Error {
	cluster, ok := identity.Cluster(ctx)
	if !ok {
		return connect.NewError(connect.CodePermissionDenied, errors.New("sessions are for agents"))
	}
	if err := s.Catalog.Ready(); err != nil {
		return connect.NewError(connect.CodeUnavailable, fmt.Errorf("the tunnel does not know the clusters yet: %w", err))
	}
	if _, known := s.Catalog.Cluster(cluster); !known {
		return connect.NewError(connect.CodeNotFound, fmt.Errorf("cluster %q is not in the catalog", cluster))
	}
	caller, _ := identity.FromContext(ctx) // Cluster has seen it
	s.Began(caller, time.Now())
	return codeOf(ctx, s.Sessions.Serve(ctx, cluster, open))
}

func codeOf(ctx context.Context, err error) *connect.Error {
	var protocol *mux.ProtocolError
	var version *mux.VersionError
	var busy *refusal.Error
	switch {
	case errors.As(err, &busy):
		told := connect.NewError(busy.Reason.Code(), err)
		told.Meta().Set("Retry-After", strconv.Itoa(int(busy.RetryAfter.Seconds())))
		return told
	case ctx.Err() != nil:
		return connect.NewError(connect.CodeUnavailable, context.Cause(ctx))
	case errors.As(err, &protocol):
		return connect.NewError(connect.CodeInvalidArgument, err)
	case errors.As(err, &version):
		return connect.NewError(connect.CodeFailedPrecondition, err)
	default:
		return connect.NewError(connect.CodeUnavailable, err)
	}
}

type controlKey struct{}

// withControl gives handlers the means to end a Receive that waits.
func withControl(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := context.WithValue(r.Context(), controlKey{}, http.NewResponseController(w))
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// lastWords is what a closed carrier has for the error that ends the stream.
const lastWords = time.Second

// carrier is the hub's end of a Connect stream as a mux.Carrier.
type carrier struct {
	stream  *connect.BidiStream[tunnelv1.ConnectRequest, tunnelv1.ConnectResponse]
	control *http.ResponseController
}

func newCarrier(ctx context.Context, stream *connect.BidiStream[tunnelv1.ConnectRequest, tunnelv1.ConnectResponse]) *carrier {
	control, _ := ctx.Value(controlKey{}).(*http.ResponseController)
	return &carrier{stream: stream, control: control}
}

func (c *carrier) Send(batch []byte) error {
	return c.stream.Send(&tunnelv1.ConnectResponse{Frames: batch})
}

func (c *carrier) Receive() ([]byte, error) {
	msg, err := c.stream.Receive()
	if err != nil {
		return nil, err
	}
	return msg.GetFrames(), nil
}

func (c *carrier) Close() error {
	if c.control == nil {
		return errors.New("close carrier: the connection has no deadlines")
	}
	return errors.Join(c.control.SetReadDeadline(time.Now()), c.control.SetWriteDeadline(time.Now().Add(lastWords)))
}
