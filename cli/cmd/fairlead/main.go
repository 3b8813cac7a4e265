// Command fairlead is the one that people use: it talks to a hub, and it can be a whole one (`fairlead up`).
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/command"
	"fairlead.dev/cli/internal/hubclient"
	"fairlead.dev/platform/flags"
)

func main() { flags.Main(run) }

// variables of the environment that commands read.
func variables() []string {
	return []string{
		hubclient.FromEnvironment, "FAIRLEAD_SERVER", "FAIRLEAD_CA_FILE", "FAIRLEAD_CONFIG", "FAIRLEAD_EDITOR",
		"FAIRLEAD_DATABASE_URL",
	}
}

func run(ctx context.Context, args []string, getenv func(string) string, stdout io.Writer) error {
	for _, warning := range flags.Mistyped(os.Environ(), variables()) {
		fmt.Fprintln(os.Stderr, "warning: "+warning)
	}
	return command.Run(ctx, args, app.IO{
		Getenv: getenv, Stdin: os.Stdin, Stdout: stdout, Stderr: os.Stderr, Now: time.Now,
	})
}
