// Command benchmark measures parts of the gitcache beside go-git in one process, for
// `make bench BENCH=gitcache`: what it costs to learn that nothing changed upstream.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-git/go-git/v5"

	"fairlead.dev/services/gitcache/internal/fetch"
	"fairlead.dev/services/gitcache/internal/fetch/gitwire"
	"fairlead.dev/services/gitcache/internal/upstream"
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
	url := flags.String("url", "", "`URL` of the repository, on this machine")
	mirror := flags.String("mirror", "", "`folder` with a bare clone of it that is up to date")
	rounds := flags.Int("rounds", 50, "how often")
	if err := flags.Parse(args); err != nil {
		return err
	}
	remote, err := upstream.ParseURL(*url)
	if err != nil {
		return err
	}
	loopback := upstream.NewPolicy([]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")})
	fetcher, err := fetch.New(upstream.Options{Addresses: loopback}) //nolint:contextcheck // it asks git for its version, once
	if err != nil {
		return err
	}
	defer fetcher.Close()
	list := func() error {
		l, err := fetcher.List(ctx, upstream.Remote{URL: remote}, gitwire.Names{Refs: []string{"HEAD", "refs/heads/main"}})
		if err == nil && len(l.Refs) == 0 {
			err = errors.New("the list of refs is empty")
		}
		return err
	}
	// Opened each time, as whoever keeps thousands of mirrors on disk must.
	noChange := func() error {
		repo, err := git.PlainOpen(*mirror)
		if err != nil {
			return err
		}
		if err := repo.FetchContext(ctx, &git.FetchOptions{}); !errors.Is(err, git.NoErrAlreadyUpToDate) {
			return fmt.Errorf("fetch of no change: %w", err)
		}
		return nil
	}
	for _, m := range []struct {
		name string
		do   func() error
	}{{"list", list}, {"fetch", noChange}} {
		used, err := measure(*rounds, m.do)
		if err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		fmt.Fprintln(stdout, m.name, used.Nanoseconds())
	}
	return nil
}

// measure returns the CPU time of one round.
func measure(rounds int, do func() error) (time.Duration, error) {
	if err := do(); err != nil { // warms up
		return 0, err
	}
	before, err := used()
	if err != nil {
		return 0, err
	}
	for range rounds {
		if err := do(); err != nil {
			return 0, err
		}
	}
	after, err := used()
	return (after - before) / time.Duration(rounds), err
}

// used is the CPU time of this process.
func used() (time.Duration, error) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, err
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), nil
}
