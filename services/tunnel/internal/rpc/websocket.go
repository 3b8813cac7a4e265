package rpc

import (
	"net/http"

	"connectrpc.com/connect"

	"fairlead.dev/gen/fairlead/tunnel/v1/tunnelv1connect"
	"fairlead.dev/platform/mux/muxws"
)

// WebSocketPattern is where agents ask for a WebSocket: at the procedure that HTTP/2 is to reach.
const WebSocketPattern = http.MethodGet + " " + tunnelv1connect.TunnelServiceConnectProcedure

// NewWebSocket returns the handler of agents that HTTP/2 does not bring here.
func NewWebSocket(deps Deps) http.Handler {
	s := &service{deps}
	var sockets muxws.Acceptor
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := sockets.Accept(w, r)
		if err != nil {
			return // it has been told
		}
		err = s.serve(r.Context(), conn)
		text := err.Error()
		if told, ok := err.(*connect.Error); ok { //nolint:errorlint // serve returns no others; Message leaves the code out
			text = told.Message()
		}
		conn.CloseWith(uint16(muxws.CodeBase+connect.CodeOf(err)), text)
	})
}
