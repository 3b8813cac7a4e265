package client

import (
	"net/http"
	"time"
)

const (
	// relayWindow is what a reader that stalls may leave with us: enough for the round trips within a hub, and
	// little when thousands stall.
	relayWindow = 512 << 10
	// relayIdle is how many connections wait for the next body.
	relayIdle = 64
	// relayPatience is how long the next replica may take to say that it wants a body. A replica says so, or refuses,
	// at once.
	relayPatience = 10 * time.Second
)

// Relay hands other people's requests on within the hub: answers come back as they are, redirects among
// them. CloseIdleConnections ends its connections.
type Relay struct{ https, http, alone *http.Transport }

// NewRelay returns a Relay that trusts as New's clients do.
func NewRelay(cfg Config) (*Relay, error) {
	roots, err := rootsOf(cfg)
	if err != nil {
		return nil, err
	}
	r := &Relay{https: newTransport(roots), http: newTransport(roots), alone: newTransport(roots)}
	r.https.Protocols.SetHTTP1(true)
	r.https.Protocols.SetHTTP2(true)
	r.http.Protocols.SetUnencryptedHTTP2(true)
	r.alone.Protocols.SetHTTP1(true)
	r.alone.MaxIdleConnsPerHost = relayIdle
	for _, t := range r.all() {
		t.Proxy = nil // within the hub
		t.HTTP2.MaxReceiveBufferPerStream = relayWindow
		t.ExpectContinueTimeout = relayPatience
		t.MaxResponseHeaderBytes = 4 * maxResponseHeaderBytes // for headers of an API server
	}
	return r, nil
}

// RoundTrip implements http.RoundTripper. Requests with a body, and those that ask for another protocol, have a
// connection for themselves while they last: one that stalls would take the window of others.
func (r *Relay) RoundTrip(req *http.Request) (*http.Response, error) {
	switch {
	case req.Body != nil && req.Body != http.NoBody, req.Header.Get("Upgrade") != "":
		return r.alone.RoundTrip(req)
	case req.URL.Scheme == "http":
		return r.http.RoundTrip(req)
	default:
		return r.https.RoundTrip(req)
	}
}

// CloseIdleConnections ends what nobody uses.
func (r *Relay) CloseIdleConnections() {
	for _, t := range r.all() {
		t.CloseIdleConnections()
	}
}

func (r *Relay) all() []*http.Transport { return []*http.Transport{r.https, r.http, r.alone} }
