package owner

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

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
	moved = !maps.EqualFunc(heads, t.heads, mirror.Head.Equal)
	if moved || !maps.EqualFunc(t.mirror.Heads(), heads, mirror.Head.Equal) {
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
