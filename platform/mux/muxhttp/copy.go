package muxhttp

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync"
)

// ReadError is the failure of a response's source, in contrast to that of its reader.
type ReadError struct{ Err error }

func (e *ReadError) Error() string { return "read response: " + e.Err.Error() }
func (e *ReadError) Unwrap() error { return e.Err }

// Copier moves responses. A Copier keeps their buffers; the zero value is ready.
type Copier struct{ buffers sync.Pool }

// Copy writes a response to w, each chunk as it comes, and its trailers. n counts the body's bytes. After an
// error the handler must end with panic(http.ErrAbortHandler), so that the reader sees the
// response break off. Copy does not close the body.
func (c *Copier) Copy(w http.ResponseWriter, resp *http.Response) (n int64, err error) {
	RemoveHopByHop(resp.Header)
	if rw, ok := w.(*responseWriter); ok && len(rw.header) == 0 {
		rw.header = resp.Header // which nobody else needs any more
	}
	header := w.Header()
	maps.Copy(header, resp.Header)
	announced := sortedKeys(resp.Trailer)
	for _, name := range announced {
		header.Add("Trailer", name)
	}
	w.WriteHeader(resp.StatusCode)
	flusher := http.NewResponseController(w)
	if resp.ContentLength < 0 {
		// A watch may say nothing for long: its reader waits for the head.
		if err := flushWriter(flusher); err != nil {
			return 0, err
		}
	}
	if n, err = c.copyBody(w, flusher, resp.Body, resp.ContentLength); err != nil {
		return n, err
	}
	if len(resp.Trailer) > 0 {
		_ = flushWriter(flusher) // trailers need a body in chunks, whatever its size
	}
	for name, values := range resp.Trailer {
		if !slices.Contains(announced, name) {
			name = http.TrailerPrefix + name
		}
		header[name] = values
	}
	return n, nil
}

// copyBody copies a body. A chunk that completes a known length is not flushed: it leaves when the handler returns,
// which is now.
func (c *Copier) copyBody(w io.Writer, flusher *http.ResponseController, body io.Reader, length int64) (n int64, err error) {
	buf, _ := c.buffers.Get().(*[]byte)
	if buf == nil {
		buf = new([]byte)
		*buf = make([]byte, copyBuffer)
	}
	defer c.buffers.Put(buf)
	queued, _ := body.(interface{ Buffered() int })
	for {
		read, err := body.Read(*buf)
		if read > 0 {
			written, err := w.Write((*buf)[:read])
			n += int64(written)
			if err != nil {
				return n, fmt.Errorf("write response: %w", err)
			}
		}
		if err == io.EOF { // only the clean end, not one wrapped in a failure
			return n, nil
		}
		if err != nil {
			return n, &ReadError{err}
		}
		if n != length && (queued == nil || queued.Buffered() == 0) {
			if err := flushWriter(flusher); err != nil {
				return n, err
			}
		}
	}
}

func flushWriter(c *http.ResponseController) error {
	if err := c.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return fmt.Errorf("write response: %w", err)
	}
	return nil
}
