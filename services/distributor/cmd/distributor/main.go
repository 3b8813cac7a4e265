// Command distributor hands services to the agents of clusters.
package main

import (
	"log/slog"
	"os"
	"runtime/debug"

	"fairlead.dev/platform/service"
	"fairlead.dev/platform/telemetry"
	"fairlead.dev/services/distributor"
)

// gcPercent: what a distributor keeps hardly changes, and 10,000 streams' stacks count as if they were heap
// that has to be looked through. A quarter of the usual leave to grow costs little CPU and saves memory.
const gcPercent = 25

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	var cfg distributor.Config
	service.Main("distributor", &cfg, func(log *slog.Logger, tel *telemetry.Telemetry) (service.Service, error) {
		return distributor.New(cfg, distributor.Deps{Log: log, Telemetry: tel})
	})
}
