package gitcache

import (
	"errors"
	"flag"
	"fmt"
	"time"

	"fairlead.dev/platform/client"
	"fairlead.dev/platform/coordination"
	"fairlead.dev/platform/dialpolicy"
	"fairlead.dev/platform/flags"
	"fairlead.dev/platform/hubservice"
	"fairlead.dev/services/gitcache/internal/cloud"
	"fairlead.dev/services/gitcache/internal/fetch"
)

const defaultListen = "127.0.0.1:7401"

// minLeaseTTL leaves room for a slow answer of Redis.
const minLeaseTTL = coordination.OpTimeout

// Config is what differs per deployment. In DataDir are mirrors and artifacts, too: what is in there
// is served with Git, the console and Redis down; losing it costs a clone of everything.
type Config struct {
	hubservice.Config
	// Replica names this replica in leases and statuses; empty: the host's name and a random part, which
	// DataDir keeps.
	Replica string
	// CacheBytes bounds the artifacts on the disk; 0: 10 GiB.
	CacheBytes int64
	// AllowAddresses are ranges of special addresses (private, loopback and so on) that Git hosts and
	// proxies of sources may have, as 10.0.0.0/8. Public ones always may.
	AllowAddresses []string
	// Git says when the git executable is used to fetch: see fetch.New. Empty: where a host needs it.
	// Unless it is builtin, mirrors are packed anew with git, too, if there is one.
	Git string
	// LeaseTTL is how long a source is without a fetcher after its replica died; 0: 15 s. The same for
	// all replicas.
	LeaseTTL time.Duration
	// MaxExpansion is how many times its size the objects of a pack from a Git host may have together, beyond 4 GiB; 0:
	// 1,024.
	MaxExpansion int64
	// Clouds are where clouds are asked for logins; the zero value: at their public places.
	Clouds cloud.Places
	// MeasureFree returns the free part of a folder's disk; nil: as the system says. Mirrors of deleted sources are
	// kept only while there is room.
	MeasureFree func(dir string) float64
}

// RegisterFlags adds the flags of the gitcache.
func (c *Config) RegisterFlags(fs *flag.FlagSet) {
	c.Config.RegisterFlags(fs, defaultListen, "`folder` for mirrors and artifacts; losing it costs a clone of every source")
	fs.StringVar(&c.Replica, "replica", "", "`name` of this replica, unique and the same after a restart; default: the host's name and a random part, kept in --data-dir")
	fs.Func("allow-addresses", "`ranges` of addresses, separated by commas, such as 10.0.0.0/8, that Git hosts may have although they are not public; default: none", flags.List(&c.AllowAddresses))
	fs.Int64Var(&c.CacheBytes, "cache-bytes", 0, "bound of the artifacts on the disk, in `bytes`; default: 10 GiB")
	fs.StringVar(&c.Git, "git", fetch.GitAuto, "`use` of the git executable to fetch: auto (where a Git host needs it), builtin (never, nor to repack mirrors) or binary (for all that is not ssh)")
	fs.Int64Var(&c.MaxExpansion, "max-expansion", 0,
		"how many `times` the size of what a Git host sends the files and versions in it may have together, beyond 4 GiB; more lets hosts cost more work; default: 1024")
	fs.DurationVar(&c.LeaseTTL, "lease-ttl", 0, "how long a source is without a fetcher after its replica died; shorter moves on sooner, and costs Redis more; the same for all replicas; default: 15s")
}

// Validate says what is wrong.
func (c *Config) Validate() error {
	if err := c.Config.Validate(); err != nil {
		return err
	}
	if _, err := dialpolicy.Parse(c.AllowAddresses); err != nil {
		return fmt.Errorf("--allow-addresses: %w", err)
	}
	if err := fetch.CheckGit(c.Git); err != nil {
		return fmt.Errorf("--git: %w", err)
	}
	switch {
	case c.CacheBytes < 0:
		return errors.New("--cache-bytes: must not be negative")
	case c.MaxExpansion < 0:
		return errors.New("--max-expansion: must not be negative")
	case c.LeaseTTL != 0 && (c.LeaseTTL < minLeaseTTL || c.LeaseTTL > coordination.MaxTTL):
		return fmt.Errorf("--lease-ttl: must be from %s to %s", minLeaseTTL, coordination.MaxTTL)
	case len(c.Replica) > 253:
		return errors.New("--replica: at most 253 characters")
	case c.AdvertiseURL == "":
		return nil
	}
	if err := client.CheckPeer(c.AdvertiseURL); err != nil {
		return fmt.Errorf("--advertise-url: %w: the others send their tokens there", err)
	}
	return nil
}
