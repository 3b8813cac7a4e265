package nodes_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fairlead.dev/e2e/commits"
	"fairlead.dev/e2e/process"
)

var halfwayFor = flag.Duration("halfway-for", time.Minute, "with -long: how long a hub and an agent of two versions work together, each way")

// buildLimit is for the programs of an earlier commit.
const buildLimit = 30 * time.Minute

// A hub and an agent that the charts of the first version in pods installed are upgraded by Helm, the hub first, and go
// back, the hub first, while commits flow: no Sync fails, an object that no commit changed stays as it is, and
// acknowledged writes are kept. In both mixed states they go on for as long as the test wants. Then the agent is
// upgraded first, and the hub follows.
func TestUpgradeFromTheFirstVersionInPods(t *testing.T) {
	if !*long {
		t.Skip("make nodes runs it")
	}
	requireRoot(t)
	t.Parallel()
	earlier := checkOut(t, commits.FirstInPod)
	w := start(t, 2, earlier.images(t)...)
	hub, agent := w.helm(t, "fairlead"), w.helm(t, "fairlead-system")
	upgradeHub := func(accept string) {
		t.Helper()
		if err := hub.upgrade(t.Context(), "fairlead", hubChart, haValues+"unsignedMembers: "+accept+"\n", patience); err != nil {
			t.Fatal(err)
		}
	}

	before, _, _ := strings.Cut(haValues, "test:") // the earlier chart has no tests
	w.installHubBy(t, filepath.Join(earlier.tree, "deploy/charts/hub"), strings.Replace(before, "registry: fairlead", "registry: early", 1))
	w.serveGit(t)
	w.run(earlier.programs(t))
	w.fairlead(t, "", "login", hubURL, "--hub-secret-file", filepath.Join(w.secrets, "hub/hub.secret"), "--ca-file", filepath.Join(w.secrets, "tls/ca.crt"))
	values := w.agentValues(t, "early/agent")
	w.installAgentBy(t, filepath.Join(earlier.tree, "deploy/charts/agent"), values)
	values = strings.Replace(values, "early/agent", "fairlead/agent", 1)
	w.write(t, "still/still.yaml", still)
	w.push(t, "0")
	w.fairlead(t, catalog+stillCatalog, "apply", "-f", filepath.Join(w.secrets, "git/secret.yaml"), "-f", "-")
	w.awaitRunning(t, "0")
	applied := w.awaitStill(t)
	load := w.startLoad(t)
	failed := 0
	step := func(what string, do func()) {
		t.Helper()
		began := time.Now()
		do()
		load.pause(func() { w.awaitRunning(t, load.last()) })
		if now := w.awaitStill(t); now != applied {
			t.Errorf("%s: an object that no commit changed was %s, and is %s", what, applied, now)
			applied = now
		}
		t.Logf("%s: all is delivered %.1f s after its start", what, time.Since(began).Seconds())
	}
	halfway := func(what string) {
		t.Helper()
		step(what, func() {
			select {
			case <-time.After(*halfwayFor):
			case <-t.Context().Done():
			}
		})
	}

	step("the hub is upgraded", func() { upgradeHub("accept") })
	w.run(w.bins.Dir)
	halfway("a hub of today, an agent of before")
	failed += w.failedSyncs(t)
	step("the agent is upgraded", func() {
		if err := agent.upgrade(t.Context(), "fairlead-agent", agentChart, values, patience); err != nil {
			t.Fatal(err)
		}
	})
	step("what is not signed is refused", func() { upgradeHub("refuse") })
	load.pause(func() { w.awaitWell(t, "the upgrade", load.last()) })

	step("what is not signed is accepted", func() { upgradeHub("accept") })
	step("the hub goes back", func() {
		if err := hub.rollback("fairlead", 1, patience); err != nil {
			t.Fatal(err)
		}
	})
	w.run(earlier.programs(t))
	halfway("a hub of before, an agent of today")
	failed += w.failedSyncs(t)
	step("the agent goes back", func() {
		if err := agent.rollback("fairlead-agent", 1, patience); err != nil {
			t.Fatal(err)
		}
	})
	failed += w.failedSyncs(t)

	step("the agent is upgraded first", func() {
		if err := agent.upgrade(t.Context(), "fairlead-agent", agentChart, values, patience); err != nil {
			t.Fatal(err)
		}
	})
	step("the hub follows", func() { upgradeHub("accept") })
	w.run(w.bins.Dir)
	step("what is not signed is refused again", func() { upgradeHub("refuse") })
	load.pause(func() { w.awaitWell(t, "the second upgrade", load.last()) })
	failed += w.failedSyncs(t)
	t.Logf("BENCH nodes.skew_failed_syncs %d syncs", failed)
	if failed > 0 {
		t.Errorf("%d Syncs failed", failed)
	}
	load.end(t)
	w.lookThroughTunnel(t, load.last())
	w.helmTest(t)
}

const stillCatalog = `---
apiVersion: fairlead.dev/v1
kind: Service
metadata: {name: still}
spec: {source: sample, path: still, cluster: edge, namespace: web}
`

// still is what no commit changes.
const still = `apiVersion: v1
kind: ConfigMap
metadata: {name: still}
data: {a: b}
`

// awaitStill returns the version of an object that no commit changes, and since when its fields are as they are.
func (w *world) awaitStill(t *testing.T) (applied string) {
	t.Helper()
	w.await(t, "what no commit changes is there", func(ctx context.Context) (err error) {
		text, err := w.tryKubectl(ctx, "", "get", "configmap/still", "--namespace=web", "--show-managed-fields", "--output=json")
		if err != nil {
			return err
		}
		var object struct {
			Metadata struct {
				UID, ResourceVersion string
				ManagedFields        []struct{ Manager, Time string }
			}
		}
		err = json.Unmarshal([]byte(text), &object)
		applied = fmt.Sprint(object.Metadata)
		return err
	})
	return applied
}

// checkout is the tree of an earlier commit.
type checkout struct{ tree string }

// checkOut unpacks a commit. In a clone without its history the test is skipped, and says so.
func checkOut(t *testing.T, commit string) *checkout {
	t.Helper()
	c := &checkout{tree: filepath.Join(t.TempDir(), "tree")}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	top, err := commits.Find(ctx, ".", commit)
	if errors.Is(err, commits.ErrHistory) {
		t.Skipf("no upgrade on nodes is tested: %v", err)
	}
	if err == nil {
		err = commits.CheckOut(ctx, top, commit, c.tree)
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// images makes the product's images of the commit, in the registry "early".
func (c *checkout) images(t *testing.T) []string {
	t.Helper()
	names := []string{"console", "gitcache", "distributor", "tunnel", "agent", "cli"}
	return makeImages(t, c.tree, filepath.Join(filepath.Dir(c.tree), "images"), "early", names)
}

// programs returns a folder with the command of the commit.
func (c *checkout) programs(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(filepath.Dir(c.tree), "programs")
	if _, err := os.Stat(dir); err == nil {
		return dir
	}
	ctx, cancel := context.WithTimeout(t.Context(), buildLimit)
	defer cancel()
	if _, err := process.Run(ctx, []string{"GOWORK=", "CGO_ENABLED=0", "GOFLAGS=-trimpath"}, "", "go", "-C", c.tree, "build", "-o", filepath.Join(dir, "fairlead"), "./cli/cmd/fairlead"); err != nil {
		t.Fatal(err)
	}
	return dir
}
