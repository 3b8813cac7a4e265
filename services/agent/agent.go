// Package agent keeps the services of one cluster applied, as the hub wants them. This file is the
// wiring; the rules are in the internal packages.
package agent

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
	"fairlead.dev/platform/agentconfig"
	"fairlead.dev/platform/artifact"
	"fairlead.dev/platform/client"
	"fairlead.dev/platform/datadir"
	"fairlead.dev/platform/deliveryclient"
	"fairlead.dev/platform/durable"
	"fairlead.dev/platform/flags"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/lockfile"
	"fairlead.dev/platform/retry"
	"fairlead.dev/platform/telemetry"
	"fairlead.dev/platform/tunnelclient"
	"fairlead.dev/platform/version"
	"fairlead.dev/services/agent/internal/answers"
	"fairlead.dev/services/agent/internal/apply"
	"fairlead.dev/services/agent/internal/cluster"
	"fairlead.dev/services/agent/internal/config"
	"fairlead.dev/services/agent/internal/deliver"
	"fairlead.dev/services/agent/internal/desired"
	"fairlead.dev/services/agent/internal/inventory"
	"fairlead.dev/services/agent/internal/join"
	"fairlead.dev/services/agent/internal/journal"
	"fairlead.dev/services/agent/internal/lead"
	"fairlead.dev/services/agent/internal/memory"
	"fairlead.dev/services/agent/internal/prune"
	"fairlead.dev/services/agent/internal/reconcile"
	"fairlead.dev/services/agent/internal/render"
	"fairlead.dev/services/agent/internal/repair"
	"fairlead.dev/services/agent/internal/report"
	"fairlead.dev/services/agent/internal/set"
	"fairlead.dev/services/agent/internal/trial"
	"fairlead.dev/services/agent/internal/upgrade"
	"fairlead.dev/services/agent/internal/views"
	"fairlead.dev/services/agent/internal/watch"
)

const (
	// maxArtifactBytes bounds the store of manifests on disk, compressed.
	maxArtifactBytes = 1 << 30
	// previewsAtOnce bounds the folders that people have compared: each takes up to artifact.PreviewBytes of the disk
	// until its turn.
	previewsAtOnce = 4
	// defaultUpgradePatience is also the chart's.
	defaultUpgradePatience = 5 * time.Minute
	// versionInterval is between two looks at the API server's version; a failed one is repeated sooner.
	versionInterval, versionRetry = time.Hour, 15 * time.Second
	// belongFloor and belongMax bound the wait for an API server that does not say which cluster it is.
	belongFloor, belongMax = 200 * time.Millisecond, 30 * time.Second
	// The API server is near or it is down. Connections that last are kept alive through whatever is in between.
	dialTimeout, keepAlive = 10 * time.Second, 15 * time.Second
)

// Config is what differs between agents.
type Config struct {
	// HubURL is the console's address; joining tells the rest.
	HubURL    string
	HubCAFile string
	// JoinTokenFile is needed the first time only.
	JoinTokenFile string
	// DataDir keeps the credential, the wanted state, manifests and reports.
	DataDir string
	// Kubeconfig and Context say which cluster; with neither it is the one the agent runs in.
	Kubeconfig, Context string
	// HealthListen serves /healthz, /readyz, /hubz and, on a loopback address or with a token, /metrics. Empty or ":0":
	// nothing.
	HealthListen string
	// MetricsTokenFile holds the token that /metrics wants; empty: it wants none, and is there on loopback only.
	MetricsTokenFile string
	// TracesThroughHub has spans handed to the distributors, for the hub's collector.
	TracesThroughHub bool
	// Tunnel is who is let in through the tunnel.
	Tunnel tunnelclient.Policy
	// RequireImpersonation refuses services that name no Kubernetes service account to be applied as.
	RequireImpersonation bool
	// NoViewSets: the view has no kinds but those that every view has, whatever the hub says.
	NoViewSets bool
	// Accounts are those that services may be applied as, as patterns of namespace/name; none: all but those of
	// kube-system and fairlead-system.
	Accounts []string
	// Pod is the one that the agent runs in, written namespace/name.
	Pod string
	// LeaderElect: several agents of the cluster run, and one of them works.
	LeaderElect bool
	// UpgradePatience is how long the pods of another release of the agent may take to be ready.
	UpgradePatience time.Duration
}

