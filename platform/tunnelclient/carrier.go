package tunnelclient

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"time"

	"connectrpc.com/connect"

	tunnelv1 "fairlead.dev/gen/fairlead/tunnel/v1"
	"fairlead.dev/gen/fairlead/tunnel/v1/tunnelv1connect"
	"fairlead.dev/platform/client"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/mux"
	"fairlead.dev/platform/mux/muxws"
)

// The carriers, by the names that people see.
const (
	CarrierConnect   = "connect"
	CarrierWebSocket = "websocket"
)

const (
	// rememberFor is how long an endpoint whose hub no WebSocket reaches is not asked for one again.
	rememberFor = time.Hour
	// dialLimit bounds the WebSocket's handshake.
	dialLimit = 10 * time.Second
)

// way is over which carrier an endpoint's hub is reached. A WebSocket comes first: it is a plain connection after its
// handshake, which costs both ends half of what HTTP/2's framing does. One goroutine uses it.
type way struct{ connectUntil time.Time }

func (w *way) carrier() string {
	if time.Now().Before(w.connectUntil) {
		return CarrierConnect
	}
	return CarrierWebSocket
}

func (w *way) other() string {
	if w.carrier() == CarrierConnect {
		return CarrierWebSocket
	}
	return CarrierConnect
}

func (w *way) remember(carrier string) {
	if w.connectUntil = (time.Time{}); carrier == CarrierConnect {
		w.connectUntil = time.Now().Add(rememberFor)
	}
}

// passes says whether what an endpoint answered may be over soon: nobody was behind the proxy at that moment.
func passes(err error) bool {
	refused, ok := errors.AsType[*muxws.RefusedError](err)
	return ok && refused.Status >= http.StatusBadGateway && refused.Status <= http.StatusGatewayTimeout
}

// blamesCarrier says whether another carrier could do better after that error: not if the hub has refused in its own
// words, and not if nobody was reached.
func blamesCarrier(err error) bool {
	switch connect.CodeOf(err) {
	case connect.CodeUnauthenticated, connect.CodePermissionDenied, connect.CodeNotFound, connect.CodeResourceExhausted,
		connect.CodeFailedPrecondition, connect.CodeCanceled:
		return false
	default:
	}
	failed, ok := errors.AsType[*net.OpError](err)
	return !ok || failed.Op != "dial"
}

// dialCarrier opens a carrier to an endpoint. release frees what it took, when the session has ended.
func (k *slot) dialCarrier(ctx context.Context, kind string) (c mux.Carrier, release func(), err error) {
	if kind == CarrierWebSocket {
		c, err = k.dialWebSocket(ctx)
		return c, func() {}, err
	}
	tunnels := tunnelv1connect.NewTunnelServiceClient(k.http, k.endpoint,
		append(client.Options(), client.WithToken(k.reach.cfg.Token))...)
	ctx, cancel := context.WithCancel(ctx)
	stream, err := tunnels.Connect(ctx)
	if err != nil {
		cancel()
		return nil, nil, err
	}
	return &carrier{stream: stream, cancel: cancel}, func() { cancel(); _ = stream.CloseResponse() }, nil
}

func (k *slot) dialWebSocket(ctx context.Context) (mux.Carrier, error) {
	token, err := k.reach.cfg.Token.Token(ctx)
	if err != nil {
		return nil, connect.NewError(connect.CodeUnauthenticated, err)
	}
	ctx, cancel := context.WithTimeout(ctx, dialLimit)
	defer cancel()
	header := http.Header{"Authorization": {"Bearer " + token}}
	if more, ok := k.reach.cfg.Token.(identity.HeaderSource); ok {
		if err := more.SetHeader(ctx, token, header); err != nil {
			return nil, connect.NewError(connect.CodeUnauthenticated, err)
		}
	}
	conn, err := muxws.Dial(ctx, k.http, k.endpoint+tunnelv1connect.TunnelServiceConnectProcedure, header)
	if err != nil {
		return nil, inWords(err)
	}
	return webSocket{conn}, nil
}

// webSocket tells of the hub's refusals as a Connect stream does.
type webSocket struct{ *muxws.Conn }

func (w webSocket) Receive() ([]byte, error) {
	batch, err := w.Conn.Receive()
	if err != nil {
		err = inWords(err)
	}
	return batch, err
}

// inWords gives a WebSocket's error the code that a Connect stream's would have, if the hub itself refused.
func inWords(err error) error {
	if closed, ok := errors.AsType[*muxws.CloseError](err); ok && closed.Code > muxws.CodeBase {
		return connect.NewError(connect.Code(closed.Code-muxws.CodeBase), err)
	}
	refused, ok := errors.AsType[*muxws.RefusedError](err)
	if !ok {
		return err
	}
	var told struct {
		Code    connect.Code `json:"code"`
		Message string       `json:"message"`
	}
	switch err := json.Unmarshal([]byte(refused.Text), &told); {
	case err == nil && told.Code != 0: // as the hub refuses calls
		refused.Text = told.Message
	case refused.Status == http.StatusUnauthorized: // by the door before it, or by a proxy that says the same
		told.Code = connect.CodeUnauthenticated
	case refused.Status == http.StatusTooManyRequests:
		told.Code = connect.CodeResourceExhausted
	default:
		return refused
	}
	out := connect.NewError(told.Code, refused)
	if after := refused.Header.Get("Retry-After"); after != "" {
		out.Meta().Set("Retry-After", after)
	}
	return out
}

// carrier is the agent's end of a Connect stream as a mux.Carrier.
type carrier struct {
	stream *connect.BidiStreamForClientSimple[tunnelv1.ConnectRequest, tunnelv1.ConnectResponse]
	cancel context.CancelFunc
}

func (c *carrier) Send(batch []byte) error {
	return c.stream.Send(&tunnelv1.ConnectRequest{Frames: batch})
}

func (c *carrier) Receive() ([]byte, error) {
	msg, err := c.stream.Receive()
	if err != nil {
		return nil, err
	}
	return msg.GetFrames(), nil
}

// Close ends the stream. The end of the context alone does not: HTTP/2 looks at it between two pieces
// of the request's body only, and would wait for the next one.
func (c *carrier) Close() error {
	c.cancel()
	return c.stream.CloseRequest()
}
