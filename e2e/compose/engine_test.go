package compose

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"fairlead.dev/e2e/process"
	"fairlead.dev/platform/kubetest"
)

// patience is how long anything here may take on a machine that does much else.
const patience = 20 * time.Minute

// engine is a Docker Engine with network, mounts and processes apart from this machine's: what it starts ends with it,
// and its ports and firewall rules are nobody else's.
type engine struct {
	root   string // of the repository
	dir    string
	daemon *process.Process
	inner  int // process id of the first process inside
}

// boot brings up what new namespaces lack, and becomes the daemon. The network leads
// nowhere but to a name server that knows no name (nameless).
const boot = `set -e
PATH=/usr/sbin:/usr/bin:/sbin:/bin
mount -t proc proc /proc
mount -t tmpfs tmpfs /run
ip link set lo up
ip address add 192.0.2.1/32 dev lo
echo '{}' >"$0/config.json"
exec dockerd --data-root "$0/data" --exec-root "$0/exec" --pidfile "$0/pid" --host "unix://$0/docker.sock" --bridge none --dns 192.0.2.1 --config-file "$0/config.json"`

// whyNot says why this machine can't run an engine, or "".
func whyNot() string {
	if os.Geteuid() != 0 {
		return "Docker Engine needs root"
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return "Docker Engine needs Linux"
	}
	_, rest, _ := strings.Cut(string(status), "\nCapEff:\t")
	line, _, _ := strings.Cut(rest, "\n")
	has, err := strconv.ParseUint(line, 16, 64)
	if need := uint64(1)<<unix.CAP_SYS_ADMIN | uint64(1)<<unix.CAP_NET_ADMIN; err != nil || has&need != need {
		return "Docker Engine needs the capabilities SYS_ADMIN and NET_ADMIN"
	}
	return ""
}

// newEngine starts an engine that has all images of the compose file.
func newEngine(t *testing.T) *engine {
	t.Helper()
	if why := whyNot(); why != "" {
		t.Skip(why)
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	e := &engine{root: root, dir: t.TempDir()}
	e.usePlugin(t)
	images := e.makeImages(t)
	found, err := exec.LookPath("unshare")
	if err != nil {
		t.Fatal(err)
	}
	e.daemon = process.New(e.dir, "dockerd", found, "--net", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c",
		boot, e.dir)
	if err := e.daemon.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.daemon.Kill(); err != nil { // and all that is inside
			t.Error(err)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := process.Await(ctx, "the engine answers", func(ctx context.Context) error {
		if ended, _ := e.daemon.Ended(); ended {
			return errors.New("it has ended")
		}
		_, err := e.docker(ctx, "version")
		return err
	}); err != nil {
		t.Fatalf("%v; is docker.io installed (tools/install.sh)? Its last words:\n%s", err, e.daemon.Tail())
	}
	e.inner = e.firstInside(t)
	e.nameless(t)
	for _, image := range images {
		if _, err := e.docker(ctx, "load", "--quiet", "--input", image); err != nil {
			t.Fatal(err)
		}
	}
	return e
}

// usePlugin gives the docker command the compose plugin that is pinned in tools/docker.
func (e *engine) usePlugin(t *testing.T) {
	t.Helper()
	plugin := run(t, filepath.Join(e.root, "tools/docker/build.sh"))
	plugins := filepath.Join(e.dir, "config", "cli-plugins")
	if err := os.MkdirAll(plugins, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(plugin, filepath.Join(plugins, "docker-compose")); err != nil {
		t.Fatal(err)
	}
}

// makeImages makes all images of the compose file, those of a registry from the distribution's packages.
func (e *engine) makeImages(t *testing.T) []string {
	t.Helper()
	kubelocal, err := kubetest.Binary(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(e.dir, "images")
	cmd := exec.CommandContext(t.Context(), "go", "run", ".", "-root", e.root, "-out", out, "-try-out", "-stand-ins")
	cmd.Dir = filepath.Join(e.root, "tools/images")
	cmd.Env = append(os.Environ(), "GOWORK=off", "KUBELOCAL="+kubelocal,
		"COLLECTOR="+run(t, filepath.Join(e.root, "tools/collector/build.sh")))
	said, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("make images: %v: %s", err, said)
	}
	t.Logf("images:\n%s", said)
	found, err := filepath.Glob(filepath.Join(out, "*.tar"))
	if err != nil || len(found) == 0 {
		t.Fatalf("no images: %v", err)
	}
	return found
}

// firstInside is the process that all others inside descend from.
func (e *engine) firstInside(t *testing.T) int {
	t.Helper()
	pid := e.daemon.Pid()
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", pid))
	if err != nil {
		t.Fatal(err)
	}
	inner, err := strconv.Atoi(strings.TrimSpace(string(children)))
	if err != nil {
		t.Fatal(err)
	}
	return inner
}

// docker runs the docker command.
func (e *engine) docker(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "docker", args...)
	cmd.Dir = e.root
	cmd.Env = append(os.Environ(), "DOCKER_HOST=unix://"+filepath.Join(e.dir, "docker.sock"),
		"DOCKER_CONFIG="+filepath.Join(e.dir, "config"))
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("docker %s: %w: %s%s", strings.Join(args, " "), err, stdout.Bytes(), stderr.Bytes())
	}
	return strings.TrimSpace(stdout.String()), nil
}

// must runs the docker command and fails the test if that fails.
func (e *engine) must(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	out, err := e.docker(ctx, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// inside runs a program of this machine in the engine's network, where its ports are published.
func (e *engine) inside(ctx context.Context, env []string, program ...string) error {
	cmd := exec.CommandContext(ctx, "nsenter",
		append([]string{fmt.Sprintf("--net=/proc/%d/ns/net", e.inner), "--"}, program...)...)
	cmd.Env = append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(program, " "), err, out)
	}
	return nil
}

// kill ends the first process of a container, as the kernel does when memory is short.
func (e *engine) kill(t *testing.T, container string) {
	t.Helper()
	pid := e.must(t, "inspect", "--format", "{{.State.Pid}}", container)
	run(t, "nsenter", fmt.Sprintf("--target=%d", e.inner), "--pid", "--mount", "--", "/bin/kill", "-9", pid)
}

// within does something in the engine's network: sockets stay in the one that they were made in.
func (e *engine) within(do func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with the goroutine
		ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", e.inner))
		if err != nil {
			done <- err
			return
		}
		defer ns.Close()
		if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
			done <- err
			return
		}
		done <- do()
	}()
	return <-done
}

