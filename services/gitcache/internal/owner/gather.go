package owner

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"fairlead.dev/platform/telemetry"
	"fairlead.dev/services/gitcache/internal/fetch/gitwire"
	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/mirror"
	"fairlead.dev/services/gitcache/internal/source"
	"fairlead.dev/services/gitcache/internal/submodule"
	"fairlead.dev/services/gitcache/internal/upstream"
)

// maxSubmoduleDepth of submodules, one within the other; builds go no deeper.
const maxSubmoduleDepth = 8

// gatherModules fetches the submodules of what was found, and drops what is not whole without them. No host is asked
// while all of them are here.
func (t *tenure) gatherModules(ctx context.Context, r upstream.Remote, s source.Source, p *plan) error {
	if !s.Submodules {
		clear(t.whole)
		return nil
	}
	whole := map[git.Hash][]git.Hash{}
	g := &gatherer{t: t, source: r, allowed: s.SubmoduleRepositories, what: "submodule", listings: map[string]*gitwire.Listing{}}
	for _, ref := range slices.Sorted(maps.Keys(p.found)) {
		f := p.found[ref]
		commit, err := t.mirror.Peel(f.object)
		if err != nil && mirror.IsUnreadable(err) {
			return t.markDamaged(ref, err)
		}
		if err != nil { // the submodules were not looked at, whatever the error is
			p.dropRef(ref, describeUnusable(s, ref, err))
			continue
		}
		ids, known := t.whole[commit]
		if !known {
			ids, err = g.gatherAll(ctx, commit)
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && mirror.IsUnreadable(err):
			return t.markDamaged(ref, err)
		case err != nil:
			p.dropFor(ref, err, t.describeIncomplete(s, ref, commit, err))
		default:
			f.submodules, whole[commit] = ids, ids
		}
	}
	t.whole = whole
	return nil
}

// describeIncomplete says what is missing and what is kept.
func (t *tenure) describeIncomplete(s source.Source, ref string, commit git.Hash, err error) string {
	what := fmt.Sprintf("ref %q", ref)
	if s.Wants[ref] > 0 {
		what += " of " + s.NameUsers(ref)
	}
	kept := "Nothing of it is published"
	if old, known := t.heads[ref]; known {
		kept = fmt.Sprintf("The last good commit %s is kept", old.Commit.Short())
	}
	return fmt.Sprintf("%s at commit %s: %s. %s", what, commit.Short(), submodule.Words(err), kept)
}

// gatherer fetches submodules for one poll.
type gatherer struct {
	t        *tenure
	source   upstream.Remote
	allowed  []string                    // repositories on the source's host that get its credentials, too
	what     string                      // is fetched: a submodule, or a base
	listings map[string]*gitwire.Listing // of this poll, by URL
	known    map[string][]git.Hash       // commits that are here, by URL; nil until somebody needs them
}

// site is a commit in which submodules are looked for.
type site struct {
	commit git.Hash
	from   *url.URL // where its repository is
	path   string
	depth  int
}

// gatherAll fetches what is missing of a commit's submodules and of theirs, and returns their commits.
func (g *gatherer) gatherAll(ctx context.Context, commit git.Hash) (ids []git.Hash, err error) {
	ctx, span := telemetry.Child(ctx, g.t.loop.o.deps.Tracer, "gitcache.submodules", trace.WithAttributes(attribute.String("revision", commit.String())))
	defer func() {
		span.SetAttributes(attribute.Int("submodules", len(ids)))
		if err != nil {
			span.SetStatus(codes.Error, "submodules")
		}
		span.End()
	}()
	seen := map[git.Hash]bool{}
	err = g.walkModules(site{commit: commit, from: g.source.URL}, func(p site, m submodule.Module) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if !seen[m.Commit] && len(seen) == submodule.MaxModules {
			return fmt.Errorf("it has more than the limit of %d submodules", submodule.MaxModules)
		}
		if p.depth == maxSubmoduleDepth {
			return fmt.Errorf("submodule %q is within more than the limit of %d others", m.Path, maxSubmoduleDepth)
		}
		seen[m.Commit] = true
		var err error
		if !g.t.mirror.Has(m.Commit) {
			err = g.bringModule(ctx, m)
		}
		if err == nil && g.t.mirror.CombinationOf(m.Commit) != "" { // it has files of other sources
			err = source.ErrCombined
		}
		if err != nil {
			return fmt.Errorf("submodule %q at commit %s of %s: %w", joinPath(p.path, m.Path), m.Commit.Short(), redactURL(m.URL), err)
		}
		return nil
	})
	return slices.SortedFunc(maps.Keys(seen), git.Hash.Compare), err
}

func joinPath(folder, name string) string {
	if folder == "" {
		return name
	}
	return folder + "/" + name
}

func redactURL(u *url.URL) string { return u.Redacted() }

// walkModules visits all submodules below a commit, each before what is within it.
func (g *gatherer) walkModules(from site, visit func(site, submodule.Module) error) error {
	line := []site{from}
	walked := map[git.Hash]bool{}
	for len(line) > 0 {
		p := line[0]
		line = line[1:]
		if walked[p.commit] {
			continue
		}
		walked[p.commit] = true
		modules, err := g.t.readModules(p)
		if err != nil {
			return err
		}
		for _, m := range modules {
			if err := visit(p, m); err != nil {
				return err
			}
			line = append(line, site{commit: m.Commit, from: m.URL, path: joinPath(p.path, m.Path), depth: p.depth + 1})
		}
	}
	return nil
}

// readModules reads .gitmodules at a commit.
func (t *tenure) readModules(p site) ([]submodule.Module, error) {
	o := t.mirror.Objects()
	defer o.Close()
	c, err := o.Commit(p.commit)
	if err != nil {
		return nil, err
	}
	modules, err := submodule.List(o, c.Tree, p.from)
	if err != nil && p.path != "" && !mirror.IsUnreadable(err) {
		return nil, fmt.Errorf("submodule %q: %s", p.path, submodule.Words(err))
	}
	return modules, err
}
