package rpc

import (
	"net/http"

	"connectrpc.com/connect"

	"fairlead.dev/gen/fairlead/tunnel/v1/tunnelv1connect"
	"fairlead.dev/platform/mux"
	"fairlead.dev/platform/mux/muxws"
)

// WebSocketPattern is where agents ask for a WebSocket: at the procedure that they would call over HTTP/2.
const WebSocketPattern = http.MethodGet + " " + tunnelv1connect.TunnelServiceConnectProcedure

// NewWebSocket returns the handler of sessions over WebSockets. A refused session gets the answer that a call of
// Connect's would get, with Retry-After where it has one; one that ends later a close frame.
func NewWebSocket(deps Deps) http.Handler {
	s := &service{deps}
	var sockets muxws.Acceptor
	words := connect.NewErrorWriter()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var conn *muxws.Conn
		asked := false
		told := s.serve(r.Context(), func() (_ mux.Carrier, err error) {
			asked = true
			conn, err = sockets.Accept(w, r) // answers what it refuses
			return conn, err
		})
		switch {
		case conn != nil:
			conn.CloseWith(uint16(muxws.CodeBase+told.Code()), told.Message())
		case !asked:
			_ = words.Write(w, r, told) // the agent may be gone
		}
	})
}
