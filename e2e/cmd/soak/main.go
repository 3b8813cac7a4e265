// Command soak keeps two built gitcaches busy for an hour, at ten times the usual rate of polls, and
// fails if anything grows that does not have to.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"fairlead.dev/e2e/gitcache"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "SOAK failed:", err)
		os.Exit(1) //nolint:gocritic // stop only unhooks signals
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	flags := flag.NewFlagSet("soak", flag.ContinueOnError)
	flags.SetOutput(stderr)
	duration := flags.Duration("duration", time.Hour, "how long")
	repos := flags.Int("repos", 100, "how many repositories")
	interval := flags.Duration("interval", 12*time.Second, "of polls; a tenth of the usual")
	pace := flags.Duration("pace", 300*time.Millisecond, "between two pushes")
	keep := flags.Bool("keep", false, "keep the temporary data, to look at it after a failure")
	if err := flags.Parse(args); err != nil {
		return err
	}
	bins, err := gitcache.Bins(".")
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "fairlead-soak-")
	if err != nil {
		return err
	}
	if *keep {
		fmt.Fprintln(stderr, "data is kept in", dir)
	} else {
		defer func() { _ = os.RemoveAll(dir) }()
	}
	redis, err := gitcache.StartAlone(ctx, dir)
	if err != nil {
		return err
	}
	f, err := gitcache.Start(ctx, gitcache.Config{Bins: bins, Dir: dir, Redis: redis, CacheBytes: gitcache.CacheBytes})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Stop()) }()
	if err := f.AddRepos(ctx, "repo", *repos, *interval); err != nil {
		return err
	}
	for _, name := range []string{"gitcache-0", "gitcache-1"} {
		if _, err := f.Add(ctx, name); err != nil {
			return err
		}
	}
	soak := gitcache.Soak{Duration: *duration, Pace: *pace, Readers: 2}
	if err := soak.Run(ctx, f, stdout); err != nil {
		return err
	}
	fmt.Fprintln(stdout, "\nSOAK ok")
	return nil
}
