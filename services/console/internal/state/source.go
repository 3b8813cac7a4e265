package state

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"fairlead.dev/platform/giturl"
)

// Source is a repository.
type Source struct {
	Meta   Meta
	Spec   SourceSpec
	Status SourceStatus
}

// SourceSpec says what to fetch. Exactly one kind of source is set: it has a URL.
type SourceSpec struct {
	Git  GitSource  `json:"git,omitzero"`
	Helm HelmSource `json:"helm,omitzero"`
	OCI  OCISource  `json:"oci,omitzero"`
	// Bucket is set if it has an endpoint.
	Bucket BucketSource `json:"bucket,omitzero"`
}

// Upstream is what sources of all kinds have in common.
type Upstream struct {
	URL, Secret, Proxy, WebhookSecret string
	Registry                          Registry
}

// SendsAs tells whether credentials go to the same places, and as safely, as those of another.
func (u Upstream) SendsAs(o Upstream) bool {
	return u.URL == o.URL && u.Proxy == o.Proxy && u.Registry.Insecure == o.Registry.Insecure && u.Registry.SkipTLSVerify == o.Registry.SkipTLSVerify &&
		slices.Equal(u.Registry.TokenHosts, o.Registry.TokenHosts) && slices.Equal(u.Registry.Mirrors, o.Registry.Mirrors)
}

// Upstream is that of the kind which is set.
func (s SourceSpec) Upstream() Upstream {
	if h := s.Helm; h.URL != "" {
		return Upstream{h.URL, h.Secret, h.Proxy, h.WebhookSecret, h.Registry}
	}
	if o := s.OCI; o.URL != "" {
		return Upstream{o.URL, o.Secret, o.Proxy, o.WebhookSecret, o.Registry}
	}
	if b := s.Bucket; b.Endpoint != "" {
		url := giturl.OfBucket(b.Endpoint, b.Name, b.Prefix, b.Insecure)
		return Upstream{url, b.Secret, b.Proxy, b.WebhookSecret, Registry{Insecure: b.Insecure, SkipTLSVerify: b.SkipTLSVerify, Auth: b.Auth}}
	}
	return Upstream{URL: s.Git.URL, Secret: s.Git.Secret, Proxy: s.Git.Proxy, WebhookSecret: s.Git.WebhookSecret}
}

// HelmSource is a repository of Helm charts.
type HelmSource struct {
	URL string `json:"url"`
	// Interval between polls; 0: the fetcher's default.
	Interval time.Duration `json:"intervalNanos,omitzero"`
	// Secret names the credentials; empty: none.
	Secret string `json:"secret,omitempty"`
	// Proxy to the repository; empty: the fetcher's own way.
	Proxy string `json:"proxy,omitempty"`
	// WebhookSecret names what the repository authenticates with; empty: it may not.
	WebhookSecret string `json:"webhookSecret,omitempty"`
	// AllowReplaced publishes other content under a version that was published before.
	AllowReplaced bool `json:"allowReplaced,omitempty"`
	// Verify says who must have signed a chart; nil: nobody.
	Verify *Verify `json:"verify,omitempty"`
	Registry
}

// OCISource is a repository of artifacts in a registry.
type OCISource struct {
	URL string `json:"url"`
	// Interval between polls; 0: the fetcher's default.
	Interval time.Duration `json:"intervalNanos,omitzero"`
	// Secret names the credentials; empty: none.
	Secret string `json:"secret,omitempty"`
	// Proxy to the registry; empty: the fetcher's own way.
	Proxy string `json:"proxy,omitempty"`
	// WebhookSecret names what the registry authenticates with; empty: it may not.
	WebhookSecret string `json:"webhookSecret,omitempty"`
	// LayerType is the media type of the layer with the files; empty: the fetcher chooses.
	LayerType string `json:"layerType,omitempty"`
	// Verify says who must have signed an artifact; nil: nobody.
	Verify *Verify `json:"verify,omitempty"`
	Registry
}

