package command

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"go.opentelemetry.io/otel/codes"

	"fairlead.dev/platform/telemetry"
	"fairlead.dev/platform/version"
)

// flushLimit bounds the last export: a collector that is away holds nobody up.
const flushLimit = 2 * time.Second

// startTrace puts a command into a trace of its own, if there is a collector. end sends it.
func startTrace(
	ctx context.Context, root *cobra.Command, args []string,
) (_ context.Context, end func(error), err error) {
	cmd, _, err := root.Find(args)
	if err != nil || cmd.Name() == "up" { // a command that cannot run says so by itself; and a hub is traced by its services
		return ctx, func(error) {}, nil //nolint:nilerr // as above
	}
	tel, flush, err := telemetry.Setup(ctx, telemetry.Config{Service: "cli", Version: version.String()})
	if err != nil {
		return nil, nil, err
	}
	if tel.Upload == nil {
		return ctx, func(error) {}, nil // no span is exported
	}
	outer := ctx
	ctx, span := tel.Tracer.Tracer("fairlead.dev/cli").Start(ctx, cmd.CommandPath()) //nolint:spancheck // end ends it
	return ctx, func(err error) {                                                    //nolint:spancheck // as above
		if err != nil {
			span.SetStatus(codes.Error, "the command failed")
		}
		span.End()
		last, cancel := context.WithTimeout(context.WithoutCancel(outer), flushLimit)
		defer cancel()
		_ = flush(last) // the command's outcome is another matter
	}, nil
}
