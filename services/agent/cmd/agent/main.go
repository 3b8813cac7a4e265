// Command agent keeps the services of one cluster applied, as the hub wants them.
package main

import (
	"context"
	"io"
	"log/slog"

	"fairlead.dev/platform/flags"
	"fairlead.dev/platform/process"
	"fairlead.dev/platform/telemetry"
	"fairlead.dev/services/agent"
)

func main() {
	var cfg agent.Config
	run := process.Command("agent", &cfg, func(log *slog.Logger, tel *telemetry.Telemetry) (process.Service, error) {
		return agent.New(cfg, agent.Deps{Log: log, Telemetry: tel})
	})
	flags.Main(func(ctx context.Context, args []string, getenv func(string) string, stdout io.Writer) error {
		if len(args) > 0 && args[0] == agent.WatchUpgradeVerb {
			return agent.WatchUpgrade(ctx, args[1:], getenv)
		}
		if len(args) > 0 && args[0] == agent.DebugVerb {
			return agent.Debug(ctx, args[1:], getenv, stdout)
		}
		return run(ctx, args, getenv, stdout)
	})
}
