// Package console wires the console: the catalog, its change log, statuses, and the identities of
// an installation, over SQLite or PostgreSQL.
package console

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	trail "fairlead.dev/platform/audit"
	"fairlead.dev/platform/datadir"
	"fairlead.dev/platform/dialpolicy"
	"fairlead.dev/platform/flags"
	"fairlead.dev/platform/hubsecret"
	identities "fairlead.dev/platform/identity"
	"fairlead.dev/platform/pulse"
	"fairlead.dev/platform/retry"
	"fairlead.dev/platform/server"
	"fairlead.dev/platform/telemetry"
	"fairlead.dev/platform/version"
	"fairlead.dev/services/console/internal/alert"
	"fairlead.dev/services/console/internal/audit"
	"fairlead.dev/services/console/internal/authz"
	"fairlead.dev/services/console/internal/bound"
	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/changes"
	"fairlead.dev/services/console/internal/condition"
	"fairlead.dev/services/console/internal/config"
	"fairlead.dev/services/console/internal/depend"
	"fairlead.dev/services/console/internal/event"
	"fairlead.dev/services/console/internal/export"
	"fairlead.dev/services/console/internal/feed"
	"fairlead.dev/services/console/internal/identity"
	"fairlead.dev/services/console/internal/index"
	"fairlead.dev/services/console/internal/intake"
	"fairlead.dev/services/console/internal/kinds/agentconfig"
	"fairlead.dev/services/console/internal/kinds/viewset"
	"fairlead.dev/services/console/internal/lending"
	"fairlead.dev/services/console/internal/login"
	"fairlead.dev/services/console/internal/outage"
	"fairlead.dev/services/console/internal/pages"
	"fairlead.dev/services/console/internal/recording"
	"fairlead.dev/services/console/internal/removals"
	"fairlead.dev/services/console/internal/rpc"
	"fairlead.dev/services/console/internal/rpc/signin"
	"fairlead.dev/services/console/internal/seal"
	"fairlead.dev/services/console/internal/sink"
	"fairlead.dev/services/console/internal/state"
	"fairlead.dev/services/console/internal/store"
	"fairlead.dev/services/console/internal/store/database"
	"fairlead.dev/services/console/internal/views"
	"fairlead.dev/web"
)

const (
	defaultListen = "127.0.0.1:7400"
	// readyTimeout bounds the look at the database behind /readyz.
	readyTimeout = 2 * time.Second
	// databasePause is between two tries to reach the database at the start.
	databasePause = time.Second
	// Files of the data folder, unless the configuration names others.
	databaseFile, masterKeyFile, hubSecretFile = "console.db", "master.key", "hub.secret"
)

// Config is what differs per deployment.
type Config struct {
	Server server.Config
	// DataDir holds the embedded database, and the master key and hub secret unless they are elsewhere.
	DataDir string
	// DatabaseURL is sqlite:<file> or postgres://...; empty or "sqlite:": console.db in DataDir.
	DatabaseURL string
	// DatabaseURLFile has that URL in it, for PostgreSQL one a line, and may change; not with DatabaseURL.
	DatabaseURLFile string
	// MasterKeyFile seals secrets and signing keys; empty: master.key in DataDir, made at the first
	// start. All consoles on one database need the same.
	MasterKeyFile string
	// HubSecretFile holds what hub services and administrators log in with; empty: hub.secret in
	// DataDir, made at the first start.
	HubSecretFile string
	// Unsigned says what becomes of tokens of services of before tokens were bound.
	Unsigned identities.Unsigned
	// Advertise* are the URLs at which the hub is reached from outside of it. Console: empty is the
	// URL of the listener.
	AdvertiseConsole      string
	AdvertisePages        string // Where a front leads /clusters/ to the tunnels; empty: AdvertiseConsole.
	AdvertiseGitcaches    []string
	AdvertiseDistributors []string
	AdvertiseTunnels      []string
	// OIDC is the identity provider, if there is one.
	OIDC login.Config
	// ConfigDir is the folder of the files that backends may read; empty: there are none.
	ConfigDir string
	// AllowAddresses are ranges of special addresses that sinks may be at, besides all public ones, and backends,
	// besides those of private networks, too.
	AllowAddresses []string
	// AuditMaxBytes is about how much the audit trail may take in the database; 0: no bound.
	AuditMaxBytes int64
	// RecordingDays and RecordingMaxBytes bound the recordings of shells; 0: recordingDays and recordingMaxBytes.
	RecordingDays     int
	RecordingMaxBytes int64
	// TraceURL is where a trace is shown, with {trace} in place of its id; empty: the pages show the id only.
	TraceURL string
	// PrometheusURL is where the rules of deploy/observability are evaluated, and PrometheusTokenFile has the bearer
	// token for it.
	PrometheusURL, PrometheusTokenFile string
	// AuditExport is where the audit trail is handed on to, as it is written.
	AuditExport export.Config
}

