package kubelet

import (
	"context"
	"errors"
	"io"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"github.com/creack/pty"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	utilexec "k8s.io/utils/exec"
)

var errNoExec = errors.New("nothing runs in this pod. With --exec, `fairlead up` and `kubelocal start` let kubectl exec run commands on this machine instead")

// ExecInContainer implements remotecommand.Executor: the command runs on this machine.
func (k *Kubelet) ExecInContainer(ctx context.Context, _, _, _ string, command []string, in io.Reader, out,
	errOut io.WriteCloser, tty bool, sizes <-chan remotecommand.TerminalSize, _ time.Duration) error {
	if k.execDir == "" {
		return errNoExec
	}
	if len(command) == 0 {
		return errors.New("no command")
	}
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir = k.execDir
	// The kernel kills the command when the thread that started it ends: this one stays until then.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	run := func() error { return withPipes(cmd, in, out, errOut) }
	if tty {
		run = func() error { return withTerminal(cmd, in, out, sizes) }
	}
	return status(run())
}

// withPipes does not wait for the end of the input: a command may end before it.
func withPipes(cmd *exec.Cmd, in io.Reader, out, errOut io.WriteCloser) error {
	if out != nil {
		cmd.Stdout = out
	}
	if errOut != nil {
		cmd.Stderr = errOut
	}
	if in == nil {
		return cmd.Run()
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(stdin, in) // ends with the stream, at the latest when the command has ended
		_ = stdin.Close()
	}()
	return cmd.Wait()
}

func withTerminal(cmd *exec.Cmd, in io.Reader, out io.WriteCloser, sizes <-chan remotecommand.TerminalSize) error {
	terminal, err := pty.Start(cmd)
	if err != nil {
		return err
	}
	defer terminal.Close()
	go func() {
		for size := range sizes {
			_ = pty.Setsize(terminal, &pty.Winsize{Rows: size.Height, Cols: size.Width})
		}
	}()
	if in != nil {
		go func() { _, _ = io.Copy(terminal, in) }()
	}
	if out != nil {
		_, _ = io.Copy(out, terminal) // until the last holder of the terminal has ended
	}
	return cmd.Wait()
}

// status turns the end of a command into what kubectl exits with.
func status(err error) error {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return utilexec.CodeExitError{Err: err, Code: exit.ExitCode()}
	}
	if errors.Is(err, exec.ErrNotFound) {
		return utilexec.CodeExitError{Err: err, Code: 127}
	}
	return err
}

// AttachContainer implements remotecommand.Attacher: the container sends back what it is sent.
func (k *Kubelet) AttachContainer(_ context.Context, _, _, _ string, in io.Reader, out, _ io.WriteCloser, _ bool, _ <-chan remotecommand.TerminalSize) error {
	if in == nil || out == nil {
		return nil
	}
	_, err := io.Copy(out, in)
	return err
}
