package distributor

import (
	"errors"
	"flag"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"fairlead.dev/platform/server"
)

const (
	defaultListen = "127.0.0.1:7402"
	// defaultNextPoll is how often an agent asks that hears no nudge.
	defaultNextPoll = 2 * time.Minute
	// minNextPoll keeps a fleet from being told to hammer.
	minNextPoll = time.Second
)

// Config is what differs per deployment.
type Config struct {
	Server server.Config
	// DataDir holds artifacts, the catalog's snapshot, what was delivered last, and the service's own
	// token. All of it can be had again.
	DataDir string
	// ConsoleURL is where the console is reached.
	ConsoleURL string
	// HubCAFile trusts the hub's certificate authority and no other; empty: the system's.
	HubCAFile string
	// HubSecretFile holds what hub services get their token with.
	HubSecretFile string
	// RedisURL is for several replicas; empty: this process is alone. Not used with Deps.Coordinator.
	RedisURL string
	// AdvertiseURL is where the others reach this replica; empty: the URL of the listener.
	AdvertiseURL string
	// GitcacheURLs are asked besides the gitcaches that coordination knows.
	GitcacheURLs []string
	// CacheBytes bounds the artifacts on the disk; 0: 10 GiB.
	CacheBytes int64
	// NextPoll is the mean time between two polls of an agent; 0: 2 min.
	NextPoll time.Duration
}

// RegisterFlags adds the flags of the distributor.
func (c *Config) RegisterFlags(fs *flag.FlagSet) {
	c.Server.RegisterFlags(fs, defaultListen)
	fs.StringVar(&c.DataDir, "data-dir", "", "`folder` for cached artifacts and the last known state; losing it costs a download")
	fs.StringVar(&c.ConsoleURL, "console-url", "", "`URL` of the console, such as https://hub.example.com:7400")
	fs.StringVar(&c.HubCAFile, "hub-ca-file", "", "PEM `file` with the certificate authority of the hub, the only one that is trusted then; default: the system's authorities")
	fs.StringVar(&c.HubSecretFile, "hub-secret-file", "", "`file` with the secret that hub services log in with")
	fs.StringVar(&c.RedisURL, "redis-url", "", "`URL` of the Redis that the hub's services share; default: this process is alone")
	fs.StringVar(&c.AdvertiseURL, "advertise-url", "", "`URL` at which the other services reach this one; default: that of the listener")
	fs.Func("gitcache-urls", "comma-separated `URLs` of gitcaches, besides those that coordination knows", func(s string) error {
		c.GitcacheURLs = strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' })
		return nil
	})
	fs.Int64Var(&c.CacheBytes, "cache-bytes", 0, "bound of the cached artifacts on the disk, in `bytes`; default: 10 GiB")
	fs.DurationVar(&c.NextPoll, "next-poll", defaultNextPoll, "how often an agent asks that hears no nudge; the hub spreads it by a tenth")
}

// Validate says what is wrong, and fills in defaults.
func (c *Config) Validate() error {
	if c.DataDir == "" {
		return errors.New("--data-dir is missing: name a folder for the distributor's cache")
	}
	if c.HubSecretFile == "" {
		return errors.New("--hub-secret-file is missing: name the file with the hub secret that the console uses")
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
	if err := checkURL("--console-url", c.ConsoleURL); err != nil {
		return err
	}
	for _, u := range c.GitcacheURLs {
		if err := checkURL("--gitcache-urls", u); err != nil {
			return err
		}
	}
	if c.AdvertiseURL == "" {
		return nil
	}
	return checkURL("--advertise-url", c.AdvertiseURL)
}

// checkURL does not repeat the URL: it may hold a password.
func checkURL(flagName, raw string) error {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil {
		return fmt.Errorf("%s: must be a URL such as https://hub.example.com:7400, without user and password", flagName)
	}
	return nil
}

// secret reads the hub secret each time that it is needed, so that it may change.
func (c *Config) secret() (string, error) {
	b, err := os.ReadFile(c.HubSecretFile)
	if err != nil {
		return "", fmt.Errorf("read hub secret: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}