// auditMaxBytes is the bound if nobody says so: some ten million events.
const auditMaxBytes = 8 << 30

// recordingDays and recordingMaxBytes are the bounds of recordings if nobody says so: as long as the audit trail, and
// thousands of hours of shells.
const recordingDays, recordingMaxBytes = 90, 8 << 30

// RegisterFlags adds the flags of the console.
func (c *Config) RegisterFlags(fs *flag.FlagSet) {
	c.Server.RegisterFlags(fs, defaultListen)
	fs.StringVar(&c.DataDir, "data-dir", "", "`folder` for the embedded database, master key and hub secret")
	fs.StringVar(&c.DatabaseURL, "database-url", "", "sqlite:<file> or postgres://user:password@host/database; default: console.db in --data-dir")
	fs.StringVar(&c.DatabaseURLFile, "database-url-file", "",
		"`file` with that URL; for PostgreSQL it may have several of one database, one a line, and is read again for each connection, which takes the first that the server accepts")
	fs.StringVar(&c.MasterKeyFile, "master-key-file", "", "`file` with the key that seals secrets; default: master.key in --data-dir, made at the first start")
	fs.StringVar(&c.HubSecretFile, "hub-secret-file", "",
		"`file` with the secret that hub services log in with: one per line, all of which are accepted; default: hub.secret in --data-dir, made at the first start")
	c.Unsigned.RegisterFlags(fs)
	fs.StringVar(&c.AdvertiseConsole, "advertise-console", "", "`URL` at which agents and people reach the console; default: that of the listener")
	fs.StringVar(&c.AdvertisePages, "advertise-pages", "",
		"`URL` at which people open the pages, where a front leads /clusters/ to the tunnels; default: that of --advertise-console")
	fs.Func("advertise-gitcaches", "comma-separated `URLs` of the gitcaches", flags.List(&c.AdvertiseGitcaches))
	fs.Func("advertise-distributors", "comma-separated `URLs` of the distributors", flags.List(&c.AdvertiseDistributors))
	fs.Func("advertise-tunnels", "comma-separated `URLs` of the tunnels", flags.List(&c.AdvertiseTunnels))
	fs.StringVar(&c.OIDC.Issuer, "oidc-issuer", "", "`URL` of the identity provider (OpenID Connect) that people log in at")
	fs.StringVar(&c.OIDC.ClientID, "oidc-client-id", "", "`id` that the provider knows the hub by")
	fs.StringVar(&c.OIDC.ClientSecretFile, "oidc-client-secret-file", "", "`file` with the client's secret; default: it is a public client")
	fs.StringVar(&c.OIDC.CLIClientID, "oidc-cli-client-id", "", "`id` of a public client for the device flow of `fairlead login`; default: --oidc-client-id")
	fs.StringVar(&c.OIDC.UserClaim, "oidc-user-claim", "email", "`claim` with the user's name; nobody must be able to choose it freely")
	fs.StringVar(&c.OIDC.GroupsClaim, "oidc-groups-claim", "groups", "`claim` with the user's groups")
	fs.StringVar(&c.OIDC.AdminGroup, "oidc-admin-group", "", "`group` there whose members are administrators here")
	fs.StringVar(&c.ConfigDir, "config-dir", "", "`folder` whose files backends may give to services, such as a checkout or a mounted volume; default: there is none")
	fs.Func("allow-addresses", "`ranges` of addresses, separated by commas, such as 127.0.0.0/8: sinks may be there although they are not public, and backends although they are neither public nor private", flags.List(&c.AllowAddresses))
	fs.Int64Var(&c.AuditMaxBytes, "audit-max-bytes", auditMaxBytes,
		"`bytes` that the audit trail may take; beyond, the oldest events go, but none of the last 7 days")
	fs.IntVar(&c.RecordingDays, "recording-days", recordingDays, "`days` for which recordings of shells are kept")
	fs.Int64Var(&c.RecordingMaxBytes, "recording-max-bytes", recordingMaxBytes,
		"`bytes` that recordings of shells may take, an eighth of them those of one person of the last seven days; beyond, older ones go")
	fs.StringVar(&c.TraceURL, "trace-url", "", "`URL` of a trace, with {trace} in place of its id, such as https://jaeger.example.com/trace/{trace}: the pages link to it")
	fs.StringVar(&c.PrometheusURL, "prometheus-url", "",
		"`URL` of the Prometheus that evaluates the rules of the hub: the page Hub and \"fairlead check\" show the alerts that fire")
	fs.StringVar(&c.PrometheusTokenFile, "prometheus-token-file", "", "`file` with the bearer token for --prometheus-url; it may be replaced at any time")
	fs.StringVar(&c.AuditExport.To, "audit-export", "",
		"`URL` that events of the audit trail are handed on to as they are written: file:///folder/name and https://host/path get JSON lines, syslog+tls://host:port and syslog+tcp://host:port messages of RFC 5424; at one console of several")
	fs.StringVar(&c.AuditExport.TokenFile, "audit-export-token-file", "", "`file` with the bearer token for --audit-export; it may be replaced at any time")
	fs.StringVar(&c.AuditExport.CAFile, "audit-export-ca-file", "", "PEM `file` with the authorities that --audit-export trusts; default: those of the system")
}

