package owner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"fairlead.dev/platform/telemetry"
	"fairlead.dev/services/gitcache/internal/fetch/buckets"
	"fairlead.dev/services/gitcache/internal/fetch/chartrepo"
	"fairlead.dev/services/gitcache/internal/fetch/gitwire"
	"fairlead.dev/services/gitcache/internal/fetch/registry"
	"fairlead.dev/services/gitcache/internal/gather"
	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/mirror"
	"fairlead.dev/services/gitcache/internal/pause"
	"fairlead.dev/services/gitcache/internal/source"
	"fairlead.dev/services/gitcache/internal/upstream"
)

// work is what polls keep for the next ones.
type work struct {
	checked bool                    // that the mirror has the objects of its heads
	pauses  pause.Pauses            // fetches that are not tried again with every poll
	trust   *trust                  // nil: nothing has to be signed
	content *contentTrust           // the same of charts and artifacts
	whole   map[git.Hash][]git.Hash // the submodules of commits that have all of them here
	lacking map[string]bool         // wanted refs that upstream did not have: their namesakes are asked for, too
	grown   bool                    // the mirror, since it was last looked after

	charts    *chartrepo.Charts     // the result of the last good poll of a chart repository; nil: there was none
	artifacts *registry.Artifacts   // the same of a registry
	bucket    *buckets.List         // what was fetched last of a bucket; nil: nothing was by this replica
	fetched   map[git.Hash]git.Hash // the commits that packages of charts became, by what the index said of them
	unserved  map[git.Hash]silence  // the last requests for packages that had no answer, by the same

	gathered gather.Memory

	credentials map[string]credentials // by the name of the secret
}

func newWork() work {
	return work{
		pauses: pause.Pauses{}, fetched: map[git.Hash]git.Hash{}, gathered: gather.NewMemory(), unserved: map[git.Hash]silence{}, credentials: map[string]credentials{}, grown: true,
	}
}

// pollUpstream asks upstream once and takes in what moved. Its own trouble is the source's problem, not an
// error; an error means that the context ended.
func (t *tenure) pollUpstream(ctx context.Context) error {
	s := t.loop.currentSource()
	var requests atomic.Int64
	began := time.Now()
	moved, troubles, err := t.listAndFetch(upstream.WithCounter(ctx, &requests), s, began)
	t.loop.countRequests(int(requests.Load()))
	if ctx.Err() != nil {
		return ctx.Err()
	}
	result, retryAfter := "unchanged", time.Duration(0)
	if moved {
		result, ctx = "moved", telemetry.Extract(ctx, t.found)
	}
	if err != nil {
		troubles = append(troubles, source.Trouble{Text: err.Error()})
		result = "failed"
		if known, ok := errors.AsType[*upstream.Error](err); ok {
			result, retryAfter = string(known.Kind), known.RetryAfter
		}
	}
	t.loop.o.deps.Metrics.CountPoll(ctx, result, time.Since(began))
	t.troubles, t.failure = troubles, err
	t.combineAt = time.Now() // after what moved is published: to put sources together may take a while
	t.noteResult(ctx, s, moved, err)
	t.schedulePoll(s, err, retryAfter)
	t.noteHost(ctx, s, err)
	return nil
}

// noteResult keeps what a poll brought, and marks it for publishing if it is news.
func (t *tenure) noteResult(ctx context.Context, s source.Source, moved bool, err error) {
	first := !t.polled
	t.polled = true
	t.judgeProblem(ctx, s, moved || first)
	t.loop.mu.Lock()
	defer t.loop.mu.Unlock()
	t.loop.now.LastPoll, t.loop.now.Heads, t.loop.now.Problem = time.Now(), sortHeads(t.heads), t.problem
	if err == nil {
		t.loop.good, t.loop.now.StaleSince = t.loop.now.LastPoll, time.Time{}
	} else if t.loop.now.StaleSince.IsZero() {
		t.loop.now.StaleSince = t.loop.now.LastPoll
	}
}

