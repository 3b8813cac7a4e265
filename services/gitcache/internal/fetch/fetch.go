// Package fetch asks Git hosts where refs point and brings the objects. The package is the only part of the hub that
// talks to Git hosts: one small request per poll, and a pack only for what is wanted and not there yet.
//
// Invariants: credentials go to the scheme, host and port they were given for and to nobody else; every
// network step has a deadline; no error carries a credential or a URL's user.
package fetch

import (
	"context"
	"io"
	"log/slog"
	"net/url"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
)

// Remote is a repository upstream.
type Remote struct {
	URL *url.URL // from ParseURL
	// Secret is the name of the secret that Credentials came from, for messages. Empty: there is none.
	Secret      string
	Credentials Credentials
	// Proxy to the Git host; nil: the environment's, if it has one.
	Proxy *url.URL
	// Registry is of what is in one; the URL is then of the scheme that is asked by, and its path that of the repository.
	Registry Registry
	// Bucket is of what is in one.
	Bucket Bucket
	// Cloud is the cloud that gave the credentials: the gitcache's own identity there. Empty: they are of the secret, if there are any.
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

// Listing is what upstream said its refs are.
type Listing struct {
	// Refs are objects by full ref name; HEAD is among them if it points to anything. A tag may point
	// to a tag object: see Peeled. Of those that upstream has all that were asked for are there, and maybe
	// more.
	Refs map[string]plumbing.Hash
	// Peeled are the objects that tag objects among Refs stand for.
	Peeled map[string]plumbing.Hash

	// Bytes that came for it.
	Bytes int64

	base     *url.URL // where the repository is after redirects
	binary   bool     // a listing that came over the git binary goes on so
	version2 bool     // of the protocol; what came over it goes on so
	partial  bool     // upstream was asked for some refs only
	others   bool     // upstream has refs, though none that it was asked for
	// capabilities of upstream; nil in version 2, where each command has its own, and those that matter are a must.
	capabilities *capability.List
}

// Whole tells whether all refs of upstream are there, and not only those that were asked for.
func (l *Listing) Whole() bool { return !l.partial }

// Empty tells whether upstream has no refs at all.
func (l *Listing) Empty() bool { return len(l.Refs) == 0 && !l.others }

// Commit returns what a ref points to, tag objects followed.
func (l *Listing) Commit(ref string) (plumbing.Hash, bool) {
	if id, ok := l.Peeled[ref]; ok {
		return id, true
	}
	id, ok := l.Refs[ref]
	return id, ok
}

// AllowsAny tells whether upstream may hand out commits that are not a ref's tip. In version 2 that shows only
// when it is asked.
func (l *Listing) AllowsAny() bool {
	return l.version2 || l.capabilities.Supports(capability.AllowReachableSHA1InWant) ||
		l.capabilities.Supports(allowAny)
}

// allowAny is a capability that go-git has no name for.
const allowAny capability.Capability = "allow-any-sha1-in-want"

// Target takes what a fetch brings.
type Target interface {
	// Haves are commits whose whole history is there: upstream leaves out what they reach.
	Haves() ([]plumbing.Hash, error)
	// AddPack stores a pack. AddPack reads to the end, checks everything, and returns only once the objects are
	// durable. After an error none of them is there.
	AddPack(ctx context.Context, pack io.Reader) (bytes int64, err error)
	// ObjectsDir is the folder of the objects that are there already, for Git's own tools to read.
	ObjectsDir() string
}

// Fetcher talks to upstream. Implementations hold no state of repositories but what makes the next request
// cheaper, and may be used by many goroutines. All errors but the context's are an *Error.
type Fetcher interface {
	// List asks where refs point: one small request, no objects. No refs at all is not an error.
	List(ctx context.Context, r Remote, names Names) (*Listing, error)
	// Fetch brings wants, objects of the listing or commits below them, and all that they reach.
	Fetch(ctx context.Context, r Remote, l *Listing, wants []plumbing.Hash, into Target) (bytes int64, err error)
}
