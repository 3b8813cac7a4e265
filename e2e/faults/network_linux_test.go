package faults

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"fairlead.dev/e2e/process"
	"fairlead.dev/platform/subprocess"
)

const (
	// inside says to a test binary that it runs in a network namespace of its own.
	inside = "FAIRLEAD_FAULTS_INSIDE"
	// prefix is of the addresses of hosts; nothing leaves the namespace.
	prefix = "10.77.0."
	bridge = "lab0"
)

// TestMain runs the tests in a network namespace of their own, so that the machine gets no link, address or rule. All
// ends with this process.
func TestMain(m *testing.M) {
	if os.Getenv(inside) != "" || missing() != "" {
		os.Exit(m.Run())
	}
	cmd := exec.Command(os.Args[0], os.Args[1:]...)
	cmd.Env = append(os.Environ(), inside+"=1")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	run, err := subprocess.Start(cmd)
	if err == nil {
		err = run.Wait()
	}
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		os.Exit(exit.ExitCode())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "run the tests in a network namespace:", err)
		os.Exit(1)
	}
}

// missing says why this machine can't cut links, or nothing.
func missing() string {
	if os.Geteuid() != 0 {
		return "cutting links needs root: it takes network namespaces"
	}
	for _, program := range []string{"ip", "iptables", "nsenter", "sleep"} {
		if _, err := exec.LookPath(program); err != nil {
			return "cutting links needs " + program + ": run tools/install.sh"
		}
	}
	return ""
}

// network is a bridge with a host for each part: a network namespace with an address.
type network struct {
	t *testing.T

	mu    sync.Mutex // guards hosts
	hosts map[string]*host
}

type host struct {
	ip     string
	holder *subprocess.Process // keeps the namespace
}

func newNetwork(t *testing.T) *network {
	t.Helper()
	n := &network{t: t, hosts: map[string]*host{}}
	n.must("ip", "link", "set", "lo", "up")
	n.must("ip", "link", "add", bridge, "type", "bridge")
	n.must("ip", "addr", "add", n.Here()+"/24", "dev", bridge)
	n.must("ip", "link", "set", bridge, "up")
	t.Cleanup(func() {
		for _, h := range n.hosts {
			h.holder.Kill()
		}
		n.must("ip", "link", "del", bridge)
	})
	return n
}

// Here is the address of the test, and of Redis, PostgreSQL, Git and Kubernetes.
func (n *network) Here() string { return prefix + "1" }

// Host implements stack.Network.
func (n *network) Host(part string) (string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if h := n.hosts[part]; h != nil {
		return h.ip, nil
	}
	cmd := exec.Command("sleep", "infinity")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	holder, err := subprocess.Start(cmd)
	if err != nil {
		return "", fmt.Errorf("make a host for %s: %w", part, err)
	}
	number := len(n.hosts) + 2
	h := &host{prefix + strconv.Itoa(number), holder}
	n.hosts[part] = h
	link, pid := "lab0-"+strconv.Itoa(number), strconv.Itoa(holder.Pid())
	return h.ip, errors.Join(
		run("ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", pid),
		run("ip", "link", "set", link, "master", bridge, "up"),
		run("nsenter", "--target", pid, "--net", "ip", "link", "set", "lo", "up"),
		run("nsenter", "--target", pid, "--net", "ip", "addr", "add", h.ip+"/24", "dev", "eth0"),
		run("nsenter", "--target", pid, "--net", "ip", "link", "set", "eth0", "up"),
	)
}

// Inside implements stack.Network.
func (n *network) Inside(part string, command ...string) []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]string{"nsenter", "--target", strconv.Itoa(n.hosts[part].holder.Pid()), "--net", "--"}, command...)
}

// way is one direction between a part and a peer: another part, or a port of the servers that the test runs.
type way struct {
	part, peer string
	port       int  // of the peer; 0: all
	toPart     bool // packets that the peer sends are dropped, and else packets that the part sends
}

func (w way) String() string {
	if w.toPart {
		return w.peer + " to " + w.part
	}
	return w.part + " to " + w.peer
}

// drop drops what goes one way, without a word to either side, until the returned function is called.
func (n *network) drop(w way) (heal func()) {
	n.t.Helper()
	n.mu.Lock()
	peer := n.Here()
	if h := n.hosts[w.peer]; h != nil {
		peer = h.ip
	}
	n.mu.Unlock()
	rule := []string{"OUTPUT", "--destination", peer}
	port := "--destination-port"
	if w.toPart {
		rule, port = []string{"INPUT", "--source", peer}, "--source-port"
	}
	if w.port != 0 {
		rule = append(rule, "--protocol", "tcp", port, strconv.Itoa(w.port))
	}
	change := func(action string) {
		n.t.Helper()
		command := n.Inside(w.part,
			append(append([]string{"iptables", "--wait", action}, rule...), "--jump", "DROP")...)
		n.must(command[0], command[1:]...)
	}
	change("--insert")
	return func() { change("--delete") }
}

func (n *network) must(command string, args ...string) {
	n.t.Helper()
	if err := run(command, args...); err != nil {
		n.t.Fatal(err)
	}
}

func run(command string, args ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_, err := process.Run(ctx, nil, "", command, args...)
	if err != nil {
		return fmt.Errorf("%s %s: %w", command, strings.Join(args, " "), err)
	}
	return nil
}
