package lab_test

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience is for one step, on a busy machine. An unburdened one needs a tenth of it.
const patience = 2 * time.Minute

// built are the programs under test: what build.sh of both tools print.
type programs struct{ nodelocal, kubelocal string }

var built = sync.OnceValues(func() (programs, error) { //nolint:gochecknoglobals // built once
	find := func(variable, tool string) (string, error) {
		if path := os.Getenv(variable); path != "" {
			return path, nil
		}
		build := exec.Command("../../../" + tool + "/build.sh")
		build.Stderr = os.Stderr
		path, err := build.Output()
		return strings.TrimSpace(string(path)), err
	}
	n, err1 := find("NODELOCAL", "nodelocal")
	k, err2 := find("KUBELOCAL", "kubelocal")
	return programs{n, k}, errors.Join(err1, err2)
})

// testpod is the program of the image node.local/testpod:1, which build.sh makes as well; it runs on this machine, too.
func (p programs) testpod() string { return filepath.Join(filepath.Dir(p.nodelocal), "testpod") }

// needRoot skips without root. As root a machine that lacks something fails: `start` says what.
func needRoot(t *testing.T) programs {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("real nodes need root: nothing of nodelocal is tested")
	}
	p, err := built()
	if err != nil {
		t.Fatalf("build: %v", err)
	}
	return p
}

const workload = `
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 5
      containers:
      - name: web
        image: node.local/testpod:1
        ports: [{containerPort: 8080}]
        readinessProbe: {httpGet: {path: /, port: 8080}, periodSeconds: 1}
        securityContext: {runAsNonRoot: true, readOnlyRootFilesystem: true, allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}, seccompProfile: {type: RuntimeDefault}}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{name: http, port: 80, targetPort: 8080}]}
---
apiVersion: v1
kind: Service
metadata: {name: each}
spec: {selector: {app: web}, clusterIP: None, ports: [{name: http, port: 8080}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: store}
spec:
  serviceName: store
  selector: {matchLabels: {app: store}}
  template:
    metadata: {labels: {app: store}}
    spec:
      nodeSelector: {kubernetes.io/hostname: node-2}
      terminationGracePeriodSeconds: 5
      securityContext: {fsGroup: 65532}
      containers:
      - name: store
        image: node.local/testpod:1
        volumeMounts: [{name: data, mountPath: /data}]
        resources: {limits: {memory: 128Mi}}
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: Service
metadata: {name: store}
spec: {selector: {app: store}, clusterIP: None, publishNotReadyAddresses: true, ports: [{name: http, port: 8080}]}
`

