// Package node is one node of a lab: its first process, which makes a machine of namespaces, and containerd, kubelet and
// kube-proxy in it.
package node

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"fairlead.dev/tools/nodelocal/internal/cgroups"
	"fairlead.dev/tools/nodelocal/internal/layout"
	"fairlead.dev/tools/nodelocal/internal/process"
)

// Commands of the two stages.
const (
	First  = "node-first"
	Second = "node"
)

// sysctls are the whole machine's, and kubelet writes them: it gets files of its own with the values that it wants.
var sysctls = map[string]string{"vm/overcommit_memory": "1", "kernel/panic": "10", "kernel/panic_on_oops": "1"} //nolint:gochecknoglobals // a constant

// RunFirst is the first process of a node, in all namespaces of its own but that of control groups. The process begins when the
// lab says on stdin that the node has its link.
func RunFirst(number int) error {
	runtime.LockOSThread() // one thread enters the last namespace and starts what follows
	if _, err := os.Stdin.Read(make([]byte, 1)); err != nil {
		return fmt.Errorf("wait for the lab: %w", err)
	}
	name := layout.NodeName(number)
	dir := layout.InLab(name)
	groups, err := os.ReadFile(filepath.Join(dir, layout.Groups))
	if err != nil {
		return fmt.Errorf("read which control groups are this node's: %w", err)
	}
	if err := cgroups.Enter(strings.Fields(string(groups))); err != nil {
		return err
	}
	if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil {
		return fmt.Errorf("make a namespace of control groups: %w", err)
	}
	if err := unix.Sethostname([]byte(name)); err != nil {
		return fmt.Errorf("set the host name: %w", err)
	}
	if err := mount(dir); err != nil {
		return err
	}
	return process.First(Second, strconv.Itoa(number))
}

// mount gives the node its own view of files. kubelet wants mounts to reach containers, hence shared; private comes first, so that
// none reaches the lab.
func mount(dir string) error {
	volatile := filepath.Join(dir, "var")
	if err := os.MkdirAll(filepath.Join(volatile, "tmp"), 0o755); err != nil { //nolint:gosec // containers look in there
		return err
	}
	for _, m := range []struct {
		source, target, kind string
		flags                uintptr
	}{
		{"", "/", "", unix.MS_REC | unix.MS_PRIVATE},
		{"", "/", "", unix.MS_REC | unix.MS_SHARED},
		{"proc", "/proc", "proc", 0},
		{"sysfs", "/sys", "sysfs", 0},
		{"tmpfs", "/run", "tmpfs", 0},
		{volatile, "/var", "", unix.MS_BIND},
	} {
		if err := unix.Mount(m.source, m.target, m.kind, m.flags, ""); err != nil {
			return fmt.Errorf("mount %s: %w", m.target, err)
		}
	}
	if err := cgroups.Mount(); err != nil {
		return err
	}
	for name, value := range sysctls {
		own := filepath.Join(dir, strings.ReplaceAll(name, "/", "."))
		if err := errors.Join(os.WriteFile(own, []byte(value+"\n"), 0o600), unix.Mount(own, "/proc/sys/"+name, "", unix.MS_BIND, "")); err != nil {
			return fmt.Errorf("cover %s: %w", name, err)
		}
	}
	return nil
}
