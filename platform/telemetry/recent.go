package telemetry

import (
	"bytes"
	"io"
	"log/slog"
	"sync"
)

// recentBytes is how much of the end of its log a service keeps in memory, for `fairlead debug bundle`: some minutes of
// a busy service, hours of a quiet one. Twice as much is in use at most.
const recentBytes = 256 << 10

// recent keeps the end of what is written, in whole lines.
type recent struct {
	mu  sync.Mutex
	end []byte // guarded by mu
}

// Write implements io.Writer; it never fails.
func (r *recent) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.end = append(r.end, p[max(0, len(p)-recentBytes):]...)
	if len(r.end) > 2*recentBytes {
		r.end = append(r.end[:0], lastLines(r.end)...)
	}
	return len(p), nil
}

// lastLines returns the whole lines among the last recentBytes.
func lastLines(text []byte) []byte {
	if len(text) <= recentBytes {
		return text
	}
	text = text[len(text)-recentBytes:]
	_, whole, _ := bytes.Cut(text, []byte("\n"))
	return whole
}

// teed writes to both; what w says counts.
type teed struct {
	w io.Writer
	r *recent
}

func (t teed) Write(p []byte) (int, error) {
	_, _ = t.r.Write(p)
	return t.w.Write(p)
}

// Recent returns the end of the log of a logger that NewLogger made, in whole lines; nil for others.
func Recent(log *slog.Logger) []byte {
	h, ok := log.Handler().(traceHandler)
	if !ok {
		return nil
	}
	h.recent.mu.Lock()
	defer h.recent.mu.Unlock()
	return bytes.Clone(lastLines(h.recent.end))
}
