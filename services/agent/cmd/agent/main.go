// Command agent keeps the services of one cluster applied, as the hub wants them.
package main

import (
	"context"
	"errors"
	"flag"
	"io"
	"os"

	"fairlead.dev/platform/flags"
	"fairlead.dev/platform/telemetry"
	"fairlead.dev/platform/version"
	"fairlead.dev/services/agent"
)

func main() { flags.Main(run) }

func run(ctx context.Context, args []string, getenv func(string) string, stdout io.Writer) error {
	fs := flag.NewFlagSet("agent", flag.ContinueOnError)
	fs.SetOutput(stdout)
	var cfg agent.Config
	cfg.RegisterFlags(fs)
	var logs telemetry.LogConfig
	logs.RegisterFlags(fs)
	if err := flags.Parse(fs, args, getenv); err != nil {
		return err
	}
	log := telemetry.NewLogger(os.Stderr, logs.Level, logs.Format, fs.Name())
	tel, flush, err := telemetry.Setup(ctx, telemetry.Config{Service: fs.Name(), Version: version.String(), Log: log})
	if err != nil {
		return err
	}
	service, err := agent.New(cfg, agent.Deps{Log: log, Telemetry: tel})
	if err != nil {
		return err
	}
	return errors.Join(service.Run(ctx), flush(context.WithoutCancel(ctx)))
}
