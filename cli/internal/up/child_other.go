//go:build !linux

package up

import (
	"os"
	"os/exec"
)

// start starts cmd. Elsewhere than on Linux the kernel does not
// end a child with its parent: after a kill -9 of ours children stay.
func start(cmd *exec.Cmd) (*process, error) {
	p := &process{ended: make(chan struct{})}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.ended)
		p.err = cmd.Wait()
	}()
	return p, nil
}

func ask(cmd *exec.Cmd) { _ = cmd.Process.Signal(os.Interrupt) }

func kill(cmd *exec.Cmd) { _ = cmd.Process.Kill() }
