package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"fairlead.dev/e2e/agent"
	"fairlead.dev/e2e/fleet"
	"fairlead.dev/e2e/stack"
)

// viewsAll measures views in a cluster, and views of a fleet.
func viewsAll(ctx context.Context, bins stack.Binaries, dir string, stdout io.Writer) error {
	return errors.Join(agent.Views(ctx, bins, dir, stdout), viewsFleet(ctx, bins, dir, stdout))
}

// viewsFleet measures what the views of 10,000 clusters cost the hub, of which one in a hundred changes each second.
func viewsFleet(ctx context.Context, bins stack.Binaries, dir string, stdout io.Writer) error {
	const clusters = 10_000
	cfg := fleet.Config{
		Bins: bins.Dir, Clusters: clusters, Services: 1, Sources: 1, NextPoll: 2 * time.Minute, Duration: 2 * time.Minute, ViewsPerSecond: clusters / 100,
	}
	var err error
	if cfg.Dir, err = os.MkdirTemp(dir, "views-"); err != nil {
		return err
	}
	if cfg.Executable, err = os.Executable(); err != nil {
		return err
	}
	ran, err := fleet.Do(ctx, cfg, os.Stderr)
	if ran != nil && ran.Views.Lists.Count > 0 {
		is := ran.Views
		fmt.Fprintf(stdout, "BENCH views.pushes_per_second %.0f pushes/s\n", is.Rate)
		fmt.Fprintf(stdout, "BENCH views.hub_cores_10000_clusters %.3f cores\n", is.Busy-is.Quiet)
		fmt.Fprintf(stdout, "BENCH views.hub_bytes_per_cluster %d bytes\n", is.Memory/clusters)
		fmt.Fprintf(stdout, "BENCH views.database_bytes_per_cluster %d bytes\n", is.Database/clusters)
		fmt.Fprintf(stdout, "BENCH views.list_10000_p50_ms %.1f ms\n", milliseconds(is.Lists.Quantile(0.5)))
		fmt.Fprintf(stdout, "BENCH views.list_10000_p99_ms %.1f ms\n", milliseconds(is.Lists.Quantile(0.99)))
	}
	if err != nil {
		return fmt.Errorf("views of a fleet: %w", err)
	}
	return ran.Fault()
}
