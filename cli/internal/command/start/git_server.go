package start

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/install"
	"fairlead.dev/cli/internal/up"
	"fairlead.dev/platform/flags"
	"fairlead.dev/platform/gitserver"
	"fairlead.dev/platform/process"
	"fairlead.dev/platform/telemetry"
)

// gitServer is the small Git host of docker-compose.yml: a service like the others, with their flags, variables and
// healthcheck.
func gitServer(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:                "git-server",
		Short:              "Serve a sample repository over HTTPS",
		Hidden:             true,
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			var cfg gitConfig
			err := process.Command("git-server", &cfg, func(log *slog.Logger, _ *telemetry.Telemetry) (process.Service, error) {
				return newGitHost(cmd.Context(), cfg, log)
			})(cmd.Context(), args, a.Getenv, a.Stdout)
			if errors.Is(err, flags.ErrDone) {
				return nil
			}
			return err
		},
	}
}

type gitConfig struct{ listen, cert, key, dir, password string }

func (c *gitConfig) RegisterFlags(fs *flag.FlagSet) {
	fs.StringVar(&c.listen, "listen", "127.0.0.1:7405", "address to listen at, `host:port`")
	fs.StringVar(&c.cert, "tls-cert", "", "PEM `file` with the TLS certificate")
	fs.StringVar(&c.key, "tls-key", "", "PEM `file` with the key of the TLS certificate")
	fs.StringVar(&c.dir, "data-dir", "", "`folder` of the repositories; sample.git is made in it")
	fs.StringVar(&c.password, "password-file", "", "`file` with the password of user "+install.GitUser)
}

// gitHost is the server, with its address taken.
type gitHost struct{ *gitserver.Server }

func newGitHost(ctx context.Context, cfg gitConfig, log *slog.Logger) (*gitHost, error) {
	password, err := os.ReadFile(cfg.password)
	if err != nil {
		return nil, fmt.Errorf("--password-file: %w", err)
	}
	server, err := gitserver.New(gitserver.Config{Dir: cfg.dir, Listen: cfg.listen, Log: log, Account: &gitserver.Account{
		User: install.GitUser, Password: strings.TrimSpace(string(password)), CertFile: cfg.cert, KeyFile: cfg.key,
	}})
	if err != nil {
		return nil, err
	}
	files, err := up.Sample()
	if err != nil {
		return nil, err
	}
	if err := server.Create(ctx, "sample", files); err != nil {
		return nil, err
	}
	return &gitHost{server}, server.Listen()
}
