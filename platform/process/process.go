// Package process is the process of a deployable: flags, log, telemetry, the service itself, and a
// flush of what was observed.
package process

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"fairlead.dev/platform/flags"
	"fairlead.dev/platform/telemetry"
	"fairlead.dev/platform/version"
)

// flushLimit bounds the last flush: the collector may be gone.
const flushLimit = 5 * time.Second

// Config has the flags of a service.
type Config interface{ RegisterFlags(fs *flag.FlagSet) }

// Service runs until ctx ends.
type Service interface {
	Run(ctx context.Context) error
}

// New makes the service once its configuration is filled in.
type New func(log *slog.Logger, tel *telemetry.Telemetry) (Service, error)

// Main is the main function of a deployable, with its verb "healthcheck". Main does not return after an error.
func Main(name string, cfg Config, start New) { flags.Main(Command(name, cfg, start)) }

// Command is what Main runs, for programs that are more than one service.
func Command(name string, cfg Config, start New) func(context.Context, []string, func(string) string, io.Writer) error {
	return func(ctx context.Context, args []string, getenv func(string) string, stdout io.Writer) error {
		fs := flag.NewFlagSet(name, flag.ContinueOnError)
		fs.SetOutput(stdout)
		cfg.RegisterFlags(fs)
		var logs telemetry.LogConfig
		logs.RegisterFlags(fs)
		check, what := len(args) > 0 && args[0] == "healthcheck", asked{}
		if check {
			args = args[1:]
			what.register(fs)
		}
		if err := flags.Parse(fs, args, getenv); err != nil {
			if errors.Is(err, flags.ErrHelp) {
				fmt.Fprintf(stdout, healthcheckHelp, name)
			}
			return err
		}
		if check {
			return healthcheck(ctx, fs, what, stdout)
		}
		log := telemetry.NewLogger(os.Stderr, logs.Level, logs.Format, name)
		for _, warning := range flags.Mistyped(os.Environ(), flags.Variables(fs)) {
			log.Warn("a variable of the environment may be mistyped", "err", warning)
		}
		return run(ctx, name, log, start)
	}
}

func run(ctx context.Context, name string, log *slog.Logger, start New) error {
	tel, flush, err := telemetry.Setup(ctx, telemetry.Config{Service: name, Version: version.String(), Log: log})
	if err != nil {
		return err
	}
	paced, stop := context.WithCancel(ctx)
	defer stop()
	service, err := start(log, tel)
	if err == nil {
		go newCollector(service).run(paced) // ends with the service
		err = service.Run(ctx)
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushLimit)
	defer cancel()
	return errors.Join(err, flush(end))
}
