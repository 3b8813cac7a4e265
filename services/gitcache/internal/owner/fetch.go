package owner

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"fairlead.dev/services/gitcache/internal/fetch"
)

// fetch brings what the plan wants.
func (t *tenure) fetch(ctx context.Context, r fetch.Remote, l *fetch.Listing, p *plan) error {
	if len(p.wants) == 0 && len(p.commits) == 0 {
		return nil
	}
	select {
	case t.o.packs <- struct{}{}:
		defer func() { <-t.o.packs }()
	case <-ctx.Done():
		return ctx.Err()
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
func (t *tenure) cloneAgain(ctx context.Context, r fetch.Remote, l *fetch.Listing, p *plan) error {
	fresh, err := t.mirror.Fresh()
	if err != nil {
		return &fetch.Error{Kind: fetch.KindStorage, Message: "make a fresh mirror: " + err.Error()}
	}
	if len(p.wants) > 0 {
		if err := t.fetchInto(ctx, r, l, p.wants, fresh); err != nil {
			return err
		}
	}
	if err := fresh.Use(); err != nil {
		return &fetch.Error{Kind: fetch.KindStorage, Message: "use the fresh mirror: " + err.Error()}
	}
	t.o.deps.Log.InfoContext(ctx, "mirror was cloned again", "source", t.current().Name)
	return t.fetchCommits(ctx, r, l, p)
}

// fetchCommits brings commits that services name and that are no ref's tip: each by itself, since
// upstream answers with an error to all if it does not have one.
func (t *tenure) fetchCommits(ctx context.Context, r fetch.Remote, l *fetch.Listing, p *plan) error {
	s := t.current()
	for _, id := range p.commits {
		ref := id.String()
		o := t.mirror.Objects()
		has := o.Has(id) // part of the history that came with a branch
		o.Close()
		if has {
			continue
		}
		if !l.AllowsAny() {
			delete(p.objects, ref)
			p.lose(ref, fmt.Sprintf("commit %s of %s is not in the history of a wanted branch, and %s hands out only refs. Make a branch or tag for it", short(id), named(s.Wants[ref]), r.URL.Host))
			continue
		}
		err := t.fetchInto(ctx, r, l, []plumbing.Hash{id}, t.mirror)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			delete(p.objects, ref)
			p.lose(ref, fmt.Sprintf("commit %s of %s can't be fetched: %s", short(id), named(s.Wants[ref]), err.Error()))
		}
	}
	return nil
}

func (t *tenure) fetchInto(ctx context.Context, r fetch.Remote, l *fetch.Listing, wants []plumbing.Hash, into fetch.Target) error {
	slices.SortFunc(wants, func(a, b plumbing.Hash) int { return strings.Compare(string(a[:]), string(b[:])) })
	wants = slices.Compact(wants)
	key := fmt.Sprint(wants)
	before := t.spoiled[key]
	if time.Now().Before(before.until) {
		return before.err
	}
	ctx, span := t.o.deps.Tracer.Start(ctx, "gitcache.fetch", trace.WithAttributes(attribute.Int("wants", len(wants))))
	defer span.End()
	n, err := t.o.deps.Fetcher.Fetch(ctx, r, l, wants, into)
	span.SetAttributes(attribute.Int64("bytes", n))
	if err != nil {
		span.SetStatus(codes.Error, "fetch")
	}
	t.o.deps.Metrics.fetch(n, err)
	t.remember(key, before.times, err)
	return err
}

// remember notes a fetch that brought what can't be used. The first may have been cut on its way: it
// is tried again soon.
func (t *tenure) remember(key string, times int, err error) {
	if err == nil {
		delete(t.spoiled, key)
	}
	var known *fetch.Error
	if !errors.As(err, &known) || known.Kind != fetch.KindContent {
		return
	}
	if len(t.spoiled) >= maxSpoiled {
		clear(t.spoiled)
	}
	pause := min(firstBackoff<<min(times, 16), mostSpoiled)
	t.spoiled[key] = spoiled{err: err, times: times + 1, until: time.Now().Add(pause/2 + rand.N(pause))} //nolint:gosec // jitter
}
