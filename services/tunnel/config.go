package tunnel

import (
	"flag"

	"fairlead.dev/platform/replica"
)

const defaultListen = "127.0.0.1:7403"

// Config is what differs per deployment.
type Config struct{ replica.Config }

// RegisterFlags adds the flags of the tunnel.
func (c *Config) RegisterFlags(fs *flag.FlagSet) {
	c.Config.RegisterFlags(fs, defaultListen, "`folder` for the last known catalog and the tunnel's own token; losing it costs nothing while the console is up")
}
