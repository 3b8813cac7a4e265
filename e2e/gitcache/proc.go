package gitcache

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// connectionHolder finds the process at the other end of a connection on loopback, among pids and what
// they started; 0: none of them. connectionHolder reads what the kernel says, so the program under test needs no mark
// for it.
func connectionHolder(local, remote net.Addr, pids []int) int {
	inode := socketInode(remote, local)
	if inode == "" {
		return 0
	}
	for _, pid := range pids {
		if hasSocket(pid, inode) {
			return pid
		}
	}
	parents := parentsOf()
	for child := range parents {
		for up := parents[child]; up > 1; up = parents[up] {
			if slices.Contains(pids, up) && hasSocket(child, inode) {
				return up
			}
		}
	}
	return 0
}

// socketInode finds the socket that is bound to local and connected to remote.
func socketInode(local, remote net.Addr) string {
	f, err := os.Open("/proc/net/tcp")
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	want, peer := procAddress(local), procAddress(remote)
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) > 9 && fields[1] == want && fields[2] == peer {
			return fields[9]
		}
	}
	return ""
}

// procAddress writes an IPv4 address as /proc/net/tcp does: its bytes as a little-endian number.
func procAddress(a net.Addr) string {
	tcp, ok := a.(*net.TCPAddr)
	if !ok || tcp.IP.To4() == nil {
		return ""
	}
	ip := slices.Clone(tcp.IP.To4())
	slices.Reverse(ip)
	return fmt.Sprintf("%s:%04X", strings.ToUpper(hex.EncodeToString(ip)), tcp.Port)
}

func hasSocket(pid int, inode string) bool {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	fds, err := os.ReadDir(dir)
	if err != nil {
		return false
	}
	for _, fd := range fds {
		if to, err := os.Readlink(filepath.Join(dir, fd.Name())); err == nil && to == "socket:["+inode+"]" {
			return true
		}
	}
	return false
}

func parentsOf() map[int]int {
	parents := map[int]int{}
	found, _ := filepath.Glob("/proc/[0-9]*") // the pattern is good
	for _, dir := range found {
		pid, _ := strconv.Atoi(filepath.Base(dir))
		if fields := statFields(pid); len(fields) > 1 {
			parents[pid], _ = strconv.Atoi(fields[1])
		}
	}
	return parents
}

// statFields are the fields of /proc/<pid>/stat behind the name: state, parent, ...
func statFields(pid int) []string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil
	}
	_, rest, _ := strings.Cut(string(b), ") ") // the name may hold anything, but ours don't
	return strings.Fields(rest)
}

// clockTick is what /proc counts CPU time in; the kernel's ABI.
const clockTick = 10 * time.Millisecond

// CPU is the time that a process and its children that have ended spent on the CPU.
func CPU(pid int) time.Duration {
	fields := statFields(pid)
	if len(fields) < 15 {
		return 0
	}
	var ticks int64
	for _, f := range fields[11:15] { // utime, stime, cutime, cstime
		n, _ := strconv.ParseInt(f, 10, 64)
		ticks += n
	}
	return time.Duration(ticks) * clockTick
}

// Written is how many bytes a process wrote by system calls: to files above all, and to connections.
func Written(pid int) int64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(b), "wchar: ")
	bytes, _, _ := strings.Cut(rest, "\n")
	n, _ := strconv.ParseInt(bytes, 10, 64)
	return n
}

// RSS is a process' resident memory in bytes.
func RSS(pid int) int64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(b), "VmRSS:")
	kib, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
	n, _ := strconv.ParseInt(kib, 10, 64)
	return n << 10
}

// PeakRSS is the largest that RSS was since the process began, or since ForgetPeak, in bytes.
func PeakRSS(pid int) int64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(b), "VmHWM:")
	kib, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
	n, _ := strconv.ParseInt(kib, 10, 64)
	return n << 10
}

// ForgetPeak begins PeakRSS anew.
func ForgetPeak(pid int) error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0)
}

// Descriptors counts a process' open files.
func Descriptors(pid int) int {
	fds, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid)) // gone: none
	return len(fds)
}

// DiskBytes sums up the files below a folder. Files that vanish meanwhile do not count.
func DiskBytes(dir string) int64 {
	var sum int64
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil //nolint:nilerr // gone meanwhile
		}
		if info, err := d.Info(); err == nil {
			sum += info.Size()
		}
		return nil
	})
	return sum
}