func TestPodsRunOnTwoNodesAndComeBackAfterAPowerCut(t *testing.T) {
	t.Parallel()
	needRoot(t)
	l := start(t, "--nodes", "2", "--name", "pair")
	l.kubectl(t, workload, "apply", "-f", "-")
	l.kubectl(t, "", "rollout", "status", "daemonset/web", "--timeout="+patience.String())
	l.kubectl(t, "", "rollout", "status", "statefulset/store", "--timeout="+patience.String())

	t.Log("logs and exec")
	if logs := l.kubectl(t, "", "logs", "daemonset/web"); !strings.Contains(logs, "line 1 ") {
		t.Errorf("logs: %q", logs)
	}
	if said := l.kubectl(t, "one\ntwo\n", "exec", "-i", "store-0", "--", "/testpod", "echo"); said != "one\ntwo\n" {
		t.Errorf("exec with stdin: %q", said)
	}
	_, err := l.tryKubectl(t, "", "exec", "store-0", "--", "/testpod", "exit", "7")
	if exit := new(exec.ExitError); !errors.As(err, &exit) || exit.ExitCode() != 7 {
		t.Errorf("exec of what exits with 7: %v", err)
	}

	t.Log("a Service leads from a pod to the pods of both nodes, and from the lab")
	pods := strings.Fields(l.kubectl(t, "", "get", "pods", "--selector=app=web",
		"--output=jsonpath={.items[*].metadata.name}"))
	if len(pods) != 2 {
		t.Fatalf("pods %q, want one a node", pods)
	}
	for what, from := range map[string]func() (string, error){
		"a pod": func() (string, error) {
			return l.tryKubectl(t, "", "exec", "store-0", "--", "/testpod", "get", "http://web")
		},
		"the lab": func() (string, error) { return l.inLab(t, "get", "http://web.default.svc.cluster.local") },
	} {
		seen := map[string]bool{}
		eventually(t, "both pods answer "+what, func() error {
			said, err := from()
			seen[strings.TrimSpace(said)] = err == nil
			if !seen[pods[0]] || !seen[pods[1]] {
				return fmt.Errorf("seen %v, %w", seen, err)
			}
			return nil
		})
	}

	t.Log("names")
	inPod := func(args ...string) (string, error) {
		return l.tryKubectl(t, "", append([]string{"exec", "store-0", "--", "/testpod"}, args...)...)
	}
	if each, err := inPod("lookup", "each"); err != nil || len(strings.Fields(each)) != 2 {
		t.Errorf("a headless Service has the addresses %q (%v), want two", each, err)
	}
	if own, err := inPod("lookup", "store-0.store.default.svc.cluster.local"); err != nil ||
		!strings.HasPrefix(own, "10.244.2.") {
		t.Errorf("a pod's own name has the address %q (%v)", own, err)
	}
	if srv, err := inPod("srv", "_http._tcp.web.default.svc.cluster.local"); err != nil ||
		srv != "web.default.svc.cluster.local. 80\n" {
		t.Errorf("SRV %q (%v)", srv, err)
	}
	for _, name := range []string{"nothing", "example.com"} {
		if said, err := inPod("lookup", name); err == nil || !strings.Contains(said, "no such host") {
			t.Errorf("look up %s: %v: %s", name, err, said)
		}
	}

	t.Log("a memory limit holds")
	if _, err := inPod("eat", "256"); err == nil {
		t.Error("a container of 128 MiB took 256")
	}

	t.Log("this machine has no link, route or mount of it")
	l.expectOutsideUntouched(t)

	t.Log("a node without power is gone, and comes back with what was on its volumes")
	if _, err := inPod("append", "/data/lines", "before"); err != nil {
		t.Fatal(err)
	}
	l.run(t, "cut", "--node", "node-2")
	if said, err := l.tryKubectl(t, "", "exec", "store-0", "--request-timeout=5s", "--", "/testpod", "read", "/data/lines"); err == nil {
		t.Errorf("a node without power answers %q", said)
	}
	l.run(t, "boot", "--node", "node-2")
	eventually(t, "the pod runs again", func() error {
		lines, err := inPod("read", "/data/lines")
		if err == nil && lines != "before\n" {
			return fmt.Errorf("its volume has %q", lines)
		}
		return err
	})
	if restarts := l.kubectl(t, "", "get", "pod", "store-0", "--output=jsonpath={.status.containerStatuses[0].restartCount}"); restarts == "0" {
		t.Error("the container was never started again")
	}
	eventually(t, "both nodes are ready", func() error {
		ready := l.kubectl(t, "", "get", "nodes", `--output=jsonpath={.items[*].status.conditions[?(@.type=="Ready")].status}`)
		if ready != "True True" {
			return fmt.Errorf("ready: %s", ready)
		}
		return nil
	})

	t.Log("a volume goes with its claim")
	l.kubectl(t, "", "delete", "statefulset/store", "pvc/data-store-0", "--timeout="+patience.String())
	eventually(t, "the volume is gone", func() error {
		left, err := filepath.Glob(filepath.Join(l.dir, "node-2/var/volumes/*"))
		if volumes := l.kubectl(t, "", "get", "pv", "-o", "name"); volumes != "" || len(left) > 0 {
			return fmt.Errorf("left: %q %q %w", volumes, left, err)
		}
		return nil
	})

	t.Log("SIGTERM ends it")
	if err := syscall.Kill(l.pid, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := l.exit(t); err != nil {
		t.Errorf("exit after SIGTERM: %v", err)
	}
	l.expectNothingLeft(t)
}

func TestNothingIsLeftWhateverIsKilled(t *testing.T) {
	t.Parallel()
	p := needRoot(t)
	dir := filepath.Join(t.TempDir(), "killed")
	var server string
	for what, victim := range map[string]func(*running) int{
		"nodelocal start": func(l *running) int { return l.pid },
		"its parent":      func(l *running) int { return l.parent },
	} {
		l := launch(t, dir, exec.Command("sh", "-c", `"$0" "$@" & echo "PID $!"; wait`, //nolint:noctx // it is killed
			p.nodelocal, "start", "--dir", dir, "--kubelocal", p.kubelocal))
		l.awaitReady(t)
		if server != "" && server != l.server {
			t.Errorf("server %s, was %s", l.server, server)
		}
		server = l.server
		if out, err := exec.CommandContext(t.Context(), p.nodelocal, "start", "--dir", dir, "--kubelocal", p.kubelocal).CombinedOutput(); err == nil || !strings.Contains(string(out), "already running") {
			t.Errorf("a second start in the same folder: %v, %s", err, out)
		}
		t.Log("kill -9 of " + what)
		if err := syscall.Kill(victim(l), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		l.expectNothingLeft(t)
	}
}

func TestAMistakeIsSaidAtOnce(t *testing.T) {
	t.Parallel()
	p := needRoot(t)
	for want, args := range map[string][]string{
		"--dir is required":            {"start", "--kubelocal", p.kubelocal},
		"--kubelocal is required":      {"start", "--dir", t.TempDir()},
		"must be from 1 to":            {"start", "--dir", t.TempDir(), "--name", "none", "--kubelocal", p.kubelocal, "--nodes", "0"},
		"no such file":                 {"start", "--dir", t.TempDir(), "--name", "none", "--kubelocal", p.kubelocal, "--image", "/nowhere.tar"},
		"no lab is running":            {"exec", "--dir", t.TempDir(), "--", "true"},
		"which command?":               {"exec", "--dir", t.TempDir()},
		"find the lab":                 {"cut", "--dir", "/nowhere", "--node", "node-1"},
		"--tag NAME:TAG":               {"image", "--tag", "name", "--entrypoint", "a", "--out", "b"},
		`unknown command "stop"`:       {"stop"},
		"takes no arguments, only fla": {"boot", "node-1"},
	} {
		out, err := exec.CommandContext(t.Context(), p.nodelocal, args...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("nodelocal %q: %v, %s; want %q", args, err, out, want)
		}
	}
}

// running is a started lab.
type running struct {
	programs
	dir, server, kubeconfig string
	pid, parent             int // of `nodelocal start`, and of what started it
	stdout, stderr          string
	exited                  chan error
	groups                  []string // control groups of its first node
}

// start runs a lab with the image of testpod until the test ends.
func start(t *testing.T, args ...string) *running {
	t.Helper()
	p, err := built()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "lab")
	l := launch(t, dir, exec.Command(p.nodelocal, append([]string{"start", "--dir", dir, "--kubelocal", p.kubelocal, "--image", p.testpod() + ".tar"}, args...)...)) //nolint:noctx // it is stopped
	l.pid = l.parent
	l.awaitReady(t)
	return l
}

func launch(t *testing.T, dir string, cmd *exec.Cmd) *running {
	t.Helper()
	p, err := built()
	if err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	l := &running{programs: p, dir: dir, stdout: filepath.Join(out, "stdout"), stderr: filepath.Join(out, "stderr"),
		exited: make(chan error, 1)}
	stdout, err1 := os.Create(l.stdout)
	stderr, err2 := os.Create(l.stderr)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	defer stdout.Close()
	defer stderr.Close()
	cmd.Stdout, cmd.Stderr = stdout, stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	l.parent = cmd.Process.Pid
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.exited <- cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // the command may have ended; with a shell the lab ends, too
		<-done
		if progress, err := os.ReadFile(l.stderr); err == nil && t.Failed() {
			t.Logf("progress of %s:\n%s", dir, progress)
			text, _ := os.ReadFile(filepath.Join(dir, "node-1/kubelet.log"))
			t.Logf("the end of kubelet's log:\n%s", text[max(0, len(text)-4000):])
		}
	})
	return l
}

