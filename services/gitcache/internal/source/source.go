// Package source has the values of a source: what the catalog says of it and wants of it, and what is wrong with it, in
// words for the owners of services. The package asks nobody and keeps nothing: packages that fetch, verify and publish
// a source are above it.
package source

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"fairlead.dev/services/gitcache/internal/cloud"
	"fairlead.dev/services/gitcache/internal/signed"
	"fairlead.dev/services/gitcache/internal/upstream"
)

// RefHead stands for the default branch. The default branch is wanted always.
const RefHead = "HEAD"

const (
	// BranchPrefix and TagPrefix begin the refs of Git.
	BranchPrefix = "refs/heads/"
	TagPrefix    = "refs/tags/"

	// defaultInterval and minInterval of polls, as the catalog documents them.
	defaultInterval = 2 * time.Minute
	minInterval     = 5 * time.Second
)

// Source is what the catalog says of a repository.
type Source struct {
	UID, Name, URL string
	// Charts: it is a repository of Helm charts, and not one of Git. Fields about tags, submodules and Verification are
	// not for it.
	Charts bool
	// Artifacts: it is a repository of artifacts in a registry.
	Artifacts bool
	// Registry is how the registry is asked, if it is in one, and LayerType the media type of the layer with the files;
	// empty: the fetcher chooses.
	Registry  upstream.Registry
	LayerType string
	// Cloud is the cloud that logs the gitcache in, by its own identity there; empty: none.
	Cloud cloud.Name
	// Bucket is which one it is, if it is a bucket.
	Bucket upstream.Bucket
	// AllowReplaced publishes other content under the version of a chart that was published before.
	AllowReplaced bool
	Interval      time.Duration // 0: the default
	// Secret is the name of the secret with the credentials; empty: none.
	Secret         string
	SecretRevision int64
	// Proxy is the URL of the proxy to the Git host; empty: the environment's, if it has one.
	Proxy        string
	Submodules   bool // fetch them, too
	Verification Verification
	// Verify says who must have signed a chart or an artifact.
	Verify signed.Policy
	// SubmoduleRepositories on the same host get the credentials, besides those of the same owner.
	SubmoduleRepositories []string
	// Wants are canonical refs, and how many services want them. HEAD is wanted always.
	Wants map[string]int
	// LeftOut is how many refs services want besides that are beyond the limit.
	LeftOut int
	// Users looks at all services, and then gives the names of those that want a ref, for messages.
	Users func() func(ref string) []string

	// Allow are the hosts of chart repositories that charts in Folders may depend on, and of bases that kustomizations
	// there may have. Folders are those that services want, by canonical ref; there are none if HasDependencies is not
	// set.
	Allow           []string
	Folders         map[string][]Folder
	HasDependencies bool
	// ChartSources are sources of charts that charts in Folders may depend on, too, and how these are asked.
	ChartSources []Source

	// Combinations are what services want of this source and others together, by ref. The owner of the first source
	// makes them.
	Combinations map[string]Combination
	// IsCurrent: the console has confirmed the catalog. What one from the disk says of other sources may be old.
	IsCurrent bool

	only string // is all that is wanted, if this is of a look; empty: it is not
}

// Folder is a folder of files that services want.
type Folder struct {
	Path  string
	Rules string // filter.Rules.Canonical
}

// ForLook is the source as a look sees it: one ref and a folder of it are all that is wanted.
func (s Source) ForLook(ref string, folder Folder) Source {
	s.Folders = map[string][]Folder{ref: {folder}}
	s.Wants, s.only, s.Users = map[string]int{ref: 1}, ref, nil
	return s
}

// WantedRefs are the refs to follow, in order.
func (s Source) WantedRefs() []string {
	if s.only != "" {
		return []string{s.only}
	}
	refs := append(slices.Collect(maps.Keys(s.Wants)), RefHead)
	slices.Sort(refs)
	return slices.Compact(refs)
}

// Verification says what must be signed to be published. The zero value is nothing.
type Verification struct {
	Commit, Tag bool
	Keys        []string // OpenPGP or SSH public keys
}

// IsWanted tells whether anything must be signed.
func (v Verification) IsWanted() bool { return v.Commit || v.Tag }

// Equal compares verifications.
func (v Verification) Equal(o Verification) bool {
	return v.Commit == o.Commit && v.Tag == o.Tag && slices.Equal(v.Keys, o.Keys)
}

// AsksSame tells whether two say the same of what is asked of upstream; combinations ask for nothing. How many services
// want a ref does not matter: a poll for each of thousands that are applied would bring nothing.
func (s Source) AsksSame(o Source) bool {
	same := func(int, int) bool { return true }
	return s.UID == o.UID && s.Name == o.Name && s.URL == o.URL && s.Charts == o.Charts && s.Artifacts == o.Artifacts &&
		s.Registry == o.Registry && s.Bucket == o.Bucket && s.Cloud == o.Cloud &&
		s.LayerType == o.LayerType && s.AllowReplaced == o.AllowReplaced && s.Interval == o.Interval &&
		s.Secret == o.Secret && s.SecretRevision == o.SecretRevision &&
		s.Proxy == o.Proxy && s.Submodules == o.Submodules &&
		slices.Equal(s.SubmoduleRepositories, o.SubmoduleRepositories) && s.Verification.Equal(o.Verification) &&
		s.Verify.Equal(o.Verify) && maps.EqualFunc(s.Wants, o.Wants, same) && s.LeftOut == o.LeftOut &&
		s.HasDependencies == o.HasDependencies && slices.Equal(s.Allow, o.Allow) && slices.EqualFunc(s.ChartSources,
		o.ChartSources, Source.AsksSame) && maps.EqualFunc(s.Folders, o.Folders, slices.Equal)
}

// IsGit tells a Git repository from other sources, whose commits are made here.
func (s Source) IsGit() bool { return !s.Charts && !s.Artifacts && !s.Bucket.Is }

// PollInterval is the time between two polls.
func (s Source) PollInterval() time.Duration {
	if s.Interval <= 0 {
		return defaultInterval
	}
	return max(s.Interval, minInterval)
}

// maxNamed services in one message; the rest is counted.
const maxNamed = 5

// NameUsers names the services that want a ref.
func (s Source) NameUsers(ref string) string {
	if s.only != "" {
		return "this comparison"
	}
	var services []string
	if s.Users != nil {
		services = s.Users()(ref)
	}
	if len(services) == 0 { // not any more
		return "a service"
	}
	quoted := make([]string, 0, maxNamed)
	for _, s := range services[:min(maxNamed, len(services))] {
		quoted = append(quoted, fmt.Sprintf("%q", s))
	}
	text := "service " + strings.Join(quoted, ", ")
	if more := len(services) - maxNamed; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
