// Package acceptance tests the console from outside: by its API, over SQLite and PostgreSQL.
package acceptance

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
	"fairlead.dev/platform/await"
	"fairlead.dev/platform/client"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/identity/identitytest"
	"fairlead.dev/platform/parallel"
	"fairlead.dev/platform/postgrestest"
	"fairlead.dev/platform/server"
	"fairlead.dev/platform/telemetry"
	"fairlead.dev/services/console"
	"fairlead.dev/services/console/internal/seal"
	"fairlead.dev/services/console/internal/store"
)

var postgres postgrestest.Server

func TestMain(m *testing.M) {
	if os.Getenv(crashEnv) != "" {
		crashChild()
		return
	}
	if os.Getenv(restoreEnv) != "" {
		restoreChild()
		return
	}
	parallel.WaitingTests()
	code := m.Run()
	_ = postgres.Stop()
	os.Exit(code)
}

// hub is one installation for a test: its database and files, and the consoles on them.
type hub struct {
	dir    string
	db     string
	secret string
	logs   *logBuffer
}

type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer // guarded by mu
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func newHub(t *testing.T, db string) *hub {
	t.Helper()
	h := &hub{dir: t.TempDir(), db: db, secret: "a hub secret for tests", logs: new(logBuffer)}
	if h.db == "" {
		file := filepath.Join(h.dir, "console.db")
		h.db = "sqlite:" + file
		empty, err := emptyDatabase()
		if err == nil {
			err = os.WriteFile(file, empty, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(h.dir, "hub.secret"), []byte(h.secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(h.logs.String())
		}
	})
	return h
}

// emptyDatabase is one of SQLite with tables and nothing in them. To make these is an eighth of what a test costs.
var emptyDatabase = sync.OnceValues(func() (file []byte, err error) {
	dir, err := os.MkdirTemp("", "console")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path := filepath.Join(dir, "console.db")
	s, err := store.New("sqlite:"+path, store.Options{})
	if err != nil {
		return nil, err
	}
	if err := errors.Join(s.Migrate(context.Background()), s.Close()); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
})

// running is a console that serves.
type running struct {
	*hub
	url  string
	stop func()
}

// eitherDatabase gives an empty database of each kind, as newHub takes it. The short form has SQLite alone.
func eitherDatabase(t *testing.T) map[string]string {
	t.Helper()
	urls := map[string]string{"SQLite": ""}
	if !testing.Short() {
		urls["PostgreSQL"] = postgres.Database(t)
	}
	return urls
}

func (h *hub) start(t *testing.T) *running {
	t.Helper()
	return h.startWith(t, func(*console.Config) {})
}

// startWith starts a console whose configuration is changed.
func (h *hub) startWith(t *testing.T, change func(*console.Config)) *running {
	t.Helper()
	service := h.listen(t, change)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- service.Run(ctx) }()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("console ended: %v", err)
		}
	})
	t.Cleanup(stop)
	return &running{hub: h, url: service.URL(), stop: stop}
}

