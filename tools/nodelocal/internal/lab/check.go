package lab

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrRoot is what Check returns to other users.
var ErrRoot = errors.New("real nodes need root: they are namespaces, mounts and network links")

// Check tells why this machine can't run real nodes, or nil. Check changes nothing.
func Check() error {
	if os.Geteuid() != 0 {
		return ErrRoot
	}
	var missing []string
	for _, program := range []string{"containerd", "containerd-shim-runc-v2", "ctr", "runc", "iptables"} {
		if _, err := exec.LookPath(program); err != nil {
			missing = append(missing, program)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("real nodes need %s of the distribution: run tools/install.sh", strings.Join(missing, ", "))
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return fmt.Errorf("read this process's capabilities: %w", err)
	}
	for bit, name := range map[int]string{unix.CAP_SYS_ADMIN: "SYS_ADMIN", unix.CAP_NET_ADMIN: "NET_ADMIN", unix.CAP_MKNOD: "MKNOD"} {
		if data[0].Effective&(1<<bit) == 0 {
			return fmt.Errorf("real nodes need the capability %s, which this root does not have: run it outside of a container, or in a privileged one", name)
		}
	}
	filesystems, err := os.ReadFile("/proc/filesystems")
	if err != nil {
		return err
	}
	if !strings.Contains(string(filesystems), "\toverlay\n") {
		return errors.New("real nodes need the kernel's overlay file system: run `modprobe overlay`")
	}
	return nil
}

// CheckDir tells why a folder, which need not be there yet, can't keep the state of a lab, or nil.
func CheckDir(dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	var on unix.Statfs_t
	for at := dir; ; at = filepath.Dir(at) {
		err := unix.Statfs(at, &on)
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrNotExist) || at == filepath.Dir(at) {
			return fmt.Errorf("look at the file system of %s: %w", at, err)
		}
	}
	if on.Type == unix.OVERLAYFS_SUPER_MAGIC {
		return fmt.Errorf("real nodes need a folder that overlayfs can write to, and %s is on overlayfs itself, as in a container: use a folder of a volume", dir)
	}
	return nil
}
