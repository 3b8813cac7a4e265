// Command images makes the container images of Fairlead without Docker and without a registry: static programs, on
// nothing, run by nobody. The same commit gives the same digests. `images release` makes everything that people get of a version.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "images:", err)
		os.Exit(1)
	}
}

type options struct {
	root, out, registry, tag string
	platforms, only          string
	tryOut, standIns         bool
}

func run(ctx context.Context, args []string, stdout io.Writer) error {
	if len(args) > 0 && args[0] == "release" {
		return runRelease(ctx, args[1:], stdout)
	}
	var o options
	fs := flag.NewFlagSet("images", flag.ContinueOnError)
	fs.StringVar(&o.root, "root", ".", "`folder` of the repository")
	fs.StringVar(&o.out, "out", "bin/images", "`folder` for the images")
	fs.StringVar(&o.registry, "registry", "fairlead", "what comes before the `name` of an image")
	fs.StringVar(&o.tag, "tag", "dev", "`tag` of what Docker loads")
	fs.StringVar(&o.platforms, "platforms", thisPlatform().String(), "comma-separated `platforms`")
	fs.StringVar(&o.only, "only", "", "comma-separated `names` of images; default: all")
	fs.BoolVar(&o.tryOut, "try-out", false, "also the images of docker-compose.yml that are not for production: git and kubernetes")
	fs.BoolVar(&o.standIns, "stand-ins", false, "also redis, postgres, haproxy, prometheus and the collector, made of what is installed or built here, for tests without a registry")
	if err := fs.Parse(args); err != nil {
		return err
	}
	return o.make(ctx, stdout)
}

func (o options) make(ctx context.Context, stdout io.Writer) error {
	root, err := filepath.Abs(o.root)
	if err != nil {
		return err
	}
	platforms, err := parsePlatforms(o.platforms)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(o.out, 0o755); err != nil { //nolint:gosec // public
		return err
	}
	binaries, err := os.MkdirTemp("", "fairlead-images-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(binaries) }() // files that stay harm nobody
	s := readSource(ctx, root)
	for _, of := range o.wanted() {
		tag, on := o.registry+"/"+of.name+":"+o.tag, platforms
		if strings.Contains(of.name, ":") {
			tag = of.name
		}
		if of.local != nil {
			on = []platform{thisPlatform()}
		}
		r, err := s.produce(ctx, of, on, o.out, tag, binaries)
		if err != nil {
			return fmt.Errorf("%s: %w", of.name, err)
		}
		fmt.Fprintf(stdout, "%-28s %s %6.1f MB\n", tag, r.digest, float64(r.bytes)/1e6)
	}
	return nil
}

func (o options) wanted() []image {
	all := released()
	if o.tryOut {
		all = append(all, tryOut()...)
	}
	if o.standIns {
		all = append(all, standIns()...)
	}
	if o.only == "" {
		return all
	}
	only := strings.Split(o.only, ",")
	return slices.DeleteFunc(all, func(i image) bool { return !slices.Contains(only, fileName(i)) })
}

func parsePlatforms(list string) ([]platform, error) {
	var platforms []platform
	for p := range strings.SplitSeq(list, ",") {
		system, arch, ok := strings.Cut(p, "/")
		if !ok || system != "linux" || arch == "" {
			return nil, fmt.Errorf("platform %q: must be such as linux/arm64", p)
		}
		platforms = append(platforms, platform{system, arch})
	}
	return platforms, nil
}
