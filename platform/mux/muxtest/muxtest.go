// Package muxtest gives tests an in-memory carrier.
package muxtest

import (
	"bytes"
	"errors"
	"io"
	"sync"
	"sync/atomic"
)

// ErrClosed is what a closed carrier says.
var ErrClosed = errors.New("carrier is closed")

// inFlight is how many batches a pipe holds before Send waits, like a line's own buffers.
const inFlight = 4

// Pipe returns the two ends of a line.
func Pipe() (a, b *Carrier) {
	x, y := make(chan []byte, inFlight), make(chan []byte, inFlight)
	a = &Carrier{out: x, in: y, closed: make(chan struct{})}
	b = &Carrier{out: y, in: x, closed: make(chan struct{})}
	a.peer, b.peer = b.closed, a.closed
	return a, b
}

// Carrier is one end of a Pipe.
type Carrier struct {
	out    chan<- []byte
	in     <-chan []byte
	once   sync.Once
	closed chan struct{}
	peer   <-chan struct{}
	dark   atomic.Bool
	sent   atomic.Int64
}

// Darken makes everything that is sent from here vanish, as on a half-open connection.
func (c *Carrier) Darken() { c.dark.Store(true) }

// Sent is how many batches were sent from here.
func (c *Carrier) Sent() int64 { return c.sent.Load() }

// Send implements mux.Carrier.
func (c *Carrier) Send(batch []byte) error {
	c.sent.Add(1)
	if c.dark.Load() {
		return nil
	}
	select {
	case <-c.closed:
		return ErrClosed
	default:
	}
	select {
	case c.out <- bytes.Clone(batch):
		return nil
	case <-c.closed:
		return ErrClosed
	case <-c.peer:
		return io.ErrClosedPipe
	}
}

// Receive implements mux.Carrier.
func (c *Carrier) Receive() ([]byte, error) {
	select {
	case b := <-c.in:
		return b, nil
	default:
	}
	select {
	case b := <-c.in:
		return b, nil
	case <-c.closed:
		return nil, ErrClosed
	case <-c.peer:
		select {
		case b := <-c.in:
			return b, nil
		default:
			return nil, io.EOF
		}
	}
}

// Close implements mux.Carrier.
func (c *Carrier) Close() error {
	c.once.Do(func() { close(c.closed) })
	return nil
}
