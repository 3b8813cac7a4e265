package foreign

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	helm "helm.sh/helm/v4/pkg/cmd"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	controllers "sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/yaml"

	"fairlead.dev/e2e/process"
	"fairlead.dev/e2e/stack"
)

// long runs the clients for a quarter of an hour.
var long = flag.Bool("long", false, "run for 15 minutes")

const (
	// lent is the life of the tokens that the clients get, so that each gets several.
	lent = "10s"
	// outlives is more than that life and the minute by which the hub's clocks may differ: streams that end with their
	// token end within it.
	outlives, outlivesLong = 72 * time.Second, 15 * time.Minute
	// asHelm in the environment makes this program the helm command.
	asHelm = "FAIRLEAD_TEST_HELM"
)

func TestMain(m *testing.M) {
	if os.Getenv(asHelm) != "" {
		runHelm()
		return
	}
	flag.Parse()
	log.SetLogger(logr.FromSlogHandler(slog.DiscardHandler)) // controller-runtime's
	os.Exit(m.Run())
}

func runHelm() {
	cmd, err := helm.NewRootCmd(os.Stdout, os.Args[1:], helm.SetupLogging)
	if err == nil {
		err = cmd.Execute()
	}
	if err != nil {
		os.Exit(1)
	}
}

// door is a way to the cluster's API, straight or through the tunnel, as the same person.
type door struct {
	name       string
	kubeconfig string
	config     *rest.Config

	mu    sync.Mutex     // guards asked
	asked map[string]int // watches and lists, by path
}

// count counts the watches and lists that go through.
func (d *door) count(next http.RoundTripper) http.RoundTripper {
	return counting(func(r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodGet {
			d.mu.Lock()
			d.asked[r.URL.Path]++
			d.mu.Unlock()
		}
		return next.RoundTrip(r)
	})
}

func (d *door) times(path string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.asked[path]
}

type counting func(*http.Request) (*http.Response, error)

func (c counting) RoundTrip(r *http.Request) (*http.Response, error) { return c(r) }

// get asks for a path, and returns status, type and body as they came.
func (d *door) get(ctx context.Context, path string, accept ...string) (string, error) {
	hc, err := rest.HTTPClientFor(d.config)
	if err != nil {
		return "", err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(d.config.Host, "/")+path, nil)
	if err != nil {
		return "", err
	}
	req.Header.Set("Accept", strings.Join(accept, ","))
	resp, err := hc.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return fmt.Sprintf("%d %s %s", resp.StatusCode, resp.Header.Get("Content-Type"), body), err
}

// world is a cluster with a hub, and both ways to it.
type world struct {
	*stack.Stack
	bins             stack.Binaries
	direct, tunnel   *door
	admin            *kubernetes.Clientset // of the cluster itself
	namespace, quiet string
}

