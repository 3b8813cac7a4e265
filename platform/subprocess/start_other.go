//go:build !linux

package subprocess

import "os"

func (p *Process) run(started chan<- error) {
	err := p.cmd.Start()
	started <- err
	if err == nil {
		p.err = p.cmd.Wait()
		close(p.ended)
	}
}

// Both fail only if there is nothing left to signal.
func (p *Process) ask()  { _ = p.Signal(os.Interrupt) }
func (p *Process) kill() { _ = p.cmd.Process.Kill() }