// RegisterFlags adds the flags of the configuration.
func (c *Config) RegisterFlags(fs *flag.FlagSet) {
	fs.StringVar(&c.HubURL, "hub-url", "", "URL of the hub's console")
	fs.StringVar(&c.HubCAFile, "hub-ca-file", "", "PEM file of the authority that signed the hub's certificates, the only one that is trusted then; default: the system's authorities")
	fs.StringVar(&c.JoinTokenFile, "join-token-file", "", "file with the token of `fairlead cluster join-token NAME`; needed the first time only")
	fs.StringVar(&c.DataDir, "data-dir", "", "folder for the agent's credential and its cache")
	fs.StringVar(&c.Kubeconfig, "kubeconfig", "", "kubeconfig of the cluster (default: the cluster that the agent runs in)")
	fs.BoolVar(&c.TracesThroughHub, "traces-through-hub", false,
		"hand traces to the hub's distributors instead of to a collector (OTEL_EXPORTER_OTLP_ENDPOINT), where the network allows nothing else")
	fs.StringVar(&c.Context, "context", "", "context of the kubeconfig")
	fs.BoolVar(&c.Tunnel.AllowSystem, "tunnel-allow-system", false,
		"let people in through the tunnel whose user or groups begin with system: or kubeadm:, which are Kubernetes' own")
	fs.StringVar(&c.Tunnel.GroupPrefix, "tunnel-group-prefix", "",
		"`text` before the groups of people who come through the tunnel, as the cluster's RBAC knows them; not before those of the hub (fairlead:)")
	fs.Func("tunnel-user", "`user` as whom people come through the tunnel, and nobody else; may be given several times; default: anybody", appendTo(&c.Tunnel.Users))
	fs.Func("tunnel-group", "`group` of people who come through the tunnel, as the cluster's RBAC knows it (with --tunnel-group-prefix): their other groups are dropped; may be given several times; default: all groups count", appendTo(&c.Tunnel.Groups))
	fs.BoolVar(&c.Tunnel.NoImpersonation, "tunnel-no-impersonation", false,
		"let nobody impersonate others through the tunnel (kubectl --as); otherwise the agent asks the API server, with subjectaccessreviews, whether the person may")
	fs.Func("tunnel-impersonate-user", "`user` whom people may impersonate through the tunnel (kubectl --as), and nobody else; a service account is system:serviceaccount:NAMESPACE:NAME; may be given several times; default: those of --tunnel-user, or anybody", appendTo(&c.Tunnel.ImpersonatedUsers))
	fs.Func("tunnel-impersonate-group", "`group` that people may impersonate through the tunnel (kubectl --as-group), and no other; may be given several times; default: those of --tunnel-group, or any", appendTo(&c.Tunnel.ImpersonatedGroups))
	fs.BoolVar(&c.Tunnel.ReadOnly, "tunnel-read-only", false,
		"let people only read through the tunnel: no changes, no exec, no secrets, whatever the hub grants")
	fs.Func("tunnel-namespaces", "comma-separated `namespaces` that people may look into through the tunnel, and at nothing else; default: everywhere", flags.List(&c.Tunnel.Namespaces))
	fs.BoolVar(&c.NoViewSets, "no-view-sets", false,
		"keep no ViewSets of the hub: its administrators choose no further kinds whose objects the view counts and lists")
	fs.BoolVar(&c.RequireImpersonation, "require-impersonation", false,
		"refuse services that name no Kubernetes service account (spec.sync.impersonate), whose rights bound what they may bring in")
	fs.Func("impersonate-accounts", "comma-separated Kubernetes service accounts that services may name (spec.sync.impersonate), as `namespace/name` where * stands for any text, but not for kube-system and fairlead-system; default: all but those of these two namespaces", flags.List(&c.Accounts))
	fs.StringVar(&c.Pod, "pod", "", "`namespace/name` of the pod that the agent runs in: what keeps it running is removed by no service (default: found out, unless the host's name is not the pod's)")
	fs.BoolVar(&c.LeaderElect, "leader-elect", false,
		"run beside other agents of the same cluster, each with a --data-dir and a join token of its own: the one that holds the Lease agent in namespace fairlead-system works, the others stand by; all let people in through the tunnel")
	fs.DurationVar(&c.UpgradePatience, "upgrade-patience", defaultUpgradePatience,
		"how long the pods of another release of the agent, which a service brings in, may take to be ready before the agent goes back: more where images take long to pull")
	fs.StringVar(&c.HealthListen, "health-listen", "",
		"address for /healthz, /readyz and /hubz (is the hub reached?), and for /metrics if it is loopback or there is a --metrics-token-file (default: off)")
	fs.StringVar(&c.MetricsTokenFile, "metrics-token-file", "",
		"`file` with a token for Prometheus, at least 16 characters, which /metrics wants then; it may be replaced at any time")
}