func (l *running) awaitReady(t *testing.T) {
	t.Helper()
	eventually(t, "the READY line", func() error {
		text, err := os.ReadFile(l.stdout)
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, "PID") {
				_, err = fmt.Sscanf(line, "PID %d", &l.pid)
				continue
			}
			var name string
			if _, err := fmt.Sscanf(line, "READY name=%s server=%s kubeconfig=%s\n", &name, &l.server, &l.kubeconfig); err == nil {
				return nil
			}
		}
		select {
		case err := <-l.exited:
			said, _ := os.ReadFile(l.stderr)
			t.Fatalf("it ended: %v: %s", err, said)
		default:
		}
		return fmt.Errorf("stdout so far: %q (%w)", text, err)
	})
	groups, err := os.ReadFile(filepath.Join(l.dir, "node-1/cgroups"))
	if err != nil {
		t.Fatal(err)
	}
	l.groups = strings.Fields(string(groups))
}

func (l *running) exit(t *testing.T) error {
	t.Helper()
	select {
	case err := <-l.exited:
		return err
	case <-time.After(patience):
		t.Fatal("did not exit")
		return nil
	}
}

// run runs nodelocal on the lab.
func (l *running) run(t *testing.T, command string, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), l.nodelocal, append([]string{command, "--dir", l.dir}, args...)...).CombinedOutput(); err != nil {
		t.Fatalf("nodelocal %s %q: %v: %s", command, args, err, out)
	}
}

