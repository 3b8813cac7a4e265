package gather

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
	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/mirror"
	"fairlead.dev/services/gitcache/internal/source"
	"fairlead.dev/services/gitcache/internal/submodule"
)

// maxSubmoduleDepth of submodules, one within the other; builds go no deeper.
const maxSubmoduleDepth = 8

// site is a commit in which submodules are looked for.
type site struct {
	commit git.Hash
	from   *url.URL // where its repository is
	path   string
	depth  int
}

// GatherSubmodules fetches what is missing of a commit's submodules and of theirs, and returns their commits.
func (g *Repositories) GatherSubmodules(ctx context.Context, commit git.Hash) (ids []git.Hash, err error) {
	ctx, span := telemetry.Child(ctx, g.deps.Tracer, "gitcache.submodules", trace.WithAttributes(attribute.String("revision", commit.String())))
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
		if !g.deps.Mirror.Has(m.Commit) {
			err = g.bringModule(ctx, m)
		}
		if err == nil && g.deps.Mirror.CombinationOf(m.Commit) != "" { // it has files of other sources
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
func (g *Repositories) walkModules(from site, visit func(site, submodule.Module) error) error {
	line := []site{from}
	walked := map[git.Hash]bool{}
	for len(line) > 0 {
		p := line[0]
		line = line[1:]
		if walked[p.commit] {
			continue
		}
		walked[p.commit] = true
		modules, err := g.readModules(p)
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
func (g *Repositories) readModules(p site) ([]submodule.Module, error) {
	o := g.deps.Mirror.Objects()
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
