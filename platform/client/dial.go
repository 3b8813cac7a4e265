package client

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
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
	conn  *watchedConn  // nil: not yet
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
	if !ok {
		h = &host{tried: make(chan struct{})}
		d.hosts[name] = h
		d.mu.Unlock()
		return d.first(req, name, h)
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
func (d *dialOnce) first(req *http.Request, name string, h *host) (*http.Response, error) {
	var once sync.Once
	tell := func() { once.Do(func() { close(h.tried) }) }
	ctx := httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		d.connected(name, h, info.Conn)
		tell()
	}})
	resp, err := d.next.RoundTrip(req.WithContext(ctx))
	d.mu.Lock()
	if h.conn == nil && d.hosts[name] == h {
		delete(d.hosts, name)
	}
	d.mu.Unlock()
	tell()
	return resp, err
}

// connected notes the connection to a host, until it is closed.
func (d *dialOnce) connected(name string, h *host, conn net.Conn) {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	watched, ok := conn.(*watchedConn)
	if !ok {
		return
	}
	d.mu.Lock()
	h.conn = watched
	d.mu.Unlock()
	watched.onClose(func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.hosts[name] == h && h.conn == watched {
			delete(d.hosts, name)
		}
	})
}

// watchedConn tells when it is closed.
type watchedConn struct {
	net.Conn

	mu     sync.Mutex // guards what follows
	closed bool
	then   func()
}

// onClose has a function called when the connection is closed, or now.
func (c *watchedConn) onClose(then func()) {
	c.mu.Lock()
	closed := c.closed
	c.then = then
	c.mu.Unlock()
	if closed {
		then()
	}
}

func (c *watchedConn) Close() error {
	c.mu.Lock()
	then := c.then
	if c.closed {
		then = nil
	}
	c.closed = true
	c.mu.Unlock()
	if then != nil {
		then()
	}
	return c.Conn.Close()
}