// judgeProblem puts what is wrong into words, and marks it for publishing if it is news, or there is other news.
func (t *tenure) judgeProblem(ctx context.Context, s source.Source, news bool) {
	problem := s.DescribeTroubles(slices.Concat(t.troubles, t.apart), t.problem, time.Now())
	if _, isPartial := errors.AsType[*partialError](t.failure); t.failure != nil && !isPartial {
		problem.Single = t.stillAtFault(s, problem.Single)
	}
	if !problem.Equal(t.problem) {
		news = true
		if problem.Message != "" && problem.Message != t.problem.Message {
			t.loop.o.deps.Log.WarnContext(ctx, "source has a problem", "source", s.Name, "err", problem.Message)
		}
		t.problem = problem
	}
	t.dirty = t.dirty || news
	if t.dirty && t.publishes == 0 {
		t.publishAt = time.Now()
	}
}

// partialError is a fault of the host that kept single refs back in a poll that did all else.
type partialError struct{ error }

func (e *partialError) Unwrap() error { return e.error }

// stillAtFault adds to the refs at fault those of before that are still wanted: a poll that failed says nothing new of
// them, and a problem that lasts has one beginning.
func (t *tenure) stillAtFault(s source.Source, single []source.RefProblem) []source.RefProblem {
	for _, was := range t.problem.Single {
		isTold := slices.ContainsFunc(single, func(now source.RefProblem) bool { return now.Ref == was.Ref })
		if s.Wants[was.Ref] > 0 && !isTold {
			single = append(single, was)
		}
	}
	slices.SortFunc(single, func(a, b source.RefProblem) int {
		return cmp.Or(cmp.Compare(a.Ref, b.Ref), cmp.Compare(a.Message, b.Message))
	})
	return single
}

// listAndFetch lists and, if a wanted ref moved, fetches. Troubles are with single refs and in words; err is
// with all of upstream. A poll that finds something, or fails, begins a trace.
func (t *tenure) listAndFetch(ctx context.Context, s source.Source, began time.Time) (moved bool, troubles []source.Trouble, err error) {
	p, bring, err := t.planPoll(ctx, s)
	if err != nil || t.hasNews(p) {
		traced, span := t.startTrace(ctx, s, began)
		defer func() { endSpan(span, err) }()
		ctx = traced
	}
	if err == nil {
		moved, err = bring(ctx)
		troubles = p.troubles
	}
	if err != nil && ctx.Err() == nil && t.takePins(ctx, s) { // a bad push is what a rollback undoes
		moved = true
	}
	if moved {
		t.found = telemetry.Inject(ctx)
	}
	return moved, troubles, err
}

// planPoll asks upstream what there is, and plans what to bring. planPoll is the one place where the kind of a source
// is decided.
func (t *tenure) planPoll(ctx context.Context, s source.Source) (p *plan, bring func(context.Context) (moved bool, err error), err error) {
	if s.Charts {
		r, charts, err := t.listCharts(ctx, s)
		if err != nil {
			return nil, nil, err
		}
		p = t.planCharts(r, s, charts)
		return p, func(ctx context.Context) (bool, error) { return t.bringCharts(ctx, r, s, p) }, nil
	}
	if s.Artifacts {
		r, artifacts, err := t.listArtifacts(ctx, s)
		if err != nil {
			return nil, nil, err
		}
		p = t.planArtifacts(s, artifacts)
		return p, func(ctx context.Context) (bool, error) { return t.bringCharts(ctx, r, s, p) }, nil
	}
	if s.Bucket.Is {
		r, list, err := t.listBucket(ctx, s)
		if err != nil {
			return nil, nil, err
		}
		p = t.planBucket(s, list)
		return p, func(ctx context.Context) (bool, error) { return t.bringCharts(ctx, r, s, p) }, nil
	}
	r, listing, err := t.listRefs(ctx, s)
	if err != nil {
		return nil, nil, err
	}
	p = t.makePlan(s, listing)
	return p, func(ctx context.Context) (bool, error) { return t.bringWanted(ctx, r, s, listing, p) }, nil
}

// startTrace begins a trace with the span of a poll that began before it was known to be worth one.
func (t *tenure) startTrace(ctx context.Context, s source.Source, began time.Time) (context.Context, trace.Span) {
	return t.loop.o.deps.Tracer.Start(ctx, "gitcache.poll", //nolint:spancheck // the caller ends it
		trace.WithNewRoot(), trace.WithTimestamp(began), trace.WithAttributes(attribute.String("source", s.Name)))
}

func endSpan(span trace.Span, err error) {
	if err != nil {
		span.SetStatus(codes.Error, "poll")
	}
	span.End()
}

