package nodes_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"fairlead.dev/e2e/process"
)

var (
	long   = flag.Bool("long", false, "three nodes under faults, as `make nodes` does")
	rounds = flag.Int("rounds", 12, "with -long: how many faults; the first ones are one of each kind")
	seed   = flag.Uint64("seed", 0, "with -long: repeat a run; default: another one each time")
)

const (
	// pushEvery is how often a commit comes while faults go on.
	pushEvery = 3 * time.Second
	// A node has no network for cutFor, which Kubernetes does not notice, and no power for offFor: longer than the 50 s
	// after which Kubernetes takes the node for lost.
	cutFor, offFor = 15 * time.Second, time.Minute
	// recoverLimit is how soon everything has to be healthy after a node's return.
	recoverLimit = 60 * time.Second
	// failedSync is what an agent logs when no distributor answered its Sync.
	failedSync = "the hub did not say what to apply"
)

const haValues = `
image: {registry: fairlead, tag: dev}
secrets: {redis: fairlead-redis, database: fairlead-database, metrics: fairlead-metrics}
console: {replicas: 2}
gitcache: {replicas: 2, allowAddresses: [10.88.0.0/24]}
distributor: {replicas: 2}
tunnel: {replicas: 2}
test: {cluster: edge, source: sample, path: canary}
`

// Replicas are on nodes of their own, and people may evict one of them at a time. Nodes, networks, kubelets, containers
// and pods are cut one by one, and then at random, while commits flow and a stream of kubectl is open: no write that
// was acknowledged is lost, everything is healthy soon after a node's return, and a Sync fails at most while a node has
// no power or network.
func TestThreeNodesUnderFaults(t *testing.T) {
	if !*long {
		t.Skip("make nodes runs it")
	}
	t.Parallel()
	w := start(t, 3)
	figure(t, "start_s", w.startTook)
	took := w.installHub(t, haValues)
	figure(t, "helm_install_ready_s", took)
	w.logIn(t)
	w.installAgent(t)
	w.serveGit(t)
	w.push(t, "0")
	w.fairlead(t, catalog, "apply", "-f", filepath.Join(w.secrets, "git/secret.yaml"), "-f", "-")
	w.awaitRunning(t, "0")
	w.helmTest(t)
	w.expectSpread(t)
	w.evictConsoles(t)

	began := time.Now()
	w.push(t, "pushed")
	w.fairlead(t, "", "sources", "refresh", "sample")
	w.awaitRunning(t, "pushed")
	figure(t, "push_to_running_pods_s", time.Since(began))

	before := w.failedSyncs(t)
	if err := w.helm(t, "fairlead").upgrade(t.Context(), "fairlead", hubChart, haValues+"podAnnotations: {again: \"1\"}\n", patience); err != nil {
		t.Fatal(err)
	}
	failed := w.failedSyncs(t) - before
	t.Logf("BENCH nodes.upgrade_failed_syncs %d syncs", failed)
	if failed != 0 {
		t.Errorf("%d Syncs failed while the hub was upgraded", failed)
	}
	w.awaitWell(t, "after the upgrade", "pushed")

	if *seed == 0 {
		*seed = rand.Uint64()
	}
	t.Logf("-seed %d", *seed)
	choice := rand.New(rand.NewPCG(*seed, 0))
	load := w.startLoad(t)
	var worst time.Duration // after a node's loss
	for round := range *rounds {
		kind := fault(round)
		if kind >= faults {
			kind = fault(choice.IntN(int(faults)))
		}
		before := w.failedSyncs(t)
		what, back := w.fault(t, kind, choice)
		if err := back(); err != nil {
			t.Fatalf("round %d, %s: %v", round, what, err)
		}
		began := time.Now()
		load.pause(func() { w.awaitWell(t, what, load.last()) })
		took, failed := time.Since(began), w.failedSyncs(t)-before
		t.Logf("round %d, %s: well again after %.1f s, %d failed Syncs", round, what, took.Seconds(), failed)
		if took > recoverLimit {
			t.Errorf("round %d, %s: well again after %s, later than %s", round, what, took, recoverLimit)
		}
		if kind.losesNode() {
			worst = max(worst, took)
		} else if failed > 0 {
			t.Errorf("round %d, %s: %d Syncs failed", round, what, failed)
		}
	}
	figure(t, "recover_after_node_loss_s", worst)
	load.end(t)
	w.awaitRunning(t, load.last())
	w.bundle(t)
	w.lookThroughTunnel(t, load.last())
	w.uninstall(t, load.last())
}

