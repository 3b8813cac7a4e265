package hubservice

import (
	"errors"
	"flag"

	"fairlead.dev/platform/coordination"
	"fairlead.dev/platform/flags"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/server"
)

// Config is what differs per deployment in every service.
type Config struct {
	Server server.Config
	// DataDir holds the catalog's snapshot, the service's own token, and what else the service keeps.
	DataDir string
	// ConsoleURL is where the console is reached.
	ConsoleURL string
	// HubCAFile trusts the hub's certificate authority and no other; empty: the system's.
	HubCAFile string
	// HubSecretFile holds what hub services get their token with.
	HubSecretFile string
	// RedisURL is for several replicas; empty: this process is alone. Not used with Deps.Coordinator.
	RedisURL string
	// RedisURLFile has that URL in it, and may change; not with RedisURL.
	RedisURLFile string
	// RedisCAFile trusts these authorities of Redis and no others; empty: the system's.
	RedisCAFile string
	// AdvertiseURL is where the others reach this replica; empty: the URL of the listener.
	AdvertiseURL string
	// Unsigned says what becomes of members and tokens of services of before they were signed and bound.
	Unsigned identity.Unsigned
}

// RegisterFlags adds the flags of the listener, with its default address, and those of the hub.
// dataDir says what is kept in --data-dir.
func (c *Config) RegisterFlags(fs *flag.FlagSet, listen, dataDir string) {
	c.Server.RegisterFlags(fs, listen)
	fs.StringVar(&c.DataDir, "data-dir", "", dataDir)
	fs.StringVar(&c.ConsoleURL, "console-url", "", "`URL` of the console, such as https://hub.example.com:7400")
	fs.StringVar(&c.HubCAFile, "hub-ca-file", "", "PEM `file` with the certificate authority of the hub, the only one that is trusted then; default: the system's authorities")
	fs.StringVar(&c.HubSecretFile, "hub-secret-file", "",
		"`file` with the secret that hub services log in with: one per line, of which the first is used and all are accepted")
	fs.StringVar(&c.RedisURL, "redis-url", "", "`URL` of the Redis that the hub's services share; default: this process is alone")
	fs.StringVar(&c.RedisURLFile, "redis-url-file", "", "`file` with that URL; a new one is used within seconds, once Redis has answered it")
	fs.StringVar(&c.RedisCAFile, "redis-ca-file", "",
		"PEM `file` with the certificate authorities of Redis, the only ones that are trusted then; default: the system's")
	c.Unsigned.RegisterFlags(fs)
	fs.StringVar(&c.AdvertiseURL, "advertise-url", "", "`URL` at which the other services reach this one; default: that of the listener")
}

func (c *Config) openCoordinator() (coordination.Coordinator, error) {
	return coordination.Config{URL: c.RedisURL, File: c.RedisURLFile, CAFile: c.RedisCAFile}.Open()
}

// Validate says what is wrong.
func (c *Config) Validate() error {
	if c.DataDir == "" {
		return errors.New("--data-dir is missing: name a folder for what the service keeps")
	}
	if c.HubSecretFile == "" {
		return errors.New("--hub-secret-file is missing: name the file with the hub secret that the console uses")
	}
	if c.RedisURL != "" && c.RedisURLFile != "" {
		return errors.New("--redis-url and --redis-url-file are both given: leave one out")
	}
	if err := flags.CheckURL("--console-url", c.ConsoleURL); err != nil {
		return err
	}
	if c.AdvertiseURL == "" {
		return nil
	}
	return flags.CheckURL("--advertise-url", c.AdvertiseURL)
}
