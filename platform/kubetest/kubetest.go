// Package kubetest gives tests a real Kubernetes API: tools/kubelocal in a process of its own.
// The package needs no Kubernetes library.
package kubetest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"fairlead.dev/platform/longform"
	"fairlead.dev/platform/subprocess"
)

const (
	// startPatience covers a busy machine; a quiet one needs a few seconds.
	startPatience = 3 * time.Minute
	// stopPatience is how long a cluster may take to end before it is killed.
	stopPatience = 30 * time.Second
	// buildPatience covers a first build of kubelocal with nothing cached.
	buildPatience = 20 * time.Minute
)

// Cluster is a running cluster.
type Cluster struct {
	Name       string
	Server     string // URL of the API server
	Kubeconfig string // path of a kubeconfig with an administrator's credential
	Dir        string // all of its state; logs/audit.log if it was started with "--audit-log"

	binary  string
	process *subprocess.Process
	output  *tail
}

// Binary finds kubelocal: $KUBELOCAL, or what tools/kubelocal/build.sh of this repository builds.
func Binary(ctx context.Context) (string, error) {
	if path := os.Getenv("KUBELOCAL"); path != "" {
		return path, nil
	}
	root, err := repository()
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, buildPatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(root, "tools", "kubelocal", "build.sh"))
	progress := newTail(nil)
	cmd.Stderr = progress
	path, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("build kubelocal: %w\n%s\nOr set KUBELOCAL to the path of a built one", err, progress)
	}
	return string(bytes.TrimSpace(path)), nil
}

// repository is the folder with go.work, at or above the working directory.
func repository() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("find kubelocal: the working directory is in no Fairlead checkout. Set KUBELOCAL to its path")
		}
		dir = parent
	}
}

// Start runs a cluster that keeps its state in dir, and waits until it is ready. The arguments are
// further flags of `kubelocal start`. Stop it in the end; it also goes down with this process.
func Start(ctx context.Context, dir, name string, args ...string) (*Cluster, error) {
	binary, err := Binary(ctx)
	if err != nil {
		return nil, err
	}
	c := &Cluster{Name: name, Dir: dir, binary: binary, output: newTail(os.Getenv)}
	cmd := exec.Command(binary, append([]string{"start", "--dir", dir, "--name", name}, args...)...) //nolint:noctx // Stop ends it.
	stdout, said := io.Pipe()
	cmd.Stdout, cmd.Stderr = said, c.output
	if c.process, err = subprocess.Start(cmd); err != nil {
		return nil, fmt.Errorf("start cluster %s: %w", name, err)
	}
	go func() {
		<-c.process.Ended()
		_ = said.Close() // never fails
	}()
	ready := make(chan bool, 1)
	go c.follow(stdout, ready)
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	select {
	case ok := <-ready:
		if ok {
			return c, nil
		}
		err = errors.New("it ended before it was ready")
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	c.Stop()
	return nil, fmt.Errorf("start cluster %s: %w\n%s", name, err, c.output)
}

// follow reads the output to its end, which is that of the process.
func (c *Cluster) follow(stdout *io.PipeReader, ready chan<- bool) {
	defer func() { _ = stdout.Close() }() // later lines are dropped, and block nobody
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		if fields, ok := strings.CutPrefix(lines.Text(), "READY "); ok {
			for field := range strings.FieldsSeq(fields) {
				switch key, value, _ := strings.Cut(field, "="); key {
				case "server":
					c.Server = value
				case "kubeconfig":
					c.Kubeconfig = value
				}
			}
			ready <- true
			continue
		}
		_, _ = c.output.Write(append(lines.Bytes(), '\n'))
	}
	select {
	case ready <- false:
	default:
	}
}

// Stop ends the cluster and waits for it.
func (c *Cluster) Stop() {
	_ = c.process.Stop(stopPatience) // killed or not, it is gone
}

// Kubectl runs the real kubectl against the cluster, with stdin if it is not empty, and returns what it printed.
func (c *Cluster) Kubectl(ctx context.Context, stdin string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, c.binary, append([]string{"kubectl", "--kubeconfig", c.Kubeconfig}, args...)...)
	cmd.Stdin = strings.NewReader(stdin)
	output, err := cmd.CombinedOutput()
	if err != nil {
		return string(output), fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, output)
	}
	return string(output), nil
}

// Shared is one cluster for all tests of a package:
//
//	var kube kubetest.Shared
//	func TestMain(m *testing.M) { os.Exit(kube.Run(m)) }
//
// It starts with the first test that asks for it. Tests take a namespace each, and run in parallel.
type Shared struct {
	Args []string // further flags of `kubelocal start`

	once    sync.Once
	cluster *Cluster
	dir     string
	err     error
}

// Run runs the tests and ends the cluster after them.
func (s *Shared) Run(m *testing.M) int {
	code := m.Run()
	if s.cluster != nil {
		s.cluster.Stop()
	}
	if s.dir != "" {
		_ = os.RemoveAll(s.dir)
	}
	return code
}

// Cluster returns the cluster. The test fails if there is none to be had. The short form skips the test.
func (s *Shared) Cluster(t testing.TB) *Cluster {
	t.Helper()
	longform.Only(t, "Kubernetes")
	s.once.Do(func() {
		if s.dir, s.err = os.MkdirTemp("", "kubetest-"); s.err == nil { //nolint:usetesting // it outlives the test
			s.cluster, s.err = Start(context.Background(), s.dir, "test", s.Args...)
		}
	})
	if s.err != nil {
		t.Fatalf("no Kubernetes API to test with: %v", s.err)
	}
	return s.cluster
}

// tail keeps the end of what a process wrote, for the error that may come.
type tail struct {
	mu   sync.Mutex // guards data
	data []byte
	copy io.Writer
}

const tailBytes = 8 << 10

// newTail copies everything to stderr if KUBETEST_VERBOSE is set.
func newTail(getenv func(string) string) *tail {
	t := &tail{}
	if getenv != nil && getenv("KUBETEST_VERBOSE") != "" {
		t.copy = os.Stderr
	}
	return t
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.copy != nil {
		_, _ = t.copy.Write(p)
	}
	t.data = append(t.data, p...)
	if excess := len(t.data) - tailBytes; excess > 0 {
		t.data = append(t.data[:0], t.data[excess:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.data))
}
