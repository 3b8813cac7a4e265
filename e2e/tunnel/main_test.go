package tunnel

import (
	"context"
	"flag"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"fairlead.dev/e2e/stack"
	"fairlead.dev/platform/kubetest"
)

// patience is for a slow and busy machine; what is waited for takes a moment on a quiet one.
const patience = 3 * time.Minute

// long runs the full sizes: gigabytes and a hundred thousand requests.
var long = flag.Bool("long", false, "run with the full sizes")

// world is what the tests share: one Kubernetes API, and one hub with a way of each kind into it.
var world struct {
	once sync.Once
	err  error
	dir  string
	bins stack.Binaries
	kube *kubetest.Cluster
	hub  *hub

	aggregated *httptest.Server
}

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	if world.hub != nil {
		if err := world.hub.stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stop the hub:", err)
			code = 1
		}
	}
	if world.kube != nil {
		world.kube.Stop()
		world.aggregated.Close()
	}
	if code == 0 {
		_ = os.RemoveAll(world.dir)
	} else {
		fmt.Fprintln(os.Stderr, "logs are kept in", world.dir)
	}
	os.Exit(code)
}

// shared returns the hub that tests use as long as they break nothing of it.
func shared(t *testing.T) *hub {
	t.Helper()
	world.once.Do(func() { world.err = startWorld() })
	if world.err != nil {
		t.Fatal(world.err)
	}
	return world.hub
}

func startWorld() (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*patience)
	defer cancel()
	if world.bins, err = stack.FindBinaries(ctx, filepath.Join("..", "..")); err != nil {
		return err
	}
	if world.dir, err = os.MkdirTemp("", "fairlead-tunnel-"); err != nil {
		return err
	}
	if world.kube, err = kubetest.Start(ctx, filepath.Join(world.dir, "kube"), "edge", "--exec", "--audit-log"); err != nil {
		return err
	}
	world.aggregated = newAggregated()
	filled := make(chan error, 1)
	go func() { filled <- fill(ctx) }()
	if world.hub, err = startHub(ctx, filepath.Join(world.dir, "hub"), true); err != nil {
		return err
	}
	return <-filled
}
