// Command distributor hands services to the agents of clusters.
package main

import (
	"log/slog"

	"fairlead.dev/platform/service"
	"fairlead.dev/platform/telemetry"
	"fairlead.dev/services/distributor"
)

func main() {
	var cfg distributor.Config
	service.Main("distributor", &cfg, func(log *slog.Logger, tel *telemetry.Telemetry) (service.Service, error) {
		return distributor.New(cfg, distributor.Deps{Log: log, Telemetry: tel})
	})
}