func figure(t *testing.T, name string, took time.Duration) {
	t.Helper()
	t.Logf("BENCH nodes.%s %.1f s", name, took.Seconds())
}

// failedSyncs counts those that the logs of the agent's container and of the one before tell of.
func (w *world) failedSyncs(t *testing.T) int {
	t.Helper()
	var said string
	w.await(t, "the agent's log is read", func(ctx context.Context) (err error) {
		said, err = w.tryKubectl(ctx, "", "logs", "--namespace=fairlead-system", "fairlead-agent-0")
		return err
	})
	before, _ := w.tryKubectl(t.Context(), "", "logs", "--namespace=fairlead-system", "fairlead-agent-0", "--previous") // there may be none
	return strings.Count(before, failedSync) + strings.Count(said, failedSync)
}

// expectSpread has the two replicas of each service on different nodes.
func (w *world) expectSpread(t *testing.T) {
	t.Helper()
	for _, service := range []string{"console", "gitcache", "distributor", "tunnel"} {
		nodes := strings.Fields(w.kubectl(t, "", "get", "pods", "--namespace=fairlead", "--selector=app.kubernetes.io/component="+service,
			"--output=jsonpath={.items[*].spec.nodeName}"))
		if len(nodes) != 2 || nodes[0] == nodes[1] {
			t.Errorf("replicas of %s are on %q, want two nodes", service, nodes)
		}
	}
}

// evictConsoles asks for the eviction of both consoles at once: the second one has to stay until the first is back.
func (w *world) evictConsoles(t *testing.T) {
	t.Helper()
	consoles := strings.Fields(w.kubectl(t, "", "get", "pods", "--namespace=fairlead", "--selector=app.kubernetes.io/component=console",
		"--output=jsonpath={.items[*].metadata.name}"))
	evict := func(pod string) error {
		_, err := w.tryKubectl(t.Context(), fmt.Sprintf(`{"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": %q, "namespace": "fairlead"}}`, pod),
			"create", "--raw", "/api/v1/namespaces/fairlead/pods/"+pod+"/eviction", "-f", "-")
		return err
	}
	if err := evict(consoles[0]); err != nil {
		t.Errorf("the eviction of one of two consoles: %v", err)
	}
	if err := evict(consoles[1]); err == nil || !strings.Contains(err.Error(), "disruption budget") {
		t.Errorf("the eviction of the other console: %v, want a refusal", err)
	}
	w.awaitWell(t, "the eviction", "0")
}