func startWorld(ctx context.Context, t *testing.T) *world {
	t.Helper()
	w := &world{namespace: "busy", quiet: "quiet"}
	var err error
	if w.bins, err = stack.FindBinaries(ctx, filepath.Join("..", "..")); err != nil {
		t.Fatal(err)
	}
	if w.Stack, err = stack.Up(ctx, w.bins, t.TempDir(), "--exec"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Stop(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Log(w.Tail("up"))
		}
	})
	cluster := w.Clusters[0]
	through, err := w.TunnelKubeconfig(ctx, cluster.Name)
	if err != nil {
		t.Fatal(err)
	}
	w.tunnel = newDoor(t, "tunnel", through, func(kubeconfig map[string]any) {
		user := kubeconfig["users"].([]any)[0].(map[string]any)["user"].(map[string]any)["exec"].(map[string]any)
		user["args"] = append(user["args"].([]any), "--lifetime", lent)
	})
	admin, err := clientcmd.BuildConfigFromFlags("", cluster.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	w.admin = kubernetes.NewForConfigOrDie(admin)
	who := w.whoami(ctx, t, w.tunnel)
	w.direct = newDoor(t, "direct", cluster.Kubeconfig, func(kubeconfig map[string]any) {
		user := kubeconfig["users"].([]any)[0].(map[string]any)["user"].(map[string]any)
		user["as"], user["as-groups"] = who.Username, slices.DeleteFunc(slices.Clone(who.Groups),
			func(g string) bool { return g == "system:authenticated" })
	})
	for _, name := range []string{
		w.namespace, w.quiet, w.namespace + "-big", "helm-" + w.direct.name, "helm-" + w.tunnel.name,
	} {
		if _, err := w.admin.CoreV1().Namespaces().Create(ctx,
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 20 {
		object := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{
				Name: fmt.Sprintf("object-%02d", i), Labels: map[string]string{"odd": fmt.Sprint(i%2 == 1)},
			},
			Data: map[string]string{"text": strings.Repeat("€ ", 5000)},
		}
		if _, err := w.admin.CoreV1().ConfigMaps(w.quiet).Create(ctx, object, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// newDoor reads a kubeconfig, and writes it again with a change.
func newDoor(t *testing.T, name, kubeconfig string, change func(map[string]any)) *door {
	t.Helper()
	text, err := os.ReadFile(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	changed := map[string]any{}
	if err := yaml.Unmarshal(text, &changed); err != nil {
		t.Fatal(err)
	}
	change(changed)
	if text, err = yaml.Marshal(changed); err != nil {
		t.Fatal(err)
	}
	d := &door{name: name, kubeconfig: filepath.Join(t.TempDir(), name), asked: map[string]int{}}
	if err := os.WriteFile(d.kubeconfig, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if d.config, err = clientcmd.BuildConfigFromFlags("", d.kubeconfig); err != nil {
		t.Fatal(err)
	}
	d.config.QPS = -1
	d.config.Wrap(d.count)
	return d
}

func (w *world) whoami(ctx context.Context, t *testing.T, d *door,
	change ...func(*rest.Config),
) *authenticationv1.UserInfo {
	t.Helper()
	config := rest.CopyConfig(d.config)
	for _, c := range change {
		c(config)
	}
	review, err := kubernetes.NewForConfigOrDie(config).AuthenticationV1().SelfSubjectReviews().Create(ctx,
		&authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("%s: %v", d.name, err)
	}
	return &review.Status.UserInfo
}

// run runs a program with both kubeconfigs at once, and compares what it prints and how it ends.
func (w *world) run(ctx context.Context, t *testing.T, stdin string, program string, env []string,
	args ...string,
) string {
	t.Helper()
	type result struct {
		out  string
		code int
	}
	results := map[*door]result{}
	for _, d := range []*door{w.direct, w.tunnel} {
		cmd := exec.CommandContext(ctx, program, args...)
		cmd.Env = slices.Concat(os.Environ(), env, []string{
			"KUBECONFIG=" + d.kubeconfig, "KUBECACHEDIR=/dev/null", "HOME=" + t.TempDir(),
		})
		for i := range cmd.Args {
			cmd.Args[i] = strings.ReplaceAll(cmd.Args[i], "DOOR", d.name)
		}
		cmd.Stdin = strings.NewReader(strings.ReplaceAll(stdin, "DOOR", d.name))
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState == nil {
			t.Fatalf("%s: %v", program, err)
		}
		text := regexp.MustCompile(`(?m)^LAST DEPLOYED: .*$`).ReplaceAllString(string(out), "LAST DEPLOYED: now")
		results[d] = result{strings.ReplaceAll(text, d.name, "DOOR"), cmd.ProcessState.ExitCode()}
	}
	if want, got := results[w.direct], results[w.tunnel]; got != want {
		t.Errorf("%s %q through the tunnel: code %d\n%.3000s\nstraight: code %d\n%.3000s", filepath.Base(program),
			args, got.code, got.out, want.code, want.out)
	}
	return results[w.direct].out
}

func (w *world) kubectl(ctx context.Context, t *testing.T, stdin string, args ...string) string {
	t.Helper()
	return w.run(ctx, t, stdin, w.bins.Kubelocal, nil, append([]string{"kubectl"}, args...)...)
}

// Informers, controllers, helm and kubectl do the same through the tunnel as straight at the API server, while their
// tokens are renewed several times, and nothing that they began is cut.
func TestKubernetesClientsSeeNoDifference(t *testing.T) {
	t.Parallel()
	life := outlives
	if *long {
		life = outlivesLong
	}
	ctx, cancel := context.WithTimeout(t.Context(), life+2*patience)
	defer cancel()
	w := startWorld(ctx, t)
	journals := map[*door]*journals{w.direct: w.watch(ctx, t, w.direct), w.tunnel: w.watch(ctx, t, w.tunnel)}
	controller := w.control(ctx, t)
	shell := w.shell(ctx, t)
	listed := w.tunnel.times(w.path(w.namespace))
	end := time.After(life)
	var busy sync.WaitGroup
	stop, written := make(chan struct{}), 0
	busy.Go(func() { written = w.write(ctx, t, stop) })
	t.Run("requests", func(t *testing.T) {
		t.Run("answers", func(t *testing.T) { t.Parallel(); w.answers(ctx, t) })
		t.Run("watch list", func(t *testing.T) { t.Parallel(); w.watchList(ctx, t) })
		t.Run("apply", func(t *testing.T) { t.Parallel(); w.apply(ctx, t) })
		t.Run("helm", func(t *testing.T) { t.Parallel(); w.helm(ctx, t) })
		t.Run("impersonation", func(t *testing.T) { t.Parallel(); w.impersonation(ctx, t) })
		t.Run("specs", func(t *testing.T) { t.Parallel(); w.specs(ctx, t) })
	})
	again := time.NewTicker(5 * time.Second)
	defer again.Stop()
	for going := true; going; {
		select {
		case <-end:
			going = false
		case <-again.C:
			w.answers(ctx, t)
		}
	}
	close(stop)
	busy.Wait()
	shell.stillThere(t)
	shell.end(t)
	for _, kind := range []string{"typed", "dynamic", "metadata"} {
		direct, through := journals[w.direct].of(kind), journals[w.tunnel].of(kind)
		err := process.Await(ctx, "the informers have seen all", func(context.Context) error {
			if d, th := len(direct.lines()), len(through.lines()); d < written || th < written {
				return fmt.Errorf("%s: %d straight and %d through the tunnel, of %d", kind, d, th, written)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if d, th := direct.lines(), through.lines(); !slices.Equal(d, th) {
			t.Errorf("%s informer: %d events straight, %d through the tunnel: %q, not %q", kind, len(d), len(th),
				th[max(0, len(th)-5):], d[max(0, len(d)-5):])
		}
	}
	controller.agrees(ctx, t, w)
	if now := w.tunnel.times(w.path(w.namespace)); now != listed && !*long {
		t.Errorf("watches and lists through the tunnel: %d at first, %d at the end: some were cut", listed, now)
	}
	lends, err := w.Fairlead(ctx, "audit", "--action", "token.lend", "--since", "1h", "-o", "json")
	if err != nil || strings.Count(lends, `"token.lend"`) < 5 {
		t.Errorf("tokens were renewed %d times: %v", strings.Count(lends, `"token.lend"`), err)
	}
}

// path is that of a namespace's ConfigMaps through the tunnel.
func (w *world) path(namespace string) string {
	_, cluster, _ := strings.Cut(w.tunnel.config.Host, "/clusters/")
	return "/clusters/" + cluster + "/api/v1/namespaces/" + namespace + "/configmaps"
}

// journals are what informers have seen, one of each kind.
type journals struct{ typed, dynamic, metadata journal }

func (j *journals) of(kind string) *journal {
	switch kind {
	case "typed":
		return &j.typed
	case "dynamic":
		return &j.dynamic
	}
	return &j.metadata
}

type journal struct {
	mu   sync.Mutex // guards seen
	seen []string
}

func (j *journal) lines() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.seen)
}

func (j *journal) note(what string, object any) {
	if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		what, object = what+" unseen", gone.Obj
	}
	m, ok := object.(metav1.Object)
	if !ok || m.GetName() == "kube-root-ca.crt" {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.seen = append(j.seen, fmt.Sprintf("%s %s %s", what, m.GetName(), m.GetResourceVersion()))
}

func (j *journal) handler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { j.note("added", o) },
		UpdateFunc: func(_, o any) { j.note("updated", o) },
		DeleteFunc: func(o any) { j.note("deleted", o) },
	}
}

func configMaps() schema.GroupVersionResource {
	return corev1.SchemeGroupVersion.WithResource("configmaps")
}

// watch starts an informer of each kind: protobuf, JSON, and metadata alone.
func (w *world) watch(ctx context.Context, t *testing.T, d *door) *journals {
	t.Helper()
	all := &journals{}
	protobuf := rest.CopyConfig(d.config)
	protobuf.ContentType = runtime.ContentTypeProtobuf
	typed := informers.NewSharedInformerFactoryWithOptions(kubernetes.NewForConfigOrDie(protobuf), 0,
		informers.WithNamespace(w.namespace))
	unstructured := dynamicinformer.NewFilteredDynamicSharedInformerFactory(dynamic.NewForConfigOrDie(d.config), 0,
		w.namespace, nil)
	partial := metadatainformer.NewFilteredSharedInformerFactory(metadata.NewForConfigOrDie(d.config), 0,
		w.namespace, nil)
	for informer, seen := range map[cache.SharedIndexInformer]*journal{
		typed.Core().V1().ConfigMaps().Informer():         &all.typed,
		unstructured.ForResource(configMaps()).Informer(): &all.dynamic,
		partial.ForResource(configMaps()).Informer():      &all.metadata,
	} {
		if _, err := informer.AddEventHandler(seen.handler()); err != nil {
			t.Fatal(err)
		}
		var running sync.WaitGroup
		running.Go(func() { informer.RunWithContext(ctx) })
		if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			t.Fatalf("%s: an informer does not get through", d.name)
		}
	}
	return all
}

// write changes objects until it is told to stop, and returns how many events that makes.
func (w *world) write(ctx context.Context, t *testing.T, stop <-chan struct{}) (events int) {
	maps := w.admin.CoreV1().ConfigMaps(w.namespace)
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for n := 0; ; n++ {
		object := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("written-%d", n%7)},
			Data:       map[string]string{"n": fmt.Sprint(n)},
		}
		var err error
		switch n / 7 % 3 {
		case 0:
			_, err = maps.Create(ctx, object, metav1.CreateOptions{})
		case 1:
			_, err = maps.Update(ctx, object, metav1.UpdateOptions{})
		default:
			err = maps.Delete(ctx, object.Name, metav1.DeleteOptions{})
		}
		if err != nil {
			t.Error(err)
			return events
		}
		events++
		select {
		case <-stop:
			return events
		case <-tick.C:
		}
	}
}

// answers compares answers, byte for byte, in each form that clients ask for.
func (w *world) answers(ctx context.Context, t *testing.T) {
	t.Helper()
	list, err := w.admin.CoreV1().ConfigMaps(w.quiet).List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	const protobuf, table = "application/vnd.kubernetes.protobuf", "application/json;as=Table;v=v1;g=meta.k8s.io"
	quiet := "/api/v1/namespaces/" + w.quiet + "/configmaps"
	at := "?resourceVersionMatch=Exact&resourceVersion=" + list.ResourceVersion
	for _, c := range [][]string{
		{quiet + at, "application/json"},
		{quiet + at, protobuf},
		{quiet + at, table, "application/json"},
		{quiet + at, "application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io"},
		{quiet + at, "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"},
		{quiet + at + "&limit=7&labelSelector=odd%3Dtrue", protobuf},
		{quiet + at, "application/cbor", "application/json"},
		{quiet + "/object-03", table, "application/json"},
		{quiet + "/none", protobuf, "application/json"},
		{quiet + "?resourceVersion=x", "application/json"},
		{"/api", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", "application/json"},
		{"/apis", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", "application/json"},
		{"/openapi/v3", "application/json"},
		{"/openapi/v3/apis/apps/v1", "application/com.github.proto-openapi.spec.v3@v1.0+protobuf"},
		{"/openapi/v2", "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"},
		{"/version", "*/*"},
	} {
		w.answer(ctx, t, c[0], c[1:]...)
	}
}

// answer compares what both answer to one request. A table tells ages in seconds: where the direct answer has another
// one by then, both are asked again.
func (w *world) answer(ctx context.Context, t *testing.T, path string, accept ...string) {
	t.Helper()
	straight := func() string {
		answer, err := w.direct.get(ctx, path, accept...)
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	for want, again := straight(), ""; ; want = again {
		got, err := w.tunnel.get(ctx, path, accept...)
		if err == nil && got == want {
			return
		}
		if again = straight(); err != nil || again == want {
			t.Errorf("%s %q through the tunnel: %v\n%.500s\nstraight:\n%.500s", path, accept, err, got, want)
			return
		}
	}
}

// watchList compares a list that comes as a watch, up to the bookmark that ends it.
func (w *world) watchList(ctx context.Context, t *testing.T) {
	t.Helper()
	read := func(d *door) (events []string) {
		stream, err := kubernetes.NewForConfigOrDie(d.config).CoreV1().RESTClient().Get().Namespace(w.quiet).Resource("configmaps").
			Param("watch", "true").Param("sendInitialEvents", "true").Param("resourceVersionMatch",
			"NotOlderThan").Param("allowWatchBookmarks", "true").
			SetHeader("Accept", "application/json").Stream(ctx)
		if err != nil {
			t.Fatalf("%s: %v", d.name, err)
		}
		defer stream.Close()
		for decoder := json.NewDecoder(stream); ; {
			var raw json.RawMessage
			if err := decoder.Decode(&raw); err != nil {
				t.Fatalf("%s: %v", d.name, err)
			}
			if bytes.Contains(raw, []byte("k8s.io/initial-events-end")) {
				return events
			}
			events = append(events, string(raw))
		}
	}
	want, got := read(w.direct), read(w.tunnel)
	if len(want) < 20 || !slices.Equal(got, want) {
		t.Errorf("%d events through the tunnel, %d straight", len(got), len(want))
	}
}

// apply brings 5 MB in, as objects that fit and as one that no API server takes.
func (w *world) apply(ctx context.Context, t *testing.T) {
	t.Helper()
	var many strings.Builder
	for i := range 10 {
		fmt.Fprintf(&many, "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: DOOR-big-%d, namespace: %s}\ndata: {text: %q}\n", i, w.namespace+"-big", strings.Repeat("0123456789", 50_000))
	}
	if out := w.kubectl(ctx, t, many.String(), "apply", "--server-side", "-f",
		"-"); strings.Count(out, "serverside-applied") != 10 {
		t.Errorf("5 MB: %.1000s", out)
	}
	one := fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one, namespace: %s}\ndata: {text: %q}\n",
		w.namespace+"-big", strings.Repeat("0123456789", 500_000))
	w.kubectl(ctx, t, one, "apply", "--server-side", "-f", "-")
}

const chart = `apiVersion: v1
kind: ConfigMap
metadata: {name: "{{ .Release.Name }}"}
data: {text: "{{ .Values.text }}", version: "{{ .Capabilities.KubeVersion.Version }}"}
`

// helm installs, upgrades, rolls back, and takes away.
func (w *world) helm(ctx context.Context, t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"Chart.yaml": "apiVersion: v2\nname: sample\nversion: 1.0.0\n", "values.yaml": "text: first\n",
		"templates/object.yaml": chart,
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"install", "DOOR", dir},
		{"upgrade", "DOOR", dir, "--set", "text=second"},
		{"get", "manifest", "DOOR"},
		{"rollback", "DOOR", "1"},
		{"get", "values", "DOOR", "--all"},
		{"uninstall", "DOOR", "--wait"},
	} {
		if out := w.run(ctx, t, "", self, []string{asHelm + "=yes"},
			append(args, "-n", "helm-DOOR")...); strings.Contains(out, "Error") {
			t.Errorf("helm %s: %s", args[0], out)
		}
	}
	for _, args := range [][]string{{"status", "DOOR"}, {"upgrade", "DOOR", dir}} {
		if out := w.run(ctx, t, "", self, []string{asHelm + "=yes"},
			append(args, "-n", "helm-DOOR")...); !strings.Contains(out, "Error") {
			t.Errorf("helm %s of what is gone: %s", args[0], out)
		}
	}
}

// impersonation has kubectl --as mean the same, and nobody pass off as whom they may not.
func (w *world) impersonation(ctx context.Context, t *testing.T) {
	t.Helper()
	for _, as := range []rest.ImpersonationConfig{
		{UserName: "bob"},
		{
			UserName: "bob", Groups: []string{"ops", "dev"}, UID: "7",
			Extra: map[string][]string{"example.com/team": {"a", "b"}},
		},
		{UserName: "system:serviceaccount:" + w.quiet + ":default"},
	} {
		// Straight, the person of the hub can't both be impersonated and impersonate.
		config, err := clientcmd.BuildConfigFromFlags("", w.Clusters[0].Kubeconfig)
		if err != nil {
			t.Fatal(err)
		}
		config.Impersonate = as
		want := w.whoami(ctx, t, &door{name: "straight", config: config})
		if got := w.whoami(ctx, t, w.tunnel,
			func(c *rest.Config) { c.Impersonate = as }); !reflect.DeepEqual(got, want) {
			t.Errorf("as %+v: %+v through the tunnel, %+v straight", as, got, want)
		}
	}
	refused := rest.CopyConfig(w.tunnel.config)
	refused.Impersonate = rest.ImpersonationConfig{UserName: "bob", Groups: []string{"system:masters"}}
	if _, err := kubernetes.NewForConfigOrDie(refused).CoreV1().Namespaces().List(ctx,
		metav1.ListOptions{}); err == nil || !strings.Contains(err.Error(), "belongs to Kubernetes itself") {
		t.Errorf("as one of the masters: %v", err)
	}
	// A person who may read, and impersonate nobody.
	token, err := w.Fairlead(ctx, "admin", "token", "dora", "--group", "readers")
	if err != nil {
		t.Fatal(err)
	}
	const rights = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: readers}\nroleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}\n" +
		"subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: readers}]\n"
	file := filepath.Join(t.TempDir(), "rights.yaml")
	if err := os.WriteFile(file, []byte(rights), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Kubectl(ctx, w.Clusters[0].Kubeconfig, "apply", "-f", file); err != nil {
		t.Fatal(err)
	}
	if _, err := w.FairleadStdin(ctx,
		"apiVersion: fairlead.dev/v1\nkind: Grant\nmetadata: {name: readers}\nspec: {subjects: [{group: readers}], role: viewer, clusters: {all: true}}\n", "apply", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	dora := rest.AnonymousClientConfig(w.tunnel.config)
	dora.BearerToken = strings.TrimSpace(token)
	err = process.Await(ctx, "the reader reads", func(ctx context.Context) error {
		_, err := kubernetes.NewForConfigOrDie(dora).CoreV1().ConfigMaps(w.quiet).List(ctx, metav1.ListOptions{})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	dora.Impersonate = rest.ImpersonationConfig{UserName: "bob"}
	_, err = kubernetes.NewForConfigOrDie(dora).CoreV1().ConfigMaps(w.quiet).List(ctx, metav1.ListOptions{})
	if err == nil || !strings.Contains(err.Error(), `User "dora" cannot impersonate resource "users"`) {
		t.Errorf("as bob: %v", err)
	}
}

// controlled is what a controller has seen last of each object.
type controlled struct {
	mu   sync.Mutex // guards seen
	seen map[string]string
}

// control runs a manager of controller-runtime with a controller through the tunnel.
func (w *world) control(ctx context.Context, t *testing.T) *controlled {
	t.Helper()
	c := &controlled{seen: map[string]string{}}
	manager, err := controllers.New(w.tunnel.config, controllers.Options{Metrics: server.Options{BindAddress: "0"}})
	if err != nil {
		t.Fatal(err)
	}
	err = builder.ControllerManagedBy(manager).For(&corev1.ConfigMap{}).Complete(reconcile.Func(func(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
		var object corev1.ConfigMap
		err := manager.GetClient().Get(ctx, r.NamespacedName, &object)
		c.mu.Lock()
		defer c.mu.Unlock()
		if client.IgnoreNotFound(err) != nil {
			return reconcile.Result{}, err
		}
		if c.seen[r.String()] = object.ResourceVersion; err != nil {
			delete(c.seen, r.String())
		}
		return reconcile.Result{}, nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- manager.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the manager: %v", err)
		}
	})
	return c
}

// agrees waits until the controller has seen what is there.
func (c *controlled) agrees(ctx context.Context, t *testing.T, w *world) {
	t.Helper()
	err := process.Await(ctx, "the controller has seen what is there", func(ctx context.Context) error {
		list, err := w.admin.CoreV1().ConfigMaps(w.namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		want := map[string]string{}
		for _, object := range list.Items {
			want[object.Namespace+"/"+object.Name] = object.ResourceVersion
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		got := map[string]string{}
		for name, version := range c.seen {
			if strings.HasPrefix(name, w.namespace+"/") {
				got[name] = version
			}
		}
		if !reflect.DeepEqual(got, want) {
			return fmt.Errorf("it has seen %v, and there is %v", got, want)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// shell is a kubectl exec that goes on.
type shell struct {
	stdin io.WriteCloser
	lines chan string
	ended func() error // waits for its end; more than once is fine
}

// shell starts one through the tunnel that repeats what it is told.
func (w *world) shell(ctx context.Context, t *testing.T) *shell {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "shell", Namespace: w.quiet},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "shell", Image: "shell"}}},
	}
	if _, err := w.admin.CoreV1().Pods(w.quiet).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Kubectl(ctx, w.Clusters[0].Kubeconfig, "wait", "pod/shell", "-n", w.quiet, "--for=condition=Ready",
		"--timeout=120s"); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, w.bins.Kubelocal, "kubectl", "--kubeconfig", w.tunnel.kubeconfig, "exec", "-i",
		"-n", w.quiet, "shell", "--", "cat")
	s := &shell{lines: make(chan string, 1)}
	var err error
	if s.stdin, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(s.lines)
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			s.lines <- lines.Text()
		}
	}()
	s.ended = sync.OnceValue(func() error { <-done; return cmd.Wait() })
	t.Cleanup(func() {
		_ = s.stdin.Close()
		_ = s.ended() // ended before, unless the test has failed
	})
	s.stillThere(t)
	return s
}

// end says that there is no more to repeat.
func (s *shell) end(t *testing.T) {
	t.Helper()
	if err := errors.Join(s.stdin.Close(), s.ended()); err != nil {
		t.Errorf("kubectl exec: %v", err)
	}
}

func (s *shell) stillThere(t *testing.T) {
	t.Helper()
	if _, err := io.WriteString(s.stdin, "still there\n"); err != nil {
		t.Fatalf("kubectl exec: %v", err)
	}
	select {
	case line := <-s.lines:
		if line != "still there" {
			t.Errorf("kubectl exec says %q", line)
		}
	case <-time.After(patience):
		t.Fatal("kubectl exec is silent")
	}
}
