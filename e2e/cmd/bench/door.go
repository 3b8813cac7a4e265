package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"

	"fairlead.dev/e2e/process"
	"fairlead.dev/e2e/stack"
)

// distributorSync compares an unchanged Sync with a call that does nothing.
func distributorSync(ctx context.Context, _ stack.Binaries, dir string, stdout io.Writer) error {
	seen, err := measureDoor(ctx, dir, "-streams", "0")
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "BENCH distributor.sync_per_core_second %.0f calls\n", seen["sync_per_core_second"])
	fmt.Fprintf(stdout, "BENCH distributor.empty_per_core_second %.0f calls\n", seen["empty_per_core_second"])
	fmt.Fprintf(stdout, "BENCH distributor.sync_vs_empty_handler %.2f x\n", seen["sync_per_core_second"]/seen["empty_per_core_second"])
	return nil
}

// distributorWatch weighs idle Watch streams beside streams that do nothing.
func distributorWatch(ctx context.Context, _ stack.Binaries, dir string, stdout io.Writer) error {
	seen, err := measureDoor(ctx, dir, "-rounds", "0")
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "BENCH distributor.watch_kib %.1f KiB\n", seen["delivery_stream_kib"])
	fmt.Fprintf(stdout, "BENCH distributor.empty_stream_kib %.1f KiB\n", seen["empty_stream_kib"])
	fmt.Fprintf(stdout, "BENCH distributor.watch_cores_10000 %.3f cores\n", seen["delivery_stream_cores_10000"])
	return nil
}

// measureDoor runs the distributor's own benchmark program, which starts its servers as processes.
func measureDoor(ctx context.Context, dir string, args ...string) (map[string]float64, error) {
	program := filepath.Join(dir, "benchmark")
	if _, err := process.Run(ctx, nil, "", "go", "build", "-o", program, "fairlead.dev/services/distributor/internal/benchmark"); err != nil {
		return nil, err
	}
	out, err := process.Run(ctx, nil, "", program, args...)
	if err != nil {
		return nil, err
	}
	seen := map[string]float64{}
	for lines := bufio.NewScanner(strings.NewReader(out)); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), " ")
		if seen[name], err = strconv.ParseFloat(value, 64); err != nil {
			return nil, fmt.Errorf("read %q: %w", lines.Text(), err)
		}
	}
	return seen, nil
}
