package tunnel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

// balancer passes the bytes of connections on, as a load balancer of layer 4 does: to the first tunnel that takes one.
type balancer struct {
	listener net.Listener
	tunnels  []string // addresses
	running  sync.WaitGroup

	mu    sync.Mutex // guards conns
	conns map[net.Conn]struct{}
}

func startBalancer(t *testing.T, tunnels ...string) *balancer {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &balancer{listener: l, tunnels: tunnels, conns: map[net.Conn]struct{}{}}
	b.running.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			b.running.Go(func() { b.serve(client) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		b.closeAll()
		b.running.Wait()
	})
	return b
}

func (b *balancer) closeAll() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for conn := range b.conns {
		_ = conn.Close()
	}
}

// keep has closeAll close a connection. The result forgets and closes it.
func (b *balancer) keep(conn net.Conn) (forget func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.conns[conn] = struct{}{}
	return func() {
		_ = conn.Close()
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.conns, conn)
	}
}

func (b *balancer) serve(client net.Conn) {
	defer b.keep(client)()
	for _, addr := range b.tunnels {
		tunnel, err := (&net.Dialer{}).Dial("tcp", addr) //nolint:noctx // on loopback it answers at once
		if err != nil {
			continue
		}
		forget := b.keep(tunnel)
		var up sync.WaitGroup
		up.Go(func() {
			_, _ = io.Copy(tunnel, client)
			_ = tunnel.(*net.TCPConn).CloseWrite()
		})
		_, _ = io.Copy(client, tunnel)
		forget()
		_ = client.Close()
		up.Wait()
		return
	}
}

// informed is what an informer has seen, and how often it began from nothing.
type informed struct {
	lists atomic.Int32

	mu   sync.Mutex // guards seen
	seen []string
}

func (i *informed) count(next http.RoundTripper) http.RoundTripper {
	return roundTrip(func(r *http.Request) (*http.Response, error) {
		if q := r.URL.Query(); q.Get("watch") == "" || q.Get("sendInitialEvents") != "" {
			i.lists.Add(1)
		}
		return next.RoundTrip(r)
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func (i *informed) note(what string, object any) {
	m, ok := object.(metav1.Object)
	if !ok || !strings.HasPrefix(m.GetName(), "killed-") {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.seen = append(i.seen, what+" "+m.GetName())
}

func (i *informed) events() []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.seen)
}

// inform runs client-go's informer of a namespace's ConfigMaps.
func inform(ctx context.Context, t *testing.T, kubeconfig, namespace string) *informed {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	i := &informed{}
	config.Wrap(i.count)
	factory := informers.NewSharedInformerFactoryWithOptions(kubernetes.NewForConfigOrDie(config), 0,
		informers.WithNamespace(namespace))
	informer := factory.Core().V1().ConfigMaps().Informer()
	_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { i.note("added", o) },
		UpdateFunc: func(_, o any) { i.note("updated", o) },
		DeleteFunc: func(o any) { i.note("deleted", o) },
	})
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() { informer.RunWithContext(ctx) })
	t.Cleanup(running.Wait)
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		t.Fatal("the informer does not get through")
	}
	return i
}

// recordingOf is what `fairlead replay` says of a recording.
type recordingOf struct{ ID, Pod, Verb, EndTime, Incomplete string }

