// Package acceptance tests the agent from outside: with a hub that is small, an API server that is real, and its own
// program where one is killed.
package acceptance

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/kubetest"
	"fairlead.dev/platform/telemetry"
	"fairlead.dev/services/agent"
	"fairlead.dev/services/agent/internal/cluster"
	"fairlead.dev/services/agent/internal/inventory"
	"fairlead.dev/services/agent/internal/object"
	"fairlead.dev/services/agent/internal/render/child"
)

var kube kubetest.Shared

// asAgent makes this test binary be the agent: for the tests that kill it.
const asAgent = "AGENT_TEST_RUN"

// asRenderer, as the only argument, makes it render.
const asRenderer = "render"

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == asRenderer {
		os.Exit(child.Main(os.Stdin, os.Stdout, os.NewFile(3, "answers")))
	}
	if os.Getenv(asAgent) != "" {
		runAgent()
		return
	}
	code := kube.Run(m)
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, "goroutines are left:", err)
			code = 1
		}
	}
	os.Exit(code)
}

func runAgent() {
	service, err := agent.New(agent.Config{
		HubURL: os.Getenv("HUB"), DataDir: os.Getenv("DATA"), Kubeconfig: os.Getenv("KUBE"),
		JoinTokenFile: os.Getenv("JOIN"),
		LeaderElect:   os.Getenv("ELECT") != "",
	}, agent.Deps{
		Log: slog.New(slog.NewTextHandler(os.Stderr, nil)), Telemetry: telemetry.Discard(),
		Renderer: []string{os.Args[0], asRenderer},
	})
	if err == nil {
		err = service.Run(context.Background())
	}
	fmt.Fprintln(os.Stderr, "agent ended:", err)
	os.Exit(1)
}

// world is a hub, a namespace of a cluster, a proxy before its API server, and an agent's folder.
type world struct {
	t         *testing.T
	hub       *testHub
	api       *apiProxy
	cluster   *cluster.Cluster
	namespace string
	data      string
	join      string
	// bounded requires services to name an account.
	bounded bool
	// accounts are those that services may name.
	accounts []string
	// elects has agents stand by while another works.
	elects bool
	// pod is where agents say that they run.
	pod string
	// metrics are those of the agent that was started last, in this process.
	metrics *prometheus.Registry
	// began is when it was started, and working says that it was not stopped.
	began   time.Time
	working *atomic.Bool // nil: none was
}

