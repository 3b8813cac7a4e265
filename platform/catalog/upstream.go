package catalog

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/giturl"
)

// Upstream is what sources of all kinds have in common: where they are, and how and how often they are asked.
type Upstream struct {
	URL           string
	Interval      time.Duration // 0: the fetcher's default
	Secret        string        // name; empty: none
	Proxy         string        // URL; empty: the fetcher's own way
	WebhookSecret string        // name; empty: no webhook is taken
	Registry      Registry      // of sources in one
}

// Registry is how a registry may be asked.
type Registry struct {
	Insecure, SkipTLSVerify bool
	Auth                    consolev1.CloudAuth // also of buckets
	TokenHosts              []string            // besides the registry's own, that get its credentials
	Mirrors                 []string            // host[:port][/path]
}

// upstream is what the messages of all kinds of sources have.
type upstream interface {
	GetUrl() string
	GetInterval() *durationpb.Duration
	GetSecret() string
	GetProxy() string
	GetWebhookSecret() string
}

// bucket gives a bucket a URL.
type bucket struct{ *consolev1.BucketSource }

// GetUrl is where the bucket is, with the prefix.
func (b bucket) GetUrl() string {
	return giturl.OfBucket(b.GetEndpoint(), b.GetBucketName(), b.GetPrefix(), b.GetInsecure())
}

// registry is what the messages of sources in registries have besides.
type registry interface {
	GetInsecure() bool
	GetInsecureSkipTlsVerify() bool
	GetTokenHosts() []string
	GetMirrors() []string
}

// UpstreamOf is the upstream of a source, whatever its kind.
func UpstreamOf(spec *consolev1.SourceSpec) Upstream {
	var is upstream = spec.GetGit()
	switch {
	case IsCharts(spec):
		is = spec.GetHelm()
	case IsArtifacts(spec):
		is = spec.GetOci()
	case IsBucket(spec):
		is = bucket{spec.GetBucket()}
	}
	auth := max(spec.GetHelm().GetAuth(), spec.GetOci().GetAuth(), spec.GetBucket().GetAuth())
	out := Upstream{
		URL: is.GetUrl(), Interval: is.GetInterval().AsDuration(), Secret: is.GetSecret(), Proxy: is.GetProxy(), WebhookSecret: is.GetWebhookSecret(),
	}
	if in, ok := is.(registry); ok {
		out.Registry = Registry{
			Insecure: in.GetInsecure(), SkipTLSVerify: in.GetInsecureSkipTlsVerify(),
			TokenHosts: in.GetTokenHosts(), Mirrors: in.GetMirrors(),
		}
	}
	out.Registry.Auth = auth
	return out
}

// HasDependencies tells whether folders of a source come with the charts and bases of elsewhere that they need.
func HasDependencies(spec *consolev1.SourceSpec) bool {
	git := spec.GetGit()
	return len(git.GetAllow())+len(git.GetChartSources()) > 0
}

// IsCharts tells a repository of charts from one of Git.
func IsCharts(spec *consolev1.SourceSpec) bool { return spec.GetHelm() != nil }

// IsArtifacts tells a repository of artifacts in a registry from the other kinds.
func IsArtifacts(spec *consolev1.SourceSpec) bool { return spec.GetOci() != nil }

// IsBucket tells a bucket from the other kinds.
func IsBucket(spec *consolev1.SourceSpec) bool { return spec.GetBucket() != nil }
