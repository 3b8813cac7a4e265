// Package gather brings what the content of a source needs of others into the mirror of that source: submodules, charts
// of repositories that its charts depend on, and repositories of the bases of its kustomizations.
//
// Invariants: content names whom to ask, and its author may read less than the credentials of the source do, so these
// go only where the spec of a source lends them; what was fetched first under a version or a revision stays; what can't
// be had is a trouble of its ref and in nobody's way.
package gather

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace"

	"fairlead.dev/platform/artifact"
	"fairlead.dev/platform/remotebase"
	"fairlead.dev/services/gitcache/internal/depend"
	"fairlead.dev/services/gitcache/internal/fetch/chartrepo"
	"fairlead.dev/services/gitcache/internal/fetch/gitwire"
	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/metrics"
	"fairlead.dev/services/gitcache/internal/mirror"
	"fairlead.dev/services/gitcache/internal/pause"
	"fairlead.dev/services/gitcache/internal/source"
	"fairlead.dev/services/gitcache/internal/upstream"
	"fairlead.dev/services/gitcache/internal/verify"
)

const (
	// maxDependencies are kept as heads, those that were fetched last, besides those that services need: what services
	// go back to is still here.
	maxDependencies = 200
	// dependTime bounds what one poll spends on charts of repositories, and on bases. What lacks is fetched with the
	// next polls.
	dependTime = 2 * time.Minute
	// maxDepended folders at commits are known to have all.
	maxDepended = 10_000
)

// ErrTime is told of what a poll has no time left for.
var ErrTime = fmt.Errorf("what this poll fetches of repositories took longer than %s. Fairlead goes on with the next poll", dependTime)

// Deps are what the owner of a source has and how it asks others.
type Deps struct {
	Mirror *mirror.Mirror
	Heads  map[string]mirror.Head // are read only
	Pauses pause.Pauses
	// List asks where names point in a repository of Git, and Fetch brings objects of it.
	List  func(ctx context.Context, r upstream.Remote, names gitwire.Names) (*gitwire.Listing, error)
	Fetch func(ctx context.Context, r upstream.Remote, l *gitwire.Listing, wants []git.Hash, into upstream.Target) error
	// RemoteOf is how another source is asked. ForgetCredentials has those of a source read again, if the error is that
	// upstream does not take them.
	RemoteOf          func(ctx context.Context, s source.Source) (upstream.Remote, error)
	ForgetCredentials func(s source.Source, err error)
	Charts            chartrepo.Fetcher
	Asker             verify.Asker
	Metrics           *metrics.Set
	Tracer            trace.Tracer
}

// Poll is a poll of a source, or a look, that gathers charts and bases.
type Poll struct {
	Deps
	Memory *Memory
	Source source.Source
	Remote upstream.Remote // of the source
	// Points are the objects that refs point to. A ref that is not in here was never there.
	Points  map[string]git.Hash
	IsFresh bool // a new mirror takes the place of the one that Memory is about
	// Publish publishes the heads that moved, which is done before anything is downloaded: most services need nothing
	// of others. nil: none moved.
	Publish func(context.Context) error
}

// Memory is what polls keep for the next ones.
type Memory struct {
	// depended are folders at trees of commits whose charts have all charts of repositories that they depend on here.
	depended map[wholeFolder][]depend.Chart
	// based are folders at trees of commits whose kustomizations have all bases of other repositories here.
	based map[wholeFolder][]remotebase.Base
	// indexes are what repositories answered of charts that others depend on, by their keys, if the last poll had to
	// ask.
	indexes map[string]*chartrepo.Charts
	// failed is when charts that others depend on could not be fetched, of those that are still needed.
	failed map[depend.Chart]time.Time
}

// NewMemory is that of an owner that has not polled yet.
func NewMemory() Memory {
	return Memory{
		depended: map[wholeFolder][]depend.Chart{}, based: map[wholeFolder][]remotebase.Base{},
		indexes: map[string]*chartrepo.Charts{}, failed: map[depend.Chart]time.Time{},
	}
}

// wholeFolder is a folder at the tree of a commit.
type wholeFolder struct {
	root   git.Hash
	folder source.Folder
}

// Result is what was gathered. The zero value is that of a poll that has not gathered yet.
type Result struct {
	Heads    map[string]mirror.Head // that are new
	Needed   map[string]bool        // refs of heads, new ones and others, in folders of services; nil: that is not known
	Troubles []source.Trouble
	IsGrown  bool // the mirror
}

func (r *Result) noteLost(ref, text string) {
	r.Troubles = append(r.Troubles, source.Trouble{Ref: ref, Text: text})
}

// GatherAll gathers charts and bases. What came before an error is in the result.
func (p *Poll) GatherAll(ctx context.Context) (Result, error) {
	is, err := p.GatherCharts(ctx)
	if err == nil {
		err = p.gatherBases(ctx, &is)
	}
	return is, err
}

// IsDependency tells the refs of what the content of a source needs of others.
func IsDependency(ref string) bool {
	return strings.HasPrefix(ref, depend.RefPrefix) || strings.HasPrefix(ref, remotebase.RefPrefix)
}

// KeepHeads adds the heads of charts that others depend on, and of bases, to those of refs: what is new or needed, and
// of the rest of before the latest. Until it is known what is needed all are kept.
func (m *Memory) KeepHeads(heads, before map[string]mirror.Head, is Result) {
	var older []mirror.Head
	for ref, h := range before {
		switch {
		case is.Needed == nil && IsDependency(ref), is.Needed[ref]:
			heads[ref] = h
		case IsDependency(ref):
			older = append(older, h)
		}
	}
	slices.SortFunc(older, func(a, b mirror.Head) int { return cmp.Or(b.FetchTime.Compare(a.FetchTime), cmp.Compare(a.Ref, b.Ref)) })
	for _, h := range older[:min(len(older), maxDependencies)] {
		heads[h.Ref] = h
	}
	if len(older) > maxDependencies {
		clear(m.based)
		clear(m.depended) // what a folder of a service that comes back needs is fetched again
	}
	maps.Copy(heads, is.Heads)
}

// pointsTo is the commit that a ref points to, and the tree there; the zero commit: nowhere.
func (p *Poll) pointsTo(ref string) (commit, root git.Hash, err error) {
	at, ok := p.Points[ref]
	if !ok {
		return commit, root, nil
	}
	o := p.Mirror.Objects()
	defer o.Close()
	if commit, err = o.Peel(at); err != nil {
		return commit, root, err
	}
	c, err := o.Commit(commit)
	return commit, c.Tree, err
}

// folderLimits of the folders of services; what agents take by default.
func folderLimits() artifact.Limits {
	return artifact.Limits{
		Bytes: artifact.DefaultBytes, FileBytes: artifact.DefaultFileBytes, Files: artifact.DefaultFiles,
		Depth: artifact.DefaultDepth, PathBytes: artifact.DefaultPathBytes,
	}
}