// BucketSource is a bucket.
type BucketSource struct {
	Endpoint string `json:"endpoint"`
	Name     string `json:"bucketName"`
	// Region; empty: the fetcher's default.
	Region string `json:"region,omitempty"`
	// Prefix is a folder of the bucket, without a slash at either end; empty: all of it.
	Prefix    string `json:"prefix,omitempty"`
	Versioned bool   `json:"versioned,omitempty"`
	// Interval between polls; 0: the fetcher's default.
	Interval time.Duration `json:"intervalNanos,omitzero"`
	// Secret names the credentials; empty: none.
	Secret string `json:"secret,omitempty"`
	// Proxy to the host; empty: the fetcher's own way.
	Proxy string `json:"proxy,omitempty"`
	// WebhookSecret names what the host authenticates with; empty: it may not.
	WebhookSecret string `json:"webhookSecret,omitempty"`
	Insecure      bool   `json:"insecure,omitempty"`
	SkipTLSVerify bool   `json:"insecureSkipTLSVerify,omitempty"`
	// Auth is as in Registry.
	Auth CloudAuth `json:"auth,omitempty"`
}

// Verify says who must have signed charts and artifacts.
type Verify struct {
	Provider VerifyProvider `json:"provider"`
	Keys     []string       `json:"keys,omitempty"`
	// Repository is what signatures call the source's repository; empty: as its url does.
	Repository string `json:"repository,omitempty"`
	// Certificates of authorities and Identities of signers are trusted; of notation.
	Certificates []string `json:"certificates,omitempty"`
	Identities   []string `json:"trustedIdentities,omitempty"`
	// Signers are trusted by authorities and logs of TrustedRoot (JSON of Sigstore); of cosign without a key.
	Signers     []OIDCIdentity `json:"matchOIDCIdentity,omitempty"`
	TrustedRoot string         `json:"trustedRoot,omitempty"`
}

// OIDCIdentity is a signer by regular expressions.
type OIDCIdentity struct {
	Issuer  string `json:"issuer"`
	Subject string `json:"subject"`
}

// VerifyProvider is how charts and artifacts are signed.
type VerifyProvider string

// The providers.
const (
	VerifyCosign     VerifyProvider = "cosign"
	VerifyProvenance VerifyProvider = "provenance"
	VerifyNotation   VerifyProvider = "notation"
)

// Registry is how a registry may be asked.
type Registry struct {
	Insecure      bool     `json:"insecure,omitempty"`
	SkipTLSVerify bool     `json:"insecureSkipTLSVerify,omitempty"`
	TokenHosts    []string `json:"tokenHosts,omitempty"`
	Mirrors       []string `json:"mirrors,omitempty"` // host[:port][/path]
	// Auth is the cloud that logs the gitcache in, by its own identity; empty: none.
	Auth CloudAuth `json:"auth,omitempty"`
}

// CloudAuth is a cloud.
type CloudAuth string

// The clouds.
const (
	AuthAWS   CloudAuth = "aws"
	AuthGCP   CloudAuth = "gcp"
	AuthAzure CloudAuth = "azure"
)

// Unset says that nothing is said of a registry. Unset is not called IsZero: HelmSource and OCISource embed a Registry,
// and encoding/json would leave them out by it.
func (r Registry) Unset() bool {
	return !r.Insecure && !r.SkipTLSVerify && len(r.TokenHosts) == 0 && len(r.Mirrors) == 0 && r.Auth == ""
}

// GitSource is a repository in Git.
type GitSource struct {
	URL string `json:"url"`
	// Interval between polls; 0: the fetcher's default.
	Interval time.Duration `json:"intervalNanos,omitzero"`
	// Secret names the credentials; empty: none.
	Secret string `json:"secret,omitempty"`
	// Proxy to the Git host; empty: the fetcher's own way.
	Proxy        string        `json:"proxy,omitempty"`
	Submodules   bool          `json:"submodules,omitempty"`
	Verification *Verification `json:"verification,omitempty"`
	// SubmoduleRepositories get the credentials, too: paths on the same host, or with /* at the end all below one.
	SubmoduleRepositories []string `json:"submoduleRepositories,omitempty"`
	// WebhookSecret names what a Git host authenticates with; empty: none may.
	WebhookSecret string `json:"webhookSecret,omitempty"`
	// Allow are the hosts of chart repositories that charts of services may depend on.
	Allow []string `json:"allow,omitempty"`
	// ChartSources are sources of charts that these may depend on, too.
	ChartSources []string `json:"chartSources,omitempty"`
}

