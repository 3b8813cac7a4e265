package process

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"log/slog"
	"strings"
	"testing"

	"fairlead.dev/platform/flags"
	"fairlead.dev/platform/telemetry"
)

type config struct{ place string }

func (c *config) RegisterFlags(fs *flag.FlagSet) { fs.StringVar(&c.place, "place", "", "where") }

type runFunc func(ctx context.Context) error

func (f runFunc) Run(ctx context.Context) error { return f(ctx) }

func none(string) string { return "" }

func TestServiceGetsItsFlagsAndItsErrorComesOut(t *testing.T) {
	t.Parallel()
	var cfg config
	broken := errors.New("broken")
	err := Command("demo", &cfg, func(*slog.Logger, *telemetry.Telemetry) (Service, error) {
		return runFunc(func(context.Context) error {
			if cfg.place != "here" {
				t.Errorf("place %q", cfg.place)
			}
			return broken
		}), nil
	})(t.Context(), []string{"--place", "here", "--log-level", "error"}, none, &bytes.Buffer{})
	if !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

func TestServiceThatCannotBeMadeIsNotRun(t *testing.T) {
	t.Parallel()
	wrong := errors.New("--place is missing")
	err := Command("demo", &config{}, func(*slog.Logger, *telemetry.Telemetry) (Service, error) {
		return nil, wrong
	})(t.Context(), nil, none, &bytes.Buffer{})
	if !errors.Is(err, wrong) {
		t.Errorf("got %v", err)
	}
}

func TestHelpStartsNothing(t *testing.T) {
	t.Parallel()
	var stdout bytes.Buffer
	err := Command("demo", &config{}, func(*slog.Logger, *telemetry.Telemetry) (Service, error) {
		t.Error("it was started")
		return nil, errors.New("started")
	})(t.Context(), []string{"--help"}, none, &stdout)
	if !errors.Is(err, flags.ErrDone) || !strings.Contains(stdout.String(), "-place") ||
		!strings.Contains(stdout.String(), "-log-format") {
		t.Errorf("got %v and %q", err, stdout.String())
	}
}
