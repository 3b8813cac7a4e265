// Command s3local is a real S3 server (versitygw, over a folder) and a real client of it (the AWS SDK), for tests. The server is not for real
// work.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

const usage = `usage:
  s3local serve FOLDER [-plain]
  s3local change FOLDER BUCKET [-versioned] < {"put": {"KEY": "BASE64"}, "remove": ["KEY"]}`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "s3local:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) < 2 {
		return fmt.Errorf("no command\n%s", usage)
	}
	command, rest := args[0], args[2:]
	folder, err := filepath.Abs(args[1])
	if err != nil {
		return err
	}
	switch {
	case command == "serve":
		return serve(ctx, folder, rest)
	case command == "change" && len(rest) > 0:
		return change(ctx, folder, rest[0], len(rest) > 1 && rest[1] == "-versioned", os.Stdin)
	}
	return fmt.Errorf("can't read %q\n%s", args, usage)
}
