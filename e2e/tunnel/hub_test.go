package tunnel

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"fairlead.dev/e2e/process"
	"fairlead.dev/platform/localca"
)

// cluster is the name of the one cluster in the catalog.
const cluster = "edge"

// stopGrace is more than any drain.
const stopGrace = 40 * time.Second

// hub is a console, tunnels x1 and x2 over one Redis, and the cluster's agent, each a process of its own.
// A full one has the third tunnel, x3, which is reached by nginx only.
type hub struct {
	dir   string
	parts map[string]*process.Process
	order []string
	ca    localca.Files
	urls  map[string]string // by part; "nginx" too
	token string            // an administrator's

	holders []string // tunnels that the agent's sessions come to
}

// startHub starts a hub. In a full one, the agent dials x1 and nginx, so that x2 has no session: each
// request to it is relayed. Otherwise it dials x1 and x2, and nginx balances between the two.
func startHub(ctx context.Context, dir string, full bool) (*hub, error) {
	h := &hub{dir: dir, parts: map[string]*process.Process{}, urls: map[string]string{}}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := h.start(ctx, full); err != nil {
		tails := h.tails()
		return nil, errors.Join(fmt.Errorf("start a hub: %w\n%s", err, tails), h.stop())
	}
	return h, nil
}

func (h *hub) start(ctx context.Context, full bool) (err error) {
	names := []string{"console", "x1", "x2", "nginx", "redis", "x3", "agent"}
	addrs, err := process.FreeAddresses(len(names))
	if err != nil {
		return err
	}
	for i, name := range names {
		h.urls[name] = "https://" + addrs[i]
	}
	if h.ca, err = localca.Ensure(h.file("tls"), "127.0.0.1", "localhost"); err != nil {
		return err
	}
	if err := os.WriteFile(h.file("secret"), []byte(rand.Text()), 0o600); err != nil {
		return err
	}
	agents, tunnels, behind := []string{"x1", "x2"}, []string{"x1", "x2"}, []string{"x1", "x2"}
	h.holders = []string{"x1", "x2"}
	if full {
		h.holders = []string{"x1", "x3"}
		agents, tunnels, behind = []string{"x1", "nginx"}, []string{"x1", "x2", "x3"}, []string{"x3"}
	}
	if err := errors.Join(h.startRedis(), h.startConsole(agents)); err != nil {
		return err
	}
	for _, name := range tunnels {
		if err := h.startTunnel(name); err != nil {
			return err
		}
	}
	if err := h.startNginx(behind); err != nil {
		return err
	}
	if err := h.login(ctx); err != nil {
		return err
	}
	return h.startAgent(ctx)
}

func (h *hub) file(name string) string { return filepath.Join(h.dir, name) }
func (h *hub) addr(part string) string { return strings.TrimPrefix(h.urls[part], "https://") }

func (h *hub) startRedis() error {
	host, port, _ := strings.Cut(h.addr("redis"), ":")
	return h.add(process.New(h.dir, "redis", "redis-server", "--bind", host, "--port", port, "--save", "",
		"--appendonly", "no", "--dir", h.dir))
}

func (h *hub) startConsole(agentsDial []string) error {
	var tunnels []string
	for _, name := range agentsDial {
		tunnels = append(tunnels, h.urls[name])
	}
	return h.add(process.New(h.dir, "console", filepath.Join(world.bins.Dir, "console"), append(h.serverArgs("console"),
		"--advertise-console", h.urls["console"], "--advertise-tunnels", strings.Join(tunnels, ","),
		// No service is there: these tests deliver nothing.
		"--advertise-gitcaches", h.urls["console"], "--advertise-distributors", h.urls["console"])...))
}

func (h *hub) startTunnel(name string) error {
	p := process.New(h.dir, name, filepath.Join(world.bins.Dir, "tunnel"), append(h.serverArgs(name),
		"--console-url", h.urls["console"], "--hub-ca-file", h.ca.CAFile, "--redis-url", "redis://"+h.addr("redis"),
		"--advertise-url", h.urls[name])...)
	return h.add(p)
}

func (h *hub) serverArgs(name string) []string {
	return []string{
		"--listen", h.addr(name), "--tls-cert", h.ca.CertFile, "--tls-key", h.ca.KeyFile,
		"--data-dir", h.file(name + ".data"), "--hub-secret-file", h.file("secret"), "--log-level", "debug",
	}
}

// login makes this process an administrator of the hub.
func (h *hub) login(ctx context.Context) error {
	err := process.Await(ctx, "the console takes a login", func(ctx context.Context) error {
		_, err := h.fairlead(ctx, "", "login", h.urls["console"], "--hub-secret-file", h.file("secret"),
			"--ca-file", h.ca.CAFile)
		return err
	})
	if err != nil {
		return err
	}
	text, err := os.ReadFile(h.file("fairlead.yaml"))
	if err != nil {
		return err
	}
	var config struct{ Contexts []struct{ Token string } }
	if err := yaml.Unmarshal(text, &config); err != nil || len(config.Contexts) != 1 {
		return fmt.Errorf("the configuration has %d contexts, want 1: %w", len(config.Contexts), err)
	}
	h.token = config.Contexts[0].Token
	return nil
}

func (h *hub) fairlead(ctx context.Context, stdin string, args ...string) (string, error) {
	return process.Run(ctx, []string{"FAIRLEAD_CONFIG=" + h.file("fairlead.yaml")}, stdin,
		filepath.Join(world.bins.Dir, "fairlead"), args...)
}

// startAgent joins the cluster, and waits until people get through.
func (h *hub) startAgent(ctx context.Context) error {
	if _, err := h.fairlead(ctx, "apiVersion: fairlead.dev/v1\nkind: Cluster\nmetadata: {name: "+cluster+"}\n", "apply", "-f", "-"); err != nil {
		return err
	}
	token, err := h.fairlead(ctx, "", "cluster", "join-token", cluster)
	if err != nil {
		return err
	}
	if err := os.WriteFile(h.file("join"), []byte(strings.TrimSpace(token)), 0o600); err != nil {
		return err
	}
	err = h.add(process.New(h.dir, "agent", filepath.Join(world.bins.Dir, "agent"), "--hub-url", h.urls["console"], "--hub-ca-file", h.ca.CAFile,
		"--join-token-file", h.file("join"), "--data-dir", h.file("agent.data"), "--kubeconfig", world.kube.Kubeconfig,
		"--log-level", "debug",
		"--health-listen", h.addr("agent")))
	if err != nil {
		return err
	}
	return process.Await(ctx, "the cluster is reached", h.reached)
}

// add starts a part and keeps it for stop.
func (h *hub) add(p *process.Process) error {
	if err := p.Start(); err != nil {
		return err
	}
	h.parts[p.Name] = p
	h.order = append(h.order, p.Name)
	return nil
}

func (h *hub) stop() error {
	var errs []error
	for _, name := range slices.Backward(h.order) {
		errs = append(errs, h.parts[name].Stop(stopGrace))
	}
	return errors.Join(errs...)
}

// tails are the last words of all parts.
func (h *hub) tails() string {
	var b strings.Builder
	for _, name := range h.order {
		fmt.Fprintf(&b, "--- %s\n%s\n", name, h.parts[name].Tail())
	}
	return b.String()
}
