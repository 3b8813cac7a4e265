package reach

import (
	"context"

	"connectrpc.com/connect"

	tunnelv1 "fairlead.dev/gen/fairlead/tunnel/v1"
)

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
