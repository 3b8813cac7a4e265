package owner

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"fairlead.dev/platform/catalog"
	"fairlead.dev/platform/refusal"
	"fairlead.dev/services/gitcache/internal/fetch/gitwire"
	"fairlead.dev/services/gitcache/internal/gather"
	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/mirror"
	"fairlead.dev/services/gitcache/internal/source"
	"fairlead.dev/services/gitcache/internal/upstream"
)

const (
	// mostLooks of a source wait at a time; a source answers one after the other.
	mostLooks = 8
	// lookTime bounds a look with its time in the queue. Polls of the source wait for the look.
	lookTime = time.Minute
	// lookLife is how long what a look found stands for the next ones, and mostFound bounds the memory of that.
	lookLife  = 10 * time.Second
	mostFound = 100
)

// look is a question for a revision that no service follows.
type look struct {
	ctx    context.Context //nolint:containedctx // of the caller, who waits for answer
	of     lookOf
	answer chan looked // one place
}

// lookOf is what a look is for.
type lookOf struct {
	ref    string        // canonical
	folder source.Folder // whose charts get what they depend on
}

// looked is what a look found.
type looked struct {
	commit git.Hash
	err    error
	until  time.Time // stands so long
}

// Look fetches a revision that no service follows, by the rules of the source, and returns its commit. The revision
// becomes no head: nobody else sees it, and no poll asks for it. What charts in the folder depend on is fetched, too.
// The owner of the source does it, between two polls.
func (o *Owner) Look(ctx context.Context, uid, ref string, folder source.Folder) (git.Hash, error) {
	l := o.loopOf(uid)
	if l == nil || !l.currentState().Owned {
		return git.Hash{}, refusal.New(refusal.Unavailable, "the source has another owner by now: try again")
	}
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	k := look{ctx: ctx, of: lookOf{ref, folder}, answer: make(chan looked, 1)}
	select {
	case l.looks <- k:
	default:
		return git.Hash{}, refusal.New(refusal.Unavailable,
			"source %q: %d others have revisions of it fetched right now: try again in a moment", l.currentSource().Name, mostLooks)
	}
	select {
	case found := <-k.answer:
		return found.commit, found.err
	case <-ctx.Done():
		return git.Hash{}, refusal.New(refusal.Unavailable, "source %q: %s is not fetched within %s: try again", l.currentSource().Name, ref, lookTime)
	}
}

// lookUp answers a look, from the last one for the same revision if that is no older than lookLife.
func (t *tenure) lookUp(ctx context.Context, k look) {
	now := time.Now()
	maps.DeleteFunc(t.answers, func(_ lookOf, f looked) bool { return !now.Before(f.until) })
	found, known := t.answers[k.of]
	if !known {
		ctx, cancel := context.WithCancel(ctx)
		defer context.AfterFunc(k.ctx, cancel)() //nolint:contextcheck // a caller who is gone ends the look, too
		defer cancel()
		found = t.lookAt(ctx, k.of)
		if k.ctx.Err() == nil && len(t.answers) < mostFound {
			found.until = time.Now().Add(lookLife)
			t.answers[k.of] = found
		}
	}
	k.answer <- found
}

// lookAt asks upstream for one revision and fetches it as a poll would, and keeps nothing else of it: heads, problem
// and schedule stay as they are.
func (t *tenure) lookAt(ctx context.Context, of lookOf) looked {
	s, ref := t.loop.currentSource().ForLook(of.ref, of.folder), of.ref
	switch {
	case !t.lease.Valid():
		return looked{err: refusal.New(refusal.Unavailable, "source %q has no owner right now: try again", s.Name)}
	case t.mirror.Doubted(): // a clone of this revision alone would take the place of the mirror
		return looked{err: refusal.New(refusal.Unavailable, "source %q is being cloned again: try again in a moment", s.Name)}
	case time.Now().Before(t.notBefore):
		return looked{err: refusal.New(refusal.Unavailable, "source %q: its Git host wants no request before %s",
			s.Name, t.notBefore.UTC().Format(time.RFC3339))}
	}
	if _, _, ok := catalog.ParseCombinationRef(ref); ok {
		return t.lookForCombination(s, ref)
	}
	var requests atomic.Int64
	ctx, span := t.loop.o.deps.Tracer.Start(upstream.WithCounter(ctx, &requests), "gitcache.look", trace.WithNewRoot(),
		trace.WithAttributes(attribute.String("source", s.Name)))
	defer span.End()
	defer t.setAside()()
	commit, err := t.lookFor(ctx, s, ref)
	if err == nil && t.mirror.CombinationOf(commit) != "" {
		err = refusal.New(refusal.NotFound, "source %q at %s: %s", s.Name, commit.Short(), source.ErrCombined)
	}
	if err != nil {
		span.SetStatus(codes.Error, "look")
	}
	t.loop.countRequests(int(requests.Load()))
	return looked{commit: commit, err: err}
}