func newWorld(t *testing.T) *world {
	t.Helper()
	running := kube.Cluster(t)
	config, err := cluster.Load(running.Kubeconfig, "")
	if err != nil {
		t.Fatal(err)
	}
	direct, err := cluster.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(direct.Close)
	w := &world{
		t: t, hub: newHub(t), api: newAPIProxy(t, config), cluster: direct, data: t.TempDir(),
		join: filepath.Join(t.TempDir(), "join-token"),
	}
	if err := os.WriteFile(w.join, []byte(joinToken+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.namespace = strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(t.Name()))
	// Unique, so that tests can be run again in the same cluster; short, so that service names fit.
	w.namespace = fmt.Sprintf("%.40s-%s", strings.TrimPrefix(w.namespace, "test"), strings.ToLower(rand.Text()[:5]))
	if err := direct.EnsureNamespace(t.Context(), w.namespace); err != nil {
		t.Fatal(err)
	}
	w.api.own = w.namespace
	namespaces.Store(w.namespace, nil)
	return w
}

// namespaces are those of all tests, which share a cluster: agents look at what those of other tests made, too.
var namespaces sync.Map

// service gives a name that no other test uses: inventories share a namespace.
func (w *world) service(name string) string { return w.namespace + "-" + name }

func (w *world) config() agent.Config {
	return agent.Config{
		HubURL: w.hub.server.URL, DataDir: w.data, Kubeconfig: w.api.kubeconfig, JoinTokenFile: w.join,
		RequireImpersonation: w.bounded, Accounts: w.accounts, LeaderElect: w.elects, Pod: w.pod,
	}
}

// start runs an agent in this process until the test ends or stop is called.
func (w *world) start() (stop func()) {
	w.t.Helper()
	log := slog.New(slog.DiscardHandler)
	if testing.Verbose() {
		log = slog.New(slog.NewTextHandler(w.t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	observed := telemetry.Discard()
	w.metrics = observed.Registry
	w.began = time.Now()
	service, err := agent.New(w.config(), agent.Deps{
		Log: log, Telemetry: observed, Renderer: []string{os.Args[0], asRenderer},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	working := &atomic.Bool{}
	working.Store(true)
	w.working = working
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- service.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		working.Store(false)
		cancel()
		if err := <-ended; err != nil {
			w.t.Errorf("agent: %v", err)
		}
	})
	w.t.Cleanup(stop)
	return stop
}

// process runs an agent in a process of its own; kill is kill -9.
func (w *world) process() (kill func()) {
	w.t.Helper()
	_, kill = w.processID()
	return kill
}

// processID is process, and tells the id.
func (w *world) processID() (pid int, kill func()) {
	w.t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), asAgent+"=1", "HUB="+w.hub.server.URL, "DATA="+w.data, "KUBE="+w.api.kubeconfig,
		"JOIN="+w.join)
	if w.elects {
		cmd.Env = append(cmd.Env, "ELECT=1")
	}
	cmd.Stderr = w.t.Output()
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	kill = sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	w.t.Cleanup(kill)
	return cmd.Process.Pid, kill
}

// get reads an object straight from the API server.
func (w *world) get(apiVersion, kind, namespace, name string) (*unstructured.Unstructured, error) {
	obj := &unstructured.Unstructured{}
	obj.SetAPIVersion(apiVersion)
	obj.SetKind(kind)
	obj.SetNamespace(namespace)
	obj.SetName(name)
	if kind == "ConfigMap" {
		return w.cluster.ConfigMaps(namespace).Get(w.t.Context(), name, getOptions)
	}
	return w.cluster.Get(w.t.Context(), object.RefOf(obj))
}

// mustData looks at the key that configMap sets.
func (w *world) mustData(name, want string) {
	w.t.Helper()
	obj, err := w.get("v1", "ConfigMap", w.namespace, name)
	if err != nil {
		w.t.Fatal(err)
	}
	if got, _, _ := unstructured.NestedString(obj.Object, "data", "x"); got != want {
		w.t.Errorf("ConfigMap %s: x is %q, want %q", name, got, want)
	}
}

func (w *world) mustBeGone(apiVersion, kind, namespace, name string) {
	w.t.Helper()
	if _, err := w.get(apiVersion, kind, namespace, name); !apierrors.IsNotFound(err) {
		w.t.Errorf("%s %s/%s is still there: %v", kind, namespace, name, err)
	}
}

// record reads the inventory of a service as another agent would.
func (w *world) record(service string) inventory.Record {
	w.t.Helper()
	store := inventory.New(w.cluster.ConfigMaps(inventory.Namespace), w.cluster)
	if err := store.Load(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	record, err := store.Get(w.t.Context(), service)
	if err != nil {
		w.t.Fatal(err)
	}
	return record
}

// in is the world of a subtest.
func (w *world) in(t *testing.T) *world {
	own := *w
	own.t = t
	return &own
}

// loseDisk takes everything from an agent that was stopped. The agent may join once more.
func (w *world) loseDisk() {
	w.t.Helper()
	w.data = w.t.TempDir()
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	w.hub.joined = false
}

// has tells whether there is a ConfigMap.
func (w *world) has(name string) bool {
	_, err := w.get("v1", "ConfigMap", w.namespace, name)
	return err == nil
}

// apiProxy stands before the API server, counts, and stalls or refuses what a test says.
type apiProxy struct {
	kubeconfig string
	own        string // the test's namespace

	mu       sync.Mutex // guards what follows
	requests []string   // "PATCH /api/..."
	hook     func(*http.Request) (status int)
	// log answers for the log of a container; nil: the cluster does.
	log func(w io.Writer, pod string)
}

func newAPIProxy(t *testing.T, config *rest.Config) *apiProxy {
	t.Helper()
	target, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	p := &apiProxy{}
	reverse := &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport: transport,
		ErrorLog:  slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		line := r.Method + " " + r.URL.Path
		if r.URL.Query().Has("dryRun") {
			line += "?dryRun"
		}
		if r.URL.Query().Has("watch") {
			line += "?watch"
		}
		p.requests = append(p.requests, line)
		hook, log := p.hook, p.log
		p.mu.Unlock()
		if hook != nil {
			if status := hook(r); status != 0 {
				http.Error(w, "the test says no", status)
				return
			}
		}
		if pod, ok := strings.CutSuffix(r.URL.Path, "/log"); ok && log != nil {
			log(w, pod[strings.LastIndexByte(pod, '/')+1:])
			return
		}
		if r.URL.Path == "/metrics" { // each agent asks once, which would be a third of what these tests cost the API server
			http.NotFound(w, r)
			return
		}
		reverse.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	p.kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	content := fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: c, cluster: {server: %q}}]\ncontexts: [{name: c, context: {cluster: c}}]\n", server.URL)
	if err := os.WriteFile(p.kubeconfig, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *apiProxy) set(hook func(*http.Request) int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hook = hook
}

// stallOn makes the first request with this method and path ending hang until the agent is gone, and
// tells when it has come.
func (p *apiProxy) stallOn(method, ending string) (reached <-chan struct{}) {
	came := make(chan struct{})
	once := sync.OnceFunc(func() { close(came) })
	p.set(func(r *http.Request) int {
		if r.Method != method || !strings.HasSuffix(r.URL.Path, ending) || r.URL.Query().Has("dryRun") {
			return 0
		}
		_, _ = io.Copy(io.Discard, r.Body) // only then does the server notice that the client is gone
		once()
		<-r.Context().Done()
		return http.StatusServiceUnavailable
	})
	return came
}

// count counts the requests whose line has a prefix. Watches don't count: they come and go as they like.
func (p *apiProxy) count(prefix string) int {
	count := 0
	for _, line := range p.since(0) {
		if strings.HasPrefix(line, prefix) {
			count++
		}
	}
	return count
}

// probe is what agents ask now and then, to see whether the API server answers.
const probe = "GET /api/v1/namespaces/" + inventory.Namespace + "/configmaps/" + inventory.ClusterMap

// since lists the requests after as many of them, watches and probes left out, and those for what other tests made in
// the cluster.
func (p *apiProxy) since(count int) []string {
	ofOthers := p.ofOthers()
	p.mu.Lock()
	defer p.mu.Unlock()
	requests := slices.DeleteFunc(slices.Clone(p.requests),
		func(line string) bool { return strings.HasSuffix(line, "?watch") || line == probe || ofOthers(line) })
	return requests[min(count, len(requests)):]
}

// ofOthers tells the requests for what other tests made: their objects have their namespaces in the path, or in the
// name.
func (p *apiProxy) ofOthers() func(line string) bool {
	var others []string
	namespaces.Range(func(name, _ any) bool {
		if name != p.own {
			others = append(others, name.(string))
		}
		return true
	})
	return func(line string) bool {
		return slices.ContainsFunc(others, func(name string) bool { return strings.Contains(line, name) })
	}
}

// patches counts those of an object, by the end of its path.
func (p *apiProxy) patches(ending string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	count := 0
	for _, line := range p.requests {
		if strings.HasPrefix(line, "PATCH ") && strings.HasSuffix(line, ending) {
			count++
		}
	}
	return count
}

func configMap(name, value string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\ndata: {x: %q}\n", name, value)
}

func waitFor(t *testing.T, reached <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-reached:
	case <-time.After(patience):
		t.Fatal("it never came to " + what)
	}
}

const (
	applying    = deliveryv1.Phase_PHASE_APPLYING
	progressing = deliveryv1.Phase_PHASE_PROGRESSING
	healthy     = deliveryv1.Phase_PHASE_HEALTHY
	degraded    = deliveryv1.Phase_PHASE_DEGRADED
	failed      = deliveryv1.Phase_PHASE_FAILED
	removed     = deliveryv1.Phase_PHASE_REMOVED
)
