package lab

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"fairlead.dev/tools/nodelocal/internal/cgroups"
	"fairlead.dev/tools/nodelocal/internal/layout"
	nodes "fairlead.dev/tools/nodelocal/internal/node"
	"fairlead.dev/tools/nodelocal/internal/process"
)

// node is one node as the lab sees it: a machine that is on or off.
type node struct {
	number int
	groups []string // of the lab
	stderr io.Writer

	mu      sync.Mutex
	machine *process.Process // nil while it is off
}

func (n *node) name() string { return layout.NodeName(n.number) }
func (n *node) file(elem ...string) string {
	return layout.InLab(append([]string{n.name()}, elem...)...)
}
func (n *node) ownGroups() []string { return cgroups.Below(n.groups, n.name()) }

// prepare writes what the node reads: its credentials, and where its control groups are.
func (n *node) prepare(server string) error {
	if err := os.MkdirAll(n.file("var"), 0o755); err != nil { //nolint:gosec // containers look in there
		return err
	}
	if err := os.WriteFile(n.file(layout.Groups), []byte(strings.Join(n.ownGroups(), "\n")), 0o600); err != nil {
		return err
	}
	return issue(layout.InLab(layout.Cluster, "pki"), n.file(), server, n.number)
}

// boot switches the node on. The node waits for nothing but its network.
func (n *node) boot() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.machine != nil {
		return errors.New("it is on already")
	}
	const emptied = 10 * time.Second // processes that a power cut killed may be on their way out
	if err := cgroups.Remove(n.ownGroups(), emptied); err != nil {
		return err
	}
	if err := cgroups.Make(n.ownGroups()); err != nil {
		return err
	}
	read, start, err := os.Pipe()
	if err != nil {
		return err
	}
	defer start.Close()
	cmd := exec.Command("/proc/self/exe", nodes.First, strconv.Itoa(n.number)) //nolint:noctx // it outlives the call
	cmd.Args[0] = "nodelocal"
	cmd.Stdin, cmd.Stdout, cmd.Stderr = read, n.stderr, n.stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: process.Namespaces}
	machine, err := process.Start(cmd)
	if err := errors.Join(err, read.Close()); err != nil {
		return err
	}
	err = errors.Join(
		plug(n.number, machine.PID()),
		os.WriteFile(n.file(layout.NodePID), []byte(strconv.Itoa(machine.PID())), 0o600),
	)
	if err == nil {
		_, err = start.Write([]byte{1})
	}
	if err != nil {
		machine.Kill()
		return err
	}
	n.machine = machine
	return nil
}

// cut ends all of the node's processes at once.
func (n *node) cut() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.machine == nil {
		return errors.New("it is off already")
	}
	n.machine.Kill()
	n.machine = nil
	return errors.Join(os.Remove(n.file(layout.NodePID)), unplug(n.number))
}

// stop ends the node in order, as far as its own programs go: its pods are killed with it.
func (n *node) stop() {
	n.mu.Lock()
	defer n.mu.Unlock()
	const grace = 10 * time.Second
	if n.machine != nil {
		n.machine.Stop(grace)
		n.machine = nil
	}
}

func (n *node) runs() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.machine != nil
}

// dead is how a node that should run has ended, or nil.
func (n *node) dead() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.machine == nil {
		return nil
	}
	select {
	case <-n.machine.Ended():
		return fmt.Errorf("its first process ended: %w (%s)", n.machine.Err(), filepath.Base(n.file()))
	default:
		return nil
	}
}
