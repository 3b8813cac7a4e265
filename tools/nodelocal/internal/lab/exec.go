package lab

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"fairlead.dev/tools/nodelocal/internal/layout"
)

// Exec runs a command in a lab's network with the cluster's names, or on a node, and returns how it ended. The command
// ends with this process, and with the lab.
func Exec(dir, node string, command []string) error {
	runtime.LockOSThread() // this thread alone moves, and the command starts from it
	pid, err := os.ReadFile(filepath.Join(dir, layout.LabPID))
	if err != nil {
		return fmt.Errorf("no lab is running in %q: %w", dir, err)
	}
	working, err := os.Getwd()
	if err != nil {
		return err
	}
	if err := enter("/proc/" + string(pid)); err != nil {
		return err
	}
	if node != "" {
		pid, err := os.ReadFile(layout.InLab(node, layout.NodePID))
		if errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("node %q is off, or is none of this lab", node)
		}
		if err != nil {
			return err
		}
		if err := enter("/proc/" + strings.TrimSpace(string(pid))); err != nil {
			return err
		}
	}
	if os.Chdir(working) != nil { // the folder may be hidden by a mount in there
		working = "/"
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	cmd := exec.Command("/proc/self/exe", append([]string{Inside}, command...)...) //nolint:noctx // signals are handed on
	cmd.Args[0] = "nodelocal"
	cmd.Dir = working
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() { // until this process ends
		for s := range signals {
			_ = cmd.Process.Signal(s) // fails only if it has ended
		}
	}()
	return cmd.Wait()
}

// Inside is the command that Exec starts in the namespaces.
const Inside = "inside"

// RunInside becomes a command that ends with its parent. The parent is in another PID namespace, where package os can't ask for that: it
// takes a parent without a number for one that has died.
func RunInside(command []string) error {
	runtime.LockOSThread() // the setting is this thread's, and what it becomes keeps it
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("end with the parent process: %w", err)
	}
	if os.Getppid() != 0 {
		return errors.New("the parent process has ended")
	}
	program, err := exec.LookPath(command[0])
	if err != nil {
		return err
	}
	return fmt.Errorf("run %s: %w", program, syscall.Exec(program, command, os.Environ()))
}

// enter moves the calling thread into the namespaces of a process; what it starts is in its PID namespace as well.
func enter(process string) error {
	if err := unix.Unshare(unix.CLONE_FS); err != nil { // shared file state keeps threads in one mount namespace
		return fmt.Errorf("leave the other threads: %w", err)
	}
	var all []*os.File
	for _, kind := range []string{"uts", "ipc", "net", "pid", "mnt"} {
		file, err := os.Open(process + "/ns/" + kind)
		if err != nil {
			return fmt.Errorf("find the namespaces: %w", err)
		}
		defer file.Close()
		all = append(all, file)
	}
	for _, file := range all {
		if err := unix.Setns(int(file.Fd()), 0); err != nil {
			return fmt.Errorf("enter %s: %w", file.Name(), err)
		}
	}
	return nil
}
