package lab

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"fairlead.dev/tools/nodelocal/internal/cgroups"
	"fairlead.dev/tools/nodelocal/internal/layout"
	"fairlead.dev/tools/nodelocal/internal/process"
)

// Commands of the two stages inside.
const (
	First  = "lab-first"
	Second = "lab"
)

// labGroup is the control group of what runs beside the nodes.
const labGroup = "lab"

// settings are what the stages inside are told.
type settings struct {
	Dir, Name, Programs, Kubelocal string // folders as this machine sees them
	Nodes, Port                    int
	Groups, Images                 []string
}

func (s settings) encode() string {
	text, _ := json.Marshal(s) // strings and numbers
	return string(text)
}

func decode(args []string) (s settings, err error) {
	if len(args) != 1 {
		return s, errors.New("want the lab's settings")
	}
	if err := json.Unmarshal([]byte(args[0]), &s); err != nil {
		return s, fmt.Errorf("decode the lab's settings: %w", err)
	}
	return s, nil
}

// RunFirst is the first process of a lab's namespaces.
func RunFirst(args []string) error {
	s, err := decode(args)
	if err != nil {
		return err
	}
	if err := cgroups.Enter(cgroups.Below(s.Groups, labGroup)); err != nil {
		return err
	}
	if err := unix.Sethostname([]byte(s.Name)); err != nil {
		return fmt.Errorf("set the host name: %w", err)
	}
	if err := mount(s); err != nil {
		return err
	}
	return process.First(append([]string{Second}, args...)...)
}

// resolvConf lets what runs beside the nodes use names as pods do.
const resolvConf = "nameserver " + layout.Gateway + "\nsearch default.svc." + layout.Domain + " svc." + layout.Domain +
	" " + layout.Domain + "\noptions ndots:5\n"

type mounted struct {
	source, target, kind string
	flags                uintptr
}

// makePoint makes what a folder or file of the lab is mounted on, in the lab's own tmpfs.
func (m mounted) makePoint() error {
	if !strings.HasPrefix(m.target, layout.Mounted+"/") {
		return nil
	}
	info, err := os.Stat(m.source)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return os.Mkdir(m.target, 0o755) //nolint:gosec // public
	}
	return os.WriteFile(m.target, nil, 0o600)
}

// mount gives the lab its own view of files; nothing of it reaches the machine. The lab's folders may be anywhere, also where nodes
// have folders of their own, or below what is mounted here: they are opened first.
func mount(s settings) error {
	resolv := filepath.Join(s.Dir, "resolv.conf")
	if err := os.WriteFile(resolv, []byte(resolvConf), 0o644); err != nil { //nolint:gosec // as the machine's own
		return err
	}
	mounts := []mounted{
		{"", "/", "", unix.MS_REC | unix.MS_PRIVATE},
		{"proc", "/proc", "proc", 0},
		{resolv, "/etc/resolv.conf", "", unix.MS_BIND},
		{"tmpfs", layout.Mounted, "tmpfs", 0},
	}
	var opened []*os.File
	defer func() {
		for _, file := range opened {
			file.Close()
		}
	}()
	bind := func(source, target string) error {
		file, err := os.Open(source)
		if err == nil {
			opened = append(opened, file)
			mounts = append(mounts, mounted{fmt.Sprintf("/proc/self/fd/%d", file.Fd()), target, "", unix.MS_BIND})
		}
		return err
	}
	err := errors.Join(bind(s.Dir, layout.Dir), bind(s.Programs, layout.Programs), bind(s.Kubelocal, layout.KubelocalDir))
	var archives []string
	for i, image := range s.Images {
		archives = append(archives, fmt.Sprintf("%s/%d-%s", layout.Mounted, i, filepath.Base(image)))
		err = errors.Join(err, bind(image, archives[i]))
	}
	err = errors.Join(err, os.WriteFile(filepath.Join(s.Dir, layout.Images), []byte(strings.Join(archives, "\n")), 0o600))
	if err != nil {
		return err
	}
	for _, m := range mounts {
		if err := m.makePoint(); err != nil {
			return err
		}
		if err := unix.Mount(m.source, m.target, m.kind, m.flags, ""); err != nil {
			return fmt.Errorf("mount %s: %w", m.target, err)
		}
	}
	return os.Chdir(layout.Dir)
}