func (c *Config) openStore(opts store.Options) (*store.Store, error) {
	if c.DatabaseURLFile != "" {
		return store.Open(c.DatabaseURLFile, opts)
	}
	return store.New(c.DatabaseURL, opts)
}

// Validate says what is wrong, and fills in what depends on other fields.
func (c *Config) Validate() error {
	if c.DataDir == "" {
		return errors.New("--data-dir is missing: name a folder for the console's state")
	}
	if c.DatabaseURL != "" && c.DatabaseURLFile != "" {
		return errors.New("--database-url and --database-url-file are both given: leave one out")
	}
	if c.DatabaseURLFile == "" && (c.DatabaseURL == "" || c.DatabaseURL == "sqlite:") {
		c.DatabaseURL = "sqlite:" + filepath.Join(c.DataDir, databaseFile)
	}
	if c.MasterKeyFile == "" {
		c.MasterKeyFile = filepath.Join(c.DataDir, masterKeyFile)
	}
	if c.HubSecretFile == "" {
		c.HubSecretFile = filepath.Join(c.DataDir, hubSecretFile)
	}
	if c.RecordingDays < 0 || c.RecordingMaxBytes < 0 {
		return errors.New("--recording-days and --recording-max-bytes can't be negative")
	}
	c.RecordingDays, c.RecordingMaxBytes = cmp.Or(c.RecordingDays, recordingDays), cmp.Or(c.RecordingMaxBytes, recordingMaxBytes)
	if _, err := dialpolicy.Parse(c.AllowAddresses); err != nil {
		return fmt.Errorf("%s: %w", dialpolicy.Flag, err)
	}
	if _, err := c.AuditExport.Open(); err != nil {
		return err
	}
	if err := c.validateElsewhere(); err != nil {
		return err
	}
	if err := c.OIDC.Validate(); err != nil {
		return err
	}
	return c.validateAdvertised()
}

// validateAdvertised says which of the addresses for others is no URL.
func (c *Config) validateAdvertised() error {
	for _, of := range []struct {
		flag string
		urls []string
	}{
		{"--advertise-console", []string{c.AdvertiseConsole}},
		{"--advertise-pages", []string{c.AdvertisePages}},
		{"--advertise-gitcaches", c.AdvertiseGitcaches},
		{"--advertise-distributors", c.AdvertiseDistributors},
		{"--advertise-tunnels", c.AdvertiseTunnels},
	} {
		for _, url := range of.urls {
			if url == "" {
				continue
			}
			if err := flags.CheckURL(of.flag, url); err != nil {
				return err
			}
		}
	}
	return nil
}

