// Package charts_test delivers made-up charts and overlays, which use what the world's charts use, through a real hub
// and a real agent to a real API server. The objects there have to be the ones that Helm and kubectl make of them.
package charts_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"

	"fairlead.dev/e2e/agent"
	"fairlead.dev/e2e/process"
	"fairlead.dev/e2e/stack"
	"fairlead.dev/platform/parallel"
	"fairlead.dev/platform/registrytest"
)

// harness is what all cases share: one hub, one cluster with its agent, one repository with a branch per version.
type harness struct {
	world     *agent.World
	config    *rest.Config
	dynamic   dynamic.Interface
	discovery discovery.DiscoveryInterface
	mapper    *restmapper.DeferredDiscoveryRESTMapper
	dir       string // has a folder per version, and in that one per case
}

var shared struct {
	once    sync.Once
	harness *harness
	err     error
}

func TestMain(m *testing.M) {
	parallel.WaitingTests()
	code := m.Run()
	if h := shared.harness; h != nil {
		if err := h.stop(code == 0); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// TestCharts delivers each case: a version after the other, each twice, and removes it; then a chart as a package, too.
func TestCharts(t *testing.T) {
	t.Parallel()
	cases, err := readCases()
	if err != nil {
		t.Fatal(err)
	}
	h := start(t, cases)
	registry := registrytest.Start(t, "-plain")
	for _, c := range cases {
		t.Run(strings.TrimPrefix(c.Name, "c"), func(t *testing.T) {
			t.Parallel()
			newRun(t, h, c).all()
			h.packaged(t, c, registry)
		})
	}
}

func start(t *testing.T, cases []*Case) *harness {
	t.Helper()
	shared.once.Do(func() {
		// The harness outlives the test that asks first.
		shared.harness = &harness{}
		shared.err = shared.harness.start(context.Background(), cases)
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.harness
}

func (h *harness) start(ctx context.Context, cases []*Case) error {
	bins, err := stack.FindBinaries(ctx, "../..")
	if err != nil {
		return err
	}
	if h.dir, err = os.MkdirTemp("", "fairlead-charts-"); err != nil {
		return err
	}
	if h.world, err = agent.Start(ctx, bins, h.dir); err != nil {
		return err
	}
	if h.config, err = clientcmd.BuildConfigFromFlags("", h.world.Kubeconfig()); err != nil {
		return err
	}
	h.world.Proxy.KeepBodies()
	h.config.QPS = -1 // no limit of the client's own
	h.config.WarningHandler = rest.NoWarnings{}
	if h.dynamic, err = dynamic.NewForConfig(h.config); err != nil {
		return err
	}
	if h.discovery, err = discovery.NewDiscoveryClientForConfig(h.config); err != nil {
		return err
	}
	h.mapper = restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(h.discovery))
	return h.push(ctx, cases)
}

// push makes a branch of each version that any case has. A case without that version has its last one there.
func (h *harness) push(ctx context.Context, cases []*Case) error {
	most := 0
	for _, c := range cases {
		most = max(most, len(c.versions))
	}
	git := func(dir string, args ...string) error {
		identity := []string{
			"-C", dir, "-c", "user.name=e2e", "-c", "user.email=e2e@example.com",
			"-c", "core.autocrlf=false", "-c", "init.defaultBranch=main",
		}
		_, err := process.Run(ctx, nil, "", "git", append(identity, args...)...)
		return err
	}
	for i := range most {
		version := fmt.Sprintf("v%d", i+1)
		dir := filepath.Join(h.dir, version)
		if err := os.Mkdir(dir, 0o700); err != nil {
			return err
		}
		for _, c := range cases {
			if err := c.write(c.versions[min(i, len(c.versions)-1)], filepath.Join(dir, c.Name)); err != nil {
				return fmt.Errorf("%s: %w", c.Name, err)
			}
		}
		for _, args := range [][]string{
			{"init", "--quiet"},
			{"add", "--all", "--force"},
			{"commit", "--quiet", "--message", version},
			{"push", "--quiet", h.world.GitURL(), "HEAD:refs/heads/" + version},
		} {
			if err := git(dir, args...); err != nil {
				return err
			}
		}
	}
	return nil
}

// stop ends everything. The folders of the parts stay where a test failed.
func (h *harness) stop(passed bool) error {
	var err error
	if h.world != nil {
		err = h.world.Stop()
	}
	if !passed || err != nil {
		return errors.Join(err, fmt.Errorf("logs are kept in %s", h.dir))
	}
	return os.RemoveAll(h.dir)
}
