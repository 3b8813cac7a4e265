package subprocess

import (
	"runtime"
	"syscall"
)

func (p *Process) run(started chan<- error) {
	// The kernel takes the thread that started a program for its parent: it must not end before.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if p.cmd.SysProcAttr == nil {
		p.cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	p.cmd.SysProcAttr.Setpgid, p.cmd.SysProcAttr.Pdeathsig = true, syscall.SIGKILL
	err := p.cmd.Start()
	started <- err
	if err == nil {
		p.err = p.cmd.Wait()
		close(p.ended)
	}
}

// Both fail only if there is nothing left to signal.
func (p *Process) ask()  { _ = p.Signal(syscall.SIGTERM) }
func (p *Process) kill() { _ = syscall.Kill(-p.Pid(), syscall.SIGKILL) }
