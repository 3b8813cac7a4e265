package owner

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"fairlead.dev/platform/telemetry"
	"fairlead.dev/services/gitcache/internal/fetch"
	"fairlead.dev/services/gitcache/internal/mirror"
)

// poll asks upstream once and takes in what moved. Its own trouble is the source's problem, not an
// error; an error means that the context ended.
func (t *tenure) poll(ctx context.Context) error {
	select {
	case t.o.polls <- struct{}{}:
		defer func() { <-t.o.polls }()
	case <-ctx.Done():
		return ctx.Err()
	}
	s := t.current()
	ctx, span := t.o.deps.Tracer.Start(ctx, "gitcache.poll", trace.WithNewRoot(), trace.WithAttributes(attribute.String("source", s.Name)))
	defer span.End()
	began := time.Now()
	moved, troubles, err := t.ask(ctx, s)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	result, retryAfter := "unchanged", time.Duration(0)
	if moved {
		result = "moved"
	}
	if err != nil {
		troubles = append(troubles, trouble{text: err.Error()})
		result = "failed"
		if known, ok := errors.AsType[*fetch.Error](err); ok {
			result, retryAfter = string(known.Kind), known.RetryAfter
		}
		span.SetStatus(codes.Error, result)
	}
	t.o.deps.Metrics.poll(result, time.Since(began))
	t.note(ctx, s, troubles, moved, err == nil)
	t.schedule(s, err, retryAfter)
	return nil
}

