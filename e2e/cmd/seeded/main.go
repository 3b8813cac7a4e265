// Command seeded runs a console with a seeded fleet: it prints an address that logs a browser in and waits, or takes
// the pictures of the pages.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"fairlead.dev/e2e/seeded"
	"fairlead.dev/e2e/stack"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "seeded:", err)
		os.Exit(1) //nolint:gocritic // stop only unhooks signals
	}
}

func run(ctx context.Context, args []string, stdout io.Writer) (err error) {
	var size seeded.Size
	flags := flag.NewFlagSet("seeded", flag.ContinueOnError)
	flags.IntVar(&size.Clusters, "clusters", 400, "clusters of the fleet")
	flags.IntVar(&size.Services, "services", 2000, "services of the fleet")
	flags.IntVar(&size.Sources, "sources", 20, "sources of the fleet")
	flags.IntVar(&size.Objects, "objects", 1500, "objects of one service")
	screenshots := flags.String("screenshots", "", "`folder` for pictures of the pages; without it the console runs until it is interrupted")
	pictures := flags.String("pictures", "", "`folder` for those that the documentation shows")
	if err := flags.Parse(args); err != nil {
		return err
	}
	bins, err := stack.FindBinaries(ctx, ".")
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "fairlead-seeded-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	c, err := seeded.Start(ctx, bins, dir, size)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()
	link, err := c.LoginLink(ctx)
	if err != nil {
		return err
	}
	if *screenshots != "" {
		return shoot(ctx, bins, link, *screenshots, *pictures, stdout)
	}
	if _, err := fmt.Fprintln(stdout, link); err != nil {
		return err
	}
	changes := time.NewTicker(2 * time.Second)
	defer changes.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-changes.C:
			if _, err := c.Change(ctx); err != nil && ctx.Err() == nil {
				return err
			}
		}
	}
}

// shoot takes the pictures. Those of the documentation go into another folder, too, if there is one.
func shoot(ctx context.Context, bins stack.Binaries, link, dir, pictures string, stdout io.Writer) error {
	root := filepath.Dir(bins.Dir)
	chromium, err := exec.LookPath("chromium-headless-shell")
	if err != nil {
		return errors.New("no browser: run tools/install.sh")
	}
	if text, err := exec.CommandContext(ctx, filepath.Join(root, "tools/buf.sh"), "--prepare").CombinedOutput(); err != nil {
		return fmt.Errorf("install playwright: %w\n%s", err, text)
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "node", filepath.Join(root, "e2e/browser/screenshots.mjs"), chromium, strings.TrimSpace(link), dir, pictures)
	cmd.Env = append(os.Environ(), "NODE_MODULES="+filepath.Join(root, "tools/node_modules"))
	cmd.Stdout, cmd.Stderr = stdout, os.Stderr
	return cmd.Run()
}
