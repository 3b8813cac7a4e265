// Command fairlead is the one that people use: it talks to a hub, and it can be a whole one (`fairlead up`).
package main

import (
	"context"
	"io"
	"os"
	"time"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/command"
	"fairlead.dev/platform/flags"
)

func main() { flags.Main(run) }

func run(ctx context.Context, args []string, getenv func(string) string, stdout io.Writer) error {
	return command.Run(ctx, args, app.IO{Getenv: getenv, Stdin: os.Stdin, Stdout: stdout, Stderr: os.Stderr, Now: time.Now})
}
