// Package acceptance tests gitcache from outside: with Git servers, registries and buckets that are real or lie, and a
// console that does what a test says.
package acceptance

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"

	artifactv1 "fairlead.dev/gen/fairlead/artifact/v1"
	"fairlead.dev/gen/fairlead/artifact/v1/artifactv1connect"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	gitcachev1 "fairlead.dev/gen/fairlead/gitcache/v1"
	"fairlead.dev/gen/fairlead/gitcache/v1/gitcachev1connect"
	"fairlead.dev/platform/artifact"
	"fairlead.dev/platform/await"
	"fairlead.dev/platform/client"
	"fairlead.dev/platform/consoletest"
	"fairlead.dev/platform/coordination"
	"fairlead.dev/platform/hubsecret"
	"fairlead.dev/platform/hubservice"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/identity/identitytest"
	"fairlead.dev/platform/members"
	"fairlead.dev/platform/parallel"
	"fairlead.dev/platform/server"
	"fairlead.dev/platform/telemetry"
	"fairlead.dev/services/gitcache"
	"fairlead.dev/services/gitcache/internal/gittest"
)

// patience is how long a test waits for what should take milliseconds.
const patience = 5 * time.Minute

// asProcess makes the test's own binary a gitcache, for tests that kill one.
const asProcess = "GITCACHE_TEST_PROCESS"

func TestMain(m *testing.M) {
	if dir := os.Getenv(asProcess); dir != "" {
		runProcess(dir)
		return
	}
	parallel.WaitingTests()
	goleak.VerifyTestMain(m)
}

// sending is the source of a token as its owner sends it: services of the hub say that it is for gitcaches.
func (f *fixture) sending(token string) identity.TokenSource {
	return identitytest.SendTo(identity.ServiceGitcache, token, consoletest.HubSecret)
}

// signing is a coordinator as a service of the hub uses it.
func signing(c coordination.Coordinator) coordination.Coordinator {
	return members.Authenticate(c, members.Config{
		Secret: hubsecret.Text(consoletest.HubSecret),
		Log:    slog.New(slog.DiscardHandler),
	})
}

// fixture is a Git server, a console and whatever gitcaches a test starts.
type fixture struct {
	t       *testing.T
	git     *gittest.Server
	repo    *gittest.Repo
	console *console
	secret  string               // file with the hub secret
	tracer  trace.TracerProvider // of gitcaches that begin from now on; nil: nothing is recorded
}

// newFixture has a source "shop" whose repository is repo.
func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{t: t, git: gittest.NewServer(t), console: newConsole(t), secret: filepath.Join(t.TempDir(), "secret")}
	if err := os.WriteFile(f.secret, []byte(consoletest.HubSecret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f.repo = f.git.NewRepo(t, "shop.git")
	f.console.setSource(f.repo.URL(), "")
	return f
}

// node is a running gitcache and how a test talks to it.
type node struct {
	f        *fixture
	dir      string
	url      string
	registry *prometheus.Registry
	stop     func()
	process  *os.Process // of a spawned one

	artifacts artifactv1connect.ArtifactServiceClient
	sources   gitcachev1connect.SourceServiceClient
	bytes     *http.Client
}

func (f *fixture) config(dir string) gitcache.Config {
	return gitcache.Config{Config: hubservice.Config{
		Server: server.Config{Listen: "127.0.0.1:0"}, DataDir: dir, ConsoleURL: f.console.URL, HubSecretFile: f.secret,
	}, AllowAddresses: thisMachine()}
}

// thisMachine is where the tests' Git servers are.
func thisMachine() []string { return []string{"127.0.0.0/8", "::1/128"} }

// start runs a gitcache over dir. Nodes that share a coordinator are replicas.
func (f *fixture) start(dir string, c coordination.Coordinator) *node {
	f.t.Helper()
	return f.startWith(f.config(dir), c)
}

func (f *fixture) startWith(cfg gitcache.Config, c coordination.Coordinator) *node {
	f.t.Helper()
	return f.talkTo(f.run(cfg, c))
}

// run starts a gitcache and does not wait for it.
func (f *fixture) run(cfg gitcache.Config, c coordination.Coordinator) *node {
	f.t.Helper()
	tel := telemetry.Discard()
	if f.tracer != nil {
		tel.Tracer = f.tracer
	}
	log := slog.New(slog.NewTextHandler(logWriter{f.t}, &slog.HandlerOptions{Level: slog.LevelInfo}))
	if cfg.Replica != "" {
		log = log.With("at", cfg.Replica)
	}
	s, err := gitcache.New(cfg, gitcache.Deps{Log: log, Telemetry: tel, Coordinator: c})
	if err != nil {
		f.t.Fatal(err)
	}
	if err := s.Listen(); err != nil {
		f.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	stopped := false
	stop := func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			f.t.Errorf("run: %v", err)
		}
	}
	f.t.Cleanup(stop)
	return &node{f: f, dir: cfg.DataDir, url: s.URL(), registry: tel.Registry, stop: stop}
}

