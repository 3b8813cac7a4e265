// Package container tells what the container that a process runs in allows it.
package container

import (
	"errors"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// most is where limits begin that mean none: version 1 of cgroups says so.
const most = 1 << 60

// MemoryLimit reads how much memory the container may have, in bytes, from a file system of the machine
// (os.DirFS("/")). 0: it has no limit, or nobody can tell. A container sees its own control group at the root; a
// process outside of containers finds its group's by name.
func MemoryLimit(root fs.FS) int64 {
	limit := int64(0)
	for _, group := range groups(root) {
		for _, file := range []string{path.Join("sys/fs/cgroup", group, "memory.max"), path.Join("sys/fs/cgroup/memory", group, "memory.limit_in_bytes")} {
			text, err := fs.ReadFile(root, file)
			if err != nil {
				continue
			}
			found, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
			if err == nil && found > 0 && found < most && (limit == 0 || found < limit) {
				limit = found
			}
		}
	}
	return limit
}

// groups are the process's control group and those around it, the root included.
func groups(root fs.FS) []string {
	all := []string{"."}
	text, err := fs.ReadFile(root, "proc/self/cgroup")
	if errors.Is(err, fs.ErrNotExist) {
		return all
	}
	for line := range strings.Lines(string(text)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 || parts[1] != "" && !strings.Contains(parts[1], "memory") {
			continue
		}
		for name := strings.Trim(path.Clean("/"+parts[2]), "/"); name != "" && name != "."; name = path.Dir(name) {
			all = append(all, name)
		}
	}
	return all
}
