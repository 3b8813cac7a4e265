package owner

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"fairlead.dev/services/gitcache/internal/gather"
	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/mirror"
	"fairlead.dev/services/gitcache/internal/source"
	"fairlead.dev/services/gitcache/internal/submodule"
	"fairlead.dev/services/gitcache/internal/upstream"
)

// gatherModules fetches the submodules of what was found, and drops what is not whole without them. No host is asked
// while all of them are here.
func (t *tenure) gatherModules(ctx context.Context, r upstream.Remote, s source.Source, p *plan) error {
	if !s.Submodules {
		clear(t.whole)
		return nil
	}
	whole := map[git.Hash][]git.Hash{}
	g := gather.NewSubmodules(t.gatherDeps(), r, s)
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
			ids, err = g.GatherSubmodules(ctx, commit)
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

func (t *tenure) gatherDeps() gather.Deps {
	return gather.Deps{
		Mirror: t.mirror, Heads: t.heads, Pauses: t.pauses, List: t.listNames, Fetch: t.fetchInto,
		RemoteOf: t.remoteOf, ForgetCredentials: t.forgetCredentialsOf,
		Charts: t.loop.o.deps.Charts, Asker: t.newAsker(), Metrics: t.loop.o.deps.Metrics, Tracer: t.loop.o.deps.Tracer,
	}
}

// newGathering gathers charts and bases for what a plan has found.
func (t *tenure) newGathering(r upstream.Remote, s source.Source, p *plan) *gather.Poll {
	points := map[string]git.Hash{}
	for ref := range s.Folders {
		if f, ok := p.found[ref]; ok {
			points[ref] = f.object
		} else if h, known := t.heads[ref]; known {
			points[ref] = h.Commit
		}
	}
	g := &gather.Poll{Deps: t.gatherDeps(), Memory: &t.gathered, Source: s, Remote: r, Points: points, IsFresh: p.fresh}
	if p.moved {
		g.Publish = t.publishBefore
	}
	return g
}

// noteGathered takes in what was gathered for a plan, also before an error.
func (t *tenure) noteGathered(p *plan, is gather.Result) {
	p.gathered, p.troubles = is, append(p.troubles, is.Troubles...)
	t.grown = t.grown || is.IsGrown
}

// bringDependencies fetches what the folders of services need of others: charts of repositories, and bases of other
// repositories.
func (t *tenure) bringDependencies(ctx context.Context, r upstream.Remote, s source.Source, p *plan) error {
	is, err := t.newGathering(r, s, p).GatherAll(ctx)
	t.noteGathered(p, is)
	return err
}

// publishBefore publishes the heads that moved before charts are downloaded: most services need none of these.
func (t *tenure) publishBefore(ctx context.Context) error {
	if t.dirty = true; t.publishes == 0 {
		t.publishAt = time.Now()
	}
	return t.publishIfDue(ctx)
}
