// Command fleet runs the built hub under a simulated fleet of agents and says what that costs. The program calls itself
// for the processes that simulate.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"fairlead.dev/e2e/fleet"
	"fairlead.dev/e2e/gitcache"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process, and what it has started with it
	if err := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "FLEET failed:", err)
		os.Exit(1) //nolint:gocritic // stop only unhooks signals
	}
}

func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) (err error) {
	if known, err := fleet.Part(ctx, args, stdin, stdout); known {
		return err
	}
	flags := flag.NewFlagSet("fleet", flag.ContinueOnError)
	flags.SetOutput(stderr)
	var cfg fleet.Config
	flags.IntVar(&cfg.Clusters, "clusters", 1000, "how many clusters")
	flags.IntVar(&cfg.Services, "services", 30, "how many services on each")
	flags.IntVar(&cfg.Sources, "sources", 10, "how many sources they are from")
	flags.BoolVar(&cfg.Postgres, "postgres", false, "PostgreSQL instead of SQLite; nothing is kept for the next run")
	flags.BoolVar(&cfg.Plaintext, "plaintext", false, "no TLS, as behind a proxy that ends it")
	flags.DurationVar(&cfg.NextPoll, "next-poll", 2*time.Minute, "mean time between two polls of an agent")
	flags.DurationVar(&cfg.Duration, "duration", 4*time.Minute, "how long the steady state is measured")
	flags.Float64Var(&cfg.ChangesPerHour, "changes", 0.01, "share of services that change per hour")
	flags.Float64Var(&cfg.Downloads, "downloads", 0.05, "share of deliveries that are really downloaded")
	flags.Float64Var(&cfg.Tunnels, "tunnels", 0.1, "share of agents with an idle tunnel session")
	flags.BoolVar(&cfg.Faults, "faults", false, "two distributors, and at the end outages of all that is behind them, bad caches, a full disk")
	flags.DurationVar(&cfg.Hold, "hold", time.Minute, "how long each outage lasts")
	flags.BoolVar(&cfg.Reconnect, "reconnect", false, "kill the distributor at the end, and wait until all agents are back")
	flags.StringVar(&cfg.Disturb, "disturb", "", "what happens when half is delivered for the first time: kill (console and distributor, by SIGKILL) or starve (half of the processors are taken away for a minute)")
	elsewhere := fleet.Elsewhere{URLs: map[string]string{}}
	flags.Func("hub", "`PART=URL` of a hub that runs already, once for console, gitcache, distributor and tunnel; default: the run starts one", func(text string) error {
		part, url, found := strings.Cut(text, "=")
		if !found {
			return errors.New("must be PART=URL")
		}
		elsewhere.URLs[part], cfg.Elsewhere = url, &elsewhere
		return nil
	})
	flags.StringVar(&elsewhere.Secrets, "secrets", "", "with -hub: the `folder` that \"fairlead init --git\" made for the hub, whose Secret \"git\" is in the hub")
	flags.StringVar(&elsewhere.GitListen, "git-listen", "", "with -hub: `address` for the sources' Git server, which the gitcaches must reach")
	floor := flags.Bool("floor", false, "measure a server that does nothing at the end, with the same agents")
	flags.StringVar(&cfg.Dir, "dir", "", "`folder` for all data, with what was prepared for the next run of this size, and of no other; default: one in the user's cache")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if cfg.Elsewhere == nil {
		if cfg.Bins, err = gitcache.Bins("."); err != nil {
			return err
		}
	}
	if cfg.Executable, err = os.Executable(); err != nil {
		return err
	}
	end, err := folder(&cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	fmt.Fprintln(stderr, "data is in", cfg.Dir)
	seen, err := fleet.Do(ctx, cfg, stderr)
	if seen != nil && seen.Settled > 0 { // also what was seen before something failed
		seen.Print(stdout)
	}
	if err != nil {
		return err
	}
	if *floor {
		cores, err := fleet.Floor(ctx, cfg, stderr)
		if err != nil {
			return errors.Join(err, seen.Fault())
		}
		fmt.Fprintf(stdout, "a server that does nothing: %.3f cores\n", cores)
	}
	return seen.Fault()
}

// folder chooses where the data is. The data in PostgreSQL ends with the run, and a hub elsewhere may be another one
// next time, so nothing is kept then.
func folder(cfg *fleet.Config) (end func() error, err error) {
	if cfg.Dir != "" {
		return func() error { return nil }, nil
	}
	if cfg.Postgres || cfg.Elsewhere != nil {
		cfg.Dir, err = os.MkdirTemp("", "fairlead-fleet-")
		return func() error { return os.RemoveAll(cfg.Dir) }, err
	}
	cfg.Dir, err = fleet.CacheDir(*cfg)
	return func() error { return nil }, err
}
