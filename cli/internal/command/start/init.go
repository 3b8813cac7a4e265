package start

import (
	"github.com/spf13/cobra"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/install"
)

func newInstallation(a *app.App) *cobra.Command {
	var o install.Options
	cmd := &cobra.Command{
		Use:   "init --dir DIR --host HOST",
		Short: "Make the certificates, keys and passwords of a new installation",
		Long: `Make what an installation needs once, each in a file that only its owner can read: a certificate authority and
a certificate for the hosts, the hub's secret, the console's master key, a token for Prometheus, and passwords for
Redis and PostgreSQL with the URLs that hold them. Files that are there are kept, so repeat the command to renew the
certificate (less than 30 days are left), for another host or another URL.

  ca/                         the authority with its key: keep it apart, no service needs it
  tls/{ca.crt,tls.crt,tls.key}
  hub/hub.secret
  metrics/{metrics.token,ca.crt}  what Prometheus needs
  console/master.key          seals the catalog's secrets: back it up, not beside the database
  redis/{password,url}        FAIRLEAD_REDIS_URL_FILE of gitcache, distributor and tunnel
  postgres/{password,url}     FAIRLEAD_DATABASE_URL_FILE of the console
  {redis,postgres}/{tls.crt,tls.key,ca.crt}  with --redis-host, --database-host: for their TLS`,
		Example: "  fairlead init --dir fairlead-secrets --host hub.example.com",
		Args:    app.WantArgs(0, 0),
		RunE: func(*cobra.Command, []string) error {
			made, err := install.EnsureFiles(o)
			for _, file := range made {
				if err := a.Printf("made %s\n", file); err != nil {
					return err
				}
			}
			return err
		},
	}
	cmd.Flags().StringVar(&o.Dir, "dir", "", "folder for the files")
	cmd.Flags().StringSliceVar(&o.Hosts, "host", nil,
		"name or address at which the hub is reached; may be repeated, and *.example.com stands for all names of one part more")
	cmd.Flags().StringVar(&o.RedisURL, "redis-url", "redis://:{password}@redis:6379/0",
		"URL of Redis, with {password} where it belongs")
	cmd.Flags().StringVar(&o.DatabaseURL, "database-url", "postgres://fairlead:{password}@postgres:5432/fairlead",
		"URL of PostgreSQL, with {password} where it belongs")
	cmd.Flags().StringSliceVar(&o.RedisHosts, "redis-host", nil,
		"name of a Redis that is run along with the hub; makes redis/{tls.crt,tls.key,ca.crt}; may be repeated")
	cmd.Flags().StringSliceVar(&o.DatabaseHosts, "database-host", nil,
		"name of a PostgreSQL that is run along with the hub; makes postgres/{tls.crt,tls.key,ca.crt}; may be repeated")
	cmd.Flags().BoolVar(&o.Git, "git", false,
		"also git/{password,secret.yaml}: the account of docker-compose.yml's Git server, and the secret with which sources use it")
	for _, name := range []string{"dir", "host"} {
		if err := cmd.MarkFlagRequired(name); err != nil {
			panic(err) // the flag is made above
		}
	}
	return cmd
}