func (f *fixture) talkTo(n *node) *node {
	f.t.Helper()
	hc, err := client.New(client.Config{})
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(hc.CloseIdleConnections)
	as := func(kind identity.Kind, name string) []connect.ClientOption {
		return append(client.Options(), client.WithToken(f.sending(f.console.token(f.t, kind, name))))
	}
	n.artifacts = artifactv1connect.NewArtifactServiceClient(hc, n.url,
		as(identity.KindService, identity.ServiceDistributor)...)
	n.sources = n.sourcesAs(identity.Identity{
		Kind: identity.KindUser, Name: "ada",
		Groups: []string{identity.AdminsGroup},
	})
	token := f.sending(f.console.token(f.t, identity.KindService, identity.ServiceDistributor))
	n.bytes = &http.Client{Transport: client.Authorize(hc.Transport, token)}
	await.NoError(f.t, "the gitcache is ready", func() error {
		req, err := http.NewRequestWithContext(f.t.Context(), http.MethodGet, n.url+"/readyz", nil)
		if err != nil {
			return err
		}
		resp, err := hc.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return errors.New(resp.Status)
		}
		return nil
	})
	return n
}

// sourcesAs is SourceService, called by somebody.
func (n *node) sourcesAs(id identity.Identity) gitcachev1connect.SourceServiceClient {
	hc, options := n.as(id)
	return gitcachev1connect.NewSourceServiceClient(hc, n.url, options...)
}

func (n *node) as(id identity.Identity) (*http.Client, []connect.ClientOption) {
	n.f.t.Helper()
	token, _, err := n.f.console.Sign(id)
	if err != nil {
		n.f.t.Fatal(err)
	}
	hc, err := client.New(client.Config{})
	if err != nil {
		n.f.t.Fatal(err)
	}
	n.f.t.Cleanup(hc.CloseIdleConnections)
	return hc, append(client.Options(), client.WithToken(n.f.sending(token)))
}

// one starts the only gitcache, over an empty folder.
func (f *fixture) one() *node {
	f.t.Helper()
	return f.start(f.t.TempDir(), nil)
}

// logWriter keeps logs with the test; after its end they are dropped.
type logWriter struct{ t *testing.T }

func (w logWriter) Write(p []byte) (int, error) {
	w.t.Log(strings.TrimSpace(string(p)))
	return len(p), nil
}

// published waits until a head of shop is where it should be, and returns the status.
func (f *fixture) published(ref, commit string) *consolev1.SourceStatus {
	f.t.Helper()
	var status *consolev1.SourceStatus
	await.NoError(f.t, ref+" is published", func() error {
		status = f.console.status()
		if got := head(status, ref).GetCommit(); got != commit {
			return errors.New("at " + got + ", want " + commit + "; problem: " + status.GetProblem().GetMessage())
		}
		return nil
	})
	return status
}

// problem waits until shop's problem says all words; no words: until there is none.
func (f *fixture) problem(words ...string) string {
	f.t.Helper()
	message := ""
	await.NoError(f.t, "the problem is said", func() error {
		message = f.console.status().GetProblem().GetMessage()
		if len(words) == 0 && message != "" {
			return errors.New("there is still one: " + message)
		}
		for _, w := range words {
			if !strings.Contains(message, w) {
				return errors.New("it says " + message)
			}
		}
		return nil
	})
	return message
}

