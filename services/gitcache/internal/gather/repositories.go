package gather

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"

	"fairlead.dev/services/gitcache/internal/fetch/gitwire"
	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/mirror"
	"fairlead.dev/services/gitcache/internal/pause"
	"fairlead.dev/services/gitcache/internal/source"
	"fairlead.dev/services/gitcache/internal/submodule"
	"fairlead.dev/services/gitcache/internal/upstream"
)

// Repositories are other repositories of Git that the content of a source names, for one poll.
type Repositories struct {
	deps     Deps
	source   upstream.Remote
	allowed  []string                    // repositories on the source's host that get its credentials, too
	what     string                      // is fetched: a submodule, or a base
	listings map[string]*gitwire.Listing // of this poll, by URL
	known    map[string][]git.Hash       // commits that are here, by URL; nil until somebody needs them
}

// NewSubmodules are the repositories of a source's submodules; r is where the source itself is.
func NewSubmodules(deps Deps, r upstream.Remote, s source.Source) *Repositories {
	return newRepositories(deps, r, s, "submodule")
}

func newRepositories(deps Deps, r upstream.Remote, s source.Source, what string) *Repositories {
	return &Repositories{deps: deps, source: r, allowed: s.SubmoduleRepositories, what: what, listings: map[string]*gitwire.Listing{}}
}

// bringModule fetches one commit of one submodule. A fetch that failed is not tried again with every poll.
func (g *Repositories) bringModule(ctx context.Context, m submodule.Module) error {
	pauses, at := g.deps.Pauses, m.URL.String()
	if g.lendsCredentials(m.URL) { // a URL that was refused without credentials is tried with them at once
		at = "with credentials " + at
	}
	this := at + " " + m.Commit.String()
	for _, key := range []string{at, this} {
		if err := pauses.Check(key); err != nil {
			return err
		}
	}
	l, err := g.listModule(ctx, m)
	if err != nil {
		if ctx.Err() == nil {
			pauses.Add(at, err, pause.Most)
		}
		return err
	}
	if err = g.fetchModule(ctx, m, l); err != nil {
		if ctx.Err() == nil {
			pauses.Add(this, err, pause.Most)
		}
		return err
	}
	pauses.Clear(at)
	pauses.Clear(this)
	return nil
}

// listModule asks where a submodule's default branch is, and what else there is only if that must be known.
func (g *Repositories) listModule(ctx context.Context, m submodule.Module) (*gitwire.Listing, error) {
	if g.wasRefused(m.Commit) {
		return g.listAll(ctx, m.URL)
	}
	if l, ok := g.listings[m.URL.String()]; ok {
		return l, nil
	}
	return g.listNames(ctx, m.URL, gitwire.Names{Refs: []string{source.RefHead}})
}

func (g *Repositories) listAll(ctx context.Context, u *url.URL) (*gitwire.Listing, error) {
	if l, ok := g.listings[u.String()]; ok && l.Whole() {
		return l, nil
	}
	return g.listNames(ctx, u, gitwire.Names{})
}

func (g *Repositories) listNames(ctx context.Context, u *url.URL, names gitwire.Names) (*gitwire.Listing, error) {
	l, err := g.deps.List(ctx, g.remoteOf(u), names)
	if err != nil {
		return nil, g.explainError(u, err)
	}
	g.listings[u.String()] = l
	return l, nil
}

// tipOf is the object to ask for to get a commit where upstream hands out only refs; false: no ref stands for it.
func tipOf(l *gitwire.Listing, commit git.Hash) (git.Hash, bool) {
	tip, listed := l.FindTips(slices.Values([]git.Hash{commit}))[commit]
	return cmp.Or(tip, commit), listed
}

// wasRefused tells whether a commit was asked for by itself before, in vain.
func (g *Repositories) wasRefused(commit git.Hash) bool {
	return g.deps.Pauses.Has(pause.KeyOf(commit))
}

// fetchModule asks for the commit itself where upstream may hand it out, and else for all branches, one of which may
// have it. In version 2 of the protocol upstream does not say beforehand what it hands out.
func (g *Repositories) fetchModule(ctx context.Context, m submodule.Module, l *gitwire.Listing) error {
	tip, listed := tipOf(l, m.Commit)
	if !g.wasRefused(m.Commit) && (listed || l.AllowsAny()) {
		err := g.fetchWants(ctx, m, l, []git.Hash{tip})
		if known, ok := errors.AsType[*upstream.Error](err); !ok || known.Kind != upstream.KindContent {
			return err
		}
	}
	l, err := g.listAll(ctx, m.URL)
	if err != nil {
		return err
	}
	if tip, listed = tipOf(l, m.Commit); listed {
		return g.fetchWants(ctx, m, l, []git.Hash{tip})
	}
	return g.fetchWants(ctx, m, l, g.missingTips(l))
}

// fetchWants brings objects of which one is, or has in its history, a submodule's commit.
func (g *Repositories) fetchWants(ctx context.Context, m submodule.Module, l *gitwire.Listing, wants []git.Hash) error {
	if len(wants) > 0 {
		if err := g.deps.Fetch(ctx, g.remoteOf(m.URL), l, wants, g.targetOf(m.URL)); err != nil {
			return g.explainError(m.URL, err)
		}
	}
	if !g.deps.Mirror.Has(m.Commit) {
		return errors.New("no branch of that repository has the commit. Push it there")
	}
	at := m.URL.String()
	g.known[at] = append(g.known[at], m.Commit)
	return nil
}