// validateElsewhere says what is wrong with the addresses of what shows traces and alerts.
func (c *Config) validateElsewhere() error {
	if c.TraceURL != "" {
		if err := flags.CheckURL("--trace-url", c.TraceURL); err != nil {
			return err
		}
		if !strings.Contains(c.TraceURL, "{trace}") {
			return errors.New("--trace-url: must have {trace} in place of a trace's id, such as https://jaeger.example.com/trace/{trace}")
		}
	}
	if c.PrometheusURL != "" {
		return flags.CheckURL("--prometheus-url", c.PrometheusURL)
	}
	if c.PrometheusTokenFile != "" {
		return errors.New("--prometheus-token-file is given without --prometheus-url")
	}
	return nil
}

// Deps is what the console works with.
type Deps struct {
	Log       *slog.Logger
	Telemetry *telemetry.Telemetry
	// Stderr is told the link of the first login, which is not for logs. nil: there is none.
	Stderr io.Writer
}

// Service is a console. New, then Listen, then Run.
type Service struct {
	store      *store.Store
	authority  *identity.Authority
	database   *pulse.Pulse
	consoles   *condition.Consoles
	feed       *feed.Feed
	index      *index.Index
	views      *views.Board
	events     *event.Log
	renewer    *config.Renewer
	reader     *config.Reader
	sinks      *sink.Deliverer
	alerts     *alert.Evaluator
	lending    *lending.Desk
	recordings *recording.Archive
	catalog    *catalog.Catalog
	server     *server.Server
	advertise  string
	pages      string // URL; empty: that of the console
	log        *slog.Logger
	stderr     io.Writer
	recorder   *trail.Recorder
	exporter   *export.Exporter // nil: the audit trail goes nowhere
}

