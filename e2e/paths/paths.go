package paths

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"fairlead.dev/e2e/process"
	"fairlead.dev/e2e/stack"
	"fairlead.dev/platform/localca"
)

// path is a way from the load to the backend.
type path struct {
	name  string
	url   string // of the backend, as this path shows it
	token string
	door  string
}

// job is what e2e/tunnelbench's load takes, and result what it gives.
type job struct {
	URL, Token, Door, Kind              string
	Concurrency, Stalled, Millis, Bytes int
}

type result struct {
	P50Micros, PerSecond, MBs float64
	Requests                  int
	Error                     string
}

// paths are all paths with their processes.
type paths struct {
	hub    *hub
	peers  string // the program of e2e/tunnelbench
	dir    string
	parts  []*process.Process
	agents []*dialogue
	loader *dialogue
	all    map[string]path
	// carriers are the processes that bring a request over, by path: all but the backend and the load.
	carriers processes
}

// buildPeers builds the module of the peers, which is none of the workspace.
func buildPeers(ctx context.Context, dir string) (string, error) {
	bin := filepath.Join(dir, "tunnelbench")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", bin, ".")
	cmd.Dir = filepath.Join("e2e", "tunnelbench")
	cmd.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0")
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("build the peers: %w", err)
	}
	return bin, nil
}

func startPaths(ctx context.Context, bins stack.Binaries, dir string) (t *paths, err error) {
	t = &paths{dir: dir, all: map[string]path{}}
	if t.peers, err = buildPeers(ctx, dir); err != nil {
		return t, err
	}
	if t.hub, err = startHub(ctx, bins, dir); err != nil {
		return t, err
	}
	addrs, err := process.FreeAddresses(13)
	if err != nil {
		return t, err
	}
	backend := addrs[0]
	if err := t.part(ctx, backend, "backend", backend); err != nil {
		return t, err
	}
	t.all["direct"] = path{name: "direct", url: "http://" + backend}
	if err := t.fairlead(ctx, backend, addrs[1]); err != nil {
		return t, err
	}
	for i, name := range []string{"yamux", "yamux-proxy"} {
		if err := t.yamux(ctx, name, backend, addrs[2+2*i], addrs[3+2*i]); err != nil {
			return t, err
		}
	}
	for i, mode := range []string{"http-connect", "grpc"} {
		if err := t.konnectivity(ctx, mode, backend, addrs[6+3*i:]); err != nil {
			return t, err
		}
	}
	users, door := addrs[12], t.all["http-connect"].door
	if err := t.part(ctx, users, "konnectivity-proxy", users, door, backend); err != nil {
		return t, err
	}
	t.all["konnectivity-proxy"] = path{name: "konnectivity-proxy", url: "http://" + users}
	t.loader, err = startDialogue(t.peers, "load")
	return t, err
}

// part starts a process, and waits until it listens, if there is an address at which it should.
func (t *paths) part(ctx context.Context, listens, name string, args ...string) error {
	p := process.New(t.dir, name, t.peers, append([]string{strings.SplitN(name, ".", 2)[0]}, args...)...)
	t.parts = append(t.parts, p)
	if err := p.Start(); err != nil {
		return err
	}
	if listens == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	return process.Await(ctx, name+" listens", func(ctx context.Context) error {
		if ended, err := p.Ended(); ended {
			cancel()
			return fmt.Errorf("%s ended: %w: %s", name, err, p.Tail())
		}
		network := "tcp"
		if strings.HasPrefix(listens, "/") {
			network = "unix"
		}
		conn, err := (&net.Dialer{}).DialContext(ctx, network, listens)
		if err != nil {
			return err
		}
		return conn.Close()
	})
}

// fairlead has two agents: a near one, and one behind a line with 50 ms each way.
func (t *paths) fairlead(ctx context.Context, backend, line string) error {
	tokens, err := t.hub.join(ctx, []string{"near", "far"})
	if err != nil {
		return err
	}
	u, err := url.Parse(t.hub.url)
	if err != nil {
		return err
	}
	if err := t.part(ctx, line, "line", line, u.Host, "50"); err != nil {
		return err
	}
	for _, to := range []struct{ name, tunnel string }{{"near", t.hub.url}, {"far", "http://" + line}} {
		agents, err := startAgents(ctx, fleet{Tunnel: to.tunnel, Backend: "http://" + backend, Tokens: map[string]string{to.name: tokens[to.name]}})
		if agents != nil {
			t.agents = append(t.agents, agents)
		}
		if err != nil {
			return err
		}
	}
	t.all["fairlead"] = path{name: "fairlead", url: t.hub.url + "/clusters/near", token: t.hub.user}
	t.all["far"] = path{name: "far", url: t.hub.url + "/clusters/far", token: t.hub.user}
	return nil
}

// yamux has one of two hubs: one that is a pipe, or one with a reverse proxy.
func (t *paths) yamux(ctx context.Context, name, backend, agents, users string) error {
	if err := t.part(ctx, users, name, agents, users); err != nil {
		return err
	}
	t.all[name] = path{name: name, url: "http://" + users}
	return t.part(ctx, "", "yamux-agent."+name, agents, backend)
}

// konnectivity needs TLS between its agent and its server, and has none on the other side.
func (t *paths) konnectivity(ctx context.Context, mode, backend string, addrs []string) error {
	files, err := localca.Ensure(filepath.Join(t.dir, "tls"), "127.0.0.1", "localhost")
	if err != nil {
		return err
	}
	port := func(i int) string { _, p, _ := net.SplitHostPort(addrs[i]); return p }
	socket := filepath.Join(t.dir, mode+".sock")
	err = t.part(ctx, socket, "konnectivity-server."+mode, "--mode", mode, "--uds-name", socket, "--server-port", "0",
		"--cluster-cert", files.CertFile, "--cluster-key", files.KeyFile, "--agent-port", port(0), "--agent-bind-address", "127.0.0.1",
		"--admin-port", port(1), "--health-port", port(2), "--health-bind-address", "127.0.0.1")
	if err != nil {
		return err
	}
	free, err := process.FreeAddresses(2)
	if err != nil {
		return err
	}
	_, health, _ := net.SplitHostPort(free[0])
	_, admin, _ := net.SplitHostPort(free[1])
	t.all[mode] = path{name: mode, url: "http://" + backend, door: mode + ":" + socket}
	return t.part(ctx, "", "konnectivity-agent."+mode, "--ca-cert", files.CAFile, "--proxy-server-host", "127.0.0.1", "--proxy-server-port", port(0),
		"--health-server-host", "127.0.0.1", "--health-server-port", health, "--admin-bind-address", "127.0.0.1", "--admin-server-port", admin)
}

// do has the load measure a path.
func (t *paths) do(name string, j job) (result, error) {
	p := t.all[name]
	j.URL, j.Token, j.Door = p.url, p.token, p.door
	var r result
	if err := t.loader.ask(j, &r); err != nil {
		return r, err
	}
	if r.Error != "" {
		return r, fmt.Errorf("%s over %s: %s", j.Kind, name, r.Error)
	}
	return r, nil
}

func (t *paths) stop() (err error) {
	if t.loader != nil {
		err = t.loader.stop()
	}
	for _, a := range t.agents {
		_ = a.stop()
	}
	for _, p := range t.parts {
		_ = p.Kill() // peers have nothing to save
	}
	if t.hub != nil {
		if stopErr := t.hub.stop(); err == nil {
			err = stopErr
		}
	}
	return err
}