// Verification says who must have signed what is published.
type Verification struct {
	// Keys are OpenPGP or SSH public keys.
	Keys []string `json:"keys"`
	// Mode is empty for what the fetcher takes for the default.
	Mode VerificationMode `json:"mode,omitempty"`
}

// VerificationMode is what must be signed.
type VerificationMode string

// The modes.
const (
	VerifyCommit       VerificationMode = "commit"
	VerifyTag          VerificationMode = "tag"
	VerifyTagAndCommit VerificationMode = "tagAndCommit"
)

// SourceStatus is what the source's fetcher published.
type SourceStatus struct {
	Epoch   int64    `json:"-"`
	Owner   string   `json:"-"`
	Heads   []Head   `json:"heads,omitempty"`
	Problem *Problem `json:"problem,omitempty"`
}

// Head is where a ref points.
type Head struct {
	Ref       string    `json:"ref"`
	Revision  Revision  `json:"revision"`
	FetchTime time.Time `json:"fetchTime,omitzero"`
	// Resolved is the tag that a range of versions chose.
	Resolved string `json:"resolved,omitempty"`
	// SignedBy is a key's fingerprint.
	SignedBy string `json:"signedBy,omitempty"`
	// NewerVersion is upstream, outside of the range.
	NewerVersion string `json:"newerVersion,omitempty"`
}

// Revision is a commit.
type Revision struct {
	Commit      string    `json:"commit,omitempty"`
	CommitTime  time.Time `json:"commitTime,omitzero"`
	Subject     string    `json:"subject,omitempty"`
	Author      string    `json:"author,omitempty"`
	Traceparent string    `json:"traceparent,omitempty"`
}

// Problem is a thing that is wrong, since when.
type Problem struct {
	Message string    `json:"message"`
	Since   time.Time `json:"since,omitzero"`
	// Refs that a source's problem is about; empty: all of them.
	Refs []string `json:"refs,omitempty"`
	// Single is what is wrong with single refs of a source. Where Refs is set Message repeats theirs, else it is about
	// the whole source only. Gitcaches of earlier versions have the one message for all.
	Single []RefProblem `json:"single,omitempty"`
}

// RefProblem is what is wrong with one ref, since when.
type RefProblem struct {
	Ref     string    `json:"ref"`
	Message string    `json:"message"`
	Since   time.Time `json:"since,omitzero"`
	// Missing: the Git host does not have the ref.
	Missing bool `json:"missing,omitempty"`
}

// Names says whether the message names a commit.
func (p *Problem) Names(commit string) bool { return strings.Contains(p.Message, Short(commit)) }

var commitName = regexp.MustCompile(`\bcommit [0-9a-f]{8,64}\b`)

// SameWords says whether two messages tell of the same problem, be it with different commits.
func SameWords(a, b string) bool {
	return a == b || commitName.ReplaceAllLiteralString(a, "") == commitName.ReplaceAllLiteralString(b, "")
}

// Fails tells a problem of the source from one of refs that the Git host does not have: those concern the services that
// follow them.
func (p *Problem) Fails() bool {
	return p != nil && (len(p.Single) == 0 || p.IsWhole() || slices.ContainsFunc(p.Single, func(one RefProblem) bool { return !one.Missing }))
}

// IsWhole tells a problem of a whole source from those of single refs.
func (p *Problem) IsWhole() bool { return p != nil && len(p.Refs) == 0 }

// Of returns what is wrong with a ref: its own problem, or that of the whole source; nil: nothing.
func (p *Problem) Of(ref string) *Problem {
	if p == nil {
		return nil
	}
	for _, one := range p.Single {
		if one.Ref == ref {
			return &Problem{Message: one.Message, Since: one.Since, Refs: []string{ref}}
		}
	}
	if p.IsWhole() || len(p.Single) == 0 && slices.Contains(p.Refs, ref) {
		return p
	}
	return nil
}
