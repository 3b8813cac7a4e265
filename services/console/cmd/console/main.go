// Command console is the catalog and the identities of an installation.
package main

import (
	"context"
	"errors"
	"flag"
	"io"
	"os"
	"time"

	"fairlead.dev/platform/flags"
	"fairlead.dev/platform/telemetry"
	"fairlead.dev/platform/version"
	"fairlead.dev/services/console"
)

func main() { flags.Main(run) }

func run(ctx context.Context, args []string, getenv func(string) string, stdout io.Writer) error {
	cfg, logs, fs := console.Config{}, telemetry.LogConfig{}, flag.NewFlagSet("console", flag.ContinueOnError)
	fs.SetOutput(stdout)
	cfg.RegisterFlags(fs)
	logs.RegisterFlags(fs)
	if err := flags.Parse(fs, args, getenv); err != nil {
		return err
	}
	log := telemetry.NewLogger(os.Stderr, logs.Level, logs.Format, fs.Name())
	tel, flush, err := telemetry.Setup(ctx, telemetry.Config{Service: fs.Name(), Version: version.String(), Log: log})
	if err != nil {
		return err
	}
	service, err := console.New(cfg, console.Deps{Log: log, Telemetry: tel})
	if err == nil {
		err = service.Run(ctx)
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second) // for a collector that is gone
	defer cancel()
	return errors.Join(err, flush(end))
}
