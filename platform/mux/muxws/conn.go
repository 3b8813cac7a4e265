package muxws

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
	"unicode/utf8"

	"fairlead.dev/platform/mux"
)

const (
	// keptBuffer is what a connection keeps between two batches: enough for heartbeats, which are all that most
	// connections carry. Larger ones go back to the pool.
	keptBuffer = 512
	// CodeBase and a Connect code make the code of a close frame: the private range, by the RFC.
	CodeBase = 4000
	// lastWords is the time that a closed connection has for its close frame.
	lastWords = time.Second
)

// CloseError is the peer's close frame.
type CloseError struct {
	Code uint16 // above CodeBase: ours
	Text string
}

func (e *CloseError) Error() string {
	if e.Text == "" {
		return fmt.Sprintf("WebSocket closed by the peer with code %d", e.Code)
	}
	return e.Text
}

// Conn is an end of a WebSocket as a mux.Carrier.
type Conn struct {
	rwc    io.ReadWriteCloser
	reader *bufio.Reader
	client bool
	pool   *sync.Pool // *[]byte
	lent   *[]byte    // holds what Receive returned last
	kept   []byte

	mu     sync.Mutex // guards writing
	closed bool
}

// buffers are for all connections of a side.
func newPool() *sync.Pool {
	return &sync.Pool{New: func() any { b := make([]byte, 0, 64<<10); return &b }}
}

// Kind names the carrier for people.
func (c *Conn) Kind() string { return "websocket" }

// Send implements mux.Carrier.
func (c *Conn) Send(batch []byte) error { return c.write(opBinary, batch) }

func (c *Conn) write(op opcode, payload []byte) error {
	buf, _ := c.pool.Get().(*[]byte)
	defer c.pool.Put(buf)
	*buf = appendFrame((*buf)[:0], op, c.client, payload)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return net.ErrClosed
	}
	_, err := c.rwc.Write(*buf)
	return err
}

// Receive implements mux.Carrier. The batch that it returns holds until the next Receive.
func (c *Conn) Receive() ([]byte, error) {
	c.giveBack()
	var message []byte
	for begun := false; ; {
		h, err := readHeader(c.reader)
		if err != nil {
			return nil, err
		}
		if h.masked == c.client {
			return nil, errors.New("WebSocket: frame is masked, or is not, as the other side's are")
		}
		if h.op.control() {
			if err := c.control(h); err != nil {
				return nil, err
			}
			continue
		}
		if begun != (h.op == opContinuation) {
			return nil, errors.New("WebSocket: pieces of messages are mixed up")
		}
		begun = true
		if message, err = c.payload(message, h); err != nil {
			return nil, err
		}
		if h.final {
			return message, nil
		}
	}
}

// payload appends a frame's payload to a message.
func (c *Conn) payload(message []byte, h header) ([]byte, error) {
	total := uint64(len(message)) + h.length
	if h.length > mux.MaxBatch || total > mux.MaxBatch {
		return nil, fmt.Errorf("WebSocket: message of more than %d bytes", mux.MaxBatch)
	}
	at := len(message)
	message = c.grow(message, int(total))
	if _, err := io.ReadFull(c.reader, message[at:]); err != nil {
		return nil, unexpected(err)
	}
	if h.masked {
		applyMask(h.mask, message[at:], message[at:])
	}
	return message, nil
}

// grow returns p with a length of n.
func (c *Conn) grow(p []byte, n int) []byte {
	switch {
	case n <= cap(p):
		return p[:n]
	case n <= keptBuffer:
		if c.kept == nil {
			c.kept = make([]byte, keptBuffer)
		}
		return append(c.kept[:0], p...)[:n]
	case c.lent == nil:
		c.lent, _ = c.pool.Get().(*[]byte)
	}
	if cap(*c.lent) < n {
		*c.lent = make([]byte, 0, max(n, 2*cap(*c.lent)))
	}
	*c.lent = append((*c.lent)[:0], p...)[:n]
	return *c.lent
}

func (c *Conn) giveBack() {
	if c.lent != nil {
		c.pool.Put(c.lent)
		c.lent = nil
	}
}

// control answers a ping, and makes a close frame an error.
func (c *Conn) control(h header) error {
	var b [maxControl]byte
	p := b[:h.length]
	if _, err := io.ReadFull(c.reader, p); err != nil {
		return unexpected(err)
	}
	if h.masked {
		applyMask(h.mask, p, p)
	}
	switch h.op {
	case opPing:
		return c.write(opPong, p)
	case opClose:
		if len(p) < 2 || !utf8.Valid(p[2:]) {
			return io.EOF
		}
		return &CloseError{binary.BigEndian.Uint16(p), string(p[2:])}
	default:
		return nil
	}
}

// Close implements mux.Carrier: nothing is received any more. A connection with deadlines, as the hub's are,
// can still be told why with CloseWith for a moment; others are cut.
func (c *Conn) Close() error {
	if d, ok := c.rwc.(net.Conn); ok {
		return errors.Join(d.SetReadDeadline(time.Now()), d.SetWriteDeadline(time.Now().Add(lastWords)))
	}
	return c.rwc.Close()
}

// CloseWith tells the peer why and ends the connection.
func (c *Conn) CloseWith(code uint16, text string) {
	for len(text) > maxControl-2 || !utf8.ValidString(text) {
		text = text[:min(len(text)-1, maxControl-2)]
	}
	_ = c.Close()
	_ = c.write(opClose, append(binary.BigEndian.AppendUint16(nil, code), text...)) // the peer may be gone
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	_ = c.rwc.Close()
}
