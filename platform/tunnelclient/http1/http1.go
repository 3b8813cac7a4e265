// Package http1 asks one server over kept HTTP/1.1 connections. net/http's client has two goroutines per connection,
// through which each request is handed and its answer back; here the one who asks writes and reads, which halves
// what a small answer costs.
//
// The client takes GET and HEAD without a body, which can be asked again when a kept connection turns out to be closed,
// and leaves everything else to others. The client is strict: what two readers could understand in two ways (lengths
// given twice, lines without CR, folded ones) is an error, and ends the connection.
package http1

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http/httpguts"
)

const (
	// mostConnections at a time. Beyond them there is ErrBusy.
	mostConnections = 32
	// mostIdle is how long a connection is kept that nobody uses; an API server's is 90 s.
	mostIdle = 30 * time.Second
	// mostLife is how long a connection is used, so that a client certificate that was renewed is shown soon.
	mostLife = 5 * time.Minute
	// readBuffer holds the head and body of most answers.
	readBuffer = 8 << 10
)

// ErrBusy: all connections are in use. No byte was sent.
var ErrBusy = errors.New("all connections are in use")

// Client is an http.RoundTripper for Takes' requests to one server. The zero value with Dial is ready.
type Client struct {
	// Dial opens a connection to the server, after TLS' handshake if it has one.
	Dial func(ctx context.Context) (net.Conn, error)

	mu    sync.Mutex // guards what follows
	idle  []*conn    // the one used last is at the end
	open  int        // connections, with those being dialled
	sweep *time.Timer
}

// Takes tells whether a request is one for a Client.
func Takes(r *http.Request) bool {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return false
	}
	if r.ContentLength != 0 || r.Body != nil && r.Body != http.NoBody || len(r.Trailer) > 0 {
		return false
	}
	for _, name := range [...]string{"Connection", "Upgrade", "Te", "Trailer", "Transfer-Encoding", "Content-Length", "Expect", "Host"} {
		if r.Header[name] != nil {
			return false
		}
	}
	return true
}

// RoundTrip implements http.RoundTripper.
func (c *Client) RoundTrip(r *http.Request) (*http.Response, error) {
	if !Takes(r) {
		return nil, fmt.Errorf("%s request is not one for this client", r.Method)
	}
	for {
		cn, kept, err := c.connection(r.Context())
		if err != nil {
			return nil, err
		}
		resp, err := cn.ask(r)
		if err == nil {
			return resp, nil
		}
		cn.close()
		switch {
		case r.Context().Err() != nil:
			c.CloseIdleConnections() // the connections may all lead to a machine that is gone
			return nil, context.Cause(r.Context())
		case kept && errors.Is(err, errUnanswered):
			continue // the connection had been closed meanwhile. Each try ends a kept connection: a new one comes at last.
		}
		return nil, err
	}
}

// connection takes a kept connection, or dials.
func (c *Client) connection(ctx context.Context) (_ *conn, kept bool, err error) {
	for {
		c.mu.Lock()
		n := len(c.idle)
		if n == 0 {
			break
		}
		cn := c.idle[n-1]
		c.idle[n-1] = nil
		c.idle = c.idle[:n-1]
		c.mu.Unlock()
		if cn.fresh(time.Now()) && quiet(cn.raw) {
			return cn, true, nil
		}
		cn.close()
	}
	if c.open >= mostConnections {
		c.mu.Unlock()
		return nil, false, ErrBusy
	}
	c.open++
	c.mu.Unlock()
	raw, err := c.Dial(ctx)
	if err != nil {
		c.gone()
		return nil, false, err
	}
	return &conn{client: c, raw: raw, reader: bufio.NewReaderSize(raw, readBuffer), began: time.Now()}, false, nil
}

// keep puts a connection back whose answer was read to its end.
func (c *Client) keep(cn *conn) {
	cn.used = time.Now()
	if !cn.fresh(cn.used) {
		cn.close()
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.idle = append(c.idle, cn)
	if c.sweep == nil {
		c.sweep = time.AfterFunc(mostIdle, c.dropStale)
	}
}

func (c *Client) gone() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open--
}

// dropStale closes what was kept for too long.
func (c *Client) dropStale() {
	now := time.Now()
	c.drop(func(cn *conn) bool { return !cn.fresh(now) })
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sweep = nil; len(c.idle) > 0 {
		c.sweep = time.AfterFunc(mostIdle, c.dropStale)
	}
}

// CloseIdleConnections closes what nobody uses.
func (c *Client) CloseIdleConnections() { c.drop(func(*conn) bool { return true }) }

func (c *Client) drop(which func(*conn) bool) {
	c.mu.Lock()
	var kept, dropped []*conn
	for _, cn := range c.idle {
		if which(cn) {
			dropped = append(dropped, cn)
		} else {
			kept = append(kept, cn)
		}
	}
	c.idle = kept
	if len(kept) == 0 && c.sweep != nil {
		c.sweep.Stop()
		c.sweep = nil
	}
	c.mu.Unlock()
	for _, cn := range dropped {
		cn.close()
	}
}

