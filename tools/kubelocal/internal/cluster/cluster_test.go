package cluster_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// These tests run the built binary: the one that KUBELOCAL names, or else the one of build.sh.
var binary = sync.OnceValues(func() (string, error) { //nolint:gochecknoglobals // built once
	if path := os.Getenv("KUBELOCAL"); path != "" {
		return filepath.Abs(path)
	}
	build := exec.Command("../../build.sh")
	build.Stderr = os.Stderr
	path, err := build.Output()
	return strings.TrimSpace(string(path)), err
})

// limit is for one step, on a busy machine. An unburdened one needs a tenth of it.
const limit = 45 * time.Second

func TestClusterLife(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "life")
	c := startCluster(t, dir, "--name", "life", "--audit-log")
	if c.name != "life" || c.kubeconfig != filepath.Join(dir, "kubeconfig") {
		t.Errorf("announced %+v", c)
	}
	if info, err := os.Stat(c.kubeconfig); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("kubeconfig: mode %v, error %v; want 0600", info.Mode(), err)
	}

	t.Log("a deployment becomes available, its pods show logs, and the audit log has the request")
	c.kubectl(t, deployment, "apply", "-f", "-")
	c.waitForDeployment(t)
	if logs := c.kubectl(t, "", "logs", "deployment/web"); !strings.Contains(logs, "line 1 ") {
		t.Errorf("logs of a pod: %q", logs)
	}
	audit, err := os.ReadFile(filepath.Join(dir, "logs", "audit.log"))
	if err != nil || !bytes.Contains(audit, []byte(`"requestURI":"/apis/apps/v1/namespaces/default/deployments`)) {
		t.Errorf("no deployment in %d bytes of audit log (%v)", len(audit), err)
	}

	t.Log("a privileged container is admitted")
	c.kubectl(t, privileged, "apply", "-f", "-")

	t.Log("a second start in the same folder is refused")
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), path, "start", "--dir", dir).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "already running") {
		t.Errorf("second start: %v, %s", err, out)
	}

	t.Log("killed components come back, with their data, on the same port")
	for _, component := range []string{"kube-apiserver", "etcd", "kube-controller-manager", "kwok"} {
		before := c.child(t, component)
		kill(t, before)
		eventually(t, component+" is back", func() error {
			if after := children(t, c.process.Pid)[component]; after == 0 || after == before {
				return fmt.Errorf("process %d, was %d", after, before)
			}
			return nil
		})
	}
	eventually(t, "the API answers", func() error {
		out, err := c.tryKubectl(t, "", "get", "--raw=/readyz")
		return wrap(err, out)
	})
	c.kubectl(t, "", "scale", "deployment/web", "--replicas=5")
	c.waitForDeployment(t)

	t.Log("SIGTERM ends it in order, leaving no process")
	family := children(t, c.process.Pid)
	if err := c.process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := c.exit(t); err != nil {
		t.Errorf("exit after SIGTERM: %v", err)
	}
	expectGone(t, family)

	t.Log("a later start finds everything again, at the same address")
	again := startCluster(t, dir)
	if again.server != c.server {
		t.Errorf("server %s, was %s", again.server, c.server)
	}
	again.waitForDeployment(t)

	t.Log("no component outlives a killed parent")
	family = children(t, again.process.Pid)
	if len(family) != 6 {
		t.Errorf("children %v, want 6", family)
	}
	kill(t, again.process.Pid)
	if err := again.exit(t); err == nil {
		t.Error("a killed process exited with 0")
	}
	expectGone(t, family)

	t.Log("and what it had is still there")
	startCluster(t, dir).waitForDeployment(t)
}

func TestTwoClustersSideBySide(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var clusters [2]*running
	for i := range clusters {
		clusters[i] = launch(t, filepath.Join(dir, fmt.Sprintf("side-%d", i)), "--nodes", "1")
	}
	for i, c := range clusters {
		c.awaitReady(t)
		if want := fmt.Sprintf("side-%d", i); c.name != want {
			t.Errorf("name %q, want that of the folder, %q", c.name, want)
		}
		if nodes := c.kubectl(t, "", "get", "nodes", "-o", "name"); nodes != "node/node-0\n" {
			t.Errorf("nodes %q", nodes)
		}
	}
	if clusters[0].server == clusters[1].server {
		t.Errorf("both clusters say %s", clusters[0].server)
	}
	if out, err := clusters[0].tryKubectl(t, "", "--server="+clusters[1].server, "get", "namespaces"); err == nil {
		t.Errorf("one cluster's administrator was let into the other: %s", out)
	}
}

const privileged = `
apiVersion: v1
kind: Pod
metadata:
  name: driver
spec:
  containers:
    - name: driver
      image: example.test/driver
      securityContext:
        privileged: true
`

