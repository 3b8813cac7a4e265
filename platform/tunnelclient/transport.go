package tunnelclient

import (
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"

	"fairlead.dev/platform/mux/kubehttp"
	"fairlead.dev/platform/mux/muxhttp"
	"fairlead.dev/platform/tunnelclient/http1"
)

// connectionsOfAKind: HTTP/2 puts everything on one connection, where a lost packet or a large list holds all others
// up.
const connectionsOfAKind = 2

// Transport asks an API server over several connections: some for plain requests, others for those that last
// (watches and logs that are followed), and for each upgrade one of its own over HTTP/1.1. Most requests are short
// reads, which have connections to themselves.
type Transport struct {
	// Reads is an http1.Client to the same server, or what adds a credential around one. Nil: they go with the others.
	Reads http.RoundTripper

	plain, lasting []http.RoundTripper
	upgrades       http.RoundTripper
	turn           atomic.Uint32
}

// NewTransport makes a Transport. A RoundTripper of open shares no connections with another; with http1 it speaks
// HTTP/1.1 only.
func NewTransport(open func(http1 bool) (http.RoundTripper, error)) (*Transport, error) {
	t := &Transport{}
	for range connectionsOfAKind {
		for _, kind := range []*[]http.RoundTripper{&t.plain, &t.lasting} {
			rt, err := open(false)
			if err != nil {
				return nil, fmt.Errorf("prepare connections to the API server: %w", err)
			}
			*kind = append(*kind, rt)
		}
	}
	var err error
	if t.upgrades, err = open(true); err != nil {
		return nil, fmt.Errorf("prepare connections to the API server: %w", err)
	}
	return t, nil
}

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	of := t.plain
	switch {
	case muxhttp.IsUpgrade(r.Header):
		return t.upgrades.RoundTrip(r)
	case lasts(r):
		of = t.lasting
	case t.Reads != nil && http1.Takes(r):
		if resp, err := t.Reads.RoundTrip(r); !errors.Is(err, http1.ErrBusy) {
			return resp, err
		}
	}
	return of[int(t.turn.Add(1))%len(of)].RoundTrip(r)
}

// lasts tells whether a request asks to be told on and on.
func lasts(r *http.Request) bool {
	if r.URL.RawQuery == "" {
		return false
	}
	query := r.URL.Query()
	return kubehttp.IsSet(query, "watch") || kubehttp.IsSet(query, "follow")
}

// CloseIdleConnections ends what nobody uses.
func (t *Transport) CloseIdleConnections() {
	for _, rt := range append(append([]http.RoundTripper{t.Reads, t.upgrades}, t.plain...), t.lasting...) {
		if rt == nil {
			continue
		}
		(&http.Client{Transport: rt}).CloseIdleConnections()
	}
}
