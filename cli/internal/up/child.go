package up

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"fairlead.dev/platform/retry"
	"fairlead.dev/platform/subprocess"
)

const (
	// childGrace is how long a child may take to end by itself; a local cluster ends five programs in turn.
	childGrace = 10 * time.Second
	// Between two starts of a child that dies; back to the floor once it has lived for a while.
	restartFloor, restartMax = 500 * time.Millisecond, 30 * time.Second
	healthyAfter             = time.Minute
	// maxTail is how much of a child's last words an error repeats.
	maxTail = 4 << 10
)

// child is a program that is kept running.
type child struct {
	name string // For people: "cluster local-a".
	path string
	args []string
	log  *os.File // Gets stderr, and stdout as well.
	// line is called with every line of stdout; may be nil.
	line func(string)
	// grace is how long it may take to end by itself; 0: childGrace.
	grace time.Duration
	// died is told when the program ended without being asked to.
	died func(err error, again time.Duration)

	said tailWriter // what it wrote to stderr since it was started last
}

// run keeps the program running until ctx ends; then it asks it to end, and returns when it is gone.
func (c *child) run(ctx context.Context) error {
	wait := restartFloor
	for {
		began := time.Now()
		err := c.runOnce(ctx)
		if ctx.Err() != nil {
			return err
		}
		if time.Since(began) > healthyAfter {
			wait = restartFloor
		}
		pause := retry.Between(wait/2, wait)
		wait = min(2*wait, restartMax)
		c.died(err, pause)
		if !retry.Sleep(ctx, pause) {
			return nil
		}
	}
}

// runOnce runs the program to its end. Its error tells how it ended; nil if it was asked to end and did.
func (c *child) runOnce(ctx context.Context) error {
	cmd := exec.Command(c.path, c.args...) //nolint:noctx // Ended by Stop below, not at once.
	cmd.Env = childEnvironment(os.Environ())
	c.said.forgetTail()
	cmd.Stderr = io.MultiWriter(lossyWriter{c.log}, &c.said)
	var lines lineWriter
	if c.line != nil {
		lines.line = c.line
	}
	cmd.Stdout = io.MultiWriter(lossyWriter{c.log}, &lines)
	// A grandchild that keeps the pipes open must not keep us.
	cmd.WaitDelay = time.Second
	running, err := subprocess.Start(cmd)
	if err != nil {
		return fmt.Errorf("start %s: %w", c.path, err)
	}
	select {
	case <-running.Ended():
		return endError(running.Wait(), &c.said)
	case <-ctx.Done():
	}
	if err := running.Stop(c.grace); err != nil {
		return fmt.Errorf("%s %w", c.name, err)
	}
	return nil
}

// endError tells how a program ended, with its last words unless it had no chance to say any.
func endError(err error, tail *tailWriter) error {
	var exit *exec.ExitError
	if err == nil {
		err = errors.New("it ended by itself")
	}
	if errors.As(err, &exit) && !exit.Exited() {
		return err
	}
	return fmt.Errorf("%w%s", err, tail.quoteLast())
}

// childEnvironment leaves our own settings out: FAIRLEAD_DATA_DIR of ours would be a flag of an agent.
func childEnvironment(env []string) []string {
	var out []string
	for _, e := range env {
		if !strings.HasPrefix(e, "FAIRLEAD_") {
			out = append(out, e)
		}
	}
	return out
}

// lossyWriter drops what can't be written: a program must not end because the disk with its log is full.
type lossyWriter struct{ to io.Writer }

func (w lossyWriter) Write(p []byte) (int, error) {
	_, _ = w.to.Write(p)
	return len(p), nil
}

// lineWriter calls line for every whole line.
type lineWriter struct {
	line func(string)
	rest []byte
}

func (w *lineWriter) Write(p []byte) (int, error) {
	if w.line == nil {
		return len(p), nil
	}
	w.rest = append(w.rest, p...)
	for {
		advance, token, _ := bufio.ScanLines(w.rest, false)
		if advance == 0 {
			break
		}
		w.line(string(token))
		w.rest = w.rest[advance:]
	}
	if len(w.rest) > maxTail { // No line that anybody waits for.
		w.rest = nil
	}
	return len(p), nil
}

// tailWriter keeps the end of what is written.
type tailWriter struct {
	mu   sync.Mutex
	tail []byte // Guarded by mu.
}

func (w *tailWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tail = append(w.tail, p...)
	w.tail = w.tail[max(0, len(w.tail)-maxTail):]
	return len(p), nil
}

func (w *tailWriter) forgetTail() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tail = nil
}

// quoteLast returns the last line for an error message.
func (w *tailWriter) quoteLast() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := strings.TrimSpace(string(w.tail))
	if text == "" {
		return ""
	}
	return ": " + text[strings.LastIndexByte(text, '\n')+1:]
}