// dial connects to an IP address in the engine's network.
func (e *engine) dial(ctx context.Context, network, address string) (conn net.Conn, err error) {
	err = e.within(func() (err error) {
		conn, err = (&net.Dialer{}).DialContext(ctx, network, address)
		return err
	})
	return conn, err
}

// nameless answers every question for a name that is no container's: there is none. Without it the engine would wait.
func (e *engine) nameless(t *testing.T) {
	t.Helper()
	var conn net.PacketConn
	if err := e.within(func() (err error) {
		conn, err = (&net.ListenConfig{}).ListenPacket(t.Context(), "udp4", "192.0.2.1:53")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		const header, most = 12, 1500
		for {
			packet := make([]byte, most)
			n, from, err := conn.ReadFrom(packet)
			if err != nil {
				return // the connection is closed
			}
			end := header + bytes.IndexByte(packet[min(header, n):n], 0) + 5 // the name's end, type and class
			if n < header || end > n {
				continue
			}
			answer := packet[:end]
			answer[2], answer[3] = 0x81, 0x83 // an answer: no such name
			copy(answer[6:], []byte{0, 0, 0, 0, 0, 0})
			_, _ = conn.WriteTo(answer, from) // the asker may be gone
		}
	})
	t.Cleanup(func() { conn.Close(); running.Wait() })
}

// client trusts the stack's own authority and believes that every address is the one of the named service.
func (e *engine) client(t *testing.T, authority, service string) *http.Client {
	t.Helper()
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(authority)) {
		t.Fatal("no authority")
	}
	transport := &http.Transport{
		DialContext:     e.dial,
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, ServerName: service},
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: time.Minute}
}

func run(t *testing.T, program ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program[0], program[1:]...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v: %s%s", strings.Join(program, " "), err, out, stderr.Bytes())
	}
	return strings.TrimSpace(string(out))
}
