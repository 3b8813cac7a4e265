package views

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/clusterview"
	"fairlead.dev/platform/kubetest"
	"fairlead.dev/services/agent/internal/cluster"
)

// convergence is how long what has to happen may take on a machine that is busy.
const convergence = 2 * time.Minute

var kube kubetest.Shared

func TestMain(m *testing.M) { os.Exit(kube.Run(m)) }

// faults stands between the view and the API server.
type faults struct {
	next   http.RoundTripper
	opened chan struct{} // capacity 1: a watch began

	mu      sync.Mutex // guards what follows
	open    map[*cutting]bool
	expired uint64 // the API server has forgotten the versions up to this one
	down    bool
	paged   bool // the API server begins no watch with all objects
	denied  string
}

// cutting is the body of a watch that can be cut.
type cutting struct {
	io.ReadCloser
	of   *faults
	path string
}

func (c *cutting) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c)
	c.of.mu.Unlock()
	return c.ReadCloser.Close()
}

func (f *faults) RoundTrip(r *http.Request) (*http.Response, error) {
	query := r.URL.Query()
	f.mu.Lock()
	expired, down, paged, denied := f.expired, f.down, f.paged, f.denied
	f.mu.Unlock()
	refuse := func(code int, reason string) *http.Response {
		body := fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":%d,"message":"a fault of the test"}`, reason, code)
		return &http.Response{
			StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}},
			Body: io.NopCloser(strings.NewReader(body)), Request: r,
		}
	}
	switch {
	case down:
		return nil, fmt.Errorf("connection refused by the test")
	case denied != "" && strings.HasSuffix(r.URL.Path, denied):
		return refuse(http.StatusForbidden, "Forbidden"), nil
	case query.Get("watch") != "" && query.Get("resourceVersion") != "" &&
		version(query.Get("resourceVersion")) <= expired:
		return refuse(http.StatusGone, "Expired"), nil
	case paged && query.Get("sendInitialEvents") != "":
		return refuse(http.StatusUnprocessableEntity, "Invalid"), nil
	}
	resp, err := f.next.RoundTrip(r)
	if err != nil || query.Get("watch") == "" {
		return resp, err
	}
	body := &cutting{resp.Body, f, r.URL.Path}
	f.mu.Lock()
	f.open[body] = true
	f.mu.Unlock()
	select {
	case f.opened <- struct{}{}:
	default:
	}
	resp.Body = body
	return resp, nil
}

// version is a resourceVersion as a number: that of a real API server is one.
func version(text string) uint64 {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		panic(fmt.Sprintf("a resourceVersion is no number: %v", err))
	}
	return n
}

// set changes the faults and cuts all watches, so that they are met.
func (f *faults) set(change func()) {
	f.mu.Lock()
	change()
	open := slices.Collect(maps.Keys(f.open))
	f.mu.Unlock()
	for _, b := range open {
		_ = b.Close()
	}
}

// world is a view of a real API server, and a direct way to it.
type world struct {
	t      *testing.T
	http   *http.Client
	url    string
	faults *faults
	view   *View
}

func newWorld(t *testing.T) *world {
	t.Helper()
	config, err := cluster.Load(kube.Cluster(t).Kubeconfig, "")
	if err != nil {
		t.Fatal(err)
	}
	w := &world{
		t: t, url: strings.TrimSuffix(config.Host, "/"),
		faults: &faults{opened: make(chan struct{}, 1), open: map[*cutting]bool{}},
	}
	direct := rest.CopyConfig(config)
	direct.QPS = -1
	if w.http, err = rest.HTTPClientFor(direct); err != nil {
		t.Fatal(err)
	}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { w.faults.next = next; return w.faults })
	seen, err := cluster.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(seen.Close)
	w.view = New(Deps{
		Cluster: seen, KubernetesVersion: func() string { return "v1.36.3" }, Now: time.Now,
		Log: slog.New(slog.DiscardHandler),
	})
	return w
}

func (w *world) run() {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = w.view.Run(ctx) })
	w.t.Cleanup(func() {
		cancel()
		running.Wait()
	})
}

