// Command distributor hands services to the agents of clusters.
package main

import (
	"log/slog"

	"fairlead.dev/platform/process"
	"fairlead.dev/platform/telemetry"
	"fairlead.dev/services/distributor"
)

func main() {
	var cfg distributor.Config
	process.Main("distributor", &cfg, func(log *slog.Logger, tel *telemetry.Telemetry) (process.Service, error) {
		return distributor.New(cfg, distributor.Deps{Log: log, Telemetry: tel})
	})
}
