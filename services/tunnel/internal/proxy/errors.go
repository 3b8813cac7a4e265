package proxy

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"fairlead.dev/platform/mux"
	"fairlead.dev/platform/mux/kubehttp"
	"fairlead.dev/platform/mux/muxhttp"
)

// unreachableError puts into words that nobody takes the request.
func (rt *route) unreachableError() *kubehttp.Error {
	if rt.out.Context().Err() != nil {
		panic(http.ErrAbortHandler) // no client waits for an answer, or the caller's token has ended
	}
	if errors.Is(rt.last, mux.ErrTooManyStreams) {
		return rt.failedError(rt.last)
	}
	if len(rt.tried) > 0 && (rt.missing == nil || rt.missing.Ending || rt.missing.Since.IsZero()) {
		return &kubehttp.Error{Code: http.StatusServiceUnavailable, RetryAfterSeconds: 1, Message: fmt.Sprintf(
			"cluster %q: its sessions are busy or ending. Try again in a moment", rt.exchange.cluster)}
	}
	rt.exchange.handler.Log.InfoContext(rt.out.Context(), "nobody takes the request", "cluster", rt.exchange.cluster,
		"sessions_tried", len(rt.tried), "other_replicas", len(rt.exchange.handler.Peers.Others()), "err", rt.last)
	message := fmt.Sprintf("cluster %q is not connected", rt.exchange.cluster)
	const next = "Check that its agent runs and reaches the hub: its log says why not"
	if since := rt.missing.Since; since.IsZero() {
		message += ": no agent of it has connected since this tunnel replica started. " + next
	} else {
		message += fmt.Sprintf(" since %s (%s ago). %s", since.UTC().Format(time.RFC3339), time.Since(since).Round(time.Second), next)
	}
	return &kubehttp.Error{Code: http.StatusServiceUnavailable, Message: message}
}

// failedError puts into words that somebody took the request and gave no response.
func (rt *route) failedError(err error) *kubehttp.Error {
	ctx := rt.out.Context()
	if ctx.Err() != nil {
		panic(http.ErrAbortHandler) // no client waits for an answer, or the caller's token has ended
	}
	rt.exchange.handler.Log.InfoContext(ctx, "request to cluster failed", "cluster", rt.exchange.cluster, "err", err)
	unsent, _ := errors.AsType[*muxhttp.UnsentError](err)
	reset, _ := errors.AsType[*mux.ResetError](err)
	switch {
	case errors.Is(err, muxhttp.ErrNoAnswer):
		return &kubehttp.Error{
			Code:    http.StatusGatewayTimeout,
			Message: fmt.Sprintf("cluster %q: its API server gives %v. Whether the request was carried out is not known", rt.exchange.cluster, err),
		}
	case errors.Is(err, mux.ErrTooManyStreams):
		return &kubehttp.Error{
			Code: http.StatusTooManyRequests, RetryAfterSeconds: 1,
			Message: fmt.Sprintf("cluster %q: too many requests run through its agent. Try again in a moment", rt.exchange.cluster),
		}
	case unsent != nil && !unsent.Invalid, reset != nil && reset.Code == mux.CodeRefused:
		return &kubehttp.Error{
			Code: http.StatusServiceUnavailable, RetryAfterSeconds: 1,
			Message: fmt.Sprintf("cluster %q: its agent takes no requests at the moment. Try again in a moment", rt.exchange.cluster),
		}
	case unsent != nil:
		return &kubehttp.Error{Code: http.StatusBadRequest, Message: fmt.Sprintf("cluster %q: the request is refused: %v", rt.exchange.cluster, unsent.Err)}
	case reset != nil:
		return &kubehttp.Error{
			Code:    http.StatusBadGateway,
			Message: fmt.Sprintf("cluster %q: its agent gave no response: %v. Its log says more", rt.exchange.cluster, reset),
		}
	default:
		return &kubehttp.Error{
			Code:    http.StatusBadGateway,
			Message: fmt.Sprintf("cluster %q: the connection to its agent broke before there was a response. Whether the request was carried out is not known", rt.exchange.cluster),
		}
	}
}
