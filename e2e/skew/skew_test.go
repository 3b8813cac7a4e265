package skew

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"fairlead.dev/e2e/commits"
	"fairlead.dev/e2e/stack"
)

// reference is the commit that upgrades are promised from.
const reference = "70da991f8266bc24eea4abc4ed9e88e17c7a6b3d"

func TestMain(m *testing.M) {
	flag.Bool("long", false, "each order of an upgrade from each commit, as `make skew` does")
	flag.Parse()
	os.Exit(m.Run())
}

func long() bool { return flag.Lookup("long").Value.String() == "true" }

// Parts of the stack, in the order in which replicas are replaced.
var (
	consoles     = []string{"console", "console-2"}
	gitcaches    = []string{"gitcache", "gitcache-2"}
	distributors = []string{"distributor", "distributor-2"}
	tunnels      = []string{"tunnel", "tunnel-2", stack.HiddenTunnel}
	agents       = []string{"agent-a", "agent-b"}
)

// TestOneReplicaOfEachKindIsUpgradedAndGoesBack upgrades the agent of one cluster and one replica of each service, the
// console last, beside others of the earlier commit, and brings all back.
func TestOneReplicaOfEachKindIsUpgradedAndGoesBack(t *testing.T) {
	t.Parallel()
	order := []string{"agent-a", "tunnel", "distributor", "gitcache", "console"}
	ctx, cancel := deadline(t, order)
	defer cancel()
	w := start(ctx, t, reference)
	end := w.watch(ctx)
	w.upgrade(ctx, order)
	w.onlyToday(ctx, "ttl-a")
	w.goBack(ctx, order)
	end()
	w.refusesInWords(ctx, "ttl-a")
	w.bring(ctx, w.now, "agent-a")
	w.healthyAs(ctx, "ttl-a")
}

// TestSQLiteDatabaseGoesForwardAndBack hands the folder of the earlier console to today's, and back.
func TestSQLiteDatabaseGoesForwardAndBack(t *testing.T) {
	t.Parallel()
	ctx, cancel := deadline(t, consoles)
	defer cancel()
	c := startConsole(ctx, t, reference)
	c.write(ctx, "earlier")
	c.replace(ctx, c.now)
	c.write(ctx, "today", "earlier")
	c.replace(ctx, c.earlier)
	c.write(ctx, "back", "earlier", "today")
	c.replace(ctx, c.now)
	c.write(ctx, "again", "earlier", "today", "back")
}

// TestEachOrderOfAnUpgradeWorksAndGoesBack replaces all parts, in each order that docs/operate/upgrade.md names.
func TestEachOrderOfAnUpgradeWorksAndGoesBack(t *testing.T) {
	if !long() {
		t.Skip("one replica of each kind is enough here; `make skew` tries each order")
	}
	for _, commit := range []string{reference, commits.FirstInPod} {
		for name, order := range map[string][]string{
			"hub first":      slices.Concat(consoles, gitcaches, distributors, tunnels, agents),
			"agents first":   slices.Concat(agents, consoles, tunnels, gitcaches, distributors),
			"services first": slices.Concat(tunnels, distributors, gitcaches, consoles, agents),
		} {
			t.Run(fmt.Sprintf("%s from %.8s", name, commit), func(t *testing.T) { walk(t, commit, order) })
		}
	}
}

func deadline(t *testing.T, order []string) (context.Context, context.CancelFunc) {
	t.Helper()
	return context.WithTimeout(t.Context(), 20*time.Minute+time.Duration(2*len(order))*time.Minute)
}

func walk(t *testing.T, commit string, order []string) {
	t.Helper()
	ctx, cancel := deadline(t, order)
	defer cancel()
	w := start(ctx, t, commit)
	end := w.watch(ctx)
	w.upgrade(ctx, order)
	w.goBack(ctx, order)
	end()
}

func (w *world) upgrade(ctx context.Context, order []string) {
	w.t.Helper()
	for _, part := range order {
		w.bring(ctx, w.now, part)
		if slices.Contains(consoles, part) {
			w.bothConsoles(ctx, part+" is today's")
		}
	}
}

func (w *world) goBack(ctx context.Context, order []string) {
	w.t.Helper()
	for _, part := range slices.Backward(order) {
		w.bring(ctx, w.earlier, part)
		if slices.Contains(consoles, part) {
			w.bothConsoles(ctx, part+" is earlier")
		}
	}
}

// watch follows cluster a through a tunnel with a session and through one without, and returns what ends and judges
// that.
func (w *world) watch(ctx context.Context) (end func()) {
	watching, stop := context.WithCancel(ctx)
	for _, part := range []string{"tunnel", stack.HiddenTunnel} {
		w.streams = append(w.streams, w.follow(watching, part))
	}
	w.t.Cleanup(stop)
	return func() {
		w.t.Helper()
		stop()
		for _, s := range w.streams {
			s.ends.Wait()
			w.t.Logf("the watch through %s saw %d events and ended %d times: %q", s.part, s.seen, len(s.told), s.told)
			if err := s.judge(); err != nil {
				w.t.Error(err)
			}
		}
	}
}

// onlyToday brings in a service whose inventory earlier agents can't read: a plain Job that removes itself.
func (w *world) onlyToday(ctx context.Context, name string) {
	w.t.Helper()
	w.push(ctx, "ttl", map[string]string{"job.yaml": `apiVersion: batch/v1
kind: Job
metadata: {name: once}
spec: {ttlSecondsAfterFinished: 100000, template: {spec: {restartPolicy: Never, containers: [{name: a, image: "example.com/a:1"}]}}}
`})
	w.apply(ctx, "apiVersion: fairlead.dev/v1\nkind: Service\nmetadata: {name: "+name+
		"}\nspec: {source: sample, path: ttl, cluster: a, namespace: ship}\n")
	w.healthyAs(ctx, name)
}

// refusesInWords waits until the hub says of a service what its earlier agent can't do.
func (w *world) refusesInWords(ctx context.Context, name string) {
	w.t.Helper()
	w.await(ctx, name+" is refused in words", func(ctx context.Context) error {
		svc, err := w.Service(ctx, name)
		if err == nil && (svc.Status.State != "failed" || !strings.Contains(svc.Status.StateMessage, "inventory")) {
			err = fmt.Errorf("state %s: %s", svc.Status.State, svc.Status.StateMessage)
		}
		return err
	})
	svc, err := w.Service(ctx, name)
	w.t.Logf("the earlier agent says: %s %v", svc.Status.StateMessage, err)
}
