// Package cgroups makes a subtree of control groups for a lab and for each of its nodes, and removes it again.
//
// On a machine with cgroup v1 a group is a folder in each hierarchy, below the group of the process that started the lab. On a
// machine with v2 alone it is one folder below the mount point, because a group with processes in it can't give its controllers
// to children; that branch follows the kernel's documentation and the code of kubelet and runc, and was never run.
package cgroups

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Root is where distributions mount control groups.
const Root = "/sys/fs/cgroup"

// hierarchy is one line of /proc/self/cgroup.
type hierarchy struct{ controllers, path string }

// name is that of the hierarchy's folder in Root.
func (h hierarchy) name() string { return strings.TrimPrefix(h.controllers, "name=") }

// V2 tells whether the machine has the unified hierarchy alone.
func V2() bool {
	var stat unix.Statfs_t
	return unix.Statfs(Root, &stat) == nil && stat.Type == unix.CGROUP2_SUPER_MAGIC
}

// hierarchies of v1. Beside them a v2 without controllers may be mounted, which nothing here uses.
func hierarchies() ([]hierarchy, error) {
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, fmt.Errorf("read this process's control groups: %w", err)
	}
	var all []hierarchy
	for line := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n") {
		fields := strings.SplitN(line, ":", 3)
		if len(fields) == 3 && fields[1] != "" {
			all = append(all, hierarchy{fields[1], fields[2]})
		}
	}
	if len(all) == 0 {
		return nil, errors.New("no control groups are mounted at " + Root)
	}
	return all, nil
}

// Folders of a group with a name, in each hierarchy below the group that this process is in.
func Folders(name string) ([]string, error) {
	if V2() {
		return []string{filepath.Join(Root, name)}, nil
	}
	all, err := hierarchies()
	if err != nil {
		return nil, err
	}
	var folders []string
	for _, h := range all {
		folders = append(folders, filepath.Join(Root, h.name(), h.path, name))
	}
	return folders, nil
}

// Below are the folders of a group inside another one.
func Below(folders []string, name string) []string {
	var below []string
	for _, folder := range folders {
		below = append(below, filepath.Join(folder, name))
	}
	return below
}

// Make makes the folders of a group.
func Make(folders []string) error {
	for _, folder := range folders {
		if err := os.Mkdir(folder, 0o755); err != nil { //nolint:gosec // as the kernel's own
			return fmt.Errorf("make a control group: %w", err)
		}
		parent := filepath.Dir(folder)
		if V2() {
			if err := enable(parent); err != nil {
				return err
			}
			continue
		}
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} { // empty in a new group, which may hold no process then
			set, err := os.ReadFile(filepath.Join(parent, file))
			if errors.Is(err, fs.ErrNotExist) {
				break // not the hierarchy of cpuset
			}
			if err == nil {
				err = os.WriteFile(filepath.Join(folder, file), set, 0)
			}
			if err != nil {
				return fmt.Errorf("copy %s: %w", file, err)
			}
		}
	}
	return nil
}

// enable hands all controllers of a v2 group to its children.
func enable(group string) error {
	has, err := os.ReadFile(filepath.Join(group, "cgroup.controllers"))
	if err != nil {
		return fmt.Errorf("read the controllers: %w", err)
	}
	for controller := range strings.FieldsSeq(string(has)) {
		if err := os.WriteFile(filepath.Join(group, "cgroup.subtree_control"), []byte("+"+controller), 0); err != nil {
			return fmt.Errorf("hand the controller %s of %s to its children: %w", controller, group, err)
		}
	}
	return nil
}

// Enter moves this process into a group.
func Enter(folders []string) error {
	for _, folder := range folders {
		if err := os.WriteFile(filepath.Join(folder, "cgroup.procs"), []byte("0"), 0); err != nil {
			return fmt.Errorf("enter a control group: %w", err)
		}
	}
	return nil
}

// Mount shows the groups of the calling thread's cgroup namespace, and no others, at Root.
func Mount() error {
	if V2() {
		if err := unix.Mount("cgroup", Root, "cgroup2", 0, ""); err != nil {
			return fmt.Errorf("mount control groups: %w", err)
		}
		// A group that has children with controllers may hold no process itself.
		inner := []string{filepath.Join(Root, "init")}
		if err := os.Mkdir(inner[0], 0o755); err != nil { //nolint:gosec // as the kernel's own
			return fmt.Errorf("make a control group: %w", err)
		}
		return errors.Join(Enter(inner), enable(Root))
	}
	all, err := hierarchies()
	if err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", Root, "tmpfs", 0, "mode=755"); err != nil {
		return fmt.Errorf("mount over %s: %w", Root, err)
	}
	for _, h := range all {
		folder := filepath.Join(Root, h.name())
		if err := os.Mkdir(folder, 0o755); err != nil { //nolint:gosec // as the kernel's own
			return err
		}
		if err := unix.Mount("cgroup", folder, "cgroup", 0, h.controllers); err != nil {
			return fmt.Errorf("mount the control groups of %s: %w", h.controllers, err)
		}
	}
	return nil
}

// Remove removes a group with all that is below it. Their processes have been killed: it waits until they are gone, up to limit.
func Remove(folders []string, limit time.Duration) error {
	deadline := time.Now().Add(limit)
	for {
		var errs []error
		for _, folder := range folders {
			errs = append(errs, removeTree(folder))
		}
		err := errors.Join(errs...)
		if err == nil || time.Now().After(deadline) {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func removeTree(folder string) error {
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list a control group: %w", err)
	}
	for _, entry := range entries {
		if entry.IsDir() {
			if err := removeTree(filepath.Join(folder, entry.Name())); err != nil {
				return err
			}
		}
	}
	if err := unix.Rmdir(folder); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("remove the control group %s: %w", folder, err)
	}
	return nil
}