// hasNews says whether a poll has something to do.
func (t *tenure) hasNews(p *plan) bool {
	if p.fresh || len(p.wants)+len(p.commits) > 0 {
		return true
	}
	for ref, f := range p.found {
		if t.heads[ref].Object != f.object {
			return true
		}
	}
	return false
}

// listRefs asks upstream for the wanted refs. Of those that it does not have the namesakes are asked for as well, so
// that it can be said which other kind of ref was meant: with the next polls at once, and now once more.
func (t *tenure) listRefs(ctx context.Context, s source.Source) (r upstream.Remote, listing *gitwire.Listing, err error) {
	if r, err = t.remoteOf(ctx, s); err != nil {
		return r, nil, err
	}
	for range 2 { // not until it lacks nothing: a host may lack another ref each time
		if listing, err = t.listNames(ctx, r, t.wantedNames(s)); err != nil {
			break
		}
		if !t.noteLacking(s, listing) {
			break
		}
	}
	if err != nil {
		t.forgetCredentials(err)
	}
	return r, listing, err
}

// listNames asks upstream where names point.
func (t *tenure) listNames(ctx context.Context, r upstream.Remote, names gitwire.Names) (*gitwire.Listing, error) {
	listing, err := t.loop.o.deps.Fetcher.List(ctx, r, names)
	if err == nil {
		t.loop.o.deps.Metrics.CountListing(listing.Bytes)
	}
	return listing, err
}

// bringWanted fetches what the plan wants, and makes heads of it.
func (t *tenure) bringWanted(ctx context.Context, r upstream.Remote, s source.Source, listing *gitwire.Listing, p *plan) (moved bool, err error) {
	if err := t.fetchWanted(ctx, r, listing, p); err != nil {
		t.forgetCredentials(err)
		return false, err
	}
	if err := t.dropUnsigned(ctx, s, p); err != nil {
		return false, err
	}
	if err := t.gatherModules(ctx, r, s, p); err != nil {
		return false, err
	}
	if p.fresh { // heads of charts may not be in the new mirror yet
		if err := t.bringDependencies(ctx, r, s, p); err != nil {
			return false, err
		}
		return t.settleHeads(ctx, s, p)
	}
	if p.moved, err = t.settleHeads(ctx, s, p); err != nil {
		return false, err
	}
	if err := t.bringDependencies(ctx, r, s, p); err != nil { // a slow repository of charts holds no commit back
		return p.moved, err
	}
	more, err := t.settleDependencies(p)
	return p.moved || more, err
}

// settleDependencies makes heads of the charts that others depend on, and of bases.
func (t *tenure) settleDependencies(p *plan) (moved bool, err error) {
	heads := maps.Clone(t.heads)
	maps.DeleteFunc(heads, func(ref string, _ mirror.Head) bool { return gather.IsDependency(ref) })
	t.gathered.KeepHeads(heads, t.heads, p.gathered)
	moved = !maps.EqualFunc(heads, t.heads, mirror.Head.Equal)
	return moved, t.saveHeads(heads)
}

// settleHeads makes heads of what was found and brought.
func (t *tenure) settleHeads(ctx context.Context, s source.Source, p *plan) (moved bool, err error) {
	heads, err := t.resolveHeads(ctx, s, p)
	if err != nil {
		return false, err
	}
	moved = !maps.EqualFunc(heads, t.heads, mirror.Head.Equal)
	if err := t.saveHeads(heads); err != nil {
		return false, err
	}
	maps.Copy(t.seen, p.seen)
	return moved, nil
}

// saveHeads makes heads durable, but for those whose objects are not here.
func (t *tenure) saveHeads(heads map[string]mirror.Head) error {
	here := maps.Clone(heads)
	maps.DeleteFunc(here, func(_ string, h mirror.Head) bool { return h.Object.IsZero() })
	if !maps.EqualFunc(t.mirror.Heads(), here, mirror.Head.Equal) {
		if err := t.mirror.SetHeads(here); err != nil {
			return &upstream.Error{Kind: upstream.KindStorage, Message: fmt.Sprintf("write the mirror: %v. Check the disk of replica %q", err, t.loop.o.cfg.Replica)}
		}
	}
	t.heads = heads
	return nil
}
