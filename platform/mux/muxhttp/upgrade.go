package muxhttp

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"fairlead.dev/platform/mux"
)

// ErrUpgrade: the other side changed the protocol without being asked.
var ErrUpgrade = errors.New("the protocol was changed without being asked")

// removeHopByHop is RemoveHopByHop for a head that may be about an upgrade: each hop asks the next one for it.
func removeHopByHop(h http.Header, upgrade bool) {
	protocols := h["Upgrade"]
	RemoveHopByHop(h)
	if upgrade {
		h["Connection"], h["Upgrade"] = []string{"Upgrade"}, protocols
	}
}

// upgraded is a stream after its 101: a pipe of bytes, whose two directions end by themselves.
type upgraded struct {
	*mux.Stream
	ctx  context.Context
	stop func() bool
}

func (u *upgraded) Read(p []byte) (int, error) {
	n, err := u.Stream.Read(p)
	if err != nil && !errors.Is(err, io.EOF) && u.ctx.Err() != nil {
		err = context.Cause(u.ctx)
	}
	return n, err
}

func (u *upgraded) Close() error {
	u.stop()
	u.Stream.Close()
	return nil
}

// duplex is one end of a pipe. Close gives it up; where that can be seen it is no clean end.
type duplex interface {
	io.ReadWriteCloser
	CloseWrite() error
}

// lastWords is how long somebody who has got all of an answer may take to end the connection.
const lastWords = 5 * time.Second

// Splice answers a request with a 101 response and carries bytes both ways until both directions have ended, or
// the connection breaks on either side, or ctx ends. Splice closes both. A direction that ends cleanly leaves the other
// open. sent counts what went to the one who answered, received what came from there. After an error neither side has
// seen a clean end.
//
// A server that has answered to the end and takes nothing any more has not broken off, whatever the client still says:
// kubectl says goodbye to servers that are gone.
func Splice(ctx context.Context, w http.ResponseWriter, resp *http.Response) (sent, received int64, err error) {
	defer resp.Body.Close()
	behind, ok := resp.Body.(duplex)
	if !ok {
		return 0, 0, errors.New("switch protocols: the connection has one direction only")
	}
	asker, err := takeOver(w, resp)
	if err != nil {
		return 0, 0, err
	}
	defer asker.Close() // has ended, or was given up
	cut := sync.OnceFunc(func() {
		giveUp(asker)
		_ = behind.Close()
	})
	defer context.AfterFunc(ctx, cut)()
	var there, back direction
	deaf, heard := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(heard)
		there.carryBytes(behind, asker, cut)
		if there.deaf {
			close(deaf)
			drainAsker(asker)
		}
	}()
	back.carryBytes(asker, behind, cut)
	select {
	case <-heard:
	case <-deaf:
		if back.err != nil {
			cut()
		}
		awaitEnd(heard, asker)
	}
	if there.deaf && back.err == nil && ctx.Err() == nil {
		there.err = nil
	}
	if err := errors.Join(there.err, back.err); err != nil {
		cut()
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return there.n, back.n, err
	}
	return there.n, back.n, nil
}

// awaitEnd waits for the end of what the asker says, to which nobody listens any more, but not for long.
func awaitEnd(end <-chan struct{}, asker io.Closer) {
	timer := time.NewTimer(lastWords)
	defer timer.Stop()
	select {
	case <-end:
	case <-timer.C:
		_ = asker.Close()
		<-end
	}
}

// drainAsker reads what nobody takes: a connection that is closed with unread bytes is reset, and what is still on its
// way to the asker is lost with it. A stream loses nothing.
func drainAsker(asker duplex) {
	if h, ok := asker.(*hijacked); ok {
		_, _ = io.Copy(io.Discard, onlyReader{h}) // until it ends or is closed
	}
}

// direction is one half of a pipe.
type direction struct {
	n    int64
	err  error
	deaf bool // err is that nobody takes any more
}

// carryBytes copies until the end. A side that can't be read is broken at both ends, at once. Where nothing can be
// written any more, something may still come from: the last words of a server that has closed.
func (d *direction) carryBytes(to, from duplex, cut func()) {
	buf := make([]byte, copyBuffer)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				d.err, d.deaf = fmt.Errorf("write upgraded connection: %w", err), true
				return
			}
			d.n += int64(n)
		}
		if err == io.EOF { //nolint:errorlint // only the clean end, not one wrapped in a failure
			if err := to.CloseWrite(); err != nil {
				d.err, d.deaf = fmt.Errorf("end upgraded connection: %w", err), true
			}
			return
		}
		if err != nil {
			d.err = fmt.Errorf("read upgraded connection: %w", err)
			cut()
			return
		}
	}
}

// takeOver answers with the 101 and returns what is behind w.
func takeOver(w http.ResponseWriter, resp *http.Response) (duplex, error) {
	header := resp.Header.Clone()
	removeHopByHop(header, true)
	if rw, ok := w.(*responseWriter); ok {
		return rw.takeOver(header)
	}
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, fmt.Errorf("switch protocols: %w", err)
	}
	_ = conn.SetDeadline(time.Time{}) // a connection without deadlines has none to lift
	answer := http.Response{StatusCode: resp.StatusCode, ProtoMajor: 1, ProtoMinor: 1, Header: header}
	if err := errors.Join(answer.Write(buffered), buffered.Flush()); err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("switch protocols: %w", err)
	}
	return &hijacked{conn, buffered.Reader}, nil
}

// hijacked is a client's connection. Bytes that had come with the request's head are read first; only those, for the
// server would end the request's context at the end of the client's direction.
type hijacked struct {
	net.Conn
	first *bufio.Reader
}

func (h *hijacked) Read(p []byte) (int, error) {
	if n := h.first.Buffered(); n > 0 {
		return h.first.Read(p[:min(n, len(p))])
	}
	return h.Conn.Read(p)
}

func (h *hijacked) CloseWrite() error {
	if c, ok := h.Conn.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return errors.New("the connection can't end in one direction")
}

// giveUp closes a connection so that its peer can't take it for a clean end.
func giveUp(d duplex) {
	if e, ok := d.(agentEnd); ok {
		e.Reset(mux.CodeUpstream, "the upgraded connection broke off")
		return
	}
	h, ok := d.(*hijacked)
	if !ok {
		_ = d.Close()
		return
	}
	conn := h.Conn
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn() // tls would say goodbye
	}
	if tcp, ok := conn.(interface{ SetLinger(sec int) error }); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// takeOver sends the 101. The stream is its owner's, who closes it.
func (w *responseWriter) takeOver(header http.Header) (duplex, error) {
	head := responseHead{status: http.StatusSwitchingProtocols, length: -1, header: sendableHeader(header)}
	w.status, w.ended = head.status, true
	if err := w.stream.Send(mux.Part{Headers: head.encodeHead()}); err != nil {
		return nil, fmt.Errorf("switch protocols: %w", err)
	}
	return agentEnd{w.stream}, nil
}

// agentEnd is a stream at the side that answers.
type agentEnd struct{ *mux.Stream }

// Close leaves it to the stream's owner.
func (agentEnd) Close() error { return nil }
