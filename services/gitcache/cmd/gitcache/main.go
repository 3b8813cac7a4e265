// Command gitcache fetches Git repositories once for everybody, and serves what it fetched.
package main

import (
	"log/slog"

	"fairlead.dev/platform/process"
	"fairlead.dev/platform/telemetry"
	"fairlead.dev/services/gitcache"
)

func main() {
	var cfg gitcache.Config
	process.Main("gitcache", &cfg, func(log *slog.Logger, tel *telemetry.Telemetry) (process.Service, error) {
		return gitcache.New(cfg, gitcache.Deps{Log: log, Telemetry: tel})
	})
}
