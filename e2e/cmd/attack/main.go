// Command attack starts the hub, two clusters and their agents, sends the corpus of attacks to them, and fails if one
// of them was not withstood.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"syscall"
	"time"

	"fairlead.dev/e2e/attack"
	"fairlead.dev/e2e/stack"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "ATTACK failed:", err)
		os.Exit(1) //nolint:gocritic // stop only unhooks signals
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	flags := flag.NewFlagSet("attack", flag.ContinueOnError)
	flags.SetOutput(stderr)
	short := flags.Bool("short", false, "leave out the attacks that take longer than seconds")
	only := flags.String("run", "", "send the attacks whose name or CVE fits this regular expression, and no others")
	list := flags.Bool("list", false, "print the attacks without sending any")
	keep := flags.Bool("keep", false, "keep the temporary data, to look at it after a failure")
	timeout := flags.Duration("timeout", time.Hour, "give up after this long")
	if err := flags.Parse(args); err != nil {
		return err
	}
	attacks, err := choose(*short, *only)
	if err != nil {
		return err
	}
	if *list {
		for _, a := range attacks {
			fmt.Fprintln(stdout, a.Part, a.Name, a.CVE)
		}
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, *timeout, fmt.Errorf("gave up after %s", *timeout))
	defer cancel()
	bins, err := stack.FindBinaries(ctx, ".")
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "fairlead-attack-")
	if err != nil {
		return err
	}
	if *keep {
		fmt.Fprintln(stderr, "data is kept in", dir)
	} else {
		defer func() { _ = os.RemoveAll(dir) }()
	}
	begin := time.Now()
	w, err := attack.Start(ctx, bins, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Stop()) }()
	fmt.Fprintf(stderr, "everything is up after %.1f s\n", time.Since(begin).Seconds())
	result, err := attack.Run(ctx, w, attacks, stdout)
	if err != nil {
		return err
	}
	if !result.Ok() {
		return errors.New(result.String())
	}
	fmt.Fprintln(stdout, "ATTACK ok", result)
	return nil
}

func choose(short bool, only string) ([]attack.Attack, error) {
	attacks := attack.Corpus()
	if short {
		attacks = attack.Short()
	}
	fits, err := regexp.Compile(only)
	if err != nil {
		return nil, fmt.Errorf("-run: %w", err)
	}
	attacks = slices.DeleteFunc(attacks, func(a attack.Attack) bool {
		return !fits.MatchString(a.Name) && !slices.ContainsFunc(a.CVE, fits.MatchString)
	})
	if len(attacks) == 0 {
		return nil, fmt.Errorf("no attack fits %q", only)
	}
	return attacks, nil
}
