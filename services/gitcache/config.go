package gitcache

import (
	"errors"
	"flag"
	"fmt"
	"net/url"
	"os"
	"strings"

	"fairlead.dev/platform/client"
	"fairlead.dev/platform/server"
)

const defaultListen = "127.0.0.1:7401"

// Config is what differs per deployment.
type Config struct {
	Server server.Config
	// DataDir holds mirrors, artifacts, the catalog's snapshot, and the service's own token. What is in
	// there is served with Git, the console and Redis down; losing it costs a clone of everything.
	DataDir string
	// ConsoleURL is where the console is reached.
	ConsoleURL string
	// HubCAFile trusts the hub's certificate authority and no other; empty: the system's.
	HubCAFile string
	// HubSecretFile holds what hub services get their token with.
	HubSecretFile string
	// RedisURL names the Redis that several replicas need; empty: this process is alone.
	RedisURL string
	// AdvertiseURL is where the others reach this replica; empty: the URL of the listener.
	AdvertiseURL string
	// Replica names this replica in leases and statuses; empty: the host's name and a random part.
	Replica string
	// CacheBytes bounds the artifacts on the disk; 0: 10 GiB.
	CacheBytes int64
}

// RegisterFlags adds the flags of the gitcache.
func (c *Config) RegisterFlags(fs *flag.FlagSet) {
	c.Server.RegisterFlags(fs, defaultListen)
	fs.StringVar(&c.DataDir, "data-dir", "", "`folder` for mirrors and artifacts; losing it costs a clone of every source")
	fs.StringVar(&c.ConsoleURL, "console-url", "", "`URL` of the console, such as https://hub.example.com:7400")
	fs.StringVar(&c.HubCAFile, "hub-ca-file", "", "PEM `file` with the certificate authority of the hub, the only one that is trusted then; default: the system's authorities")
	fs.StringVar(&c.HubSecretFile, "hub-secret-file", "", "`file` with the secret that hub services log in with")
	fs.StringVar(&c.RedisURL, "redis-url", "", "`URL` of Redis, which several replicas need; default: this process alone")
	fs.StringVar(&c.AdvertiseURL, "advertise-url", "", "`URL` at which the other services reach this one; default: that of the listener")
	fs.StringVar(&c.Replica, "replica", "", "`name` of this replica, unique; default: the host's name and a random part")
	fs.Int64Var(&c.CacheBytes, "cache-bytes", 0, "bound of the artifacts on the disk, in `bytes`; default: 10 GiB")
}

// Validate says what is wrong.
func (c *Config) Validate() error {
	switch {
	case c.DataDir == "":
		return errors.New("--data-dir is missing: name a folder for mirrors and artifacts")
	case c.HubSecretFile == "":
		return errors.New("--hub-secret-file is missing: name the file with the hub secret that the console uses")
	case c.CacheBytes < 0:
		return errors.New("--cache-bytes: must not be negative")
	case len(c.Replica) > 253:
		return errors.New("--replica: at most 253 characters")
	}
	if err := checkURL("--console-url", c.ConsoleURL); err != nil {
		return err
	}
	if c.AdvertiseURL == "" {
		return nil
	}
	if err := client.CheckPeer(c.AdvertiseURL); err != nil {
		return fmt.Errorf("--advertise-url: %w: the others send their tokens there", err)
	}
	return nil
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
