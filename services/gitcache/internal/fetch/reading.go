package fetch

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
	errDeadline = errors.New("deadline")
	errIdle     = errors.New("nothing came")
)

// ofDisk is what the system said of a file, without its path; nil: it was not about a file.
func ofDisk(err error) error {
	if file, ok := errors.AsType[*fs.PathError](err); ok {
		return file.Err
	}
	if link, ok := errors.AsType[*os.LinkError](err); ok {
		return link.Err
	}
	return nil
}

func (l Limits) capList(r io.Reader) *capped {
	return capReader(r, l.ListBytes, "list of refs")
}

func (l Limits) capPack(r io.Reader) *capped {
	return capReader(r, l.PackBytes, "pack")
}

// capped fails, naming the limit, where io.LimitReader would end quietly.
type capped struct {
	r    io.Reader
	left int64 // most and one: only what is really larger fails
	most int64
	what string
	// ended tells that r was read to its own end.
	ended bool
}

// capReader makes a reader that fails when more than most bytes come. what names them.
func capReader(r io.Reader, most int64, what string) *capped {
	return &capped{r: r, left: most + 1, most: most, what: what}
}

// bytesTaken is how much was read.
func (c *capped) bytesTaken() int64 { return c.most + 1 - c.left }

func (c *capped) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, &Error{Kind: KindContent, limit: true, Message: fmt.Sprintf("the %s is larger than the limit of %d MiB", c.what, c.most>>20)}
	}
	n, err := c.r.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	c.ended = c.ended || err == io.EOF
	return n, err
}

// watchdog ends a context when nothing was read for a while.
type watchdog struct {
	r     io.Reader
	timer *time.Timer
	idle  time.Duration
}

// newWatchdog begins to count at once; stop ends it.
func newWatchdog(idle time.Duration, cancel context.CancelCauseFunc) *watchdog {
	return &watchdog{idle: idle, timer: time.AfterFunc(idle, func() { cancel(errIdle) })}
}

// watch makes Read read from r.
func (w *watchdog) watch(r io.Reader) { w.r = r }

func (w *watchdog) Read(p []byte) (int, error) {
	n, err := w.r.Read(p)
	if n > 0 {
		w.timer.Reset(w.idle)
	}
	return n, err
}

func (w *watchdog) stopTimer() { w.timer.Stop() }

// drainBody reads what little may be left of a body: only then the connection is used again.
// cancel is of its request.
func drainBody(body io.Reader, cancel context.CancelFunc) {
	slow := time.AfterFunc(drainTime, cancel)
	_, _ = io.CopyN(io.Discard, body, maxDrain)
	slow.Stop()
}
