package up

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"fairlead.dev/cli/internal/front"
	"fairlead.dev/platform/coordination"
	"fairlead.dev/platform/hubservice"
	"fairlead.dev/platform/localca"
	"fairlead.dev/platform/server"
	"fairlead.dev/platform/telemetry"
	"fairlead.dev/platform/version"
	"fairlead.dev/services/console"
	"fairlead.dev/services/distributor"
	"fairlead.dev/services/gitcache"
	"fairlead.dev/services/tunnel"
)

const (
	// readyLimit bounds the hub's way to ready. The hub takes a second or two; the rest is for a busy machine.
	readyLimit = time.Minute
	readyPoll  = 50 * time.Millisecond
	// flushLimit is for a collector that is gone.
	flushLimit = 3 * time.Second
)

// service is what all of the hub's services have in common.
type service interface {
	Listen() error
	Run(ctx context.Context) error
}

type part struct {
	name, url string
	service   service
}

// urls is where the hub is reached.
type urls struct {
	Console     string `json:"console"`
	Gitcache    string `json:"gitcache"`
	Distributor string `json:"distributor"`
	Tunnel      string `json:"tunnel"`
	Front       string `json:"-"` // No service: the address of the pages.
}

// hub is the four services in this process.
type hub struct {
	urls       urls
	files      localca.Files // CAFile is empty if the system's authorities do.
	secretFile string
	parts      []part // The console first: the others need it.
	close      []func(context.Context) error
}

// builder has what the services are put together from.
type builder struct {
	options     Options
	data        *dataDir
	logs        io.Writer
	coordinator coordination.Coordinator
	hub         *hub
}

// newHub puts the services together and binds their addresses.
func newHub(ctx context.Context, o Options, d *dataDir, logs io.Writer) (*hub, error) {
	files, err := o.findCertificate(d)
	if err != nil {
		return nil, err
	}
	secretFile := d.joinPath("hub-secret")
	// The other services begin together with the console, and read the secret, too.
	if err := console.EnsureHubSecret(secretFile); err != nil {
		return nil, err
	}
	coordinator, err := coordination.Open("memory:")
	if err != nil {
		return nil, err
	}
	at := func(port int) string { return "https://" + hostPort(o.AdvertiseHost, port) }
	p := d.state.Ports
	h := &hub{
		urls:       urls{Console: at(p.Console), Gitcache: at(p.Gitcache), Distributor: at(p.Distributor), Tunnel: at(p.Tunnel), Front: at(p.Front)},
		files:      files,
		secretFile: secretFile,
		close:      []func(context.Context) error{func(context.Context) error { return coordinator.Close() }},
	}
	b := &builder{o, d, logs, coordinator, h}
	for _, build := range []func(context.Context) (part, error){b.buildConsole, b.buildGitcache, b.buildDistributor, b.buildTunnel, b.buildFront} {
		made, err := build(ctx)
		if err == nil {
			err = made.service.Listen()
		}
		if err != nil {
			return nil, errors.Join(err, h.endServices(ctx))
		}
		h.parts = append(h.parts, made)
	}
	return h, nil
}

// findCertificate returns the user's, or else one of our own authority.
func (o Options) findCertificate(d *dataDir) (localca.Files, error) {
	if o.CertFile != "" {
		return localca.Files{CAFile: o.CAFile, CertFile: o.CertFile, KeyFile: o.KeyFile}, nil
	}
	return localca.Ensure(d.joinPath("tls"), loopback, "localhost", "::1", o.AdvertiseHost)
}

func (b *builder) listenerConfig(port int) server.Config {
	cfg := server.Config{
		Listen: hostPort(b.options.ListenHost, port), CertFile: b.hub.files.CertFile, KeyFile: b.hub.files.KeyFile,
	}
	// The front dials from this machine and says who called it. Where nobody else can call, there is nobody to tell
	// apart.
	if !net.ParseIP(b.options.ListenHost).IsLoopback() {
		cfg.TrustedProxies = b.ownAddresses()
	}
	return cfg
}

// ownAddresses are the addresses from which this machine dials its own services.
func (b *builder) ownAddresses() []string {
	own := []string{loopback, "::1"}
	if ip := net.ParseIP(b.options.ListenHost); !ip.IsUnspecified() {
		return append(own, b.options.ListenHost)
	}
	found, err := net.InterfaceAddrs()
	if err != nil {
		return own
	}
	for _, a := range found {
		if network, ok := a.(*net.IPNet); ok {
			own = append(own, network.IP.String())
		}
	}
	return own
}

// newTelemetry gives a service its log and telemetry: each has a registry of its own, as in production.
func (b *builder) newTelemetry(ctx context.Context, name string) (*slog.Logger, *telemetry.Telemetry, error) {
	log := telemetry.NewLogger(b.logs, b.options.LogLevel, telemetry.FormatText, name)
	tel, flush, err := telemetry.Setup(ctx, telemetry.Config{Service: name, Version: version.String(), Log: log})
	if err != nil {
		return nil, nil, err
	}
	b.hub.close = append(b.hub.close, flush)
	return log, tel, nil
}

// replicaConfig is what the services besides the console have in common.
func (b *builder) replicaConfig(name string, port int, url string) hubservice.Config {
	return hubservice.Config{
		Server: b.listenerConfig(port), DataDir: b.data.joinPath(name), ConsoleURL: b.hub.urls.Console,
		HubCAFile: b.hub.files.CAFile, HubSecretFile: b.hub.secretFile, AdvertiseURL: url,
	}
}

