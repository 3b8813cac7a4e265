package start

import (
	"errors"
	"flag"
	"log/slog"

	"github.com/spf13/cobra"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/front"
	"fairlead.dev/platform/flags"
	"fairlead.dev/platform/process"
	"fairlead.dev/platform/telemetry"
)

// frontCommand is the one address of docker-compose.yml for people: a service like the others, with their flags,
// variables and healthcheck.
func frontCommand(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:                "front",
		Short:              "Serve the pages and all that they use at one address",
		Hidden:             true,
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			var cfg frontConfig
			err := process.Command("front", &cfg, func(log *slog.Logger, _ *telemetry.Telemetry) (process.Service, error) {
				f, err := front.New(front.Config(cfg), log)
				if err != nil {
					return nil, err
				}
				return f, f.Listen()
			})(cmd.Context(), args, a.Getenv, a.Stdout)
			if errors.Is(err, flags.ErrDone) {
				return nil
			}
			return err
		},
	}
}

type frontConfig front.Config

func (c *frontConfig) RegisterFlags(fs *flag.FlagSet) {
	fs.StringVar(&c.Listen, "listen", "127.0.0.1:7406", "address to listen at, `host:port`")
	fs.StringVar(&c.CertFile, "tls-cert", "", "PEM `file` with the TLS certificate")
	fs.StringVar(&c.KeyFile, "tls-key", "", "PEM `file` with the key of the TLS certificate")
	fs.StringVar(&c.CAFile, "hub-ca-file", "",
		"PEM `file` with the authorities that the certificates of the services are of; default: those of the system")
	fs.StringVar(&c.Console, "console-url", "", "`URL` of the console")
	fs.StringVar(&c.Gitcache, "gitcache-url", "", "`URL` of a gitcache, or of what stands in front of them")
	fs.StringVar(&c.Tunnel, "tunnel-url", "", "`URL` of a tunnel, or of what stands in front of them")
}
