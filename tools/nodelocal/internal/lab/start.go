// Package lab runs a cluster of real nodes in namespaces of its own.
//
// Three processes hold a lab together. `nodelocal start` stays outside: it forwards a loopback port to the API server. Its child is
// the first process of a PID, network and mount namespace, with which all that is inside ends. The janitor, a second child,
// waits until `start` is gone, however it went, and removes the control groups, the only traces that outlive processes.
package lab

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"fairlead.dev/tools/nodelocal/internal/cgroups"
	"fairlead.dev/tools/nodelocal/internal/layout"
	"fairlead.dev/tools/nodelocal/internal/process"
)

// stopLimit bounds the orderly end: nodes, then the control plane.
const stopLimit = time.Minute

var validName = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?$`)

// Config says which lab to run.
type Config struct {
	Dir       string // all state; created when missing
	Name      string // the kubeconfig's context; the base name of Dir when empty
	Kubelocal string // the program
	Nodes     int
	Images    []string // archives that every node imports

	Stdout io.Writer // the one READY line
	Stderr io.Writer // progress
}

func (c *Config) complete() error {
	if c.Dir == "" {
		return errors.New("--dir is required: the folder that keeps the lab's state")
	}
	if c.Kubelocal == "" {
		return errors.New("--kubelocal is required: what tools/kubelocal/build.sh prints")
	}
	for _, path := range []*string{&c.Dir, &c.Kubelocal} {
		absolute, err := filepath.Abs(*path)
		if err != nil {
			return err
		}
		*path = absolute
	}
	if c.Name == "" {
		c.Name = filepath.Base(c.Dir)
	}
	for i, image := range c.Images {
		absolute, err := filepath.Abs(image)
		if err != nil {
			return err
		}
		if _, err := os.Stat(absolute); err != nil {
			return fmt.Errorf("--image: %w", err)
		}
		c.Images[i] = absolute
	}
	switch {
	case !validName.MatchString(c.Name):
		return fmt.Errorf("name %q: use up to 63 lower-case letters, digits, dots and dashes (set it with --name)", c.Name)
	case c.Nodes < 1 || c.Nodes > layout.MaxNodes:
		return fmt.Errorf("--nodes %d: must be from 1 to %d", c.Nodes, layout.MaxNodes)
	}
	_, err := os.Stat(c.Kubelocal)
	return err
}

// Start runs a lab until ctx ends or the process that started this one does. Start returns nil when the end was asked
// for.
func Start(ctx context.Context, cfg Config) error {
	if err := cfg.complete(); err != nil {
		return err
	}
	if err := Check(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := endWithParent(cancel); err != nil {
		return err
	}
	lock, err := lockDir(cfg.Dir)
	if err != nil {
		return err
	}
	defer lock.Close()
	groups, err := cgroups.Folders("nodelocal-" + newID())
	if err != nil {
		return err
	}
	janitor, err := startJanitor(cfg, lock, groups)
	if err != nil {
		return err
	}
	err = run(ctx, cfg, groups)
	return errors.Join(err, janitor.finish())
}

// newID tells the control groups of labs apart.
func newID() string {
	id := make([]byte, 6)
	_, _ = rand.Read(id) // never fails
	return hex.EncodeToString(id)
}

// endWithParent calls end when the parent process is gone.
func endWithParent(end func()) error {
	parent, err := unix.PidfdOpen(os.Getppid(), 0)
	if err != nil {
		return fmt.Errorf("watch the parent process: %w", err)
	}
	go func() { // until this process ends
		for {
			_, err := unix.Poll([]unix.PollFd{{Fd: int32(parent), Events: unix.POLLIN}}, -1) //nolint:gosec // a descriptor
			if !errors.Is(err, unix.EINTR) {
				end()
				return
			}
		}
	}()
	return nil
}

// lockDir makes the folder and takes it for this process and its janitor.
func lockDir(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the lab's folder: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the lock: %w", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		err = fmt.Errorf("a lab is already running in %s: stop it first, or use another --dir (%w)", dir, err)
		return nil, errors.Join(err, lock.Close())
	}
	return lock, nil
}

// run starts what is inside, and returns when all of it is gone.
func run(ctx context.Context, cfg Config, groups []string) error {
	listener, err := listen(ctx, filepath.Join(cfg.Dir, "port"))
	if err != nil {
		return err
	}
	defer listener.Close()
	ready, inside, err := startInside(cfg, groups, listener.Addr().(*net.TCPAddr).Port)
	if err != nil {
		return err
	}
	defer ready.Close()
	pid := filepath.Join(cfg.Dir, layout.LabPID)
	if err := os.WriteFile(pid, []byte(strconv.Itoa(inside.PID())), 0o600); err != nil {
		inside.Kill()
		return err
	}
	defer os.Remove(pid)

	var forwards sync.WaitGroup
	defer forwards.Wait()
	forwards.Go(func() { forward(listener, cfg.Dir, &forwards) })
	defer listener.Close()

	go func() { // ends with what is inside, which holds the other end
		if _, err := bufio.NewReader(ready).ReadString('\n'); err == nil {
			fmt.Fprintf(cfg.Stdout, "READY name=%s server=https://%s kubeconfig=%s\n", cfg.Name, listener.Addr(), filepath.Join(cfg.Dir, layout.Kubeconfig))
		}
	}()
	select {
	case <-inside.Ended():
		if ctx.Err() == nil {
			return fmt.Errorf("the lab ended by itself: %w", inside.Err())
		}
	case <-ctx.Done():
		inside.Stop(stopLimit)
	}
	return nil
}

// startInside starts the first process of the lab's namespaces; ready yields a line once the lab can be used.
func startInside(cfg Config, groups []string, port int) (ready *os.File, inside *process.Process, err error) {
	if err := cgroups.Make(groups); err != nil {
		return nil, nil, err
	}
	own := cgroups.Below(groups, labGroup)
	if err := cgroups.Make(own); err != nil {
		return nil, nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	ready, write, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	defer write.Close()
	args := settings{
		Dir: cfg.Dir, Name: cfg.Name, Programs: filepath.Dir(self), Kubelocal: filepath.Dir(cfg.Kubelocal),
		Nodes: cfg.Nodes, Port: port, Groups: groups, Images: cfg.Images,
	}
	cmd := exec.Command("/proc/self/exe", First, args.encode()) //nolint:noctx // it outlives the call
	cmd.Args[0] = "nodelocal"
	cmd.Stdout, cmd.Stderr = write, cfg.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: process.Namespaces}
	inside, err = process.Start(cmd)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("make the lab's namespaces: %w", err), ready.Close())
	}
	return ready, inside, nil
}

// listen on the port of an earlier run, so that kubeconfigs stay good, or on another one if it is taken.
func listen(ctx context.Context, file string) (net.Listener, error) {
	var config net.ListenConfig
	last, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err == nil {
		if listener, err := config.Listen(ctx, "tcp", "127.0.0.1:"+string(last)); err == nil {
			return listener, nil
		}
	}
	listener, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen on loopback: %w", err)
	}
	return listener, os.WriteFile(file, []byte(strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)), 0o600)
}