// inLab runs testpod in the lab's network.
func (l *running) inLab(t *testing.T, args ...string) (string, error) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), l.nodelocal,
		append([]string{"exec", "--dir", l.dir, "--", l.testpod()}, args...)...).CombinedOutput()
	return string(out), err
}

func (l *running) kubectl(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	out, err := l.tryKubectl(t, stdin, args...)
	if err != nil {
		t.Fatalf("kubectl %q: %v: %s", args, err, out)
	}
	return out
}

func (l *running) tryKubectl(t *testing.T, stdin string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), l.kubelocal,
		append([]string{"kubectl", "--kubeconfig", l.kubeconfig}, args...)...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// expectOutsideUntouched looks at this machine's links, routes, rules and mounts.
func (l *running) expectOutsideUntouched(t *testing.T) {
	t.Helper()
	for _, name := range []string{"nodes", "to-node-1", "to-node-2"} {
		if _, err := net.InterfaceByName(name); err == nil {
			t.Errorf("this machine has the link %s", name)
		}
	}
	routes, err := os.ReadFile("/proc/net/route")
	if err != nil {
		t.Fatal(err)
	}
	for _, prefix := range []string{"\t0000580A\t", "\t0001F40A\t", "\t0000600A\t"} { // 10.88.0.0, 10.244.1.0 and 10.96.0.0
		if bytes.Contains(routes, []byte(prefix)) {
			t.Errorf("this machine has a route of the lab:\n%s", routes)
		}
	}
	for _, command := range [][]string{{"iptables-save"}, {"ip6tables-save"}, {"ip", "rule", "show"}} { // nodes need these programs
		rules, err := exec.CommandContext(t.Context(), command[0], command[1:]...).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v: %s", command, err, rules)
		}
		for _, part := range []string{"10.88.0.", "10.244.", "10.96.0."} {
			if bytes.Contains(rules, []byte(part)) {
				t.Errorf("this machine has a rule of the lab: %v:\n%s", command, rules)
			}
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(mounts, []byte(l.dir)) {
		t.Errorf("this machine has a mount of the lab:\n%s", mounts)
	}
}

// expectNothingLeft waits until the control groups are gone, which the kernel only lets go without processes, and so
// all processes.
func (l *running) expectNothingLeft(t *testing.T) {
	t.Helper()
	if len(l.groups) == 0 {
		t.Fatal("no control groups are known")
	}
	eventually(t, "the control groups are gone", func() error {
		for _, group := range l.groups {
			if _, err := os.Stat(filepath.Dir(group)); err == nil {
				return fmt.Errorf("%s is there", filepath.Dir(group))
			}
		}
		return nil
	})
	eventually(t, "no process of it is left", func() error {
		found, err := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, file := range found {
			line, err := os.ReadFile(file)
			args := strings.Split(string(line), "\x00")
			if err == nil && slices.ContainsFunc(args, func(arg string) bool { return strings.HasPrefix(arg, l.dir) }) {
				return fmt.Errorf("%s is %q", file, args)
			}
		}
		return err
	})
	for _, file := range []string{"control.sock", "lab.pid"} {
		if _, err := os.Stat(filepath.Join(l.dir, file)); err == nil {
			t.Errorf("%s is left", file)
		}
	}
	if _, err := net.DialTimeout("tcp", strings.TrimPrefix(l.server, "https://"), time.Second); err == nil {
		t.Errorf("%s is listened on", l.server)
	}
	l.expectOutsideUntouched(t)
}

func eventually(t *testing.T, what string, probe func() error) {
	t.Helper()
	deadline := time.After(patience)
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := probe()
		if err == nil {
			return
		}
		select {
		case <-deadline:
			t.Fatalf("%s: not within %s: %v", what, patience, err)
		case <-ticker.C:
		}
	}
}
