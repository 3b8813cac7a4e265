package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
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

// distributorFleet measures what a large fleet costs the hub that comes to it all at once, and a small one beside it:
// what is left of the cost per cluster when nothing has to be shared. The figures are printed whatever else was seen.
func distributorFleet(ctx context.Context, bins stack.Binaries, _ string, stdout io.Writer) error {
	const small, large = 1000, 10_000
	one, _, failed := runFleet(ctx, bins, small, 0)
	printSmallFleet(stdout, one)
	if ctx.Err() != nil {
		return failed
	}
	all, floor, err := runFleet(ctx, bins, large, floorFor)
	printFirstDelivery(stdout, all)
	printLargeFleet(stdout, all)
	if floor > 0 && len(all.Steady) > 0 {
		fmt.Fprintf(stdout, "BENCH distributor.floor_cores_10000_clusters %.3f cores\n", floor)
		fmt.Fprintf(stdout, "BENCH distributor.hub_cores_vs_floor %.2f x\n", cores(all, hub()...)/floor)
	}
	if len(one.Steady) > 0 && len(all.Steady) > 0 {
		fmt.Fprintf(stdout, "BENCH distributor.cores_per_cluster_growth_10x %.2f x\n", cores(all, "distributor")/large/(cores(one, "distributor")/small))
	}
	return errors.Join(failed, err)
}

// hub are the parts of a hub.
func hub() []string { return []string{"console", "gitcache", "distributor", "tunnel"} }

// floorFor is how long the server that does nothing is measured.
const floorFor = 2 * time.Minute

func printSmallFleet(stdout io.Writer, one *fleet.Run) {
	if one.Settled > 0 {
		fmt.Fprintf(stdout, "BENCH distributor.first_delivery_s_1000 %.1f s\n", one.Settled.Seconds())
	}
	if len(one.Steady) > 0 {
		fmt.Fprintf(stdout, "BENCH distributor.cores_1000_clusters %.3f cores\n", cores(one, "distributor"))
		fmt.Fprintf(stdout, "BENCH distributor.rss_mib_1000_clusters %d MiB\n", rss(one, "distributor"))
	}
}

func printFirstDelivery(stdout io.Writer, all *fleet.Run) {
	if all.Settled == 0 {
		return
	}
	cpu := func(part string) float64 { return usageOf(all.SettledUsage, part).CPU.Seconds() }
	fmt.Fprintf(stdout, "BENCH distributor.first_delivery_s_10000 %.1f s\n", all.Settled.Seconds())
	fmt.Fprintf(stdout, "BENCH distributor.first_delivery_console_cpu_s %.1f s\n", cpu("console"))
	fmt.Fprintf(stdout, "BENCH distributor.first_delivery_distributor_cpu_s %.1f s\n", cpu("distributor"))
	fmt.Fprintf(stdout, "BENCH distributor.first_delivery_written_mib %d MiB\n", all.First.Written>>20)
	fmt.Fprintf(stdout, "BENCH distributor.first_delivery_database_mib %d MiB\n", all.First.Database>>20)
	fmt.Fprintf(stdout, "BENCH distributor.first_delivery_refused_calls %d calls\n", all.First.Refused)
	fmt.Fprintf(stdout, "BENCH distributor.apply_p99_ms_during_first_delivery %.0f ms\n", milliseconds(all.First.Applies.Quantile(0.99)))
}

func printLargeFleet(stdout io.Writer, all *fleet.Run) {
	if len(all.Steady) > 0 {
		fmt.Fprintf(stdout, "BENCH distributor.cores_10000_clusters %.3f cores\n", cores(all, "distributor"))
		fmt.Fprintf(stdout, "BENCH distributor.hub_cores_10000_clusters %.3f cores\n", cores(all, hub()...))
		fmt.Fprintf(stdout, "BENCH distributor.rss_mib_10000_clusters %d MiB\n", rss(all, "distributor"))
		fmt.Fprintf(stdout, "BENCH distributor.sync_p99_ms %.1f ms\n", milliseconds(all.Stats.Calls["sync unchanged"].Quantile(0.99)))
	}
	if all.Wave.Arrived > 0 {
		fmt.Fprintf(stdout, "BENCH distributor.push_to_agent_p95_ms_10000 %.0f ms\n", milliseconds(all.Wave.P95))
	}
	if all.Reconnected > 0 {
		fmt.Fprintf(stdout, "BENCH distributor.reconnect_seconds_10000 %.1f s\n", all.Reconnected.Seconds())
	}
}

// runFleet runs a fleet whose hub begins with nothing, and returns what was seen of it also with an error; then, for a
// while, a server that does nothing in its place.
func runFleet(ctx context.Context, bins stack.Binaries, clusters int, floorFor time.Duration) (seen *fleet.Run, floor float64, err error) {
	seen = &fleet.Run{}
	cfg := fleet.Config{
		Bins: bins.Dir, Clusters: clusters, Services: 30, Sources: 10, NextPoll: 2 * time.Minute, Duration: 4 * time.Minute,
		ChangesPerHour: 0.01, Downloads: 0.05, Tunnels: 0.1, Reconnect: true,
	}
	kept, err := fleet.CacheDir(cfg)
	if err != nil {
		return seen, 0, err
	}
	if err := os.MkdirAll(filepath.Dir(kept), 0o700); err != nil {
		return seen, 0, err
	}
	if cfg.Dir, err = os.MkdirTemp(filepath.Dir(kept), "bench-"); err != nil {
		return seen, 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(cfg.Dir)) }()
	if cfg.Executable, err = os.Executable(); err != nil {
		return seen, 0, err
	}
	ran, err := fleet.Do(ctx, cfg, os.Stderr)
	if ran != nil {
		seen = ran
	}
	if err != nil {
		return seen, 0, fmt.Errorf("a fleet of %d clusters: %w", clusters, err)
	}
	if cfg.Duration = floorFor; floorFor > 0 {
		floor, err = fleet.Floor(ctx, cfg, os.Stderr)
	}
	return seen, floor, errors.Join(seen.Fault(), err)
}

func cores(r *fleet.Run, parts ...string) (sum float64) {
	for _, name := range parts {
		sum += usage(r, name).Cores
	}
	return sum
}

func rss(r *fleet.Run, part string) int64 { return usage(r, part).RSSMiB }

func usage(r *fleet.Run, part string) fleet.Usage { return usageOf(r.Steady, part) }

func usageOf(list []fleet.Usage, part string) fleet.Usage {
	for _, u := range list {
		if u.Name == part {
			return u
		}
	}
	return fleet.Usage{}
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }
