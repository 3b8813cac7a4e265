package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"fairlead.dev/e2e/stack"
)

// ship measures how long a pushed commit takes to be live in two clusters, beside the time that
// `kubectl apply --server-side` needs for the same folder in the same clusters, one after the other.
func ship(ctx context.Context, bins stack.Binaries, dir string, stdout io.Writer) (err error) {
	s, err := stack.Up(ctx, bins, dir)
	if err != nil {
		return err
	}
	defer func() {
		if stopErr := s.Stop(); err == nil {
			err = stopErr
		}
	}()
	sh, err := s.NewShip(ctx, "bench", "bench")
	if err != nil {
		return err
	}
	if _, err := sh.Deliver(ctx, "warm"); err != nil {
		return err
	}
	const rounds = 11
	var shipped, applied []time.Duration
	for i := range rounds {
		took, err := sh.Deliver(ctx, strconv.Itoa(i))
		if err != nil {
			return err
		}
		shipped = append(shipped, took)
		begin := time.Now()
		if err := sh.ApplyByHand(ctx); err != nil {
			return err
		}
		applied = append(applied, time.Since(begin))
	}
	slices.Sort(shipped)
	slices.Sort(applied)
	fmt.Fprintf(stdout, "BENCH ship.commit_to_applied_p50 %d ms\n", shipped[rounds/2].Milliseconds())
	fmt.Fprintf(stdout, "BENCH ship.commit_to_applied_max %d ms\n", shipped[rounds-1].Milliseconds())
	fmt.Fprintf(stdout, "BENCH ship.kubectl_apply_p50 %d ms\n", applied[rounds/2].Milliseconds())
	fmt.Fprintf(stdout, "BENCH ship.vs_kubectl_apply %.2f x\n", shipped[rounds/2].Seconds()/applied[rounds/2].Seconds())
	return nil
}