func TestRealNodesCanJoinAtAnotherAddress(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "bare")
	c := startCluster(t, dir, "--nodes", "0", "--bind", "127.0.0.2")
	if !strings.HasPrefix(c.server, "https://127.0.0.2:") {
		t.Errorf("server %s", c.server)
	}
	if nodes := c.kubectl(t, "", "get", "nodes", "-o", "name"); nodes != "" {
		t.Errorf("nodes %q, want none", nodes)
	}
	family := children(t, c.process.Pid)
	if family["kwok"] != 0 || family["kubelet"] != 0 || len(family) != 4 {
		t.Errorf("children %v, want etcd and the control plane alone", family)
	}
	if err := c.process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := c.exit(t); err != nil {
		t.Errorf("exit after SIGTERM: %v", err)
	}

	t.Log("certificates are for the address that they were made for")
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	for bind, want := range map[string]string{
		"127.0.0.3": "are for another address", "0.0.0.0": "must be one IP address",
		"localhost": "must be one IP address",
	} {
		out, err := exec.CommandContext(t.Context(), path, "start", "--dir", dir, "--nodes", "0", "--bind",
			bind).CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("--bind %s: %v, %s; want %q", bind, err, out, want)
		}
	}
}

const deployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: web, image: example.test/web}]
`

// running is a started cluster.
type running struct {
	process                  *os.Process
	exited                   chan error
	stdout, stderr           string // files
	name, server, kubeconfig string // from the READY line
}

func startCluster(t *testing.T, dir string, args ...string) *running {
	t.Helper()
	c := launch(t, dir, args...)
	c.awaitReady(t)
	return c
}

func launch(t *testing.T, dir string, args ...string) *running {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatalf("build kubelocal: %v", err)
	}
	out := t.TempDir()
	c := &running{
		exited: make(chan error, 1),
		stdout: filepath.Join(out, "stdout"),
		stderr: filepath.Join(out, "stderr"),
	}
	stdout, err1 := os.Create(c.stdout)
	stderr, err2 := os.Create(c.stderr)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	defer stdout.Close()
	defer stderr.Close()
	cmd := exec.CommandContext(t.Context(), path, append([]string{"start", "--dir", dir}, args...)...)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // its files are removed next
	cmd.WaitDelay = limit
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c.process = cmd.Process
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.exited <- cmd.Wait()
	}()
	t.Cleanup(func() { // the test's context has ended, and the cluster with it
		<-done
		if progress, err := os.ReadFile(c.stderr); err == nil && t.Failed() {
			t.Logf("progress of %s:\n%s", dir, progress)
		}
	})
	return c
}

func (c *running) awaitReady(t *testing.T) {
	t.Helper()
	eventually(t, "the READY line", func() error {
		line, err := os.ReadFile(c.stdout)
		if err != nil || !bytes.HasSuffix(line, []byte("\n")) {
			return fmt.Errorf("stdout so far: %q (%w)", line, err)
		}
		_, err = fmt.Sscanf(string(line), "READY name=%s server=%s kubeconfig=%s\n", &c.name, &c.server, &c.kubeconfig)
		return err
	})
}

func (c *running) exit(t *testing.T) error {
	t.Helper()
	select {
	case err := <-c.exited:
		return err
	case <-time.After(limit):
		t.Fatal("did not exit")
		return nil
	}
}

func (c *running) kubectl(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	out, err := c.tryKubectl(t, stdin, args...)
	if err != nil {
		t.Fatal(wrap(err, out))
	}
	return out
}

func (c *running) tryKubectl(t *testing.T, stdin string, args ...string) (string, error) {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), path, append([]string{"kubectl", "--kubeconfig", c.kubeconfig}, args...)...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (c *running) waitForDeployment(t *testing.T) {
	t.Helper()
	c.kubectl(t, "", "rollout", "status", "deployment/web", "--timeout="+limit.String())
}

func (c *running) child(t *testing.T, name string) int {
	t.Helper()
	pid := children(t, c.process.Pid)[name]
	if pid == 0 {
		t.Fatalf("no child %s", name)
	}
	return pid
}

// children maps the names of a process's children to their process ids.
func children(t *testing.T, parent int) map[string]int {
	t.Helper()
	found := map[string]int{}
	statuses, err := filepath.Glob("/proc/[0-9]*/status")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range statuses {
		status, err := os.ReadFile(path)
		if err != nil || !slices.Contains(strings.Split(string(status), "\n"), "PPid:\t"+strconv.Itoa(parent)) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil {
			found[processName(pid)] = pid
		}
	}
	return found
}

// processName is a process's argv[0]; empty when it is gone, and for a zombie.
func processName(pid int) string {
	cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return ""
	}
	name, _, _ := strings.Cut(string(cmdline), "\x00")
	return name
}

func expectGone(t *testing.T, family map[string]int) {
	t.Helper()
	for name, pid := range family {
		eventually(t, name+" is gone", func() error {
			if processName(pid) == name {
				return fmt.Errorf("process %d runs", pid)
			}
			return nil
		})
	}
}

func kill(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

func eventually(t *testing.T, what string, probe func() error) {
	t.Helper()
	deadline := time.After(limit)
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := probe()
		if err == nil {
			return
		}
		select {
		case <-deadline:
			t.Fatalf("%s: not within %s: %v", what, limit, err)
		case <-ticker.C:
		}
	}
}

func wrap(err error, out string) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %s", err, out)
}
