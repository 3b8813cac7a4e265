package catalog

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
)

// Upstream is what sources of all kinds have in common: where they are, and how and how often they are asked.
type Upstream struct {
	URL           string
	Interval      time.Duration // 0: the fetcher's default
	Secret        string        // name; empty: none
	Proxy         string        // URL; empty: the fetcher's own way
	WebhookSecret string        // name; empty: no webhook is taken
}

// upstream is what the messages of all kinds of sources have.
type upstream interface {
	GetUrl() string
	GetInterval() *durationpb.Duration
	GetSecret() string
	GetProxy() string
	GetWebhookSecret() string
}

// UpstreamOf is the upstream of a source, whatever its kind.
func UpstreamOf(spec *consolev1.SourceSpec) Upstream {
	var is upstream = spec.GetGit()
	if IsCharts(spec) {
		is = spec.GetHelm()
	}
	return Upstream{
		URL: is.GetUrl(), Interval: is.GetInterval().AsDuration(), Secret: is.GetSecret(), Proxy: is.GetProxy(), WebhookSecret: is.GetWebhookSecret(),
	}
}

// IsCharts tells a repository of charts from one of Git.
func IsCharts(spec *consolev1.SourceSpec) bool { return spec.GetHelm() != nil }
