package owner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"fairlead.dev/platform/telemetry"
	"fairlead.dev/services/gitcache/internal/fetch/gitwire"
	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/pack"
	"fairlead.dev/services/gitcache/internal/pause"
	"fairlead.dev/services/gitcache/internal/upstream"
)

// fetchWanted brings what the plan wants. How many fetch at once, over all and per host, is the budget's to
// say: see package fetch.
func (t *tenure) fetchWanted(ctx context.Context, r upstream.Remote, l *gitwire.Listing, p *plan) error {
	if len(p.wants) == 0 && len(p.commits) == 0 {
		return nil
	}
	if p.fresh {
		return t.cloneAgain(ctx, r, l, p)
	}
	if len(p.wants) > 0 {
		if err := t.fetchInto(ctx, r, l, p.wants, t.mirror); err != nil {
			return err
		}
	}
	return t.fetchCommits(ctx, r, l, p)
}

// cloneAgain replaces a damaged mirror by a fresh clone.
func (t *tenure) cloneAgain(ctx context.Context, r upstream.Remote, l *gitwire.Listing, p *plan) error {
	fresh, err := t.mirror.Fresh()
	if err != nil {
		return &upstream.Error{Kind: upstream.KindStorage, Message: "make a fresh mirror: " + err.Error()}
	}
	if len(p.wants) > 0 {
		if err := t.fetchInto(ctx, r, l, p.wants, fresh); err != nil {
			return err
		}
	}
	if err := fresh.Use(); err != nil {
		return &upstream.Error{Kind: upstream.KindStorage, Message: "use the fresh mirror: " + err.Error()}
	}
	clear(t.whole) // submodules were in the old one
	t.checked = false
	t.loop.o.deps.Log.InfoContext(ctx, "mirror was cloned again", "source", t.loop.currentSource().Name)
	return t.fetchCommits(ctx, r, l, p)
}

// fetchCommits brings commits that services name and that are no ref's tip: each by itself, since
// upstream answers with an error to all if it does not have one.
func (t *tenure) fetchCommits(ctx context.Context, r upstream.Remote, l *gitwire.Listing, p *plan) error {
	s := t.loop.currentSource()
	for _, id := range p.commits {
		ref := id.String()
		if t.mirror.Has(id) { // part of the history that came with a branch
			continue
		}
		if !l.AllowsAny() {
			p.dropRef(ref, fmt.Sprintf("commit %s of %s is not in the history of a wanted branch, and %s hands out only refs. Make a branch or tag for it", id.Short(), s.NameUsers(ref), r.URL.Host))
			continue
		}
		err := t.fetchInto(ctx, r, l, []git.Hash{id}, t.mirror)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			p.dropFor(ref, err, fmt.Sprintf("commit %s of %s can't be fetched: %s", id.Short(), s.NameUsers(ref), err.Error()))
		}
	}
	return nil
}

func (t *tenure) fetchInto(ctx context.Context, r upstream.Remote, l *gitwire.Listing, wants []git.Hash, into upstream.Target) error {
	slices.SortFunc(wants, func(a, b git.Hash) int { return strings.Compare(string(a[:]), string(b[:])) })
	wants = slices.Compact(wants)
	key, repository := pause.KeyOf(wants...), "limits of "+r.URL.String()
	if err := cmp.Or(t.pauses.Check(key), t.pauses.Check(repository)); err != nil {
		return err
	}
	ctx, span := telemetry.Child(ctx, t.loop.o.deps.Tracer, "gitcache.fetch", trace.WithAttributes(attribute.Int("wants", len(wants))))
	defer span.End()
	n, err := t.loop.o.deps.Fetcher.Fetch(ctx, r, l, wants, into)
	span.SetAttributes(attribute.Int64("bytes", n))
	t.loop.o.deps.Metrics.CountFetch(n, err)
	if err == nil {
		t.pauses.Clear(key)
		t.pauses.Clear(repository)
		t.grown = true
		return nil
	}
	span.SetStatus(codes.Error, "fetch")
	var known *upstream.Error
	if errors.As(err, &known) && known.Kind == upstream.KindContent {
		if _, ok := errors.AsType[*pack.LimitError](err); ok {
			t.pauses.AddLong(key, repository, err)
		} else {
			t.pauses.Add(key, err, pause.MostSpoiled) // the same would come again
		}
	}
	return err
}