// bundle has the command gather what a person looks into after faults: it has the logs of all pods, and no secret.
func (w *world) bundle(t *testing.T) {
	t.Helper()
	archive := filepath.Join(w.dir, "bundle.tar.gz")
	w.fairlead(t, "", "debug", "bundle", "--kubeconfig", filepath.Join(w.lab, "cluster/kubeconfig"), "--cluster", w.cluster, "--cpu", "1s", "--output-file", archive)
	names := w.mustRun(t, nil, "tar", "-tzf", archive)
	for _, file := range []string{
		"installation/logs/fairlead-console-1.console.log", "installation/logs/fairlead-distributor-", "installation/logs/fairlead-gitcache-1.gitcache.log",
		"installation/logs/fairlead-tunnel-1.tunnel.log", "clusters/edge/logs/fairlead-agent-0.agent.log", "hub/console/heap.pb.gz", "hub/tunnel/metrics.txt",
		"clusters/edge/fairlead-agent-0/metrics.txt", "clusters/edge/fairlead-agent-0/heap.pb.gz", "clusters/edge/fairlead-agent-0/cpu.pb.gz",
	} {
		if !strings.Contains(names, file) {
			t.Errorf("the bundle has no %s: %s%s", file, names, w.mustRun(t, nil, "tar", "-xzOf", archive, "bundle/missing.txt"))
		}
	}
	all := w.mustRun(t, nil, "tar", "-xzOf", archive)
	for _, secret := range []string{"hub/hub.secret", "console/master.key", "redis/password", "postgres/password", "metrics/metrics.token", "git/password"} {
		if strings.Contains(all, strings.TrimSpace(w.read(t, secret))) {
			t.Errorf("the bundle has the secret %s", secret)
		}
	}
	if strings.Contains(all, "PRIVATE KEY") {
		t.Error("the bundle has a private key")
	}
}

// awaitWell waits until all pods are ready, the hub finds nothing wrong, and the workload answers with a text.
func (w *world) awaitWell(t *testing.T, after, text string) {
	t.Helper()
	w.await(t, "all is well after "+after, func(ctx context.Context) error {
		pods, err := w.tryKubectl(ctx, "", "get", "pods", "--all-namespaces",
			`--output=jsonpath={range .items[?(@.status.phase!="Succeeded")]}{.metadata.name} {.status.conditions[?(@.type=="Ready")].status}{"\n"}{end}`)
		if err != nil {
			return err
		}
		for line := range strings.Lines(pods) {
			if !strings.HasSuffix(strings.TrimSpace(line), " True") {
				return fmt.Errorf("not ready: %s", line)
			}
		}
		_, err = w.tryFairlead(ctx, "", "check")
		return err
	})
	w.awaitRunning(t, text)
}

// fault is a kind of faults.
type fault int

const (
	power fault = iota
	network
	kubelet
	containers
	pods
	faults // how many kinds there are
)

// losesNode says whether a node is away for the time of the fault.
func (f fault) losesNode() bool { return f == power || f == network }

// fault cuts something, and returns what ends the fault.
func (w *world) fault(t *testing.T, kind fault, choice *rand.Rand) (what string, back func() error) {
	t.Helper()
	node := "node-" + strconv.Itoa(1+choice.IntN(3))
	inLab := func(command ...string) error {
		_, err := w.inLab(t.Context(), nil, "", command...)
		return err
	}
	after := func(d time.Duration, f func() error) func() error {
		return func() error {
			select {
			case <-time.After(d):
				return f()
			case <-t.Context().Done():
				return t.Context().Err()
			}
		}
	}
	atOnce := func() error { return nil }
	switch kind {
	case power:
		w.nodelocal(t, "cut", "--node", node)
		return "power of " + node, after(offFor, func() error {
			_, err := process.Run(t.Context(), nil, "", w.program, "boot", "--dir", w.lab, "--node", node)
			return err
		})
	case network:
		if err := inLab("ip", "link", "set", "to-"+node, "down"); err != nil {
			t.Fatal(err)
		}
		return "network of " + node, after(cutFor, func() error { return inLab("ip", "link", "set", "to-"+node, "up") })
	case kubelet:
		w.killOn(t, node, "kubelet")
		return "kubelet of " + node, atOnce
	}
	names := strings.Fields(w.kubectl(t, "", "get", "pods", "--namespace=fairlead", "--output=jsonpath={.items[*].metadata.name}"))
	pod := names[choice.IntN(len(names))]
	if kind == containers {
		where := strings.Fields(w.kubectl(t, "", "get", "pod", pod, "--namespace=fairlead", `--output=jsonpath={.spec.nodeName} {.metadata.labels.app\.kubernetes\.io/component}`))
		w.killOn(t, where[0], where[1]) // the program is called like the service, and replicas are on different nodes
		return "container of " + pod, atOnce
	}
	w.kubectl(t, "", "delete", "pod", pod, "--namespace=fairlead", "--grace-period=0", "--force")
	return "pod " + pod, atOnce
}

