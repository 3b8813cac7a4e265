package lab

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"fairlead.dev/tools/nodelocal/internal/cgroups"
	"fairlead.dev/tools/nodelocal/internal/layout"
)

// Janitor is the command that cleans up after a lab.
const Janitor = "janitor"

// cleanUpLimit is how long the kernel may take to end what was killed.
const cleanUpLimit = 30 * time.Second

// janitor is the process that cleans up once the other end of its stdin is closed, be it by finish or by the death of this process.
// The janitor holds the lock of the lab's folder, so that the next lab starts behind it.
type janitor struct {
	cmd  *exec.Cmd
	hold *os.File
}

func startJanitor(cfg Config, lock *os.File, groups []string) (*janitor, error) {
	read, hold, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer read.Close()
	cmd := exec.Command("/proc/self/exe", append([]string{Janitor, cfg.Dir}, groups...)...) //nolint:noctx // it outlives this process
	cmd.Args[0] = "nodelocal"
	cmd.Stdin, cmd.Stderr = read, cfg.Stderr
	cmd.ExtraFiles = []*os.File{lock}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // no signal of a terminal, nor of a group, is meant for it
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start the janitor: %w", err), hold.Close())
	}
	return &janitor{cmd, hold}, nil
}

func (j *janitor) finish() error {
	if err := errors.Join(j.hold.Close(), j.cmd.Wait()); err != nil {
		return fmt.Errorf("clean up: %w", err)
	}
	return nil
}

// CleanUp is the janitor: args are the lab's folder and its control groups.
func CleanUp(args []string) error {
	if len(args) < 2 {
		return errors.New("janitor: want a folder and control groups")
	}
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return fmt.Errorf("wait for the end of the lab: %w", err)
	}
	err := cgroups.Remove(args[1:], cleanUpLimit)
	for _, file := range []string{layout.LabPID, layout.Socket} {
		if gone := os.Remove(filepath.Join(args[0], file)); gone != nil && !errors.Is(gone, os.ErrNotExist) {
			err = errors.Join(err, gone)
		}
	}
	return err
}
