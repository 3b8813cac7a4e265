package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"
)

// The bytes that are read to keep a connection cost less than a new connection does.
const maxDrain, drainTime = 16 << 10, 250 * time.Millisecond

// The causes of a context that one of our own deadlines ended.
var (
	ErrDeadline = errors.New("deadline")
	ErrIdle     = errors.New("nothing came")
)

// DiskCause is what the system said of a file, without its path; nil: it was not about a file.
func DiskCause(err error) error {
	if file, ok := errors.AsType[*fs.PathError](err); ok {
		return file.Err
	}
	if link, ok := errors.AsType[*os.LinkError](err); ok {
		return link.Err
	}
	return nil
}

// CapList makes a reader of an answer that is part of a list.
func (l Limits) CapList(r io.Reader) *Capped {
	return CapReader(r, l.ListBytes, "list of refs")
}

// CapPack makes a reader of a pack.
func (l Limits) CapPack(r io.Reader) *Capped {
	return CapReader(r, l.PackBytes, "pack")
}

// Capped fails, naming the limit, where io.LimitReader would end quietly.
type Capped struct {
	r    io.Reader
	left int64 // most and one: only what is really larger fails
	most int64
	what string
	// Ended tells that r was read to its own end.
	Ended bool
}

// CapReader makes a reader that fails when more than most bytes come. what names them.
func CapReader(r io.Reader, most int64, what string) *Capped {
	return &Capped{r: r, left: most + 1, most: most, what: what}
}

// BytesTaken is how much was read.
func (c *Capped) BytesTaken() int64 { return c.most + 1 - c.left }

// Read reads up to the limit.
func (c *Capped) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, &Error{Kind: KindContent, Limit: true, Message: fmt.Sprintf("the %s is larger than the limit of %d MiB", c.what, c.most>>20)}
	}
	n, err := c.r.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	c.Ended = c.Ended || err == io.EOF
	return n, err
}

// Watchdog ends a context when nothing was read for a while.
type Watchdog struct {
	r     io.Reader
	timer *time.Timer
	idle  time.Duration
}

// NewWatchdog begins to count at once; StopTimer ends it.
func NewWatchdog(idle time.Duration, cancel context.CancelCauseFunc) *Watchdog {
	return &Watchdog{idle: idle, timer: time.AfterFunc(idle, func() { cancel(ErrIdle) })}
}

// Watch makes Read read from r.
func (w *Watchdog) Watch(r io.Reader) { w.r = r }

// Read reads, and begins to count anew when something came.
func (w *Watchdog) Read(p []byte) (int, error) {
	n, err := w.r.Read(p)
	if n > 0 {
		w.timer.Reset(w.idle)
	}
	return n, err
}

// StopTimer ends the watch.
func (w *Watchdog) StopTimer() { w.timer.Stop() }

// DrainBody reads what little may be left of a body: only then the connection is used again.
// cancel is of its request.
func DrainBody(body io.Reader, cancel context.CancelFunc) {
	slow := time.AfterFunc(drainTime, cancel)
	_, _ = io.CopyN(io.Discard, body, maxDrain)
	slow.Stop()
}