// appendTo appends what a flag is given to a list: names of groups may have commas.
func appendTo(to *[]string) func(string) error {
	return func(name string) error {
		if name == "" {
			return errors.New("must not be empty")
		}
		*to = append(*to, name)
		return nil
	}
}

// Validate says what is missing.
func (c *Config) Validate() error {
	switch {
	case c.HubURL == "":
		return errors.New("--hub-url is missing: the URL of the hub's console, such as https://fairlead.example.com")
	case !strings.HasPrefix(c.HubURL, "https://") && !strings.HasPrefix(c.HubURL, "http://"):
		return fmt.Errorf("--hub-url %q must begin with https://", c.HubURL)
	case c.Pod != "" && strings.Count(c.Pod, "/") != 1:
		return fmt.Errorf("--pod %q must be namespace/name", c.Pod)
	case slices.ContainsFunc(c.Accounts, func(pattern string) bool { return strings.Count(pattern, "/") != 1 }):
		return fmt.Errorf("--impersonate-accounts %q: each must be namespace/name", strings.Join(c.Accounts, ","))
	case c.UpgradePatience < 0:
		return errors.New("--upgrade-patience must not be negative")
	case c.DataDir == "":
		return errors.New("--data-dir is missing: a folder that survives a restart of the agent")
	}
	return nil
}

// Deps is what the process gives to the agent.
type Deps struct {
	Log       *slog.Logger
	Telemetry *telemetry.Telemetry
	// Renderer is the program that renders, with its arguments. Default: agent-render, beside this one.
	Renderer []string
}

// Agent is the agent of one cluster.
type Agent struct {
	cfg          Config
	log          *slog.Logger
	telemetry    *telemetry.Telemetry
	flush        func(context.Context) error // of traces that go through the hub
	scrapers     telemetry.Scrapers
	http         *http.Client
	cluster      *cluster.Cluster
	width        *apply.Width
	memory       *memory.Memory
	joiner       *join.Joiner
	renewer      *identity.Renewer
	distributors *deliveryclient.Distributors
	content      *deliveryclient.Content
	desired      *desired.Store
	artifacts    *artifact.Store
	sets         *set.Store
	journal      *journal.Journal
	renderer     []string
	reporter     *report.Reporter
	details      *report.Details
	inventory    *inventory.Store
	watcher      *watch.Watcher
	repair       *repair.Repair
	kube         *rest.Config // the way to the API server
	view         *views.View
	pusher       *views.Pusher
	poller       *deliveryclient.Poller
	config       *config.Store
	level        *slog.LevelVar // below the level of the flags it changes nothing
	controller   *reconcile.Controller
	reach        *tunnelclient.Client
	tunnels      *http.Client
	people       *tunnelclient.Transport               // to the API server, for people
	policies     atomic.Pointer[[]tunnelclient.Policy] // of the configuration; nil: none
	lock         *lockfile.Lock
	previews     chan struct{} // Places for folders that people have compared.
	belongs      chan struct{} // Closed once the cluster is known to be the one that was joined as.
	made         time.Time     // When New made it.
	begin        chan struct{} // Closed once what is wanted, as the disk has it, may be acted on.
	// elector is nil for an agent that is the only one; leases is its way to the cluster, which no fence stands in.
	elector *lead.Elector
	leases  *cluster.Cluster

	mu sync.Mutex // guards kubernetes
	// kubernetes is the API server's version, "" until it was asked.
	kubernetes string
}