// New puts a console together. New makes the data folder if it is missing, and touches no database.
func New(cfg Config, deps Deps) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	box, err := prepare(cfg)
	if err != nil {
		return nil, err
	}
	s := &Service{advertise: cfg.AdvertiseConsole, pages: cfg.AdvertisePages, log: deps.Log, stderr: deps.Stderr}
	if s.store, err = cfg.openStore(store.Options{AuditBytes: cfg.AuditMaxBytes, AuditTrimmed: audit.Trimmed, Log: deps.Log}); err != nil {
		return nil, err
	}
	events := audit.New(s.store)
	if s.recorder, err = trail.New(filepath.Join(cfg.DataDir, "audit"), audit.Own{Log: events}, deps.Telemetry.Registry, deps.Log); err != nil {
		return nil, err
	}
	if err := s.exports(cfg, events, deps.Telemetry); err != nil {
		return nil, err
	}
	refusals := &trail.Refusals{Recorder: s.recorder, Log: deps.Log}
	secret := hubsecret.Open(cfg.HubSecretFile)
	secret.Log = deps.Log
	s.authority = identity.New(s.store, box, secret, deps.Log, nil)
	s.authority.Unbound = cfg.Unsigned.Accepted()
	s.authority.OpenKeys = func(begins bool) error { return cfg.openKeys(box, begins) }
	if cfg.Unsigned.Accepted() {
		deps.Log.Warn("older versions are accepted", "detail", identities.AcceptsUnsigned)
	}
	s.authority.Refused, s.authority.ReuseEvent = refusals.Login, event.Reused
	s.database = pulse.New(s.store.Ping)
	s.consoles = &condition.Consoles{Store: s.store, Self: database.Console{ID: rand.Text(), Version: version.String(), Started: time.Now()}, Log: deps.Log}
	s.feed = feed.New(s.store, deps.Log)
	kept := &removals.Desk{Store: s.store, Log: deps.Log}
	s.feed.Hold = kept.Hold
	s.renewer = &config.Renewer{Store: s.store, Box: box, Log: deps.Log}
	allowed, err := dialpolicy.Parse(cfg.AllowAddresses)
	if err != nil {
		return nil, err
	}
	s.sinks = &sink.Deliverer{Store: s.store, Addresses: dialpolicy.New(allowed), ID: rand.Text(), Metrics: sink.NewMetrics(), Log: deps.Log, Now: time.Now}
	if err := register(deps.Telemetry, s); err != nil {
		return nil, err
	}
	rules, table := authz.New(s.store, nil), rpc.Kinds()
	told := &event.Recorder{Store: s.store, Log: deps.Log, Now: time.Now}
	s.index = index.New(index.Deps{Store: s.store, Hub: s.feed, Kinds: table, Loader: state.NewLoader(nil), Viewer: rules, Presence: told, Log: deps.Log})
	var configuration *config.Resolver
	hooks := func(c *catalog.Catalog) []catalog.Hook {
		configuration = config.New(c, s.store, box)
		return []catalog.Hook{ // first who may, last what is told of it
			rules,
			authz.Accounts{},
			bound.Hook{},
			catalog.Globals{Catalog: c},
			catalog.Declarations{Catalog: c},
			depend.Hook{},
			catalog.Releases{},
			configuration,
			sink.Hook{Catalog: c},
			agentconfig.Hook{Sees: rules.Sees},
			viewset.Hook{Sees: rules.Sees},
			alert.Hook{Sees: rules.Sees},
			changes.Recorder{Catalog: c},
			told,
		}
	}
	resources := catalog.New(rules, catalog.Deps{Store: s.store, Box: box, Finder: s.index, Observer: told, Hooks: hooks, Log: deps.Log})
	s.sinks.Catalog, s.catalog = resources, resources
	if cmp.Or(cfg.AdvertisePages, cfg.AdvertiseConsole) != "" { // the listener's own address is for this machine
		s.sinks.Pages = s.pagesURL
	}
	s.views = views.New(views.Deps{Store: s.store, Clusters: s.index, Rights: rules, Log: deps.Log})
	s.alerts = &alert.Evaluator{Deps: alert.Deps{Store: s.store, Views: s.views, Now: time.Now, Log: deps.Log}}
	open := config.OpenWith(cfg.ConfigDir, dialpolicy.NewPrivate(allowed))
	s.reader = &config.Reader{Resolver: configuration, Open: open, ID: rand.Text(), Log: deps.Log, Now: time.Now}
	s.lending = &lending.Desk{Store: s.store, Catalog: resources, Rights: rules, Log: deps.Log, Now: time.Now}
	s.events = event.NewLog(s.store, rules, time.Now)
	accesses := &audit.Accesses{Recorder: s.recorder}
	s.recordings = recording.New(recording.Deps{
		Store: s.store, Rights: rules, Secret: hubsecret.Open(cfg.HubSecretFile), Accesses: accesses, Log: deps.Log,
		Days: cfg.RecordingDays, Bytes: cfg.RecordingMaxBytes,
	})
	mounts := rpc.Mounts(rpc.Deps{
		Kinds:   table,
		Catalog: resources,
		Intake: intake.New(intake.Deps{
			Store: s.store, Catalog: resources, Observer: told, Unreported: s.index.Unreported, Log: deps.Log,
		}),
		Rights: rules,
		Config: configuration, OpenBackend: open,
		Removals:   kept,
		Lending:    s.lending,
		Recordings: s.recordings,
		Sinks:      s.sinks,
		Alerts:     s.alerts,
		Store:      s.store,
		Condition:  s.condition(cfg),
		Provider:   login.New(cfg.OIDC),
		Seal:       box,
		Authority:  s.authority,
		Hub:        s.feed,
		Board:      s.index,
		Views:      s.views,
		Events:     s.events,
		Away:       &outage.Outage{},
		Audit:      events,
		Accesses:   accesses,
		Endpoints: signin.Endpoints{
			Console: s.URL, Pages: s.pagesURL, Gitcaches: cfg.AdvertiseGitcaches, Distributors: cfg.AdvertiseDistributors, Tunnels: cfg.AdvertiseTunnels,
		},
		Cookies: cfg.Server.Secure(),
		Log:     deps.Log,
	})
	shown, err := pages.New(web.Pages())
	if err != nil {
		return nil, err
	}
	mounts = append(mounts, server.HTTP("/", shown, identities.RoleOpen))
	s.server, err = server.New(cfg.Server, server.Deps{
		Name: "console", Log: deps.Log, Telemetry: deps.Telemetry,
		Verifier: s.authority, Policy: rpc.Policy(table), Rejected: refusals.Token, Ready: s.ready, Unsigned: cfg.Unsigned.Accepted(), DataDir: cfg.DataDir,
		Debugged: trail.Debugged(s.recorder), Secret: secret,
	}, mounts...)
	return s, err
}