// maxTips are asked for at once where upstream hands out only refs.
const maxTips = 256

// missingTips are the tips of branches that are not here, the default branch first.
func (g *Repositories) missingTips(l *gitwire.Listing) (tips []git.Hash) {
	for _, ref := range append([]string{source.RefHead}, slices.Sorted(maps.Keys(l.Refs))...) {
		id, ok := l.Refs[ref]
		if ok && (ref == source.RefHead || strings.HasPrefix(ref, source.BranchPrefix)) && len(tips) < maxTips && !g.deps.Mirror.Has(id) {
			tips = append(tips, id)
		}
	}
	return tips
}

// remoteOf is whom to ask. The source's credentials are for its own owner's repositories, and those that it allows;
// those of its proxy are for the proxy. The authority and the keys of a host go with the host.
func (g *Repositories) remoteOf(u *url.URL) upstream.Remote {
	r := g.source
	r.URL = u
	switch {
	case g.lendsCredentials(u):
	case upstream.SameOrigin(u, g.source.URL):
		r.Secret = ""
		r.Credentials = upstream.Credentials{
			CA: r.Credentials.CA, KnownHosts: r.Credentials.KnownHosts,
			ProxyUsername: g.source.Credentials.ProxyUsername, ProxyPassword: g.source.Credentials.ProxyPassword,
		}
	default:
		r.Secret = ""
		r.Credentials = upstream.Credentials{
			ProxyUsername: g.source.Credentials.ProxyUsername, ProxyPassword: g.source.Credentials.ProxyPassword,
		}
	}
	return r
}

// lendsCredentials tells whether a repository gets the source's credentials: a commit names its submodules, and its
// author may read less than the credentials do.
func (g *Repositories) lendsCredentials(u *url.URL) bool {
	if !upstream.SameOrigin(u, g.source.URL) {
		return false
	}
	at, ok := repositoryOf(u)
	from, known := repositoryOf(g.source.URL)
	if !ok || !known {
		return false
	}
	if owner := path.Dir(from); owner == "." && !strings.Contains(at, "/") || owner != "." && strings.HasPrefix(at, owner+"/") {
		return true
	}
	return slices.ContainsFunc(g.allowed, func(repository string) bool {
		if folder, all := strings.CutSuffix(repository, "/*"); all {
			return strings.HasPrefix(at, folder+"/")
		}
		return at == strings.TrimSuffix(repository, ".git")
	})
}

// repositoryOf is the path of a repository, without .git; false: hosts may read it in more than one way.
func repositoryOf(u *url.URL) (string, bool) {
	at := strings.Trim(u.Path, "/")
	if at == "" || path.Clean(at) != at || strings.HasPrefix(at, "..") || strings.ContainsAny(at, "\\%") {
		return "", false
	}
	return strings.TrimSuffix(at, ".git"), true
}

// explainError adds what the fetcher can't know: why there are no credentials.
func (g *Repositories) explainError(u *url.URL, err error) error {
	var known *upstream.Error
	if !errors.As(err, &known) {
		return err
	}
	if known.Kind == upstream.KindCredentials && upstream.SameOrigin(u, g.source.URL) && !g.lendsCredentials(u) {
		return fmt.Errorf("%s wants credentials, and those of the source are for repositories of the same owner. Name %s in the source's git.submoduleRepositories if its author may read that", u.Host, strings.Trim(u.Path, "/"))
	}
	if known.Kind == upstream.KindCredentials && !upstream.SameOrigin(u, g.source.URL) {
		return fmt.Errorf("%s wants credentials, and those of the source go to %s only. Make the %s readable for everybody, or keep it on that host", u.Host, g.source.URL.Host, g.what)
	}
	return err
}

// targetOf is the mirror for objects of another repository: only what is here of that one is told there.
func (g *Repositories) targetOf(u *url.URL) upstream.Target {
	if g.known == nil {
		g.known = map[string][]git.Hash{}
		for _, h := range g.deps.Heads {
			// Submodules of an old head that can't be read are fetched once more, no harm.
			_ = g.walkModules(site{commit: h.Commit, from: g.source.URL}, func(_ site, m submodule.Module) error {
				if !g.deps.Mirror.Has(m.Commit) {
					return mirror.ErrMissing
				}
				g.known[m.URL.String()] = append(g.known[m.URL.String()], m.Commit)
				return nil
			})
		}
	}
	return part{g.deps.Mirror, g.known[u.String()]}
}

type part struct {
	*mirror.Mirror
	haves []git.Hash
}

// maxHaves bounds a request.
const maxHaves = 64

// Haves are commits of this repository that are here.
func (p part) Haves() ([]git.Hash, error) {
	haves := slices.Clone(p.haves)
	slices.SortFunc(haves, git.Hash.Compare)
	haves = slices.Compact(haves)
	return haves[:min(len(haves), maxHaves)], nil
}