func (b *builder) buildConsole(ctx context.Context) (part, error) {
	log, tel, err := b.newTelemetry(ctx, "console")
	if err != nil {
		return part{}, err
	}
	u := b.hub.urls
	s, err := console.New(console.Config{
		Server:  b.listenerConfig(b.data.state.Ports.Console),
		DataDir: b.data.joinPath("console"), HubSecretFile: b.hub.secretFile,
		AdvertiseConsole: u.Console, AdvertisePages: u.Front, AdvertiseGitcaches: []string{u.Gitcache},
		AdvertiseDistributors: []string{u.Distributor}, AdvertiseTunnels: []string{u.Tunnel},
		AllowAddresses: b.allowedAddresses(),
	}, console.Deps{Log: log, Telemetry: tel})
	return part{"console", u.Console, s}, err
}

// allowedAddresses are the addresses of Git hosts, sinks and backends that are not public: the local Git server is on
// this machine.
func (b *builder) allowedAddresses() []string {
	return append([]string{"127.0.0.0/8", "::1/128"}, b.options.AllowAddresses...)
}

func (b *builder) buildGitcache(ctx context.Context) (part, error) {
	log, tel, err := b.newTelemetry(ctx, "gitcache")
	if err != nil {
		return part{}, err
	}
	u := b.hub.urls.Gitcache
	s, err := gitcache.New(gitcache.Config{
		Config: b.replicaConfig("gitcache", b.data.state.Ports.Gitcache, u), Replica: "up",
		AllowAddresses: b.allowedAddresses(),
	}, gitcache.Deps{Log: log, Telemetry: tel, Coordinator: b.coordinator})
	return part{"gitcache", u, s}, err
}

func (b *builder) buildDistributor(ctx context.Context) (part, error) {
	log, tel, err := b.newTelemetry(ctx, "distributor")
	if err != nil {
		return part{}, err
	}
	u := b.hub.urls.Distributor
	s, err := distributor.New(distributor.Config{Config: b.replicaConfig("distributor", b.data.state.Ports.Distributor, u)},
		distributor.Deps{Log: log, Telemetry: tel, Coordinator: b.coordinator})
	return part{"distributor", u, s}, err
}

func (b *builder) buildTunnel(ctx context.Context) (part, error) {
	log, tel, err := b.newTelemetry(ctx, "tunnel")
	if err != nil {
		return part{}, err
	}
	u := b.hub.urls.Tunnel
	s, err := tunnel.New(tunnel.Config{Config: b.replicaConfig("tunnel", b.data.state.Ports.Tunnel, u)},
		tunnel.Deps{Log: log, Telemetry: tel, Coordinator: b.coordinator})
	return part{"tunnel", u, s}, err
}

// buildFront has no state and no telemetry of its own: the services behind it count what it passes on.
func (b *builder) buildFront(context.Context) (part, error) {
	u, files := b.hub.urls, b.hub.files
	f, err := front.New(front.Config{ //nolint:contextcheck // streams end with its Run
		Listen:   hostPort(b.options.ListenHost, b.data.state.Ports.Front),
		CertFile: files.CertFile, KeyFile: files.KeyFile, CAFile: files.CAFile,
		Console: u.Console, Gitcache: u.Gitcache, Tunnel: u.Tunnel,
	}, telemetry.NewLogger(b.logs, b.options.LogLevel, telemetry.FormatText, "front"))
	return part{"front", u.Front, f}, err
}

// run serves until ctx ends or a service fails. The console ends last: the others tell it what they
// know until the end.
func (h *hub) run(ctx context.Context) error {
	failed := make(chan error, len(h.parts))
	begin := func(parts []part) (end func()) {
		inner, cancel := context.WithCancel(context.WithoutCancel(ctx))
		var group sync.WaitGroup
		for _, p := range parts {
			group.Go(func() {
				err := p.service.Run(inner)
				if err == nil && inner.Err() == nil {
					err = errors.New("ended by itself")
				}
				if err != nil {
					failed <- fmt.Errorf("%s: %w", p.name, err)
				}
			})
		}
		return func() { cancel(); group.Wait() }
	}
	endConsole, endOthers := begin(h.parts[:1]), begin(h.parts[1:])
	var errs []error
	select {
	case <-ctx.Done():
	case err := <-failed:
		errs = append(errs, err)
	}
	endOthers()
	endConsole()
	close(failed)
	for err := range failed {
		errs = append(errs, err)
	}
	return errors.Join(append(errs, h.endServices(ctx))...)
}

// endServices flushes telemetry and closes coordination, also when ctx has ended.
func (h *hub) endServices(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushLimit)
	defer cancel()
	var errs []error
	for _, f := range h.close {
		errs = append(errs, f(ctx))
	}
	return errors.Join(errs...)
}

// awaitReady returns when all services are ready, and tells of each.
func (h *hub) awaitReady(ctx context.Context, hc *http.Client, say func(format string, args ...any)) error {
	ctx, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	for _, p := range h.parts {
		if err := awaitSuccess(ctx, p.name+" to be ready", func(ctx context.Context) error { return checkReady(ctx, hc, p.url) }); err != nil {
			return err
		}
		say("%-12s %s", p.name, p.url)
	}
	return nil
}

func checkReady(ctx context.Context, hc *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/readyz", nil)
	if err != nil {
		return err
	}
	resp, err := hc.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, maxTail)) // The status says enough.
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s", strings.TrimSpace(string(text)))
	}
	return nil
}

// awaitSuccess repeats try until it returns nil, and returns its last error when ctx ends before.
func awaitSuccess(ctx context.Context, what string, try func(context.Context) error) error {
	tick := time.NewTicker(readyPoll)
	defer tick.Stop()
	for {
		err := try(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w; last seen: %w", what, context.Cause(ctx), err)
		case <-tick.C:
		}
	}
}