// A tunnel that is killed ends what runs through it: watches go on where they were at the other tunnel, all else fails
// with an error, and the next command works at once. The output of shells is kept, and the recordings are shown as cut.
func TestAKilledTunnelEndsStreamsAndTheNextCommandWorks(t *testing.T) {
	t.Parallel()
	shared(t) // the Kubernetes API, with what is in it
	ctx, cancel := context.WithCancel(t.Context())
	dir, err := os.MkdirTemp(world.dir, "killed-")
	if err != nil {
		t.Fatal(err)
	}
	h, err := startHub(ctx, dir, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.stop(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Log(h.tails())
		}
	})
	namespace := filepath.Base(dir)
	direct := straight(t)
	direct.must(t, "", "create", "namespace", namespace)
	const pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: web, image: web}]}\n"
	await(t, "there is a pod", func(context.Context) error { // the service account that pods want comes a moment after their namespace
		if a := direct.run(t, pod, "create", "-n", namespace, "-f", "-"); a.code != 0 {
			return errors.New(a.stderr)
		}
		return nil
	})
	direct.must(t, "", "wait", "--for=condition=Ready", "pod/web", "-n", namespace, "--timeout=60s")
	h.recordShells(ctx, t, namespace)
	h.urls["balancer"] = "https://" + startBalancer(t, h.addr("x1"), h.addr("x2")).listener.Addr().String()
	kubeconfig := h.kubeconfig(t, "balancer")
	k := kubectl{flags: []string{"--kubeconfig", kubeconfig}}
	client, err := h.client()
	if err != nil {
		t.Fatal(err)
	}
	defer client.CloseIdleConnections()
	write := func(name string) {
		t.Helper()
		direct.must(t, strings.ReplaceAll(configMap, "NAME", name), "create", "-n", namespace, "-f", "-")
	}

	watching, stop := context.WithCancel(ctx)
	informer := inform(watching, t, kubeconfig, namespace)
	t.Cleanup(func() { stop(); cancel() })
	watch := k.start(t, "get", "configmaps", "-n", namespace,
		"-w", "--no-headers", "-o", "custom-columns=N:.metadata.name")
	watch.stdout.await(t, "kube-root-ca.crt")
	logs := k.start(t, "logs", "-f", "web", "-n", namespace)
	logs.stdout.await(t, "line 1 ")
	forward := k.start(t, "port-forward", "pod/web", "-n", namespace, ":80", "--address=127.0.0.1")
	forward.stdout.await(t, " -> 80")
	shells := map[string]*running{}
	for name, on := range map[string]string{"WebSocket": "true", "SPDY": "false"} {
		with := k
		with.env = []string{"KUBECTL_REMOTE_COMMAND_WEBSOCKETS=" + on}
		shells[name] = with.start(t, "exec", "-i", "web", "-n", namespace, "--", "sh",
			"-c", "echo shown over "+name+"; cat")
		shells[name].stdout.await(t, "shown over "+name)
	}
	write("killed-before")
	watch.stdout.await(t, "killed-before")
	await(t, "the recordings hold what was shown", func(context.Context) error { return h.recordedAll(t, shells) })

	if err := h.parts["x1"].Kill(); err != nil {
		t.Fatal(err)
	}

	for name, r := range map[string]*running{
		"logs -f": logs, "port-forward": forward,
		"exec over WebSocket": shells["WebSocket"], "exec over SPDY": shells["SPDY"],
	} {
		if name == "port-forward" { // port-forward finds out when it is used
			if port := regexp.MustCompile(`127.0.0.1:(\d+)`).FindString(r.stdout.String()); port != "" {
				if resp, err := http.Get("http://" + port); err == nil { //nolint:noctx // the connection is gone
					_ = resp.Body.Close()
					t.Errorf("%s goes on: %s", name, resp.Status)
				}
			}
		}
		err := r.wait(t)
		t.Logf("%s: %v, %s", name, err, r.stderr)
		if name == "exec over SPDY" {
			continue // kubectl takes a connection that breaks for the end of the command, also straight at an API server
		}
		if err == nil || strings.TrimSpace(r.stderr.String()) == "" {
			t.Errorf("%s ended with %v: %s", name, err, r)
		}
	}
	if err := watch.wait(t); err != nil || watch.stderr.String() != "" {
		t.Errorf("get -w: %v: %s", err, watch)
	}
	for range 3 {
		if a := k.run(t, "", "get", "pod", "web", "-n", namespace, "-o", "name"); a.code != 0 ||
			a.stdout != "pod/web\n" || a.stderr != "" {
			t.Errorf("the next get: %s", a)
		}
		if a := k.run(t, "", "exec", "web", "-n", namespace, "--", "sh", "-c", "echo again; exit 7"); a.code != 7 ||
			a.stdout != "again\n" {
			t.Errorf("the next exec: %s", a)
		}
		if code, body, err := get(ctx, client, h.base("nginx")+"/api/v1/namespaces/many/configmaps/object-0-0", h.token); err != nil || code != http.StatusOK {
			t.Errorf("the next GET through nginx: %d %.300s %v", code, body, err)
		}
	}
	write("killed-after")
	want := []string{"added killed-before", "added killed-after"}
	await(t, "the informer goes on", func(context.Context) error {
		if got := informer.events(); !slices.Equal(got, want) {
			return fmt.Errorf("it has seen %q", got)
		}
		return nil
	})
	if n := informer.lists.Load(); n != 1 {
		t.Errorf("the informer began %d times", n)
	}
	stop()
	await(t, "the recordings are shown as cut", func(context.Context) error {
		cut := 0
		for _, r := range h.recordings(t) {
			if strings.Contains(r.Incomplete, "cut") && r.EndTime != "" {
				cut++
			}
		}
		if cut != len(shells) {
			return fmt.Errorf("%d are: %+v", cut, h.recordings(t))
		}
		return nil
	})
	if err := h.recordedAll(t, shells); err != nil {
		t.Error(err)
	}
	if err := h.parts["x1"].Start(); err != nil {
		t.Fatal(err)
	}
	await(t, "the agent is back at the tunnel", h.reached)
}

// recordShells has a project demand recordings of a namespace's shells, and waits until both tunnels know.
func (h *hub) recordShells(ctx context.Context, t *testing.T, namespace string) {
	t.Helper()
	project := "apiVersion: fairlead.dev/v1\nkind: Project\nmetadata: {name: recorded}\nspec: {clusters: {names: [" +
		cluster + "]}, namespaces: [" + namespace + "], recording: required}\n"
	if _, err := h.fairlead(ctx, project, "apply", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	client, err := h.client()
	if err != nil {
		t.Fatal(err)
	}
	defer client.CloseIdleConnections()
	for _, part := range []string{"x1", "x2"} {
		await(t, part+" knows the project", func(ctx context.Context) error {
			code, body, err := get(ctx, client, h.base(part)+"/api/v1/nodes/n/proxy/pods", h.token)
			if err == nil && (code != http.StatusForbidden || !strings.Contains(body, "recorded")) {
				err = fmt.Errorf("%d %.300s", code, body)
			}
			return err
		})
	}
}

func (h *hub) recordings(t *testing.T) []recordingOf {
	t.Helper()
	a := h.cli(t, "replay", "-o", "json")
	var list struct{ Recordings []recordingOf }
	if err := json.Unmarshal([]byte(a.stdout), &list); err != nil || a.code != 0 {
		t.Fatal(err, a)
	}
	return list.Recordings
}

// recordedAll tells whether there is a recording of what each shell has shown.
func (h *hub) recordedAll(t *testing.T, shells map[string]*running) error {
	t.Helper()
	var all strings.Builder
	for _, r := range h.recordings(t) {
		file := filepath.Join(t.TempDir(), "session.cast")
		if a := h.cli(t, "replay", r.ID, "--output-file", file); a.code != 0 {
			return errors.New(a.String())
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		all.Write(text)
	}
	for name := range shells {
		if !strings.Contains(all.String(), `"shown over `+name+`\n"`) {
			return fmt.Errorf("nothing over %s in %s", name, &all)
		}
	}
	return nil
}