// condition says how the hub is.
func (s *Service) condition(cfg Config) *condition.Observer {
	elsewhere := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }} // an address says where
	return &condition.Observer{
		Store: s.store, Database: s.database, Consoles: s.consoles, TraceURL: cfg.TraceURL,
		Alerts: &condition.Alerts{URL: cfg.PrometheusURL, TokenFile: cfg.PrometheusTokenFile, HTTP: elsewhere},
	}
}

// prepare makes the data folder, and reads the keys. Where one is missing the box is empty until the start, which knows
// whether the hub has begun.
func prepare(cfg Config) (*seal.Box, error) {
	if err := datadir.Ensure(cfg.DataDir); err != nil {
		return nil, err
	}
	// SQLite gives its other two files the mode of the first.
	if err := datadir.Protect(cfg.DataDir, masterKeyFile, hubSecretFile, databaseFile, databaseFile+"-wal", databaseFile+"-shm"); err != nil {
		return nil, err
	}
	box := new(seal.Box)
	if err := cfg.readKeys(box); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	return box, nil
}

// openKeys reads the master key into the box, and the hub secret. A hub that begins gets those that are missing; of one
// that has begun they are elsewhere, and new ones would open nothing.
func (c *Config) openKeys(box *seal.Box, begins bool) error {
	for _, key := range []struct{ path, name, flag, lost string }{
		{c.MasterKeyFile, "master key", "--master-key-file", "nothing else opens the secrets in the database"},
		{
			c.HubSecretFile, "hub secret", "--hub-secret-file",
			"if it is lost make another one with `openssl rand -base64 32`, and give it to all services of the hub",
		},
	} {
		if _, err := os.Stat(key.path); !errors.Is(err, os.ErrNotExist) {
			continue // readKeys says what else is wrong
		}
		if !begins {
			return fmt.Errorf("there is no %s in %s, and the database is of a hub that has one: correct %s, or put the file there; %s",
				key.name, key.path, key.flag, key.lost)
		}
		if err := seal.EnsureSecret(key.path); err != nil {
			return err
		}
	}
	return c.readKeys(box)
}

func (c *Config) readKeys(box *seal.Box) error {
	read, err := seal.Load(c.MasterKeyFile)
	if err != nil {
		return err
	}
	*box = *read
	_, err = hubsecret.Read(c.HubSecretFile)
	return err
}

// EnsureHubSecret makes the hub secret of a first start, for a program that starts services which read the secret
// together with the console. A file that is already there stays as it is.
func EnsureHubSecret(path string) error { return seal.EnsureSecret(path) }

// Ample says that the console's time counts: a fleet that comes all at once waits for what it writes.
func (s *Service) Ample() {}

// Listen binds the address, so that URL is known. Requests wait until Run.
func (s *Service) Listen() error {
	err := s.server.Listen()
	s.consoles.Self.Name = s.name()
	return err
}

// name is the host and the port of the listener: two consoles may be on one machine.
func (s *Service) name() string {
	host, _ := os.Hostname() // a console without one is told apart by its port
	if u, err := url.Parse(s.server.URL()); err == nil && u.Port() != "" {
		return net.JoinHostPort(host, u.Port())
	}
	return host
}

// URL is where the console is reached.
func (s *Service) URL() string {
	if s.advertise != "" {
		return s.advertise
	}
	return s.server.URL()
}

// pagesURL is where people open the pages.
func (s *Service) pagesURL() string { return cmp.Or(s.pages, s.URL()) }

func (s *Service) ready() error {
	ctx, cancel := context.WithTimeout(context.Background(), readyTimeout)
	defer cancel()
	return s.store.Ping(ctx)
}

