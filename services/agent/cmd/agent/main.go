// Command agent keeps the services of one cluster applied, as the hub wants them.
package main

import (
	"log/slog"

	"fairlead.dev/platform/service"
	"fairlead.dev/platform/telemetry"
	"fairlead.dev/services/agent"
)

func main() {
	var cfg agent.Config
	service.Main("agent", &cfg, func(log *slog.Logger, tel *telemetry.Telemetry) (service.Service, error) {
		return agent.New(cfg, agent.Deps{Log: log, Telemetry: tel})
	})
}
