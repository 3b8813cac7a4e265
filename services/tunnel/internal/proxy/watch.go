package proxy

import (
	"encoding/binary"
	"io"
	"net/http"
	"strings"
	"sync"
)

// watch is a watch's response that can be ended between two events, so that its reader sees a whole one and
// comes again, as after the API server's own time limit.
type watch struct {
	io.ReadCloser
	cluster string

	mu     sync.Mutex // guards what follows
	events framing
	ending bool // at the next end of an event
	ended  bool
}

// framing finds the ends of events in a stream.
type framing interface {
	// feedEvents takes in what was read, and returns how many bytes of it there are up to the last end of an event; 0:
	// none.
	feedEvents(p []byte) int
	// between tells whether all that was fed are whole events.
	betweenEvents() bool
}

// newWatch returns nil for responses whose events can't be told apart: they go on to their end.
func newWatch(resp *http.Response, cluster string) *watch {
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Encoding") != "" {
		return nil
	}
	kind := resp.Header.Get("Content-Type")
	w := &watch{ReadCloser: resp.Body, cluster: cluster}
	switch {
	case strings.HasPrefix(kind, "application/json"):
		w.events = &jsonEvents{}
	case strings.HasPrefix(kind, "application/vnd.kubernetes.protobuf"):
		w.events = &lengthEvents{}
	default:
		return nil
	}
	return w
}

// Read implements io.Reader. Bytes that came after the end are dropped: the next watch has them again.
func (w *watch) Read(p []byte) (int, error) {
	n, err := w.ReadCloser.Read(p)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return 0, io.EOF
	}
	if whole := w.events.feedEvents(p[:n]); w.ending && whole > 0 {
		w.ended = true
		return whole, io.EOF
	}
	return n, err
}

// endWatch ends the watch: at once if its reader has seen whole events only. end does not wait.
func (w *watch) endWatch() {
	w.mu.Lock()
	w.ending = true
	now := !w.ended && w.events.betweenEvents()
	w.ended = w.ended || now
	w.mu.Unlock()
	if now {
		_ = w.Close() // wakes the reader
	}
}

// endOn ends the watch when gone is closed, as drained sessions' is: the agent stops, and would cut it. Stop it before
// the request ends.
func (w *watch) endOn(gone <-chan struct{}) (stop func()) {
	if gone == nil {
		return func() {}
	}
	over := make(chan struct{})
	var waiting sync.WaitGroup
	waiting.Go(func() {
		select {
		case <-gone:
			w.endWatch()
		case <-over:
		}
	})
	return func() {
		close(over)
		waiting.Wait()
	}
}

// jsonEvents are values one after the other.
type jsonEvents struct {
	depth   int
	text    bool // within a string
	escaped bool // after a backslash in it
}

func (j *jsonEvents) feedEvents(p []byte) (whole int) {
	for i, c := range p {
		switch {
		case j.escaped:
			j.escaped = false
		case j.text:
			j.escaped = c == '\\'
			j.text = c != '"'
		case c == '"':
			j.text = true
		case c == '{' || c == '[':
			j.depth++
		case c == '}' || c == ']':
			j.depth--
		}
		if j.betweenEvents() && c == '\n' {
			whole = i + 1
		}
	}
	return whole
}

func (j *jsonEvents) betweenEvents() bool { return j.depth == 0 && !j.text }

// lengthEvents have their length before them, as four bytes.
type lengthEvents struct {
	head [4]byte
	have int   // bytes of head
	left int64 // of the event
}

func (l *lengthEvents) feedEvents(p []byte) (whole int) {
	for at := 0; at < len(p); {
		if l.have < len(l.head) {
			n := copy(l.head[l.have:], p[at:])
			l.have, at = l.have+n, at+n
			if l.have < len(l.head) {
				return whole
			}
			l.left = int64(binary.BigEndian.Uint32(l.head[:]))
		}
		n := min(l.left, int64(len(p)-at))
		l.left, at = l.left-n, at+int(n)
		if l.left == 0 {
			l.have, whole = 0, at
		}
	}
	return whole
}

func (l *lengthEvents) betweenEvents() bool { return l.have == 0 }
