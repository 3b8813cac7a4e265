// Package subprocess starts programs that must not outlive the process that started them, however
// that one ends.
package subprocess

import (
	"fmt"
	"os"
	"os/exec"
	"time"
)

// Process is a program that was started.
type Process struct {
	cmd   *exec.Cmd
	ended chan struct{} // closed when it is gone
	err   error         // how it ended; valid then
}

// Start starts cmd in a process group of its own, so that Ctrl-C in a terminal reaches us only, and
// has the kernel kill it when we are gone. The latter is a thing of Linux; elsewhere what runs when
// we are killed stays. No other caller may wait for cmd.
//
// Give cmd.Stdout a writer: the end of what cmd.StdoutPipe yields would be lost.
func Start(cmd *exec.Cmd) (*Process, error) {
	p := &Process{cmd: cmd, ended: make(chan struct{})}
	started := make(chan error)
	go p.run(started)
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// Ended is closed when the program is gone and all of its output is written.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Wait waits for the end, and returns what exec.Cmd.Wait does.
func (p *Process) Wait() error {
	<-p.ended
	return p.err
}

// Pid is the program's process id, and that of its group.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Signal sends sig to the program alone, not to its children.
func (p *Process) Signal(sig os.Signal) error { return p.cmd.Process.Signal(sig) }

// Stop asks the program to end, which ends its own children then. If it has not within the grace, its
// whole group is killed, and the error says so. When Stop returns the program is gone.
func (p *Process) Stop(grace time.Duration) error {
	p.ask()
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.ended:
		return nil
	case <-timer.C:
	}
	p.Kill()
	return fmt.Errorf("did not end within %s and was killed", grace)
}

// Kill ends the program and its group at once, and returns when the program is gone.
func (p *Process) Kill() {
	select {
	case <-p.ended: // its number may be somebody else's by now
	default:
		p.kill()
		<-p.ended
	}
}