// New prepares an agent. New takes the data folder for itself; nothing is dialled yet.
func New(cfg Config, deps Deps) (*Agent, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	scrapers, err := telemetry.NewScrapers(cfg.MetricsTokenFile)
	if err != nil {
		return nil, err
	}
	lock, err := datadir.Take(cfg.DataDir)
	if err != nil {
		return nil, err
	}
	if len(deps.Renderer) == 0 {
		deps.Renderer = besideThis("agent-render")
	}
	log, level := quieter(deps.Log)
	a := &Agent{
		cfg: cfg, renderer: deps.Renderer, log: log, level: level, telemetry: deps.Telemetry,
		scrapers: scrapers, lock: lock, previews: make(chan struct{}, previewsAtOnce), belongs: make(chan struct{}),
		made: time.Now(), begin: make(chan struct{}), width: apply.NewWidth(),
	}
	a.memory = memory.New(a.notice)
	if err := a.connect(); err != nil {
		return nil, errors.Join(err, lock.Release())
	}
	if err := a.open(); err != nil {
		return nil, errors.Join(err, lock.Release())
	}
	if err := a.wire(); err != nil {
		return nil, errors.Join(err, lock.Release())
	}
	return a, nil
}

// Frugal says that the agent's memory counts: it is in every cluster, beside the work of others.
func (a *Agent) Frugal() {}

// connect prepares the ways to the hub and to the cluster.
func (a *Agent) connect() error {
	config, err := cluster.Load(a.cfg.Kubeconfig, a.cfg.Context)
	if err != nil {
		return err
	}
	a.kube = config
	own := rest.CopyConfig(config)
	own.Wrap(a.width.Wrap)
	if a.cfg.LeaderElect {
		if err := a.elect(config, own); err != nil {
			return err
		}
	}
	if a.cluster, err = cluster.New(own); err != nil {
		return err
	}
	if err := a.connectHub(); err != nil {
		return err
	}
	if a.cfg.TracesThroughHub {
		if err := a.traceThroughHub(); err != nil {
			return err
		}
	}
	return a.connectTunnel(config)
}

// connectHub prepares the calls to the console and the distributors.
func (a *Agent) connectHub() (err error) {
	if a.http, err = client.New(client.Config{CAFile: a.cfg.HubCAFile}); err != nil {
		return fmt.Errorf("prepare connections to the hub: %w", err)
	}
	identities := consolev1connect.NewIdentityServiceClient(a.http, a.cfg.HubURL, client.Options()...)
	if a.joiner, err = join.Open(a.cfg.DataDir, identities, a.log); err != nil {
		return err
	}
	a.http.Transport = a.joiner.Clock().Heed(a.http.Transport)
	renew := identity.RenewerConfig{
		Tokens: a.joiner.Tokens(), Client: identities, Header: a.joiner.For(identity.ServiceConsole), Bind: a.joiner.Bind, Renewed: a.moved, Log: a.log,
	}
	if a.cfg.JoinTokenFile != "" {
		// A credential that the hub refuses can be replaced by putting a new join token into the file.
		renew.Obtain = func(ctx context.Context) (string, error) { return a.joiner.Obtain(ctx, a.cfg.JoinTokenFile) }
	}
	a.renewer = identity.NewRenewer(renew)
	distributors, gitcaches := *a.http, *a.http
	distributors.Transport = client.Authorize(a.http.Transport, a.joiner.For(identity.ServiceDistributor))
	gitcaches.Transport = client.Authorize(a.http.Transport, a.joiner.For(identity.ServiceGitcache))
	a.distributors = deliveryclient.New(&distributors, a.renewer.Kick, client.Options()...)
	a.content = &deliveryclient.Content{
		Distributors: a.distributors, Gitcaches: func() []string { return a.joiner.Endpoints().Gitcaches }, HTTP: &gitcaches,
	}
	return nil
}