// call sends an object and returns the answer. Conflicts and what is not there are fine in random histories.
func (w *world) call(method, path, kind string, body any) []byte {
	w.t.Helper()
	var data []byte
	if body != nil {
		var err error
		if data, err = json.Marshal(body); err != nil {
			w.t.Fatal(err)
		}
	}
	r, err := http.NewRequestWithContext(w.t.Context(), method, w.url+path, bytes.NewReader(data))
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("Content-Type", kind)
	resp, err := w.http.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	out, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	if resp.StatusCode == http.StatusTooManyRequests { // as while the storage of a CRD is set up
		<-time.After(100 * time.Millisecond)
		return w.call(method, path, kind, body)
	}
	if resp.StatusCode >= 300 && resp.StatusCode != http.StatusNotFound && resp.StatusCode != http.StatusConflict {
		w.t.Fatalf("%s %s: %s: %s", method, path, resp.Status, out)
	}
	return out
}

func (w *world) post(path string, o any) {
	w.t.Helper()
	w.call(http.MethodPost, path, "application/json", o)
}

func (w *world) patch(path string, o any) {
	w.t.Helper()
	w.call(http.MethodPatch, path, "application/merge-patch+json", o)
}

func (w *world) remove(path string) {
	w.t.Helper()
	w.call(http.MethodDelete, path, "application/json", map[string]any{
		"gracePeriodSeconds": 0, "kind": "DeleteOptions", "apiVersion": "v1",
	})
}

// obj is a Kubernetes object.
type obj map[string]any

