package distributor

import (
	"errors"
	"flag"
	"fmt"
	"time"

	"fairlead.dev/platform/flags"
	"fairlead.dev/platform/hubservice"
)

const (
	defaultListen = "127.0.0.1:7402"
	// defaultNextPoll is how often an agent asks that hears no nudge.
	defaultNextPoll = 2 * time.Minute
	// minNextPoll keeps a fleet from being told to hammer.
	minNextPoll = time.Second
)

// Config is what differs per deployment. In DataDir are artifacts and what was delivered last, too. All
// of it can be had again.
type Config struct {
	hubservice.Config
	// GitcacheURLs are asked besides the gitcaches that coordination knows.
	GitcacheURLs []string
	// CacheBytes bounds the artifacts on the disk; 0: 10 GiB.
	CacheBytes int64
	// NextPoll is the mean time between two polls of an agent; 0: 2 min.
	NextPoll time.Duration
}

// RegisterFlags adds the flags of the distributor.
func (c *Config) RegisterFlags(fs *flag.FlagSet) {
	c.Config.RegisterFlags(fs, defaultListen, "`folder` for cached artifacts and the last known state; losing it costs a download")
	fs.Func("gitcache-urls", "comma-separated `URLs` of gitcaches, besides those that coordination knows", flags.List(&c.GitcacheURLs))
	fs.Int64Var(&c.CacheBytes, "cache-bytes", 0, "bound of the cached artifacts on the disk, in `bytes`; default: 10 GiB")
	fs.DurationVar(&c.NextPoll, "next-poll", defaultNextPoll, "how often an agent asks that hears no nudge; the hub spreads it by a tenth")
}

// Validate says what is wrong, and fills in defaults.
func (c *Config) Validate() error {
	if err := c.Config.Validate(); err != nil {
		return err
	}
	if c.NextPoll == 0 {
		c.NextPoll = defaultNextPoll
	}
	if c.NextPoll < minNextPoll {
		return fmt.Errorf("--next-poll: %s is too often, the least is %s", c.NextPoll, minNextPoll)
	}
	if c.CacheBytes < 0 {
		return errors.New("--cache-bytes: must not be negative")
	}
	for _, u := range c.GitcacheURLs {
		if err := flags.CheckURL("--gitcache-urls", u); err != nil {
			return err
		}
	}
	return nil
}
