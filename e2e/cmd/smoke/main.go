// Command smoke proves a build: it starts everything on free ports with temporary data, sends a
// commit to two clusters, reads it back through the tunnel, and leaves nothing running.
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

	"fairlead.dev/e2e/stack"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "SMOKE failed:", err)
		os.Exit(1) //nolint:gocritic // stop only unhooks signals
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	flags := flag.NewFlagSet("smoke", flag.ContinueOnError)
	flags.SetOutput(stderr)
	keep := flags.Bool("keep", false, "keep the temporary data, to look at it after a failure")
	timeout := flags.Duration("timeout", 3*time.Minute, "give up after this long")
	if err := flags.Parse(args); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, *timeout, fmt.Errorf("gave up after %s", *timeout))
	defer cancel()

	bins, err := stack.FindBinaries(ctx, ".")
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "fairlead-smoke-")
	if err != nil {
		return err
	}
	if *keep {
		fmt.Fprintln(stderr, "data is kept in", dir)
	} else {
		defer func() { _ = os.RemoveAll(dir) }()
	}

	begin := time.Now()
	s, err := stack.Up(ctx, bins, dir)
	if err != nil {
		return err
	}
	defer func() {
		if stopErr := s.Stop(); err == nil {
			err = stopErr
		}
	}()
	fmt.Fprintf(stderr, "everything is up after %.1f s\n", time.Since(begin).Seconds())

	ship, err := s.NewShip(ctx, "smoke", "smoke")
	if err != nil {
		return err
	}
	if err := ship.WaitApplied(ctx, "first"); err != nil {
		return err
	}
	took, err := ship.Deliver(ctx, "second")
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "SMOKE ok commit_to_applied_seconds=%.2f\n", took.Seconds())
	return nil
}
