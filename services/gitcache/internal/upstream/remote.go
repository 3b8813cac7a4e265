// Package upstream holds what every fetcher needs of the place that a source names: the Remote and its credentials,
// the client that makes requests by http, the budget of requests per host, the policy of addresses, and the errors.
//
// Invariants: credentials go to the scheme, host and port they were given for and to nobody else; every
// network step has a deadline; no error carries a credential or a URL's user.
package upstream

import (
	"log/slog"
	"net/url"
)

// Remote is a repository upstream.
type Remote struct {
	URL *url.URL // from ParseURL
	// Secret is the name of the secret that Credentials came from, for messages. Empty: there is none.
	Secret      string
	Credentials Credentials
	// Proxy to the Git host; nil: the environment's, if it has one.
	Proxy *url.URL
	// Registry is of what is in one; the URL is then of the scheme that is asked by, and its path that of the
	// repository.
	Registry Registry
	// Bucket is of what is in one.
	Bucket Bucket
	// Cloud is the cloud that gave the credentials: the gitcache's own identity there. Empty: they are of the secret,
	// if there are any.
	Cloud string
}

// Credentials authenticate to a Git host, and say which host is the right one. Credentials are bound to the scheme,
// host and port of the Remote that they are part of. Comparable; the zero value is none.
type Credentials struct {
	Username string
	Password string // or a token

	GitHubApp GitHubApp

	// For ssh.
	Identity   string // private key, PEM
	Passphrase string // of Identity
	KnownHosts string // lines of a known_hosts file

	DockerConfig string // of registries: JSON with logins by host

	AccessKey, SecretKey string // of buckets
	SessionToken         string // of keys that live for a while
	Token                string // of OAuth 2, for a bucket

	CA string // PEM; for https instead of the system's certificates

	ProxyUsername, ProxyPassword string
}

// GitHubApp is an installation of a GitHub App: it gets tokens that live an hour.
type GitHubApp struct {
	ID, InstallationID string
	PrivateKey         string // PEM
}

// LogValue keeps credentials out of logs.
func (Credentials) LogValue() slog.Value { return slog.StringValue("redacted") }

// String keeps credentials out of messages.
func (Credentials) String() string { return "redacted" }

// GoString keeps credentials out of %#v.
func (Credentials) GoString() string { return "redacted" }

// MarshalText keeps credentials out of JSON.
func (Credentials) MarshalText() ([]byte, error) { return []byte("redacted"), nil }

// LogValue keeps the key out of logs.
func (GitHubApp) LogValue() slog.Value { return slog.StringValue("redacted") }

// String keeps the key out of messages.
func (GitHubApp) String() string { return "redacted" }

// GoString keeps the key out of %#v.
func (GitHubApp) GoString() string { return "redacted" }

// Registry is how a registry may be asked. Comparable; the zero value is for what is in none.
type Registry struct {
	Is bool // the remote is in a registry
	// Insecure: by HTTP without TLS. Unverified: whatever its certificate.
	Insecure, Unverified bool
	// TokenHosts, separated by spaces, get the credentials besides the registry's own host.
	TokenHosts string
	// Mirrors, separated by spaces, are host[:port][/path] of copies that are asked first for what has a digest.
	Mirrors string
	// IsMirror: it is asked for another registry, and trusted for nothing.
	IsMirror bool
}

// Bucket is a part of a bucket. Comparable; the zero value is for what is in none.
type Bucket struct {
	Is           bool // the remote is in a bucket
	Name, Prefix string
	Region       string
	Versioned    bool // objects have versions, by which they are asked for
	// Insecure: by HTTP without TLS. Unverified: whatever the host's certificate.
	Insecure, Unverified bool
}
