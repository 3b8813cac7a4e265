// Command bench measures the built product beside a peer or a limit in the same run, and prints
// one line per figure: BENCH <area>.<metric> <number> <unit>.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"fairlead.dev/e2e/agent"
	"fairlead.dev/e2e/fleet"
	"fairlead.dev/e2e/paths"
	"fairlead.dev/e2e/stack"
)

// bench measures one area and prints its figures.
type bench func(ctx context.Context, bins stack.Binaries, dir string, stdout io.Writer) error

func benches() map[string]bench {
	return map[string]bench{
		"ship":             ship,
		"gitcache":         gitcacheAll,
		"gitcache-poll":    gitcachePoll,
		"gitcache-refs":    gitcacheRefs,
		"gitcache-build":   gitcacheBuild,
		"gitcache-scale":   gitcacheScale,
		"gitcache-resolve": gitcacheResolve,

		"sources":            sourcesAll,
		"sources-index":      sourcesIndex,
		"sources-registry":   sourcesRegistry,
		"sources-registries": sourcesRegistries,
		"sources-pull":       sourcesPull,

		"distributor":           distributorAll,
		"distributor-artifacts": distributorArtifacts,
		"distributor-fleet":     distributorFleet,
		"distributor-sync":      distributorSync,
		"distributor-watch":     distributorWatch,

		"agent":         agent.All,
		"agent-applies": agent.Applies,
		"agent-memory":  agent.Memory,
		"agent-storms":  agent.Storms,

		"console":       consoleAll,
		"nodes":         nodes,
		"views":         viewsAll,
		"views-cluster": agent.Views,
		"views-fleet":   viewsFleet,
		"web":           webAll,
		"web-tabs":      webTabsAlone,

		"tunnel":          paths.All,
		"tunnel-rates":    paths.Rates,
		"tunnel-cpu":      paths.CPU,
		"tunnel-counts":   paths.Counts,
		"tunnel-sessions": paths.Sessions,
	}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process, and what it has started with it
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1) //nolint:gocritic // stop only unhooks signals
	}
}

func run(ctx context.Context, args []string, stdout io.Writer) error {
	if known, err := fleet.Part(ctx, args, os.Stdin, stdout); known { // of a simulated fleet, started by this very program
		return err
	}
	if len(args) == 1 && args[0] == "tunnel-agents" { // so, too
		return paths.Agents(ctx, os.Stdin, stdout)
	}
	if len(args) > 0 && args[0] == "fileserver" { // the peer of distributor-artifacts, likewise
		return serveFiles(ctx, args[1:])
	}
	if len(args) > 0 && args[0] == "helm-pull" { // the peer of sources-pull
		return helmPull(args[1:])
	}
	names := strings.Join(slices.Sorted(maps.Keys(benches())), ", ")
	if len(args) != 1 {
		return errors.New("which one? make bench BENCH=<name>, with one of: " + names)
	}
	measure, ok := benches()[args[0]]
	if !ok {
		return fmt.Errorf("there is no bench %q; there are: %s", args[0], names)
	}
	bins, err := stack.FindBinaries(ctx, ".")
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "fairlead-bench-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	return measure(ctx, bins, dir, stdout)
}