// note keeps what a poll brought, and marks it for publishing if it is news.
func (t *tenure) note(ctx context.Context, s Source, troubles []trouble, moved, good bool) {
	message, refs := told(s, troubles)
	first := t.state().LastPoll.IsZero()
	if message != t.problem.Message {
		t.dirty = true
		t.problem = Problem{}
		if message != "" {
			t.problem = Problem{Message: message, Since: time.Now(), Refs: refs}
			t.o.deps.Log.WarnContext(ctx, "source has a problem", "source", s.Name, "err", message)
		}
	}
	if moved || first {
		t.dirty = true
	}
	if t.dirty && t.publishes == 0 {
		t.publishAt = time.Now()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.now.LastPoll, t.now.Heads, t.now.Problem = time.Now(), sorted(t.heads), t.problem
	if good {
		t.good = t.now.LastPoll
	}
}

// trouble is what a poll could not do.
type trouble struct {
	ref  string // what it is about; "": all of the source
	text string
}

// told puts troubles into words, and says which refs they are about: none if they are about all.
func told(s Source, troubles []trouble) (message string, refs []string) {
	texts := make([]string, 0, len(troubles))
	whole := false
	for _, t := range troubles {
		texts = append(texts, t.text)
		refs = append(refs, t.ref)
		whole = whole || t.ref == ""
	}
	if len(texts) > 0 {
		message = fmt.Sprintf("source %q: %s", s.Name, strings.Join(texts, "; "))
	}
	if whole {
		return message, nil
	}
	slices.Sort(refs)
	return message, slices.Compact(refs)
}

// ask lists and, if a wanted ref moved, fetches. Troubles are with single refs and in words; err is
// with all of upstream.
func (t *tenure) ask(ctx context.Context, s Source) (moved bool, troubles []trouble, err error) {
	r, err := t.remote(ctx, s)
	if err != nil {
		return false, nil, err
	}
	listing, err := t.o.deps.Fetcher.List(ctx, r)
	if err != nil {
		t.forgetCredentials(err)
		return false, nil, err
	}
	p := t.plan(s, listing)
	if err := t.fetch(ctx, r, listing, p); err != nil {
		t.forgetCredentials(err)
		return false, p.troubles, err
	}
	heads, err := t.take(ctx, s, p)
	if err != nil {
		return false, p.troubles, err
	}
	moved = !maps.Equal(heads, t.heads)
	if moved || !maps.Equal(t.mirror.Heads(), heads) {
		if err := t.keep(heads); err != nil {
			return false, p.troubles, err
		}
	}
	maps.Copy(t.seen, p.seen)
	return moved, p.troubles, nil
}

// keep makes heads durable, but for those whose objects are not here.
func (t *tenure) keep(heads map[string]mirror.Head) error {
	here := maps.Clone(heads)
	maps.DeleteFunc(here, func(_ string, h mirror.Head) bool { return h.Object.IsZero() })
	if err := t.mirror.SetHeads(here); err != nil {
		return &fetch.Error{Kind: fetch.KindStorage, Message: fmt.Sprintf("write the mirror: %v. Check the disk of replica %q", err, t.o.cfg.Replica)}
	}
	t.heads = heads
	return nil
}

// remote puts together whom to ask, and as whom.
func (t *tenure) remote(ctx context.Context, s Source) (fetch.Remote, error) {
	u, err := fetch.ParseURL(s.URL)
	if err != nil {
		return fetch.Remote{}, err
	}
	r := fetch.Remote{URL: u, Secret: s.Secret}
	if s.Secret == "" {
		return r, nil
	}
	if key := (credentialsKey{s.Secret, s.SecretRevision}); t.known != key {
		ctx, cancel := context.WithTimeout(ctx, consoleTime)
		defer cancel()
		c, err := t.o.deps.Console.Credentials(ctx, s.Secret)
		if err != nil {
			return r, &fetch.Error{Kind: fetch.KindCredentials, Message: err.Error()}
		}
		t.credentials, t.known = c, key
	}
	r.Credentials = t.credentials
	return r, nil
}

// forgetCredentials makes the next poll read the secret again when upstream did not like it.
func (t *tenure) forgetCredentials(err error) {
	var known *fetch.Error
	if errors.As(err, &known) && known.Kind == fetch.KindCredentials {
		t.known = credentialsKey{}
	}
}

// plan is what a listing means for the wanted refs.
type plan struct {
	fresh bool // clone beside the damaged mirror
	// objects are where wanted refs point now. A ref that is not in here keeps its last good head.
	objects map[string]plumbing.Hash
	seen    map[string]bool // refs whose heads are those of this listing
	// wants are objects that have to be fetched, for refs; commits those that a service names.
	wants, commits []plumbing.Hash
	troubles       []trouble
}

func (t *tenure) plan(s Source, l *fetch.Listing) *plan {
	p := &plan{fresh: t.mirror.Doubted(), objects: map[string]plumbing.Hash{}, seen: map[string]bool{}}
	if len(l.Refs) == 0 {
		p.troubles = append(p.troubles, trouble{text: t.emptied()})
		return p
	}
	o := t.mirror.Objects()
	defer o.Close()
	has := func(id plumbing.Hash) bool { return !p.fresh && o.Has(id) }
	for _, ref := range slices.Sorted(maps.Keys(wanted(s))) {
		id, listed := l.Refs[ref]
		named := plumbing.IsHash(ref)
		if named {
			id = plumbing.NewHash(ref)
		}
		switch {
		case !listed && !named:
			p.lose(ref, t.lost(s, ref))
			continue
		case t.checked && !p.fresh && t.heads[ref].Object == id: // the usual case costs nothing
		case has(id):
		case named && !slices.Contains(slices.Collect(maps.Values(l.Refs)), id):
			p.commits = append(p.commits, id)
		default:
			p.wants = append(p.wants, id)
		}
		p.objects[ref] = id
	}
	t.checked = true
	return p
}

func (p *plan) lose(ref, text string) {
	if text != "" {
		p.troubles = append(p.troubles, trouble{ref, text})
	}
}

func wanted(s Source) map[string][]string {
	wants := maps.Clone(s.Wants)
	if wants == nil {
		wants = map[string][]string{}
	}
	if _, ok := wants[RefHead]; !ok {
		wants[RefHead] = nil
	}
	return wants
}

// emptied says that upstream has no refs at all.
func (t *tenure) emptied() string {
	if len(t.heads) == 0 {
		return "the repository is empty. Push a first commit"
	}
	return fmt.Sprintf("the repository has no refs any more. The last good heads are kept (%s). Push again, or correct the source's url", t.commitOf(RefHead))
}

// lost says that upstream does not have a wanted ref. The default branch is missed by nobody but by
// services that use it.
func (t *tenure) lost(s Source, ref string) string {
	services := s.Wants[ref]
	if len(services) == 0 {
		return ""
	}
	what := fmt.Sprintf("ref %q", ref)
	if ref == RefHead {
		what = "the default branch"
	}
	if h, ok := t.heads[ref]; ok {
		return fmt.Sprintf("%s of %s is gone upstream; its last good commit %s is kept. Push it again, or change the service", what, named(services), short(h.Commit))
	}
	return fmt.Sprintf("%s of %s does not exist upstream. Push it, or change the service", what, named(services))
}

// maxNamed services in one message; the rest is counted.
const maxNamed = 5

func named(services []string) string {
	quoted := make([]string, 0, maxNamed)
	for _, s := range services[:min(maxNamed, len(services))] {
		quoted = append(quoted, fmt.Sprintf("%q", s))
	}
	text := "service " + strings.Join(quoted, ", ")
	if more := len(services) - maxNamed; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

func (t *tenure) commitOf(ref string) string {
	if h, ok := t.heads[ref]; ok {
		return ref + " at " + short(h.Commit)
	}
	return fmt.Sprintf("%d of them", len(t.heads))
}

func short(id plumbing.Hash) string { return id.String()[:8] }

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

// take reads the commits of the planned objects and returns the new heads.
func (t *tenure) take(ctx context.Context, s Source, p *plan) (map[string]mirror.Head, error) {
	o := t.mirror.Objects()
	defer o.Close()
	heads := map[string]mirror.Head{}
	for ref := range wanted(s) {
		old, known := t.heads[ref]
		id, found := p.objects[ref]
		switch {
		case found && known && old.Object == id:
			heads[ref], p.seen[ref] = old, true
		case found:
			h, err := t.head(ctx, o, ref, id)
			switch {
			case err == nil:
				heads[ref], p.seen[ref] = h, true
				continue
			case errors.Is(err, mirror.ErrMissing), errors.Is(err, mirror.ErrCorrupt):
				t.mirror.Doubt(err)
				return nil, &fetch.Error{Kind: fetch.KindContent, Message: fmt.Sprintf("ref %q can't be read after the fetch; it is cloned again", ref)}
			}
			p.lose(ref, fmt.Sprintf("ref %q of %s can't be used: %v", ref, named(s.Wants[ref]), err))
			if known {
				heads[ref] = old
			}
		case known:
			heads[ref] = old
		}
	}
	return heads, nil
}

func (t *tenure) head(ctx context.Context, o *mirror.Objects, ref string, id plumbing.Hash) (mirror.Head, error) {
	commit, err := o.Peel(id)
	if err != nil {
		return mirror.Head{}, err
	}
	c, err := o.Commit(commit)
	if err != nil {
		return mirror.Head{}, err
	}
	h := mirror.Head{
		Ref: ref, Object: id, Commit: commit, CommitTime: c.Time, Subject: c.Subject, Author: c.Author,
		Traceparent: telemetry.Inject(ctx), FetchTime: time.Now().UTC().Truncate(time.Microsecond),
	}
	if old, ok := t.heads[ref]; ok && old.Commit == commit {
		h.FetchTime, h.Traceparent = old.FetchTime, old.Traceparent
	}
	return h, nil
}
