// Command registrylocal is a real registry (distribution v3) and the real clients of registries (Helm's, and ORAS'), for tests.
// The registry is not for real work: its data are in memory, and gone when it ends.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

const usage = `usage:
  registrylocal serve FOLDER [-auth none|basic|token] [-plain] [-listen ADDRESS] [-notify URL -token TOKEN]
  registrylocal helm-push FOLDER REPOSITORY:TAG PACKAGE
  registrylocal oras-push FOLDER REPOSITORY:TAG ARTIFACT-TYPE FILE:MEDIA-TYPE...
  registrylocal oras-pull FOLDER REPOSITORY:TAG|REPOSITORY@DIGEST TO`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "registrylocal:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) < 2 {
		return fmt.Errorf("no command\n%s", usage)
	}
	command, folder, rest := args[0], args[1], args[2:]
	switch {
	case command == "serve":
		return serve(ctx, folder, rest)
	case command == "helm-push" && len(rest) == 2:
		return helmPush(folder, rest[0], rest[1])
	case command == "oras-push" && len(rest) > 2:
		return orasPush(ctx, folder, rest[0], rest[1], rest[2:])
	case command == "oras-pull" && len(rest) == 2:
		return orasPull(ctx, folder, rest[0], rest[1])
	}
	return fmt.Errorf("can't read %q\n%s", args, usage)
}