// setAside keeps what polls remember apart from a look, until the returned function is called. Looks have pauses of
// their own: a person may look at any revision, and one whose pack breaks a limit must not hold back what services
// follow.
func (t *tenure) setAside() (back func()) {
	kept := t.work
	t.pauses = t.lookPauses
	if t.trust != nil {
		own := *t.trust
		t.trust = &own
	}
	if t.content != nil {
		own := *t.content
		t.content = &own
	}
	return func() {
		kept.grown = t.grown
		t.work = kept
	}
}

func (t *tenure) lookFor(ctx context.Context, s source.Source, ref string) (commit git.Hash, err error) {
	switch {
	case s.Charts:
		return t.lookForChart(ctx, s, ref)
	case s.Artifacts:
		return t.lookForArtifact(ctx, s, ref)
	case s.Bucket.Is:
		return t.lookForBucket(ctx, s, ref)
	}
	r, err := t.remoteOf(ctx, s)
	if err != nil {
		return commit, t.refusalError(s, ref, err)
	}
	id, isHash := git.ParseHash(ref)
	p := &plan{found: map[string]*found{ref: {object: id}}, seen: map[string]bool{}}
	if !isHash || !t.mirror.Has(id) { // else there is nothing to ask for
		if p, err = t.lookUpstream(ctx, r, s, ref); err != nil {
			return commit, t.refusalError(s, ref, err)
		}
	}
	if err := t.dropUnsigned(ctx, s, p); err != nil {
		return commit, t.refusalError(s, ref, err)
	}
	if err := t.gatherModules(ctx, r, s, p); err != nil {
		return commit, t.refusalError(s, ref, err)
	}
	f := p.found[ref]
	if f == nil {
		return commit, refuseTrouble(s, p.troubles[0])
	}
	if err := t.lookDependencies(ctx, r, s, p); err != nil {
		return commit, t.refusalError(s, ref, err)
	}
	commit, err = t.mirror.Peel(f.object)
	if err != nil && mirror.IsUnreadable(err) {
		err = t.markDamaged(ref, err)
	}
	return commit, t.refusalError(s, ref, err)
}

// lookDependencies fetches what charts in the folder that is looked at depend on, and the bases of its kustomization,
// at a revision that no service follows. These become heads as any others: they are what they are at every revision.
func (t *tenure) lookDependencies(ctx context.Context, r upstream.Remote, s source.Source, p *plan) error {
	before := len(p.troubles)
	if err := t.bringDependencies(ctx, r, s, p); err != nil {
		return err
	}
	if len(p.gathered.Heads) > 0 {
		heads := maps.Clone(t.heads)
		maps.Copy(heads, p.gathered.Heads)
		t.dirty = true
		if err := t.saveHeads(heads); err != nil {
			return err
		}
	}
	for _, is := range p.troubles[before:] {
		if !is.IsHere { // else the folder lacks nothing
			return refuseTrouble(s, is)
		}
	}
	return nil
}