// conn is a connection. The goroutine that took it from the client uses it alone.
type conn struct {
	client *Client
	raw    net.Conn
	reader *bufio.Reader
	began  time.Time
	used   time.Time
	once   sync.Once // of close
}

func (cn *conn) fresh(now time.Time) bool {
	return now.Sub(cn.began) < mostLife && (cn.used.IsZero() || now.Sub(cn.used) < mostIdle)
}

func (cn *conn) close() {
	cn.once.Do(func() {
		_ = cn.raw.Close()
		cn.client.gone()
	})
}

// cut unblocks whoever reads or writes.
func (cn *conn) cut() { _ = cn.raw.SetDeadline(time.Unix(1, 0)) }

// errUnanswered: the connection ended before a byte of an answer came.
var errUnanswered = errors.New("the connection ended without an answer")

//nolint:gochecknoglobals // buffers
var heads = sync.Pool{New: func() any { b := make([]byte, 0, 1<<10); return &b }}

// ask sends a request and reads the head of its answer.
func (cn *conn) ask(r *http.Request) (*http.Response, error) {
	head, _ := heads.Get().(*[]byte)
	defer heads.Put(head)
	var err error
	if *head, err = appendRequest((*head)[:0], r); err != nil {
		return nil, err
	}
	stop := context.AfterFunc(r.Context(), cn.cut)
	resp, err := cn.exchange(*head, r)
	if err != nil {
		stop()
		return nil, err
	}
	if b, ok := resp.Body.(*body); ok {
		b.stop = stop
		return resp, nil
	}
	cn.end(stop, !resp.Close)
	return resp, nil
}

func (cn *conn) exchange(head []byte, r *http.Request) (*http.Response, error) {
	_, wrote := cn.raw.Write(head)
	// A server that has closed may have said why.
	if _, err := cn.reader.Peek(1); err != nil {
		if wrote != nil {
			err = wrote
		}
		return nil, fmt.Errorf("%w: %w", errUnanswered, err)
	}
	resp, err := readResponse(cn, r)
	if err != nil {
		return nil, fmt.Errorf("read answer: %w", err)
	}
	if wrote != nil {
		resp.Close = true
	}
	return resp, nil
}

// end is after the last byte of an answer.
func (cn *conn) end(stop func() bool, reusable bool) {
	if stop() && reusable && cn.reader.Buffered() == 0 {
		cn.client.keep(cn)
		return
	}
	cn.close()
}

// appendRequest writes a request's head. A request that could be read in another way than it is meant is an error.
func appendRequest(b []byte, r *http.Request) ([]byte, error) {
	host, target := r.Host, r.URL.RequestURI()
	if host == "" {
		host = r.URL.Host
	}
	if !strings.HasPrefix(target, "/") || strings.ContainsFunc(target, func(c rune) bool { return c <= ' ' || c >= 0x7f }) {
		return nil, fmt.Errorf("request target %q is not valid", target)
	}
	if host == "" || !httpguts.ValidHostHeader(host) {
		return nil, fmt.Errorf("host %q is not valid", host)
	}
	b = append(append(append(append(b, r.Method...), ' '), target...), " HTTP/1.1\r\nHost: "...)
	b = append(append(b, host...), "\r\n"...)
	for name, values := range r.Header {
		if !httpguts.ValidHeaderFieldName(name) {
			return nil, fmt.Errorf("header field name %q is not valid", name)
		}
		for _, value := range values {
			if !httpguts.ValidHeaderFieldValue(value) {
				return nil, fmt.Errorf("value of header field %q is not valid", name)
			}
			if value == "" && name == "User-Agent" {
				continue // says that there is none, as in net/http
			}
			b = append(append(append(append(b, name...), ": "...), value...), "\r\n"...)
		}
	}
	return append(b, "\r\n"...), nil
}

// body is an answer's, until its end or until it is closed.
type body struct {
	conn     *conn
	stop     func() bool // of the request's context
	ctx      context.Context
	framing  framing
	reusable bool
	mu       sync.Mutex // guards what follows: a body may be closed while it is read
	done     bool
	err      error
}

// framing is how a body says where it ends.
type framing interface {
	// read returns io.EOF, maybe with the last bytes, at the end and only there.
	read(r *bufio.Reader, p []byte) (int, error)
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	b.mu.Lock()
	err := b.err
	b.mu.Unlock()
	if err != nil {
		return 0, err
	}
	if len(p) == 0 {
		return 0, nil
	}
	n, err := b.framing.read(b.conn.reader, p)
	if err == nil {
		return n, nil
	}
	if err != io.EOF && b.ctx.Err() != nil { //nolint:errorlint // only the clean end
		err = context.Cause(b.ctx)
	}
	b.finish(err)
	return n, err
}

// finish gives the connection back, or ends it.
func (b *body) finish(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.done {
		return
	}
	b.done, b.err = true, err
	b.conn.end(b.stop, b.reusable && err == io.EOF) //nolint:errorlint // only the clean end
}

// Close implements io.Closer. Bytes that were not read end the connection.
func (b *body) Close() error {
	b.finish(http.ErrBodyReadAfterClose)
	return nil
}

// Buffered is how many bytes can be read without waiting.
func (b *body) Buffered() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.done {
		return 0
	}
	return b.conn.reader.Buffered()
}