// heeding returns a client for the hub by whose answers the agent knows the hub's clock.
func (a *Agent) heeding() (*http.Client, error) {
	hc, err := client.New(client.Config{CAFile: a.cfg.HubCAFile})
	if err != nil {
		return nil, err
	}
	hc.Transport = a.joiner.Clock().Heed(hc.Transport)
	return hc, nil
}

// connectTunnel prepares the sessions over which people reach the API server.
func (a *Agent) connectTunnel(config *rest.Config) error {
	server, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return fmt.Errorf("find the API server: %w", err)
	}
	if a.people, err = tunnelclient.NewTransport(func(http1 bool) (http.RoundTripper, error) {
		own := rest.CopyConfig(config)
		own.Dial = (&net.Dialer{Timeout: dialTimeout, KeepAlive: keepAlive}).DialContext // client-go shares connections, but for a dialler of one's own
		if http1 {
			own.NextProtos = []string{"http/1.1"}
		}
		return rest.TransportFor(own)
	}); err != nil {
		return err
	}
	if a.people.Reads, err = reads(config, server); err != nil {
		return err
	}
	if a.tunnels, err = a.heeding(); err != nil {
		return fmt.Errorf("prepare connections to the tunnels: %w", err)
	}
	a.reach, err = tunnelclient.New(tunnelclient.Config{
		Endpoints:  func() []string { return a.joiner.Endpoints().Tunnels },
		HTTPClient: a.tunnels,
		Another:    a.heeding,
		Token:      a.joiner.For(identity.ServiceTunnel),
		Kube:       server,
		Transport:  a.people,
		Policy:     a.cfg.Tunnel,
		Also:       a.tunnelPolicies,
		Own:        a.answer,
		Version:    version.String(),
		Tracer:     a.telemetry.Tracer.Tracer("fairlead.dev/platform/reach"),
		Log:        a.log,
	})
	return errors.Join(err, a.observeTunnel())
}

// open reads what earlier runs left on disk.
func (a *Agent) open() error {
	var err error
	if a.desired, err = desired.Open(a.cfg.DataDir, a.log); err != nil {
		return err
	}
	if a.elector != nil {
		a.elector.Revision = a.desired.Revision
	}
	options := artifact.Options{MaxBytes: maxArtifactBytes, Log: a.log}
	if a.artifacts, err = artifact.OpenStore(filepath.Join(a.cfg.DataDir, "artifacts"), options); err != nil {
		return fmt.Errorf("open manifest store: %w", err)
	}
	if a.sets, err = set.OpenStore(filepath.Join(a.cfg.DataDir, "sets")); err != nil {
		return err
	}
	if a.journal, err = journal.Open(filepath.Join(a.cfg.DataDir, "repairs")); err != nil {
		return err
	}
	if a.reporter, err = report.Open(filepath.Join(a.cfg.DataDir, "reports"), a.distributors, a.telemetry.Registry, a.log); err != nil {
		return err
	}
	if err := durable.Sweep(a.testLogs()); err != nil {
		return err
	}
	if a.details, err = report.OpenDetails(filepath.Join(a.cfg.DataDir, "details"), a.distributors, a.log); err != nil {
		return err
	}
	return nil
}

// testLogs is the folder of the logs of tests that go on.
func (a *Agent) testLogs() string { return filepath.Join(a.cfg.DataDir, "tests") }