// Run brings the database up to date and serves until ctx ends.
func (s *Service) Run(ctx context.Context) (err error) {
	defer func() { err = errors.Join(err, s.store.Close()) }()
	if err := s.start(ctx); err != nil {
		if ctx.Err() != nil {
			err = nil // told to stop before it began
		}
		return errors.Join(err, s.server.Close())
	}
	if err := s.Listen(); err != nil { //nolint:contextcheck,nolintlint // As in firstLink.
		return err
	}
	// The log's readers outlive the listener, so that streams end by its drain and not by an error.
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.feed.Run(background) })
	group.Go(func() error { return s.index.Run(background) })
	group.Go(func() error { return s.views.Run(background) })
	group.Go(func() error { return s.views.RunCurves(background) })
	group.Go(func() error { return s.events.Run(background) })
	group.Go(func() error { return s.authority.Run(background) })
	group.Go(func() error { return s.authority.RunUses(background) })
	group.Go(func() error { return s.database.Run(background) })
	group.Go(func() error { return s.consoles.Run(background) })
	group.Go(func() error { return s.renewer.Run(background) })
	group.Go(func() error { return s.reader.Run(background) })
	group.Go(func() error { return s.catalog.RunEndings(background) })
	group.Go(func() error { return s.catalog.RunForgetting(background) })
	group.Go(func() error { return s.lending.Run(background) })
	group.Go(func() error { return s.recordings.Run(background) })
	group.Go(func() error { return s.sinks.Run(background) })
	group.Go(func() error { return s.alerts.Run(background) })
	group.Go(func() error { return s.recorder.Run(background) })
	if s.exporter != nil {
		group.Go(func() error { return s.exporter.Run(background) })
	}
	group.Go(func() error {
		if err := s.store.Sweep(background); err != nil && background.Err() == nil {
			s.log.WarnContext(background, "statuses of resources that are gone may be left; the next start looks again", "err", err)
		}
		return nil
	})
	group.Go(func() error {
		defer stop()
		return s.server.Run(ctx)
	})
	return group.Wait()
}

// exports puts together what hands the audit trail on.
func (s *Service) exports(cfg Config, events *audit.Log, tel *telemetry.Telemetry) error {
	to, err := cfg.AuditExport.Open()
	if err != nil || to == nil {
		return err
	}
	metrics, err := export.NewMetrics(tel.Registry)
	if err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	s.exporter = export.New(events, to, cfg.DataDir, metrics, s.log)
	return nil
}

func (s *Service) start(ctx context.Context) error {
	if err := s.store.Use(); errors.Is(err, database.ErrInUse) {
		return fmt.Errorf("%w. A SQLite database is for one at a time: roll out so that the old one ends before the new one starts, "+
			"as a StatefulSet and the strategy Recreate do; several take PostgreSQL, by --database-url", err)
	} else if err != nil {
		return err
	}
	var away outage.Outage
	for {
		err := s.prepareDatabase(ctx)
		if !s.store.Awaits(err) {
			if err == nil {
				away.Over(ctx, s.log, time.Now(), "the database answers")
			}
			return err
		}
		away.Failed(ctx, s.log, time.Now(), "the start waits: the database does not answer", err)
		if !retry.Sleep(ctx, databasePause) {
			return ctx.Err()
		}
	}
}

// prepareDatabase brings the database up to date, and reads what the console begins with.
func (s *Service) prepareDatabase(ctx context.Context) error {
	if err := s.store.Migrate(ctx); err != nil {
		return err
	}
	if err := s.authority.Load(ctx); err != nil {
		return err
	}
	return s.firstLink(ctx)
}

// firstLink tells how to log in for the first time. The link names the port, which is bound for it.
func (s *Service) firstLink(ctx context.Context) error {
	if s.stderr == nil {
		return nil
	}
	if err := s.server.Listen(); err != nil { //nolint:contextcheck,nolintlint // Binding takes no time; seen or not with what is cached.
		return err
	}
	code, good, err := s.authority.FirstLink(ctx)
	if err != nil || code == "" {
		return err
	}
	_, err = fmt.Fprintf(s.stderr, "Log in once, within %.0f minutes: %s\n", good.Minutes(), signin.LoginLink(s.pagesURL(), code))
	return err
}
