package coordination

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"fairlead.dev/platform/flags"
)

// Open returns the coordinator that a URL names. Open connects to nothing yet.
//
//	"" or memory:                                        in this process
//	redis://user:password@host:6379/0                    one Redis (rediss: TLS; unix:///path: a socket)
//	redis+sentinel://h1:26379,h2:26379/0?master_name=m   Sentinel (rediss+sentinel: TLS)
//	redis+cluster://user:password@h1:6379,h2:6379        Cluster (rediss+cluster: TLS)
//
// User and password in a Sentinel URL are the Sentinels'; those of the servers are the parameters
// username and password. Other query parameters are go-redis' own (pool_size, ...).
//
// The user needs PING, EVALSHA, EVAL, GET, PUBLISH, SUBSCRIBE and what the scripts call (SET, GET,
// DEL, INCR, EXISTS, PEXPIRE, PTTL, TIME, ZADD, ZREM, ZCARD, ZSCORE, ZRANGEBYSCORE, HSET, HDEL,
// HMGET) on keys and channels fairlead:*.
//
// Errors never repeat the URL: it may hold a password.
func Open(rawURL string) (Coordinator, error) { return Config{URL: rawURL}.Open() }

// Config says where the coordinator is.
type Config struct {
	// URL is what Open takes.
	URL string
	// File has that URL in it instead, and is looked at again while the coordinator is used. A new URL takes the place
	// of the one before once Redis has answered it; the number of the database must stay.
	File string
	// CAFile is a PEM file with the authorities that are trusted, and no others; empty: the system's. The file is
	// looked at again as File is.
	CAFile string
}

// Open is the function Open with all choices.
func (c Config) Open() (Coordinator, error) {
	now, err := c.readSettings()
	if err != nil {
		return nil, err
	}
	if scheme, _, _ := strings.Cut(now.url, ":"); scheme == "" || strings.EqualFold(scheme, "memory") {
		if c.CAFile != "" {
			return nil, errors.New("--redis-ca-file is given, but no URL of Redis")
		}
		return newMemory(), nil
	}
	load := c.readSettings
	if c.File == "" && c.CAFile == "" {
		load = nil
	}
	clients, err := newRedisClients(now, load)
	if err != nil {
		return nil, err
	}
	return newRedis(clients), nil
}

// readSettings returns what the configuration names now.
func (c Config) readSettings() (s settings, err error) {
	s.url = c.URL
	if c.File != "" {
		if s.url, err = flags.ReadFile(c.File); err != nil {
			return s, fmt.Errorf("read the URL of Redis: %w", err)
		}
	}
	if c.CAFile != "" {
		pem, err := os.ReadFile(c.CAFile)
		if err != nil {
			return s, fmt.Errorf("--redis-ca-file: %w", err)
		}
		if !x509.NewCertPool().AppendCertsFromPEM(pem) {
			return s, fmt.Errorf("--redis-ca-file: %s has no PEM certificate", c.CAFile)
		}
		s.authorities = string(pem)
	}
	return s, nil
}

// settings are what a client is made of.
type settings struct {
	url string
	// authorities are those that are trusted, in PEM; empty: the system's.
	authorities string
}

// trust has a client trust the authorities. The configuration is nil where the URL asks for no TLS.
func (s settings) trust(config *tls.Config) error {
	if s.authorities == "" {
		return nil
	}
	if config == nil {
		return errors.New("--redis-ca-file is given, but the URL of Redis asks for no TLS: begin it with rediss")
	}
	config.RootCAs = x509.NewCertPool()
	config.RootCAs.AppendCertsFromPEM([]byte(s.authorities))
	return nil
}

// dial returns a client of what the URL names, and the number of its database. dial connects to nothing yet.
func (s settings) dial() (client redis.UniversalClient, db int, err error) {
	scheme, _, _ := strings.Cut(s.url, ":")
	switch strings.ToLower(scheme) {
	case "redis", "rediss", "unix":
		o, err := redis.ParseURL(s.url)
		if err != nil {
			return nil, 0, errBadURL()
		}
		o.DialTimeout, o.ReadTimeout, o.WriteTimeout = timeouts()
		o.MaxRetries, o.DialerRetries = noRetries, 1
		o.ContextTimeoutEnabled, o.DisableIdentity = true, true
		o.MaintNotificationsConfig = noMaintNotifications()
		if err := s.trust(o.TLSConfig); err != nil {
			return nil, 0, err
		}
		return redis.NewClient(o), o.DB, nil
	case "redis+sentinel", "rediss+sentinel":
		o, err := parseHosts(s.url, redis.ParseFailoverURL)
		if err != nil {
			return nil, 0, err
		}
		if o.MasterName == "" {
			return nil, 0, errors.New("coordination URL: a Sentinel URL needs the parameter master_name")
		}
		o.DialTimeout, o.ReadTimeout, o.WriteTimeout = timeouts()
		o.MaxRetries, o.DialerRetries = noRetries, 1
		o.ContextTimeoutEnabled, o.DisableIdentity = true, true
		if err := s.trust(o.TLSConfig); err != nil {
			return nil, 0, err
		}
		return redis.NewFailoverClient(o), o.DB, nil
	case "redis+cluster", "rediss+cluster":
		o, err := parseHosts(s.url, redis.ParseClusterURL)
		if err != nil {
			return nil, 0, err
		}
		o.DialTimeout, o.ReadTimeout, o.WriteTimeout = timeouts()
		o.MaxRetries, o.DialerRetries = noRetries, 1
		o.ContextTimeoutEnabled, o.DisableIdentity = true, true
		o.MaintNotificationsConfig = noMaintNotifications()
		if err := s.trust(o.TLSConfig); err != nil {
			return nil, 0, err
		}
		return redis.NewClusterClient(o), 0, nil
	}
	return nil, 0, errors.New("coordination URL: must begin with memory:, redis://, rediss://, unix://, redis+sentinel:// or redis+cluster://")
}

// noRetries: callers retry, and a message must not be published twice.
const noRetries = -1

func timeouts() (dial, read, write time.Duration) { return OpTimeout, OpTimeout, OpTimeout }

func noMaintNotifications() *maintnotifications.Config {
	return &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}

func errBadURL() error {
	return errors.New("coordination URL: can't be read: check host, port, database number and parameters, and percent-encode special characters in user and password")
}

// parseHosts parses scheme+kind://user@host1,host2/path?query. Go's URLs have no lists of hosts:
// the first stays in the URL and the others become the addr parameters that go-redis knows.
func parseHosts[T any](rawURL string, parse func(string) (T, error)) (T, error) {
	var none T
	scheme, rest, ok := strings.Cut(rawURL, "://")
	if !ok {
		return none, errBadURL()
	}
	base, _, _ := strings.Cut(strings.ToLower(scheme), "+")
	authority, tail := rest, ""
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		authority, tail = rest[:i], rest[i:]
	}
	user, hostList := "", authority
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		user, hostList = authority[:i+1], authority[i+1:]
	}
	hosts := strings.Split(hostList, ",")
	u, err := url.Parse(base + "://" + user + hosts[0] + tail)
	if err != nil || u.Hostname() == "" {
		return none, errBadURL()
	}
	q := u.Query()
	for _, h := range hosts[1:] {
		if other, err := url.Parse(base + "://" + h); err != nil || other.Host != h {
			return none, errBadURL()
		}
		q.Add("addr", h)
	}
	u.RawQuery = q.Encode()
	o, err := parse(u.String())
	if err != nil {
		return none, errBadURL()
	}
	return o, nil
}