// wire puts the parts together.
func (a *Agent) wire() error {
	tracer := a.telemetry.Tracer.Tracer("fairlead.dev/services/agent")
	a.inventory = inventory.New(a.cluster.ConfigMaps(inventory.Namespace), a.cluster)
	a.memory.Register(a.telemetry.Registry)
	a.inventory.Follow(a.memory.Track)
	a.watcher = watch.New(a.cluster, a.memory, a.notice, a.log, a.telemetry.Registry)
	a.watcher.Silence = func() { a.poller.Soon() }
	self := a.self()
	stays := func(service string) bool {
		_, wanted := a.desired.Get(service)
		return wanted != desired.Remove
	}
	applier := apply.New(&upgrade.Self{Self: self, Patience: a.cfg.UpgradePatience}, a.width, a.memory, a.watcher)
	applier.Register(a.telemetry.Registry)
	pruner := prune.New(self, a.inventory, stays, a.width)
	a.controller = reconcile.New(reconcile.Deps{
		Desired:   a.desired,
		Artifacts: deliver.NewDownloader(a.artifacts, a.content, a.desired, tracer),
		Inventory: a.inventory,
		Journal:   a.journal,
		Answers:   answers.New(a.cluster.Secrets(inventory.Namespace), a.cluster),
		Sets:      a.sets,
		Renderer:  render.New(a.renderer...),
		Scope:     a.scope,
		Lookup:    a.lookup,
		Scopes:    a.cluster,
		Applier:   applier,
		Pruner:    pruner,
		Memory:    a.memory,
		Watcher:   a.watcher,
		Reports:   a.reporter,
		Details:   a.details,
		Trials: trial.New(trial.Deps{
			API: a.cluster, Applier: applier, Pruner: pruner, Inventories: a.inventory, Details: a.details, Dir: a.testLogs(),
			Now: time.Now, Tracer: tracer, Metrics: a.telemetry.Registry, Log: a.log,
		}),
		Compare:  a.cluster,
		Metadata: a.cluster.Metadata,

		Environment:          a.environment,
		RequireImpersonation: a.cfg.RequireImpersonation,
		Accounts:             a.cfg.Accounts,

		Tracer:  tracer,
		Keep:    a.telemetry.Keep,
		Metrics: a.telemetry.Registry,
		Log:     a.log,
	})
	pruner.Undecided = a.controller.Undecided
	a.repair = repair.New(a.memory, a.controller, a.controller, time.Now, a.log, a.telemetry.Registry)
	a.view = views.New(views.Deps{
		Cluster: a.cluster, KubernetesVersion: a.kubernetesVersion, Services: a.memory.Services, Ends: a.ends, Now: time.Now, Log: a.log,
	})
	a.pusher = views.NewPusher(a.view, a.distributors, a.telemetry.Registry, a.log)
	if err := a.openConfig(); err != nil {
		return err
	}
	sets, err := a.openViewSets()
	if err != nil {
		return err
	}
	a.poller = deliver.New(deliver.Deps{
		Distributors:      a.distributors,
		Desired:           a.desired,
		Orphans:           a.inventory.Services,
		Applied:           a.applied,
		Loaded:            a.controller.Loaded(),
		KubernetesVersion: a.kubernetesVersion,
		ClusterProblem:    a.clusterProblem,
		AgentVersion:      version.String(),
		View:              a.viewState,
		ViewLost:          a.pusher.Lost,
		NoViews:           a.noViews,
		Streams:           a.streams,
		Config:            a.config,
		ViewSets:          sets,
		HoldProgress:      a.reporter.HoldProgress,
		ReportTurn:        a.reporter.Turn,
		Tracer:            tracer,
		Metrics:           a.telemetry.Registry,
		Log:               a.log,
	})
	return nil
}

// Run joins the hub, if that was not done before, and works until ctx ends. Run returns nil then.
func (a *Agent) Run(ctx context.Context) error {
	defer a.close() //nolint:contextcheck // ctx has ended by then
	member, err := a.joiner.Join(ctx, a.cfg.JoinTokenFile)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	a.log = a.log.With("cluster", member.Cluster)
	a.log.Info("agent runs", "version", version.String(), "distributors", member.Endpoints.Distributors)
	a.distributors.Set(member.Endpoints.Distributors)
	token, err := a.joiner.Tokens().Token(ctx)
	if err != nil {
		return err
	}
	if err := a.desired.BelongTo(identity.ClusterOf(token)); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(cluster.LogTo(ctx, a.log))
	for _, run := range []func(context.Context) error{a.joiner.Run, a.renewer.Run, a.lead, a.beReached, a.lookAtVersion, a.serveHealth, a.serveDebug, a.config.Run} {
		group.Go(func() error { return run(ctx) })
	}
	return group.Wait()
}

// work does what one agent of a cluster does, and no other.
func (a *Agent) work(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, run := range []func(context.Context) error{
		a.reconcile, a.watch, a.repair.Run, a.poller.Run, a.hear, a.reporter.Run, a.details.Run, a.look,
	} {
		group.Go(func() error { return run(ctx) })
	}
	return group.Wait()
}

