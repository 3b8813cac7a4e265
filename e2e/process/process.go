// Package process runs programs for the tests across services: each can be killed, stopped and started
// again with the same arguments, and dies with whoever started it.
package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"fairlead.dev/platform/freeport"
	"fairlead.dev/platform/subprocess"
)

// Process is one program. A Process can be killed and started again with the same arguments, and it dies with the test
// whatever way the test ends.
type Process struct {
	Name string
	Args []string
	Env  []string // besides that of this process

	path string
	log  string // file that gets stdout and stderr of every run

	mu     sync.Mutex
	run    *subprocess.Process // the last one; nil before the first
	exited <-chan struct{}     // closed when that has ended
}

// New is a program that does not run yet. Its log is in dir.
func New(dir, name, path string, args ...string) *Process {
	return &Process{Name: name, path: path, Args: args, log: filepath.Join(dir, name+".log")}
}

// Start runs the program; it returns once it is running, not once it is ready.
func (p *Process) Start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.run != nil {
		select {
		case <-p.exited:
		default:
			return fmt.Errorf("start %s: it is running already", p.Name)
		}
	}
	out, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = out.Close() }()     // the program has its own copy
	cmd := exec.Command(p.path, p.Args...) //nolint:noctx // it outlives the call; kill and stop end it
	cmd.Env = append(os.Environ(), p.Env...)
	cmd.Stdout, cmd.Stderr = out, out
	run, err := subprocess.Start(cmd)
	if err != nil {
		return fmt.Errorf("start %s: %w", p.Name, err)
	}
	p.run, p.exited = run, run.Ended()
	return nil
}

// Replace makes the next start run another program.
func (p *Process) Replace(path string, args ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.path, p.Args = path, args
}

// Signal sends sig to the program alone, not to its children.
func (p *Process) Signal(sig syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.run == nil {
		return fmt.Errorf("signal %s: it was never started", p.Name)
	}
	return p.run.Signal(sig)
}

// Kill ends the program without a chance to clean up, and waits until it is gone.
func (p *Process) Kill() error {
	if err := p.Signal(syscall.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-p.exited
	return nil
}

// Exited is closed when the last run has ended.
func (p *Process) Exited() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.exited
}

// Ended tells whether the last run has ended, and how.
func (p *Process) Ended() (ended bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.run == nil {
		return false, nil
	}
	select {
	case <-p.exited:
		return true, p.run.Wait()
	default:
		return false, nil
	}
}

// Pid of the last run; 0 before the first.
func (p *Process) Pid() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.run == nil {
		return 0
	}
	return p.run.Pid()
}

// Stop asks the program to end, and kills it when it does not do so within the grace.
func (p *Process) Stop(grace time.Duration) error {
	if p.run == nil {
		return nil
	}
	if err := p.run.Stop(grace); err != nil {
		return fmt.Errorf("%s %w; its last words:\n%s", p.Name, err, p.Tail())
	}
	return nil
}

// Log returns all that the program wrote, in all its runs.
func (p *Process) Log() (string, error) {
	b, err := os.ReadFile(p.log)
	return string(b), err
}

// Tail returns the end of the log, for error messages.
func (p *Process) Tail() string {
	f, err := os.Open(p.log)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = f.Close() }()
	const most = 4 << 10
	if st, err := f.Stat(); err == nil && st.Size() > most {
		_, _ = f.Seek(-most, io.SeekEnd)
	}
	b, _ := io.ReadAll(f)
	return string(bytes.TrimSpace(b))
}

// Run executes a program to its end and returns what it wrote to stdout. The error holds stderr.
func Run(ctx context.Context, env []string, stdin, path string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = append(os.Environ(), env...)
	if stdin != "" {
		cmd.Stdin = bytes.NewReader([]byte(stdin))
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("%s %v: %w\n%s", filepath.Base(path), args, err, bytes.TrimSpace(stderr.Bytes()))
	}
	return stdout.String(), nil
}

// Await polls until ok returns nil, and returns its last error when ctx ends first. After a look that took long comes
// a longer pause: many looks start a process, and those of several tests would take all of a slow machine.
func Await(ctx context.Context, what string, ok func(context.Context) error) error {
	for {
		began := time.Now()
		err := ok(ctx)
		if err == nil {
			return nil
		}
		timer := time.NewTimer(min(max(100*time.Millisecond, 2*time.Since(began)), time.Second))
		select {
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("wait until %s: %w; last seen: %w", what, context.Cause(ctx), err)
		case <-timer.C:
		}
	}
}

// FreeAddresses returns loopback addresses that nobody listens on, for servers that must come back
// under the same address after they were killed.
func FreeAddresses(n int) ([]string, error) { return freeport.Addresses(n) }
