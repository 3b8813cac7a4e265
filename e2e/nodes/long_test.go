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
	rounds = flag.Int("rounds", 12, "with -long: how many faults")
	seed   = flag.Uint64("seed", 0, "with -long: repeat a run; default: another one each time")
)

const (
	// pushEvery is how often a commit comes while faults go on.
	pushEvery = 3 * time.Second
	// outage is how long a node is without power or network: longer than the grace period after which others notice.
	outage = 15 * time.Second
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

// Nodes, kubelets, networks and containers are cut at random while commits flow and a stream of kubectl is open: no
// write that was acknowledged is lost, and everything is healthy soon after a node's return.
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

	began := time.Now()
	w.push(t, "pushed")
	w.fairlead(t, "", "sources", "refresh", "sample")
	w.awaitRunning(t, "pushed")
	figure(t, "push_to_running_pods_s", time.Since(began))

	before := w.failedSyncs(t)
	if err := w.helm(t, "fairlead").upgrade(t.Context(), "fairlead", hubChart, haValues+"podAnnotations: {again: \"1\"}\n", patience); err != nil {
		t.Fatal(err)
	}
	t.Logf("BENCH nodes.upgrade_failed_syncs %d syncs", w.failedSyncs(t)-before)
	w.awaitWell(t, "after the upgrade", "pushed")

	if *seed == 0 {
		*seed = rand.Uint64()
	}
	t.Logf("-seed %d", *seed)
	choice := rand.New(rand.NewPCG(*seed, 0))
	load := w.startLoad(t)
	var worst time.Duration
	for round := range *rounds {
		what, back := w.fault(t, choice)
		if err := back(); err != nil {
			t.Fatalf("round %d, %s: %v", round, what, err)
		}
		began := time.Now()
		load.pause(func() { w.awaitWell(t, what, load.last()) })
		took := time.Since(began)
		worst = max(worst, took)
		t.Logf("round %d, %s: well again after %.1f s", round, what, took.Seconds())
		if took > recoverLimit {
			t.Errorf("round %d, %s: well again after %s, later than %s", round, what, took, recoverLimit)
		}
	}
	figure(t, "recover_after_node_loss_s", worst)
	load.end(t)
	w.lookThroughTunnel(t, load.last())
	w.uninstall(t, load.last())
}

func figure(t *testing.T, name string, took time.Duration) {
	t.Helper()
	t.Logf("BENCH nodes.%s %.1f s", name, took.Seconds())
}

// failedSyncs counts those that the agent's log tells of.
func (w *world) failedSyncs(t *testing.T) int {
	t.Helper()
	return strings.Count(w.kubectl(t, "", "logs", "--namespace=fairlead-system", "fairlead-agent-0"), failedSync)
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

// fault cuts something, and returns what ends the fault.
func (w *world) fault(t *testing.T, choice *rand.Rand) (what string, back func() error) {
	t.Helper()
	node := "node-" + strconv.Itoa(1+choice.IntN(3))
	inLab := func(command ...string) error {
		_, err := w.inLab(t.Context(), nil, "", command...)
		return err
	}
	later := func(f func() error) func() error {
		return func() error {
			select {
			case <-time.After(outage):
				return f()
			case <-t.Context().Done():
				return t.Context().Err()
			}
		}
	}
	switch choice.IntN(4) {
	case 0:
		w.nodelocal(t, "cut", "--node", node)
		return "power of " + node, later(func() error {
			_, err := process.Run(t.Context(), nil, "", w.program, "boot", "--dir", w.lab, "--node", node)
			return err
		})
	case 1:
		if err := inLab("ip", "link", "set", "to-"+node, "down"); err != nil {
			t.Fatal(err)
		}
		return "network of " + node, later(func() error { return inLab("ip", "link", "set", "to-"+node, "up") })
	case 2:
		w.mustRun(t, nil, w.program, "exec", "--dir", w.lab, "--node", node, "--", "sh", "-c",
			`for p in /proc/[0-9]*; do [ "$(cat $p/comm)" != kubelet ] || kill -9 ${p#/proc/}; done`)
		return "kubelet of " + node, func() error { return nil }
	}
	pods := strings.Fields(w.kubectl(t, "", "get", "pods", "--namespace=fairlead",
		"--output=jsonpath={.items[*].metadata.name}"))
	pod := pods[choice.IntN(len(pods))]
	w.kubectl(t, "", "delete", "pod", pod, "--namespace=fairlead", "--grace-period=0", "--force")
	return "pod " + pod, func() error { return nil }
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
