// Command tunnel lets people reach the API servers of clusters behind NAT.
package main

import (
	"log/slog"

	"fairlead.dev/platform/process"
	"fairlead.dev/platform/telemetry"
	"fairlead.dev/services/tunnel"
)

func main() {
	var cfg tunnel.Config
	process.Main("tunnel", &cfg, func(log *slog.Logger, tel *telemetry.Telemetry) (process.Service, error) {
		return tunnel.New(cfg, tunnel.Deps{Log: log, Telemetry: tel})
	})
}
