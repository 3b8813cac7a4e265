// Command benchmark measures the agents' door of the distributor, for `make bench BENCH=distributor`: what an
// unchanged Sync costs beside an empty Connect handler, and what an idle Watch stream weighs. Each server is
// a process of its own: this very program, started again.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "benchmark:", err)
		os.Exit(1) //nolint:gocritic // stop only unhooks signals
	}
}

func run(ctx context.Context, args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("benchmark", flag.ContinueOnError)
	serves := flags.String("serve", "", "be a server: empty or delivery")
	rounds := flags.Int("rounds", 10, "how often each server answers calls; 0: never")
	round := flags.Duration("round", 2*time.Second, "how long each time")
	streams := flags.Int("streams", 1000, "how many Watch streams are weighed; 0: none")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *serves != "" {
		return serve(ctx, *serves, stdout)
	}
	if *rounds > 0 {
		if err := syncs(ctx, *rounds, *round, stdout); err != nil {
			return err
		}
	}
	if *streams == 0 {
		return nil
	}
	dir, err := os.MkdirTemp("", "fairlead-benchmark-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	for _, what := range []string{"empty", "delivery"} {
		if err := watches(ctx, what, dir, *streams, stdout); err != nil {
			return err
		}
	}
	return nil
}