// killOn kills the processes of a name on a node.
func (w *world) killOn(t *testing.T, node, name string) {
	t.Helper()
	w.mustRun(t, nil, w.program, "exec", "--dir", w.lab, "--node", node, "--", "sh", "-c",
		`for p in /proc/[0-9]*; do [ "$(cat $p/comm)" != "$0" ] || kill -9 ${p#/proc/}; done`, name)
}

// load pushes commits, writes to the hub, and follows a container through the tunnel, until it is ended.
type load struct {
	w       *world
	cancel  context.CancelFunc
	running sync.WaitGroup

	pushing sync.Mutex // held by a step, and by pause

	mu    sync.Mutex // guards what follows
	text  string     // pushed last
	kept  []string   // configuration sets that the hub has acknowledged
	tried int
	lines int // of the container's log
	errs  []error
}

func (w *world) startLoad(t *testing.T) *load {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	l := &load{w: w, cancel: cancel, text: "pushed"}
	l.running.Go(func() {
		tick := time.NewTicker(pushEvery)
		defer tick.Stop()
		for n := 1; ; n++ {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				l.step(ctx, n)
			}
		}
	})
	l.running.Go(func() {
		for ctx.Err() == nil { // a stream ends with what carries it, and is opened again
			said, _ := w.tryFairlead(ctx, "", "logs", "edge", "-n", "web", "deployment/web", "--follow", "--tail=1",
				"--request-timeout=20s")
			l.mu.Lock()
			l.lines += strings.Count(said, "\n")
			l.mu.Unlock()
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
	})
	t.Cleanup(func() { cancel(); l.running.Wait() })
	return l
}

func (l *load) step(ctx context.Context, n int) {
	l.pushing.Lock()
	defer l.pushing.Unlock()
	if ctx.Err() != nil {
		return
	}
	text, name := "commit-"+strconv.Itoa(n), "kept-"+strconv.Itoa(n)
	pushed := l.w.tryPush(ctx, text) // the Git server is beside the nodes: no fault reaches it
	call, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	_, written := l.w.tryFairlead(call, "apiVersion: fairlead.dev/v1\nkind: ConfigSet\nmetadata: {name: "+name+
		"}\nspec: {entries: {a: {text: b}}}\n", "apply", "-f", "-")
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tried++
	if pushed == nil {
		l.text = text
	} else if ctx.Err() == nil {
		l.errs = append(l.errs, pushed)
	}
	if written == nil {
		l.kept = append(l.kept, name)
	}
}

// pause keeps further commits back while f waits for the last one.
func (l *load) pause(f func()) {
	l.pushing.Lock()
	defer l.pushing.Unlock()
	f()
}

func (l *load) last() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text
}

// end ends the load and holds the hub to what it has acknowledged.
func (l *load) end(t *testing.T) {
	t.Helper()
	l.cancel()
	l.running.Wait()
	if err := errors.Join(l.errs...); err != nil {
		t.Error(err)
	}
	have := l.w.fairlead(t, "", "get", "configsets", "-o", "name")
	for _, name := range l.kept {
		if !strings.Contains(have, "configset/"+name+"\n") {
			t.Errorf("%s was acknowledged and is lost", name)
		}
	}
	t.Logf("%d commits; %d of %d writes acknowledged; %d lines through the tunnel", l.tried, len(l.kept),
		l.tried, l.lines)
	if len(l.kept) == 0 || l.lines == 0 {
		t.Error("nothing was written, or nothing was seen through the tunnel")
	}
}
