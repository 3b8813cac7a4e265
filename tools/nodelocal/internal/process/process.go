// Package process starts the processes of a lab, so that none outlives the process that started it, and is the first process of
// a PID namespace.
package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// Namespaces that a lab and each of its nodes have for themselves.
const Namespaces = syscall.CLONE_NEWNS | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC | syscall.CLONE_NEWNET | syscall.CLONE_NEWPID

// Process is a started program.
type Process struct {
	cmd   *exec.Cmd
	ended chan struct{} // closed when it is gone
	err   error         // how it ended; valid then
}

// Start starts cmd and has the kernel kill it when this process ends. The kernel takes the thread that started a program for its
// parent, so that thread lives until the program ends.
func Start(cmd *exec.Cmd) (*Process, error) {
	p := &Process{cmd: cmd, ended: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if cmd.SysProcAttr == nil {
			cmd.SysProcAttr = &syscall.SysProcAttr{}
		}
		cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
		cmd.SysProcAttr.Setpgid = true // Ctrl-C in a terminal reaches the first process only
		err := cmd.Start()
		started <- err
		if err == nil {
			p.err = cmd.Wait()
			close(p.ended)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	return p, nil
}

// PID of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Ended is closed when the process is gone.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Err is how it ended.
func (p *Process) Err() error {
	<-p.ended
	if p.err == nil {
		return errors.New("exited with 0")
	}
	return p.err
}

// Kill ends it, and returns when it is gone; with the first process of a PID namespace, all others in there are gone as well.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // fails only if it has ended
	<-p.ended
}

// Stop asks it to end, and kills it after the grace.
func (p *Process) Stop(grace time.Duration) {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // fails only if it has ended
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.ended:
	case <-timer.C:
		p.Kill()
	}
}

// Keep runs a program again and again until ctx ends, and stops it then. Its output is appended to the file log.
func Keep(ctx context.Context, stderr io.Writer, log string, command func() *exec.Cmd) {
	const grace, pause = 5 * time.Second, time.Second
	for {
		err := runOnce(ctx, grace, log, command())
		if ctx.Err() != nil {
			return
		}
		fmt.Fprintf(stderr, "a program ended (%v) and is started again; see %s\n", err, log)
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

func runOnce(ctx context.Context, grace time.Duration, log string, cmd *exec.Cmd) error {
	output, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open a log: %w", err)
	}
	defer output.Close()
	cmd.Stdout, cmd.Stderr = output, output
	p, err := Start(cmd)
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		p.Stop(grace)
	case <-p.Ended():
	}
	return p.Err()
}

// First is the first process of a PID namespace: it starts this program again with args, hands signals on to it, reaps what
// nobody else waits for, and ends as that one does. The program inherits the namespaces of the calling thread.
func First(args ...string) error {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	child, err := os.StartProcess("/proc/self/exe", append([]string{"nodelocal"}, args...), &os.ProcAttr{
		Env: os.Environ(), Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
	})
	if err != nil {
		return fmt.Errorf("start %s: %w", args[0], err)
	}
	var ended sync.WaitGroup
	done := make(chan struct{})
	ended.Go(func() {
		for {
			select {
			case s := <-signals:
				_ = child.Signal(s) // fails only if it has ended
			case <-done:
				return
			}
		}
	})
	defer ended.Wait()
	defer close(done)
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return fmt.Errorf("wait for %s: %w", args[0], err)
		case pid == child.Pid && status.Signaled():
			return fmt.Errorf("%s was killed: %s", args[0], status.Signal())
		case pid == child.Pid && status.ExitStatus() != 0:
			return fmt.Errorf("%s exited with %d", args[0], status.ExitStatus())
		case pid == child.Pid:
			return nil
		}
	}
}