func podOf(name, node string) obj {
	meta := obj{"name": name, "labels": obj{"fairlead.dev/service": "web"}}
	spec := obj{
		"containers": []any{
			obj{
				"name": "c", "image": "registry.example/app:1",
				"resources": obj{"requests": obj{"cpu": "100m", "memory": "16Mi"}},
			},
		},
	}
	if node != "" {
		spec["nodeName"] = node
	} else {
		spec["schedulerName"] = "none" // the pod stays without a node, so that no pretended kubelet writes its status
	}
	return obj{"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
}

// statuses of the container of a pod.
func statusOf(r *rand.Rand, restarts int) obj {
	status := obj{
		"name": "c", "image": "registry.example/app:1", "imageID": "x", "restartCount": restarts, "ready": false,
	}
	ended := time.Now().UTC().Format(time.RFC3339)
	if restarts > 0 {
		status["lastState"] = obj{
			"terminated": obj{"exitCode": 1, "reason": "OOMKilled", "startedAt": ended, "finishedAt": ended},
		}
	}
	out := obj{
		"phase": "Running", "containerStatuses": []any{status},
		"conditions": []any{obj{"type": "Ready", "status": "False"}},
	}
	switch r.IntN(6) {
	case 0:
		status["state"] = obj{"waiting": obj{"reason": "CrashLoopBackOff"}}
	case 1:
		status["state"] = obj{"waiting": obj{"reason": []string{"ErrImagePull", "ImagePullBackOff"}[r.IntN(2)]}}
		out["phase"] = "Pending"
	case 2:
		status["state"] = obj{
			"terminated": obj{"exitCode": 0, "reason": "Completed", "startedAt": ended, "finishedAt": ended},
		}
		out["phase"] = "Succeeded"
	default:
		status["state"], status["ready"] = obj{"running": obj{"startedAt": ended}}, true
		out["conditions"] = []any{obj{"type": "Ready", "status": "True"}}
	}
	return out
}

// history changes the cluster at random and remembers what can't be counted afterwards.
type history struct {
	*world
	random    *rand.Rand
	namespace string
	next      int
	pods      map[string]int  // restarts by name, of pods without a node: the history alone writes their statuses
	placed    map[string]bool // pods with a node: the cluster's pretended kubelets write their statuses
	nodes     map[string]bool
	works     map[string]int // replicas by name
	events    map[string]int // counts by name
	restarts  int64
	begun     bool // restarts has those that the view counted before the history began
}

func (h *history) name(kind string) string {
	h.next++
	return fmt.Sprintf("%s-%d", kind, h.next)
}

func pick[V any](r *rand.Rand, m map[string]V) string {
	keys := slices.Sorted(maps.Keys(m))
	if len(keys) == 0 {
		return ""
	}
	return keys[r.IntN(len(keys))]
}

func (h *history) step() {
	at := "/api/v1/namespaces/" + h.namespace
	switch h.random.IntN(14) {
	case 0, 1:
		name, node := h.name("pod"), ""
		if h.random.IntN(3) == 0 {
			node = pick(h.random, h.nodes)
		}
		h.post(at+"/pods", podOf(name, node))
		if node == "" {
			h.pods[name] = 0
		} else {
			h.placed[name] = true
		}
	case 2, 3, 4:
		if name := pick(h.random, h.pods); name != "" {
			more := h.random.IntN(3)
			h.pods[name] += more
			h.restarts += int64(more)
			h.patch(at+"/pods/"+name+"/status", obj{"status": statusOf(h.random, h.pods[name])})
		}
	case 5:
		if name := pick(h.random, h.pods); name != "" {
			h.remove(at + "/pods/" + name)
			delete(h.pods, name)
		}
		if name := pick(h.random, h.placed); name != "" {
			h.remove(at + "/pods/" + name)
			delete(h.placed, name)
		}
	case 6:
		name := h.namespace + "-" + h.name("node")
		h.post("/api/v1/nodes", obj{"apiVersion": "v1", "kind": "Node", "metadata": obj{"name": name}})
		h.nodes[name] = true
	case 7, 8:
		if name := pick(h.random, h.nodes); name != "" {
			h.patch("/api/v1/nodes/"+name, obj{"spec": obj{"unschedulable": h.random.IntN(2) == 0}})
			h.patch("/api/v1/nodes/"+name+"/status", obj{"status": obj{
				"capacity":    obj{"cpu": "4", "memory": "8Gi", "pods": "110"},
				"allocatable": obj{"cpu": "3", "memory": "7Gi", "pods": "110"},
				"conditions": []any{
					obj{"type": "Ready", "status": []string{"True", "False", "Unknown"}[h.random.IntN(3)]},
					obj{"type": "MemoryPressure", "status": []string{"True", "False"}[h.random.IntN(2)]},
				},
			}})
		}
	case 9:
		name := h.name("app")
		h.works[name] = 1 + h.random.IntN(3)
		labels := obj{"app": name}
		h.post("/apis/apps/v1/namespaces/"+h.namespace+
			"/deployments", obj{
			"apiVersion": "apps/v1", "kind": "Deployment", "metadata": obj{"name": name}, "spec": obj{
				"replicas": h.works[name], "selector": obj{"matchLabels": labels},
				"template": obj{
					"metadata": obj{"labels": labels}, "spec": obj{"containers": []any{obj{"name": "c", "image": "i"}}},
				},
			},
		})
	case 10:
		if name := pick(h.random, h.works); name != "" {
			n := h.random.IntN(h.works[name] + 1)
			h.patch("/apis/apps/v1/namespaces/"+h.namespace+"/deployments/"+name+
				"/status", obj{
				"status": obj{
					"observedGeneration": 1, "replicas": n, "readyReplicas": n, "updatedReplicas": n,
					"availableReplicas": n,
				},
			})
		}
	case 11:
		name := h.name("claim")
		h.post(at+"/persistentvolumeclaims", obj{
			"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": obj{"name": name}, "spec": obj{
				"accessModes": []any{"ReadWriteOnce"}, "resources": obj{"requests": obj{"storage": "1Gi"}},
			},
		})
		if h.random.IntN(2) == 0 {
			h.patch(at+"/persistentvolumeclaims/"+name+
				"/status", obj{"status": obj{"phase": "Bound", "capacity": obj{"storage": "1Gi"}}})
		}
	case 12:
		name := h.name("event")
		now := time.Now().UTC().Format(time.RFC3339)
		kind := []string{"Warning", "Warning", "Normal"}[h.random.IntN(3)]
		h.post(at+"/events", obj{
			"apiVersion": "v1", "kind": "Event", "metadata": obj{"name": name}, "type": kind,
			"reason": []string{"FailedMount", "BackOff"}[h.random.IntN(2)], "message": "it failed", "count": 1,
			"involvedObject": obj{"kind": "Pod", "namespace": h.namespace, "name": "web-7d4b9c6f5-x2x8z"},
			"firstTimestamp": now, "lastTimestamp": now,
		})
		if kind == "Warning" {
			h.events[name] = 1
		}
	case 13:
		if name := pick(h.random, h.events); name != "" {
			h.events[name] += 2
			h.patch(at+"/events/"+name, obj{
				"count": h.events[name], "lastTimestamp": time.Now().UTC().Format(time.RFC3339),
			})
		}
	}
}

// direct counts what the API server has, by lists.
func (h *history) direct() map[string]int64 {
	h.t.Helper()
	out := map[string]int64{}
	for _, name := range []string{
		"nodes.total", "nodes.ready", "nodes.cordoned", "nodes.pressure", "pods.total", "pods.not_ready",
		"requests.cpu", "requests.pods", "pulls.pods", "claims.total", "claims.bound", "workloads.deployments",
		"workloads.ready", "workloads.desired",
	} {
		out[name] = 0
	}
	var nodes corev1.NodeList
	h.list("/api/v1/nodes", &nodes)
	for _, n := range nodes.Items {
		out["nodes.total"]++
		if n.Spec.Unschedulable {
			out["nodes.cordoned"]++
		}
		out["nodes.cpu_allocatable"] += n.Status.Allocatable.Cpu().MilliValue()
		for _, c := range n.Status.Conditions {
			if c.Type == "Ready" && c.Status == "True" {
				out["nodes.ready"]++
			}
			if c.Type == "MemoryPressure" && c.Status == "True" {
				out["nodes.pressure"]++
			}
		}
	}
	var pods corev1.PodList
	h.list("/api/v1/pods", &pods)
	for _, p := range pods.Items {
		out["pods.total"]++
		ends := p.Status.Phase == "Succeeded" || p.Status.Phase == "Failed"
		if p.Spec.NodeName != "" && !ends {
			out["requests.cpu"] += p.Spec.Containers[0].Resources.Requests.Cpu().MilliValue()
			out["requests.pods"]++
		}
		ready := slices.ContainsFunc(p.Status.Conditions,
			func(c corev1.PodCondition) bool { return c.Type == "Ready" && c.Status == "True" })
		if !ends && p.DeletionTimestamp == nil && !ready {
			out["pods.not_ready"]++
		}
		if s := p.Status.ContainerStatuses; len(s) > 0 && s[0].State.Waiting != nil &&
			strings.Contains(s[0].State.Waiting.Reason, "Pull") {
			out["pulls.pods"]++
		}
	}
	for state, n := range h.table() {
		out["pods.state."+state] = n
	}
	var claims corev1.PersistentVolumeClaimList
	h.list("/api/v1/persistentvolumeclaims", &claims)
	for _, c := range claims.Items {
		out["claims.total"]++
		if c.Status.Phase == "Bound" && c.DeletionTimestamp == nil {
			out["claims.bound"]++
		}
	}
	var events corev1.EventList // no event is older than the cluster, which is younger than an hour
	h.list("/api/v1/events", &events)
	out["warnings.hour"] = 0
	for _, e := range events.Items {
		if e.Type != corev1.EventTypeWarning {
			continue
		}
		count := max(1, e.Count)
		if e.Series != nil {
			count = max(count, e.Series.Count)
		}
		out["warnings.hour"] += int64(count)
	}
	var deployments struct {
		Items []struct {
			Spec   struct{ Replicas int64 }
			Status struct{ ReadyReplicas int64 }
		}
	}
	h.list("/apis/apps/v1/deployments", &deployments)
	for _, d := range deployments.Items {
		out["workloads.deployments"]++
		out["workloads.desired"] += d.Spec.Replicas
		out["workloads.ready"] += d.Status.ReadyReplicas
	}
	return out
}

// version is the newest one that the view may have. The versions of what is read from now on are newer.
func (h *history) version() uint64 {
	h.t.Helper()
	var namespaces corev1.NamespaceList
	h.list("/api/v1/namespaces", &namespaces)
	h.next++
	h.patch("/api/v1/namespaces/"+
		h.namespace, obj{"metadata": obj{"annotations": obj{"version": strconv.Itoa(h.next)}}})
	return version(namespaces.ResourceVersion)
}

func (w *world) list(path string, into any) {
	w.t.Helper()
	if err := json.Unmarshal(w.call(http.MethodGet, path, "application/json", nil), into); err != nil {
		w.t.Fatal(err)
	}
}

// table counts STATUS as kubectl shows it.
func (h *history) table() map[string]int64 {
	h.t.Helper()
	r, err := http.NewRequestWithContext(h.t.Context(), http.MethodGet, h.url+"/api/v1/pods", nil)
	if err != nil {
		h.t.Fatal(err)
	}
	r.Header.Set("Accept", "application/json;as=Table;g=meta.k8s.io;v=v1")
	resp, err := h.http.Do(r)
	if err != nil {
		h.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var table struct {
		ColumnDefinitions []struct{ Name string }
		Rows              []struct{ Cells []any }
	}
	if err := json.NewDecoder(resp.Body).Decode(&table); err != nil {
		h.t.Fatal(err)
	}
	out := map[string]int64{}
	for _, row := range table.Rows {
		for i, column := range table.ColumnDefinitions {
			if column.Name == "Status" {
				out[fmt.Sprint(row.Cells[i])]++
			}
		}
	}
	return out
}

// figures are those of the view, nil while it begins.
func (w *world) figures() map[string]int64 {
	sections, ok := w.view.Sections()
	if !ok {
		return nil
	}
	out := map[string]int64{}
	for _, s := range sections {
		for name, n := range s.GetFigures() {
			out[s.GetName()+"."+name] = n
		}
	}
	return out
}

// notWhole are the sections that are not, with figures or without.
func (w *world) notWhole() (out []string) {
	sections, _ := w.view.Sections()
	for _, s := range sections {
		if s.GetState() != deliveryv1.SectionState_SECTION_STATE_WHOLE {
			out = append(out, fmt.Sprintf("%s is %v: %s", s.GetName(), s.GetState(), s.GetReason()))
		}
	}
	return out
}

// followsPods says whether the view follows pods and has read all of them. Their section is still whole between the cut
// of the watch and the answer that its version is forgotten: so the watch is looked at first.
func (w *world) followsPods() bool {
	w.faults.mu.Lock()
	open := false
	for b := range w.faults.open {
		open = open || strings.HasSuffix(b.path, "/pods")
	}
	w.faults.mu.Unlock()
	w.view.mu.Lock()
	defer w.view.mu.Unlock()
	return open && w.view.kindOf("pods").state == deliveryv1.SectionState_SECTION_STATE_WHOLE
}

// differences say where the view is not what a direct count says. The restarts of a pod can't be counted afterwards: so
// pods are followed, too.
func (h *history) differences() (wrong []string) {
	h.t.Helper()
	if !h.followsPods() {
		wrong = append(wrong, "the view does not follow pods")
	}
	want, got := h.direct(), h.figures()
	if h.begun {
		want["restarts.hour"] = h.restarts
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if n, ok := got[name]; !ok || n != want[name] {
			wrong = append(wrong, fmt.Sprintf("%s is %d (known: %t), counted %d", name, n, ok, want[name]))
		}
	}
	for name, n := range got {
		if strings.HasPrefix(name, "pods.state.") && n != want[name] {
			wrong = append(wrong, fmt.Sprintf("%s is %d, counted %d", name, n, want[name]))
		}
	}
	return wrong
}

// await waits until nothing is wrong. It looks when the view says that it may have changed, and when a watch begins.
func (w *world) await(when string, look func() (wrong []string)) {
	w.t.Helper()
	deadline := time.After(convergence)
	for {
		wrong := look()
		if len(wrong) == 0 {
			return
		}
		select {
		case <-w.view.Changed():
		case <-w.faults.opened:
		case <-deadline:
			w.t.Fatalf("%s the view does not converge: %s", when, strings.Join(wrong, "; "))
		}
	}
}

// converge waits until the view says what a direct count says.
func (h *history) converge(when string) {
	h.t.Helper()
	h.await(when, h.differences)
}

// The tests below count the whole cluster, so they are one test: it does not run beside others of the package.
func TestViewIsWhatADirectCountSays(t *testing.T) { //nolint:paralleltest // it counts all objects of the cluster
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	w := newWorld(t)
	h := &history{
		world: w, random: rand.New(rand.NewPCG(seed, 0)),
		namespace: fmt.Sprintf("view-%d", seed%1_000_000), // a history can be run again
		pods:      map[string]int{}, placed: map[string]bool{}, nodes: map[string]bool{}, works: map[string]int{},
		events: map[string]int{},
	}
	w.post("/api/v1/namespaces", obj{"apiVersion": "v1", "kind": "Namespace", "metadata": obj{"name": h.namespace}})
	w.post("/api/v1/namespaces/"+h.namespace+
		"/serviceaccounts", obj{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": obj{"name": "default"}})
	t.Cleanup(func() {
		for name := range h.nodes {
			r, _ := http.NewRequestWithContext(context.Background(), http.MethodDelete, w.url+"/api/v1/nodes/"+
				name, nil)
			if resp, err := w.http.Do(r); err == nil {
				_ = resp.Body.Close()
			}
		}
	})
	w.run()
	h.converge("at the beginning")
	h.restarts, h.begun = h.figures()["restarts.hour"], true
	f := w.faults
	for round := range 12 {
		for range 12 {
			h.step()
		}
		what := "in a quiet round"
		switch round % 6 {
		case 1:
			what = "after the watches were cut"
			f.set(func() {})
		case 2:
			what = "after the versions expired"
			// restarts of a pod that the view has not seen yet can't be counted after that
			h.converge("before the versions expire")
			now := h.version()
			f.set(func() { f.expired = now })
			h.step()
		case 3:
			what = "after the API server was down"
			f.set(func() { f.down = true })
			for range 5 {
				h.step()
			}
			f.set(func() { f.down = false })
		case 4:
			what = "from pages"
			h.converge("before the pages")
			now := h.version()
			f.set(func() { f.paged, f.expired = true, now })
			h.step()
			h.converge(what)
			f.set(func() { f.paged = false })
		}
		h.converge(fmt.Sprintf("round %d, %s,", round, what))
	}
	w.await("in the end", w.notWhole)
	sections, _ := w.view.Sections()
	for _, s := range sections {
		if strings.Contains(s.String(), "registry.example/app:1") && s.GetName() != "pulls" {
			t.Errorf("%s says more of pods than it is made of: %v", s.GetName(), s)
		}
	}
}

// A kind that the agent may not read is said, and its figures are absent.
func TestWhatMayNotBeReadIsSaid(t *testing.T) { //nolint:paralleltest // see above
	w := newWorld(t)
	w.faults.denied = "/api/v1/nodes"
	w.run()
	for deadline := time.After(convergence); ; {
		if sections, ok := w.view.Sections(); ok {
			for _, s := range sections {
				denied := s.GetState() == deliveryv1.SectionState_SECTION_STATE_DENIED
				absent := denied || s.GetName() == clusterview.Used // the cluster has no metrics-server
				if denied != (s.GetName() == "nodes") || absent == (s.GetFigures() != nil) ||
					denied != strings.Contains(s.GetReason(), "may not list and watch nodes") {
					t.Errorf("got %v", s)
				}
			}
			return
		}
		select {
		case <-w.view.Changed():
		case <-deadline:
			t.Fatal("the view does not begin")
		}
	}
}
