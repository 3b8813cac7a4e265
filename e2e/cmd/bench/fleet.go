package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"fairlead.dev/e2e/fleet"
	"fairlead.dev/e2e/stack"
)

// distributorAll measures the edge.
func distributorAll(ctx context.Context, bins stack.Binaries, dir string, stdout io.Writer) error {
	for _, part := range []bench{distributorSync, distributorWatch, distributorArtifacts, distributorFleet} {
		if err := part(ctx, bins, dir, stdout); err != nil {
			return err
		}
	}
	return nil
}

// distributorFleet measures what a large fleet costs the hub, and a small one beside it: what is left of
// the cost per cluster when nothing has to be shared.
func distributorFleet(ctx context.Context, bins stack.Binaries, _ string, stdout io.Writer) error {
	const small, large = 1000, 10_000
	one, err := runFleet(ctx, bins, small)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "BENCH distributor.cores_1000_clusters %.3f cores\n", cores(one, "distributor"))
	fmt.Fprintf(stdout, "BENCH distributor.rss_mib_1000_clusters %d MiB\n", rss(one, "distributor"))
	all, err := runFleet(ctx, bins, large)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "BENCH distributor.cores_10000_clusters %.3f cores\n", cores(all, "distributor"))
	fmt.Fprintf(stdout, "BENCH distributor.hub_cores_10000_clusters %.3f cores\n", cores(all, "console", "gitcache", "distributor", "tunnel"))
	fmt.Fprintf(stdout, "BENCH distributor.rss_mib_10000_clusters %d MiB\n", rss(all, "distributor"))
	fmt.Fprintf(stdout, "BENCH distributor.cores_per_cluster_growth_10x %.2f x\n", cores(all, "distributor")/large/(cores(one, "distributor")/small))
	fmt.Fprintf(stdout, "BENCH distributor.sync_p99_ms %.1f ms\n", milliseconds(all.Stats.Calls["sync unchanged"].Quantile(0.99)))
	fmt.Fprintf(stdout, "BENCH distributor.push_to_agent_p95_ms %.0f ms\n", milliseconds(all.Wave.P95))
	fmt.Fprintf(stdout, "BENCH distributor.reconnect_seconds_10000 %.1f s\n", all.Reconnected.Seconds())
	return nil
}

func runFleet(ctx context.Context, bins stack.Binaries, clusters int) (*fleet.Run, error) {
	cfg := fleet.Config{
		Bins: bins.Dir, Clusters: clusters, Services: 30, Sources: 10, NextPoll: 2 * time.Minute, Duration: 4 * time.Minute,
		ChangesPerHour: 0.01, Downloads: 0.05, Tunnels: 0.1, Reconnect: true,
	}
	var err error
	if cfg.Dir, err = fleet.CacheDir(cfg); err != nil {
		return nil, err
	}
	if cfg.Executable, err = os.Executable(); err != nil {
		return nil, err
	}
	seen, err := fleet.Do(ctx, cfg, os.Stderr)
	if err != nil {
		return nil, err
	}
	return seen, seen.Fault()
}

func cores(r *fleet.Run, parts ...string) (sum float64) {
	for _, name := range parts {
		sum += usage(r, name).Cores
	}
	return sum
}

func rss(r *fleet.Run, part string) int64 { return usage(r, part).RSSMiB }

func usage(r *fleet.Run, part string) fleet.Usage {
	for _, u := range r.Steady {
		if u.Name == part {
			return u
		}
	}
	return fleet.Usage{}
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }
