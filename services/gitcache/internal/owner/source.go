// Package owner runs one loop per source that this replica owns: take the lease, claim an epoch from the
// console, then poll, fetch and publish until the lease is lost, the source is deleted or somebody
// with a higher epoch has taken over.
//
// Invariants: what is published was fetched and is durable in the mirror, or was published before; a
// head never vanishes because upstream failed; what has to be signed was verified before it is published and
// before its submodules are asked for; a refused publish ends the tenure; without the console polling goes
// on and what was learned is published later.
package owner

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"fairlead.dev/services/gitcache/internal/cloud"
	"fairlead.dev/services/gitcache/internal/mirror"
	"fairlead.dev/services/gitcache/internal/signed"
	"fairlead.dev/services/gitcache/internal/upstream"
)

// RefHead stands for the default branch. The default branch is wanted always.
const RefHead = "HEAD"

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

	only string // is all that is wanted, for a look; empty: there is none
}

// Folder is a folder of files that services want.
type Folder struct {
	Path  string
	Rules string // filter.Rules.Canonical
}

// Verification says what must be signed to be published. The zero value is nothing.
type Verification struct {
	Commit, Tag bool
	Keys        []string // OpenPGP or SSH public keys
}

func (v Verification) isWanted() bool { return v.Commit || v.Tag }

func (v Verification) equalTo(o Verification) bool {
	return v.Commit == o.Commit && v.Tag == o.Tag && slices.Equal(v.Keys, o.Keys)
}

// equalTo tells whether two say the same of what is asked of upstream; combinations ask for nothing. How many services
// want a ref does not matter: a poll for each of thousands that are applied would bring nothing.
func (s Source) equalTo(o Source) bool {
	same := func(int, int) bool { return true }
	return s.UID == o.UID && s.Name == o.Name && s.URL == o.URL && s.Charts == o.Charts && s.Artifacts == o.Artifacts &&
		s.Registry == o.Registry && s.Bucket == o.Bucket && s.Cloud == o.Cloud &&
		s.LayerType == o.LayerType && s.AllowReplaced == o.AllowReplaced && s.Interval == o.Interval &&
		s.Secret == o.Secret && s.SecretRevision == o.SecretRevision &&
		s.Proxy == o.Proxy && s.Submodules == o.Submodules &&
		slices.Equal(s.SubmoduleRepositories, o.SubmoduleRepositories) && s.Verification.equalTo(o.Verification) &&
		s.Verify.Equal(o.Verify) && maps.EqualFunc(s.Wants, o.Wants, same) && s.LeftOut == o.LeftOut &&
		s.HasDependencies == o.HasDependencies && slices.Equal(s.Allow, o.Allow) && slices.EqualFunc(s.ChartSources,
		o.ChartSources, Source.equalTo) && maps.EqualFunc(s.Folders, o.Folders, slices.Equal)
}

// isGit tells a Git repository from other sources, whose commits are made here.
func (s Source) isGit() bool { return !s.Charts && !s.Artifacts && !s.Bucket.Is }

func (s Source) pollInterval() time.Duration {
	if s.Interval <= 0 {
		return defaultInterval
	}
	return max(s.Interval, minInterval)
}

// Catalog is the hub's knowledge of sources.
type Catalog interface {
	// Sources returns all of them. known is false until a complete catalog was seen; live is true if it
	// is the console's present one and not a memory of it.
	Sources() (sources []Source, known, live bool)
	// Changed receives after changes; it coalesces.
	Changed() <-chan struct{}
}

// Publication is everything that is said of a source at once.
type Publication struct {
	Source, UID string
	Epoch       int64
	Heads       []mirror.Head // by ref
	Problem     Problem
}

// Problem is why a source is not as it should be; the zero value is that all is well.
type Problem struct {
	Message string
	Since   time.Time
	Refs    []string // the refs of the problem; empty: all of the source.
	// Single are the refs at fault, in order. Where Refs is set the message repeats theirs, else it is about the whole
	// source only.
	Single []RefProblem
}

// RefProblem is what is wrong with one ref.
type RefProblem struct {
	Ref, Message string
	Since        time.Time
	// Missing: upstream does not have it.
	Missing bool
}

// IsRefused tells a problem of more than refs that upstream does not have, which only concern the services that follow
// them.
func (p Problem) IsRefused() bool {
	return p.IsWhole() || slices.ContainsFunc(p.Single, func(one RefProblem) bool { return !one.Missing })
}

// IsWhole tells a problem of the whole source from those of single refs.
func (p Problem) IsWhole() bool { return p.Message != "" && len(p.Refs) == 0 }

// keepBeginning takes the beginnings of the same faults from what was published before.
func (p *Problem) keepBeginning(before Problem) {
	earlier := func(since *time.Time, was time.Time) {
		if !was.IsZero() && was.Before(*since) {
			*since = was
		}
	}
	if p.Message != "" && p.Message == before.Message && p.IsWhole() == before.IsWhole() {
		earlier(&p.Since, before.Since)
	}
	for i := range p.Single {
		one := &p.Single[i]
		for _, was := range before.Single {
			if was.Ref == one.Ref && was.Message == one.Message {
				earlier(&one.Since, was.Since)
			}
		}
	}
}

// Equal compares problems.
func (p Problem) Equal(o Problem) bool {
	return p.Message == o.Message && p.Since.Equal(o.Since) && slices.Equal(p.Refs, o.Refs) && slices.EqualFunc(p.Single, o.Single, func(a, b RefProblem) bool {
		return a.Ref == b.Ref && a.Message == b.Message && a.Since.Equal(b.Since) && a.Missing == b.Missing
	})
}

// Claimed is what a new owner has of a source: its epoch, and what was published last.
type Claimed struct {
	Epoch   int64
	Heads   []mirror.Head
	Problem Problem
}

// Console is the record of who may publish and of what was.
type Console interface {
	// Claim gives the next epoch of a source and what was published last. ErrGone: no such source.
	Claim(ctx context.Context, name, uid, owner string) (Claimed, error)
	// Publish records. ErrStale: the epoch is not the current one. ErrGone: no such source.
	Publish(ctx context.Context, p Publication) error
	// Credentials reads a secret. The error is in words for the source's owner.
	Credentials(ctx context.Context, secret string) (upstream.Credentials, error)
}

// Errors of a Console.
var (
	// ErrStale: somebody claimed the source since. Step down.
	ErrStale = errors.New("another replica has claimed the source")
	// ErrGone: the source was deleted, or deleted and made again.
	ErrGone = errors.New("the source is gone")
)

// State is what is known of an owned source right now.
type State struct {
	Owned              bool
	Epoch              int64
	LastPoll, NextPoll time.Time
	Heads              []mirror.Head
	Problem            Problem
	// StaleSince is since when upstream has not answered as it should; zero: the last poll went well.
	StaleSince time.Time
	// UpstreamRequests in the last hour, by this replica.
	UpstreamRequests int
	// The size of the mirror on the disk.
	MirrorBytes int64
	MirrorPacks int
}
