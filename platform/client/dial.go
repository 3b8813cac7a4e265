package client

import (
	"context"
	"crypto/tls"
	"maps"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
)

// dialOnce is a transport that makes one connection to a host for all requests that come while there is none. net/http
// makes one for each of them, and over HTTP/2 closes all but one when they are made: a handshake in vain for both
// sides, which in a storm are half of all.
type dialOnce struct {
	next *http.Transport

	mu    sync.Mutex // guards hosts
	hosts map[string]*host
}

// host is one to which there is a connection, or will be.
type host struct {
	tried chan struct{} // closed when the first request has a connection, or can't get one
	conn  *watchedConn  // nil: not yet; guarded by the transport's mu
}

// isGone tells whether the next request has to make a connection. The transport's mu is held.
func (h *host) isGone() bool {
	select {
	case <-h.tried:
		return h.conn == nil || h.conn.closed.Load()
	default:
		return false
	}
}

func newDialOnce(next *http.Transport) *dialOnce {
	d := &dialOnce{next: next, hosts: map[string]*host{}}
	dial := next.DialContext
	next.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &watchedConn{Conn: conn}, nil
	}
	return d
}

// RoundTrip implements http.RoundTripper.
func (d *dialOnce) RoundTrip(req *http.Request) (*http.Response, error) {
	name := req.URL.Host
	d.mu.Lock()
	h, ok := d.hosts[name]
	if !ok || h.isGone() {
		maps.DeleteFunc(d.hosts, func(_ string, h *host) bool { return h.isGone() })
		h = &host{tried: make(chan struct{})}
		d.hosts[name] = h
		d.mu.Unlock()
		return d.first(req, h)
	}
	d.mu.Unlock()
	select {
	case <-h.tried:
	case <-req.Context().Done():
		if req.Body != nil {
			_ = req.Body.Close() // as http.RoundTripper demands
		}
		return nil, context.Cause(req.Context())
	}
	return d.next.RoundTrip(req)
}

// first sends the request for which the connection is made.
func (d *dialOnce) first(req *http.Request, h *host) (*http.Response, error) {
	tell := sync.OnceFunc(func() { close(h.tried) })
	defer tell()
	ctx := httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		d.connected(h, info.Conn)
		tell()
	}})
	return d.next.RoundTrip(req.WithContext(ctx))
}

// connected notes the connection to a host.
func (d *dialOnce) connected(h *host, conn net.Conn) {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	h.conn, _ = conn.(*watchedConn) // all that are dialled are one
}

// watchedConn knows whether it is closed.
type watchedConn struct {
	net.Conn

	closed atomic.Bool
}

func (c *watchedConn) Close() error {
	c.closed.Store(true)
	return c.Conn.Close()
}