// lookForChart is lookFor for a chart and a version.
func (t *tenure) lookForChart(ctx context.Context, s source.Source, ref string) (commit git.Hash, err error) {
	id, isHash := git.ParseHash(ref)
	if _, _, ok := catalog.ParseChartRef(ref); !ok && !isHash {
		return commit, refusal.New(refusal.NotFound, "source %q is a repository of charts and has no ref %s. Name chart:NAME@VERSION", s.Name, ref)
	}
	if isHash && t.mirror.Has(id) { // then there is nothing to ask for
		return id, nil
	}
	r, err := t.remoteOf(ctx, s)
	if err != nil {
		return commit, t.refusalError(s, ref, err)
	}
	charts, err := t.loop.o.deps.Charts.ListCharts(ctx, r, wantedCharts(s), nil)
	if err != nil {
		t.forgetCredentials(err)
		return commit, t.refusalError(s, ref, err)
	}
	t.loop.o.deps.Metrics.CountListing(charts.Bytes)
	p := t.planCharts(r, s, charts)
	if p.found[ref] == nil {
		return commit, notFoundError(s, p.troubles[0])
	}
	if err = t.verifyContent(ctx, r, s, p); err == nil {
		err = p.err
	}
	if err != nil {
		return commit, t.refusalError(s, ref, err)
	}
	if err := t.fetchCharts(ctx, r, s, p, t.mirror); err != nil {
		return commit, t.refusalError(s, ref, err)
	}
	f := p.found[ref]
	if f == nil {
		return commit, refuseTrouble(s, p.troubles[0])
	}
	return f.commit, nil
}

// notFoundError says why a chart or an artifact was not found: upstream does not have it, or refuses it.
func notFoundError(s source.Source, is source.Trouble) error {
	reason := refusal.Precondition
	if is.IsMissing {
		reason = refusal.NotFound
	}
	return refusal.New(reason, "source %q: %s", s.Name, is.Text)
}

// lookUpstream finds a revision upstream and fetches it.
func (t *tenure) lookUpstream(ctx context.Context, r upstream.Remote, s source.Source, ref string) (*plan, error) {
	names := t.wantedNames(s)
	if other := namesakeOf(ref); other != "" {
		names.Refs = append(names.Refs, other) // to say which other kind of ref may be meant
	}
	listing, err := t.listNames(ctx, r, names)
	if err != nil {
		t.forgetCredentials(err)
		return nil, err
	}
	p := t.makePlan(s, listing)
	if p.fresh {
		return nil, refusal.New(refusal.Unavailable, "source %q is being cloned again: try again in a moment", s.Name)
	}
	if len(p.troubles) > 0 {
		return nil, missingError(s, listing, ref, p.troubles[0])
	}
	if err := t.fetchWanted(ctx, r, listing, p); err != nil {
		t.forgetCredentials(err)
		return nil, err
	}
	return p, nil
}

// missingError says that upstream does not have a revision.
func missingError(s source.Source, l *gitwire.Listing, ref string, is source.Trouble) error {
	name, isBranch := strings.CutPrefix(ref, source.BranchPrefix)
	switch other := namesakeOf(ref); {
	case !is.IsMissing || strings.HasPrefix(ref, catalog.SemverPrefix):
		return refusal.New(refusal.NotFound, "source %q: %s", s.Name, is.Text)
	case !l.Refs[other].IsZero():
		return refusal.New(refusal.NotFound, "source %q has no ref %s, and it has %s: name that", s.Name, ref, other)
	case isBranch:
		return refusal.New(refusal.NotFound, "source %q has no branch %q. Push it; a tag is named as refs/tags/NAME, and a commit with all its letters", s.Name, name)
	}
	return refusal.New(refusal.NotFound, "source %q has no ref %s. Push it, or correct the name", s.Name, ref)
}

// refuseTrouble is a look's error for a trouble. What the host kept back may be there in a moment.
func refuseTrouble(s source.Source, is source.Trouble) error {
	reason := refusal.Precondition
	if isPassing(is.Cause) {
		reason = refusal.Unavailable
	}
	return refusal.New(reason, "source %q: %s", s.Name, is.Text)
}

// isPassing tells errors that go by themselves.
func isPassing(err error) bool {
	known, ok := errors.AsType[*upstream.Error](err)
	return isUnanswered(err) || ok && known.Kind == upstream.KindStorage || errors.Is(err, gather.ErrTime) || errors.Is(err, context.DeadlineExceeded)
}

// refusalError puts an error of a look into words, and tells those that go by themselves from the others.
func (t *tenure) refusalError(s source.Source, ref string, err error) error {
	if err == nil {
		return nil
	}
	if known, ok := errors.AsType[*refusal.Error](err); ok {
		return known
	}
	known, ok := errors.AsType[*upstream.Error](err)
	if !ok {
		return refusal.New(refusal.Precondition, "source %q: %s can't be used: %v", s.Name, ref, err)
	}
	return refuseTrouble(s, source.Trouble{Text: known.Message, Cause: known})
}