// reconcile works on the cluster, once what is wanted is known well enough.
func (a *Agent) reconcile(ctx context.Context) error {
	select {
	case <-a.begin:
		return a.controller.Run(ctx)
	case <-ctx.Done():
		return nil
	}
}

// belong waits until the cluster is known to be the one that the agent joined as; false: ctx ended before.
func (a *Agent) belong(ctx context.Context) (bool, error) {
	backoff := retry.Backoff{Floor: belongFloor, Max: belongMax}
	for {
		token, _ := a.joiner.Tokens().Token(ctx) // without a token the hub wants nothing
		err := a.inventory.Belong(ctx, a.joiner.Cluster(), identity.ClusterOf(token))
		if err == nil {
			close(a.belongs)
			return true, nil
		}
		if errors.Is(err, inventory.ErrOtherCluster) {
			return false, err
		}
		wait := backoff.Next()
		if ctx.Err() == nil {
			a.log.Error("the cluster can't be read; nothing is applied until it can", "err", err, "retry_in", wait)
		}
		if !retry.Sleep(ctx, wait) {
			return false, nil
		}
	}
}

// watch follows the cluster, once it is known what each service has there.
func (a *Agent) watch(ctx context.Context) error {
	select {
	case <-a.controller.Loaded():
		return a.watcher.Run(ctx)
	case <-ctx.Done():
		return nil
	}
}

// look keeps the view of the cluster and hands it to the hub, once the cluster is known to be the one that the agent
// joined as.
func (a *Agent) look(ctx context.Context) error {
	select {
	case <-a.belongs:
	case <-ctx.Done():
		return nil
	}
	return a.during(ctx, unless(func(s agentconfig.Settings) bool { return s.NoViews }), func(ctx context.Context) error {
		group, ctx := errgroup.WithContext(ctx)
		group.Go(func() error { return a.view.Run(ctx) })
		group.Go(func() error { return a.pusher.Run(ctx) })
		return group.Wait()
	})
}

// hear keeps the stream of nudges.
func (a *Agent) hear(ctx context.Context) error {
	return a.during(ctx, unless(func(s agentconfig.Settings) bool { return s.NoStreams }), a.poller.Watch)
}

// applied is the digest of a service that the cluster has completely, "" if there is none.
func (a *Agent) applied(service string) string {
	record, ok := a.inventory.Glance(service)
	if !ok || !record.Complete {
		return ""
	}
	return record.Applied.Digest
}

// notice is told when something of a service has changed in the cluster.
func (a *Agent) notice(service string) {
	a.controller.Notice(service)
	a.repair.Notice(service)
}

// beReached lets people in, to no other cluster than the one they mean.
func (a *Agent) beReached(ctx context.Context) error {
	select {
	case <-a.belongs:
		return a.during(ctx, tunnelOf, a.reach.Run)
	case <-ctx.Done():
		return nil
	}
}

func (a *Agent) close() {
	a.flushTraces()
	a.http.CloseIdleConnections()
	a.tunnels.CloseIdleConnections()
	a.people.CloseIdleConnections()
	a.cluster.Close()
	if a.leases != nil {
		a.leases.Close()
	}
	_ = a.lock.Release()
}

// moved is told where the hub is, with each renewal of the token.
func (a *Agent) moved(now *consolev1.Endpoints) {
	if endpoints, moved := a.joiner.Moved(now); moved {
		a.log.Info("the hub has moved", "distributors", endpoints.Distributors)
		a.distributors.Set(endpoints.Distributors)
	}
}

func (a *Agent) kubernetesVersion() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.kubernetes
}

// lookAtVersion keeps the API server's version up to date.
func (a *Agent) lookAtVersion(ctx context.Context) error {
	for {
		wait := versionInterval
		found, err := a.cluster.Version(ctx)
		if err != nil {
			wait = versionRetry
		} else {
			a.mu.Lock()
			a.kubernetes = found
			a.mu.Unlock()
		}
		if !retry.Sleep(ctx, wait) {
			return nil
		}
	}
}
