package up

import (
	"os/exec"
	"runtime"
	"syscall"
)

// start starts cmd in a process group of its own, so that Ctrl-C in the terminal reaches us only and
// we end things in order, and sees to it that the kernel kills it when we are gone, however that
// happened.
func start(cmd *exec.Cmd) (*process, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started, p := make(chan error, 1), &process{ended: make(chan struct{})}
	go func() {
		// "Parent" means the thread that started the child: it must not end before.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			p.err = cmd.Wait()
			close(p.ended)
		}
	}()
	return p, <-started
}

// ask tells the program itself: it ends its own children in order.
func ask(cmd *exec.Cmd) { _ = cmd.Process.Signal(syscall.SIGTERM) }

// kill ends the whole group. It fails only if all of it is gone.
func kill(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
