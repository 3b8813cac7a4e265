package hubclient

import (
	"errors"
	"net/http"
	"net/url"

	"connectrpc.com/connect"
)

// ExplainTunnel puts into words why a tunnel gave no whole answer. The error is of the code Unavailable, as that of a
// call that did not reach the hub.
func (h *Hub) ExplainTunnel(err error) error {
	at := h.Context
	at.URL = at.Endpoints.Tunnels[0]
	if sent, ok := errors.AsType[*url.Error](err); ok {
		err = sent.Err // the URL is in the words
	}
	return newExplainer(at).explainError(connect.NewError(connect.CodeUnavailable, err))
}

// TunnelRefusal returns the error of an answer with a status and words. It is of the code Unavailable where another try
// may meet another answer: a tunnel that has just started knows no cluster until its agent has connected.
func TunnelRefusal(status int, text string) error {
	err := errors.New(text)
	switch status {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return explained{text, connect.NewWireError(connect.CodeUnavailable, err)}
	}
	return err
}
