package tunnel

import (
	"errors"
	"flag"
	"time"

	"fairlead.dev/platform/hubservice"
)

const defaultListen = "127.0.0.1:7403"

// Config is what differs per deployment.
type Config struct {
	hubservice.Config
	// DrainTimeout is what running requests, such as somebody's shell, get to finish when the replica is stopped; 0:
	// hubservice.LeaveTime.
	DrainTimeout time.Duration
}

// RegisterFlags adds the flags of the tunnel.
func (c *Config) RegisterFlags(fs *flag.FlagSet) {
	c.Config.RegisterFlags(fs, defaultListen, "`folder` for the last known catalog and the tunnel's own token; losing it costs nothing while the console is up")
	fs.DurationVar(&c.DrainTimeout, "drain-timeout", hubservice.LeaveTime, "how long running requests, such as somebody's shell, may go on when the replica is stopped; "+
		"the process needs up to 15 s more, so that in Kubernetes terminationGracePeriodSeconds has to be longer")
}

// Validate says what is wrong.
func (c *Config) Validate() error {
	if c.DrainTimeout < 0 {
		return errors.New("--drain-timeout can't be negative")
	}
	return c.Config.Validate()
}
