package agent_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"

	"fairlead.dev/e2e/agent"
	"fairlead.dev/e2e/stack"
)

// shared is the world of all tests, started by the first.
var shared struct {
	once  sync.Once
	world *agent.World
	err   error
	dir   string
}

func start() (*agent.World, error) {
	shared.once.Do(func() {
		ctx := context.Background()
		bins, err := stack.FindBinaries(ctx, "../..")
		if err != nil {
			shared.err = err
			return
		}
		if shared.dir, shared.err = os.MkdirTemp("", "fairlead-storms-"); shared.err == nil {
			shared.world, shared.err = agent.Start(ctx, bins, shared.dir)
		}
	})
	return shared.world, shared.err
}

func TestMain(m *testing.M) {
	code := m.Run()
	if shared.world != nil {
		if err := shared.world.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stop:", err)
			code = 1
		}
	}
	if code == 0 && shared.dir != "" {
		_ = os.RemoveAll(shared.dir)
	} else if shared.dir != "" {
		fmt.Fprintln(os.Stderr, "logs are kept in", shared.dir)
	}
	os.Exit(code)
}

func weather(t *testing.T, storm agent.Storm) {
	t.Helper()
	world, err := start()
	if err != nil {
		t.Fatal(err)
	}
	said, err := storm(t.Context(), world)
	if err != nil {
		t.Fatalf("%v\nlast words of the agent:\n%s", err, world.Agent.Tail())
	}
	t.Log(said)
}

// Storms that hit everybody come first, one after the other; the rest at once. In full size, such as with 300 CRDs,
// they are `make bench BENCH=agent-storms`.

func TestAPIServerRestart(t *testing.T) { weather(t, agent.Restarted(1)) }

func TestCompactionGives410(t *testing.T) { weather(t, agent.Expired(100)) }

func TestThrottledAPIServer(t *testing.T) {
	t.Parallel()
	weather(t, agent.Throttled(100))
}

func TestDriftStorm(t *testing.T) {
	t.Parallel()
	weather(t, agent.Drift(2000))
}

func TestSlowWebhook(t *testing.T) {
	t.Parallel()
	weather(t, agent.SlowWebhook(40))
}

func TestManyCRDs(t *testing.T) {
	t.Parallel()
	weather(t, agent.Kinds(60))
}

func TestDoubleEdit(t *testing.T) {
	t.Parallel()
	weather(t, agent.DoubleEdit(10))
}

func TestFightingController(t *testing.T) {
	t.Parallel()
	weather(t, agent.Fight())
}

func TestStrippedLabel(t *testing.T) {
	t.Parallel()
	weather(t, agent.StrippedLabel(10))
}