// poll asks for a poll and waits until it is done.
func (n *node) poll() {
	n.f.t.Helper()
	before := n.f.git.Count("list")
	last := n.live().GetLastPollTime().AsTime()
	n.refresh()
	await.NoError(n.f.t, "a poll", func() error {
		if n.f.git.Count("list") <= before || !n.live().GetLastPollTime().AsTime().After(last) {
			return errors.New("not polled")
		}
		return nil
	})
}

func (n *node) refresh() {
	n.f.t.Helper()
	if _, err := n.sources.RefreshSource(n.f.t.Context(), &gitcachev1.RefreshSourceRequest{Name: "shop"}); err != nil {
		n.f.t.Fatal(err)
	}
}

func (n *node) live() *gitcachev1.LiveSource {
	n.f.t.Helper()
	resp, err := n.sources.GetSource(n.f.t.Context(), &gitcachev1.GetSourceRequest{Name: "shop"})
	if err != nil {
		n.f.t.Fatal(err)
	}
	return resp.GetSource()
}

func (n *node) ask(revision, path string) *artifactv1.Result {
	n.f.t.Helper()
	resp, err := n.artifacts.Resolve(n.f.t.Context(), &artifactv1.ResolveRequest{
		Queries: []*artifactv1.Query{{Source: "shop", Revision: revision, Path: path}},
	})
	if err != nil {
		n.f.t.Fatal(err)
	}
	return resp.GetResults()[0]
}

// resolve asks for a folder that must be there.
func (n *node) resolve(revision, path string) *artifactv1.Resolved {
	n.f.t.Helper()
	r := n.ask(revision, path)
	if r.GetError() != nil {
		n.f.t.Fatalf("resolve %s %q: %s", revision, path, r.GetError().GetMessage())
	}
	return r.GetResolved()
}

// refuses asks for a folder that must not be handed out, and checks the words.
func (n *node) refuses(revision, path string, reason artifactv1.ResolveError_Reason, words ...string) {
	n.f.t.Helper()
	r := n.ask(revision, path).GetError()
	n.f.t.Logf("%s %q: %s", revision[:8], path, r.GetMessage())
	if r.GetReason() != reason {
		n.f.t.Errorf("reason is %s, want %s", r.GetReason(), reason)
	}
	for _, w := range words {
		if !strings.Contains(r.GetMessage(), w) {
			n.f.t.Errorf("%q does not say %q", r.GetMessage(), w)
		}
	}
}

// download returns an artifact's files by path.
func (n *node) download(digest string) map[string]string {
	n.f.t.Helper()
	d, err := artifact.ParseDigest(digest)
	if err != nil {
		n.f.t.Fatal(err)
	}
	r, err := artifact.Fetch(n.f.t.Context(), n.bytes, n.url, d, 0)
	if err != nil {
		n.f.t.Fatalf("download %s: %v", d, err)
	}
	defer r.Close()
	files := map[string]string{}
	err = artifact.Walk(r, artifact.Limits{}, func(e artifact.Entry, content io.Reader) error {
		b, err := io.ReadAll(content)
		files[e.Path] = string(b)
		if e.Link != "" {
			files[e.Path] = "-> " + e.Link
		}
		return err
	})
	if err != nil {
		n.f.t.Fatalf("read %s: %v", d, err)
	}
	return files
}

// metric sums a metric over its labels.
func (n *node) metric(name string) float64 {
	n.f.t.Helper()
	families, err := n.registry.Gather()
	if err != nil {
		n.f.t.Fatal(err)
	}
	sum := 0.0
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return sum
}

// labelled is a counter with this value of a label.
func (n *node) labelled(name, value string) float64 {
	n.f.t.Helper()
	families, err := n.registry.Gather()
	if err != nil {
		n.f.t.Fatal(err)
	}
	sum := 0.0
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetValue() == value {
					sum += m.GetCounter().GetValue()
				}
			}
		}
	}
	return sum
}