// listen makes a console that listens, and does not run yet.
func (h *hub) listen(t *testing.T, change func(*console.Config)) *console.Service {
	t.Helper()
	cfg := console.Config{
		Server: server.Config{Listen: "127.0.0.1:0"}, DataDir: h.dir, DatabaseURL: h.db,
		AdvertiseGitcaches:    []string{"https://gitcache.example.com"},
		AdvertiseDistributors: []string{"https://distributor.example.com"},
		AdvertiseTunnels:      []string{"https://tunnel.example.com"},
	}
	change(&cfg)
	log := slog.New(slog.NewTextHandler(h.logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	service, err := console.New(cfg, console.Deps{Log: log, Telemetry: telemetry.Discard()})
	if err != nil {
		t.Fatal(err)
	}
	if err := service.Listen(); err != nil {
		t.Fatal(err)
	}
	return service
}

// A second console over a SQLite database ends, and says how to roll one out.
func TestOneConsoleUsesASQLiteDatabase(t *testing.T) {
	t.Parallel()
	h := newHub(t, "")
	first := h.start(t)
	first.admin(t)
	err := h.listen(t, func(*console.Config) {}).Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "StatefulSet") || !strings.Contains(err.Error(), "--database-url") {
		t.Errorf("the second ended with %v", err)
	}
	first.stop()
	h.start(t).admin(t)
}

// api is the console as one caller sees it.
type api struct {
	sources    consolev1connect.SourceServiceClient
	clusters   consolev1connect.ClusterServiceClient
	services   consolev1connect.ServiceServiceClient
	secrets    consolev1connect.SecretServiceClient
	heads      consolev1connect.HeadServiceClient
	status     consolev1connect.StatusServiceClient
	catalog    consolev1connect.CatalogServiceClient
	identity   consolev1connect.IdentityServiceClient
	audit      consolev1connect.AuditServiceClient
	grants     consolev1connect.GrantServiceClient
	roles      consolev1connect.RoleServiceClient
	accounts   consolev1connect.ServiceAccountServiceClient
	access     consolev1connect.AccessServiceClient
	tokens     consolev1connect.TokenServiceClient
	logins     consolev1connect.LoginServiceClient
	levers     consolev1connect.SyncServiceClient
	objects    consolev1connect.ObjectServiceClient
	projects   consolev1connect.ProjectServiceClient
	applies    consolev1connect.ApplyServiceClient
	globals    consolev1connect.GlobalServiceServiceClient
	sets       consolev1connect.ConfigSetServiceClient
	configs    consolev1connect.ConfigServiceClient
	admin      consolev1connect.AdminServiceClient
	backends   consolev1connect.BackendServiceClient
	sinks      consolev1connect.SinkServiceClient
	agents     consolev1connect.AgentConfigServiceClient
	alerts     consolev1connect.AlertServiceClient
	viewSets   consolev1connect.ViewSetServiceClient
	live       consolev1connect.LiveServiceClient
	events     consolev1connect.EventServiceClient
	lending    consolev1connect.LendingServiceClient
	recordings consolev1connect.RecordingServiceClient
	views      consolev1connect.ClusterViewServiceClient
}

func newHTTPClient(t testing.TB) *http.Client {
	t.Helper()
	hc, err := client.New(client.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(hc.CloseIdleConnections)
	return hc
}

// sending is the source of a token as its owner sends it: services of the hub say that it is for the console.
func (r *running) sending(token string) identity.TokenSource {
	return identitytest.SendTo(identity.ServiceConsole, token, r.secret)
}

// as returns the API for the owner of a token; "" is nobody.
func (r *running) as(t testing.TB, token string) api {
	t.Helper()
	opts := client.Options()
	if token != "" {
		opts = append(opts, client.WithToken(r.sending(token)))
	}
	hc := newHTTPClient(t)
	return api{
		sources:    consolev1connect.NewSourceServiceClient(hc, r.url, opts...),
		clusters:   consolev1connect.NewClusterServiceClient(hc, r.url, opts...),
		services:   consolev1connect.NewServiceServiceClient(hc, r.url, opts...),
		secrets:    consolev1connect.NewSecretServiceClient(hc, r.url, opts...),
		heads:      consolev1connect.NewHeadServiceClient(hc, r.url, opts...),
		status:     consolev1connect.NewStatusServiceClient(hc, r.url, opts...),
		catalog:    consolev1connect.NewCatalogServiceClient(hc, r.url, opts...),
		identity:   consolev1connect.NewIdentityServiceClient(hc, r.url, opts...),
		audit:      consolev1connect.NewAuditServiceClient(hc, r.url, opts...),
		events:     consolev1connect.NewEventServiceClient(hc, r.url, opts...),
		lending:    consolev1connect.NewLendingServiceClient(hc, r.url, opts...),
		recordings: consolev1connect.NewRecordingServiceClient(hc, r.url, opts...),
		views:      consolev1connect.NewClusterViewServiceClient(hc, r.url, opts...),
		grants:     consolev1connect.NewGrantServiceClient(hc, r.url, opts...),
		roles:      consolev1connect.NewRoleServiceClient(hc, r.url, opts...),
		accounts:   consolev1connect.NewServiceAccountServiceClient(hc, r.url, opts...),
		access:     consolev1connect.NewAccessServiceClient(hc, r.url, opts...),
		tokens:     consolev1connect.NewTokenServiceClient(hc, r.url, opts...),
		logins:     consolev1connect.NewLoginServiceClient(hc, r.url, opts...),
		levers:     consolev1connect.NewSyncServiceClient(hc, r.url, opts...),
		objects:    consolev1connect.NewObjectServiceClient(hc, r.url, opts...),
		projects:   consolev1connect.NewProjectServiceClient(hc, r.url, opts...),
		applies:    consolev1connect.NewApplyServiceClient(hc, r.url, opts...),
		globals:    consolev1connect.NewGlobalServiceServiceClient(hc, r.url, opts...),
		sets:       consolev1connect.NewConfigSetServiceClient(hc, r.url, opts...),
		configs:    consolev1connect.NewConfigServiceClient(hc, r.url, opts...),
		admin:      consolev1connect.NewAdminServiceClient(hc, r.url, opts...),
		backends:   consolev1connect.NewBackendServiceClient(hc, r.url, opts...),
		sinks:      consolev1connect.NewSinkServiceClient(hc, r.url, opts...),
		agents:     consolev1connect.NewAgentConfigServiceClient(hc, r.url, opts...),
		alerts:     consolev1connect.NewAlertServiceClient(hc, r.url, opts...),
		viewSets:   consolev1connect.NewViewSetServiceClient(hc, r.url, opts...),
		live:       consolev1connect.NewLiveServiceClient(hc, r.url, opts...),
	}
}

// service returns the API for a hub service, and admin for an administrator.
func (r *running) service(t testing.TB, name string) api {
	t.Helper()
	resp, err := r.as(t, "").identity.ExchangeHubSecret(t.Context(), &consolev1.ExchangeHubSecretRequest{
		HubSecret: r.secret, Subject: &consolev1.ExchangeHubSecretRequest_Service{Service: name},
	})
	if err != nil {
		t.Fatal(err)
	}
	return r.as(t, resp.GetToken().GetToken())
}

func (r *running) adminToken(t testing.TB) string {
	t.Helper()
	resp, err := r.as(t, "").identity.ExchangeHubSecret(t.Context(), &consolev1.ExchangeHubSecretRequest{
		HubSecret: r.secret, Subject: &consolev1.ExchangeHubSecretRequest_Administrator{Administrator: "ada"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return resp.GetToken().GetToken()
}

func (r *running) admin(t testing.TB) api {
	t.Helper()
	return r.as(t, r.adminToken(t))
}

// sign makes a token of any kind with the console's own keys.
func (h *hub) sign(t testing.TB, id identity.Identity) string {
	t.Helper()
	box, err := seal.Load(filepath.Join(h.dir, "master.key"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := store.New(h.db, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var sealed []byte
	if err := s.Read(t.Context(), func(ctx context.Context, v store.View) (err error) {
		sealed, err = v.SigningKeys(ctx)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	private, err := box.Open("signing-keys", sealed)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := identity.ParseKeySet(private)
	if err != nil {
		t.Fatal(err)
	}
	token, _, err := keys.Sign(identitytest.Bind(id), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func wantCode(t testing.TB, err error, code connect.Code, words ...string) {
	t.Helper()
	if err == nil || connect.CodeOf(err) != code {
		t.Fatalf("got %v, want %v", err, code)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error %q does not say %q", err, w)
		}
	}
}

func meta(name string) *consolev1.Metadata { return &consolev1.Metadata{Name: name} }

func (a api) putSource(t testing.TB, name, url string) *consolev1.Source {
	t.Helper()
	resp, err := a.sources.UpdateSource(t.Context(), &consolev1.UpdateSourceRequest{
		AllowMissing: true, Source: &consolev1.Source{
			Metadata: meta(name), Spec: &consolev1.SourceSpec{Git: &consolev1.GitSource{Url: url}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return resp.GetSource()
}

func (a api) putCluster(t testing.TB, name string) *consolev1.Cluster {
	t.Helper()
	resp, err := a.clusters.UpdateCluster(t.Context(), &consolev1.UpdateClusterRequest{
		AllowMissing: true, Cluster: &consolev1.Cluster{Metadata: meta(name)},
	})
	if err != nil {
		t.Fatal(err)
	}
	return resp.GetCluster()
}

func (a api) putService(t testing.TB, name, cluster string) *consolev1.Service {
	t.Helper()
	resp, err := a.services.UpdateService(t.Context(), &consolev1.UpdateServiceRequest{
		AllowMissing: true, Service: &consolev1.Service{
			Metadata: meta(name), Spec: &consolev1.ServiceSpec{Source: "shop", Cluster: cluster, Path: "deploy"},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return resp.GetService()
}

// joining is what an agent joins with.
func joining(joinToken string) *consolev1.JoinClusterRequest {
	return &consolev1.JoinClusterRequest{JoinToken: joinToken, Key: identitytest.AgentKey().ForJoin(joinToken)}
}

// renewing is what an agent renews its token with.
func renewing(token string) *consolev1.RenewTokenRequest {
	return &consolev1.RenewTokenRequest{Key: identitytest.AgentKey().ForRenewal(token, []byte(rand.Text()))}
}

func (a api) join(t testing.TB, cluster string) string {
	t.Helper()
	resp, err := a.identity.CreateJoinToken(t.Context(), &consolev1.CreateJoinTokenRequest{Cluster: cluster})
	if err != nil {
		t.Fatal(err)
	}
	joined, err := a.identity.JoinCluster(t.Context(), joining(resp.GetJoinToken()))
	if err != nil {
		t.Fatal(err)
	}
	return joined.GetToken().GetToken()
}

func TestDataFolderIsClosedToOthers(t *testing.T) {
	t.Parallel()
	h := newHub(t, "")
	dir := filepath.Join(h.dir, "a", "b")
	h.startWith(t, func(c *console.Config) { c.DataDir, c.DatabaseURL = dir, "" })
	await.NoError(t, "the console has made its keys", func() error {
		_, err := os.Stat(filepath.Join(dir, "hub.secret"))
		return err
	})
	for path, want := range map[string]os.FileMode{dir: 0o700, dir + "/master.key": 0o600, dir + "/hub.secret": 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
}

func TestBadConfigIsRefused(t *testing.T) {
	t.Parallel()
	for want, cfg := range map[string]console.Config{
		"--data-dir is missing": {Server: server.Config{Listen: "127.0.0.1:0"}},
		"without TLS":           {Server: server.Config{Listen: "0.0.0.0:7400"}, DataDir: t.TempDir()},
		"must begin with sqlite": {
			Server: server.Config{Listen: "127.0.0.1:0"}, DataDir: t.TempDir(), DatabaseURL: "mysql://x",
		},
		"--advertise": {
			Server: server.Config{Listen: "127.0.0.1:0"}, DataDir: t.TempDir(),
			AdvertiseTunnels: []string{"tunnel:7403"},
		},
	} {
		_, err := console.New(cfg, console.Deps{Log: slog.New(slog.DiscardHandler), Telemetry: telemetry.Discard()})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// A path that is mistyped makes no new key for a hub that has one.
func TestAMissingKeyOfAHubIsRefused(t *testing.T) {
	t.Parallel()
	for name, db := range eitherDatabase(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHub(t, db)
			r := h.start(t)
			r.adminToken(t) // the console has started
			r.stop()
			for flag, mistype := range map[string]func(*console.Config, string){
				"--master-key-file": func(c *console.Config, path string) { c.MasterKeyFile = path },
				"--hub-secret-file": func(c *console.Config, path string) { c.HubSecretFile = path },
			} {
				path := filepath.Join(h.dir, "mistyped")
				err := h.listen(t, func(c *console.Config) { mistype(c, path) }).Run(t.Context())
				if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "correct "+flag) {
					t.Errorf("%s: got %v", flag, err)
				}
				if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("%s: a file was made: %v", flag, err)
				}
			}
			h.start(t).adminToken(t)
		})
	}
}

// Of consoles that start at the same time on an empty database, with a key of its own each, one begins the hub, and
// the others make no key.
func TestOneOfTheConsolesThatStartTogetherMakesTheKey(t *testing.T) {
	t.Parallel()
	h := newHub(t, postgres.Database(t))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	const consoles = 3
	ended := make(chan error, consoles)
	dirs := make([]string, consoles)
	for i := range dirs {
		dirs[i] = filepath.Join(h.dir, strconv.Itoa(i))
		service := h.listen(t, func(c *console.Config) { c.DataDir = dirs[i] })
		go func() { ended <- service.Run(ctx) }()
	}
	for range consoles - 1 {
		if err := <-ended; err == nil || !strings.Contains(err.Error(), "there is no master key") {
			t.Errorf("a console ended with %v", err)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("the first console ended with %v", err)
	}
	keys := 0
	for _, dir := range dirs {
		if _, err := os.Stat(filepath.Join(dir, "master.key")); err == nil {
			keys++
		}
	}
	if keys != 1 {
		t.Errorf("%d keys were made", keys)
	}
}

func TestOtherMasterKeyOnTheSameDatabaseIsRefused(t *testing.T) {
	t.Parallel()
	h := newHub(t, "")
	r := h.start(t)
	r.adminToken(t) // the console has started
	r.stop()
	other := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, 32))
	if err := os.WriteFile(filepath.Join(h.dir, "master.key"), []byte(other), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := console.Config{Server: server.Config{Listen: "127.0.0.1:0"}, DataDir: h.dir}
	service, err := console.New(cfg, console.Deps{Log: slog.New(slog.DiscardHandler), Telemetry: telemetry.Discard()})
	if err != nil {
		t.Fatal(err)
	}
	if err := service.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "--master-key-file") {
		t.Fatalf("got %v", err)
	}
}

func TestOnlyReadyWhenTheDatabaseAnswers(t *testing.T) {
	t.Parallel()
	var pg postgrestest.Server
	t.Cleanup(func() { _ = pg.Stop() })
	r := newHub(t, pg.Database(t)).start(t)
	admin := r.admin(t)
	ready := func() int {
		resp, err := http.Get(r.url + "/readyz")
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		return resp.StatusCode
	}
	if got := ready(); got != http.StatusOK {
		t.Fatalf("ready: %d", got)
	}
	admin.putCluster(t, "before")
	pg.Kill(t)
	if got := ready(); got != http.StatusServiceUnavailable {
		t.Errorf("database is down: %d", got)
	}
	_, err := admin.clusters.GetCluster(t.Context(), &consolev1.GetClusterRequest{Name: "before"})
	wantCode(t, err, connect.CodeUnavailable, "database does not answer")
	pg.Restart(t)
	patience := time.Now().Add(time.Minute) // a busy database is slow to take its connections
	for got := ready(); got != http.StatusOK; got = ready() {
		if time.Now().After(patience) {
			t.Fatalf("database is back: %d", got)
		}
	}
	if _, err := admin.clusters.GetCluster(t.Context(), &consolev1.GetClusterRequest{Name: "before"}); err != nil {
		t.Fatal(err)
	}
}
