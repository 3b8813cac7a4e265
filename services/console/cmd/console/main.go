// Command console is the catalog and the identities of an installation.
package main

import (
	"log/slog"
	"os"

	"fairlead.dev/platform/process"
	"fairlead.dev/platform/telemetry"
	"fairlead.dev/services/console"
)

func main() {
	var cfg console.Config
	process.Main("console", &cfg, func(log *slog.Logger, tel *telemetry.Telemetry) (process.Service, error) {
		return console.New(cfg, console.Deps{Log: log, Telemetry: tel, Stderr: os.Stderr})
	})
}
