package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"fairlead.dev/services/console/internal/refusal"
	"fairlead.dev/services/console/internal/store"
)

// ClaimSource gives the next epoch of a source to owner, and to nobody else ever.
func (c *Catalog) ClaimSource(ctx context.Context, actor, name, uid, owner string) (status SourceStatus, err error) {
	if strings.ContainsFunc(owner, unicode.IsControl) {
		return SourceStatus{}, refusal.New(refusal.Invalid, "owner: must not hold control characters")
	}
	err = c.store.Write(ctx, actor, func(ctx context.Context, tx *store.Tx) error {
		source, err := sourceOf(ctx, tx, name, uid)
		if err != nil {
			return err
		}
		heads, err := tx.Claim(ctx, source, owner)
		if err != nil {
			return err
		}
		status, err = ReadHeads(heads)
		return err
	})
	if err == nil {
		c.log.InfoContext(ctx, "source claimed", "actor", actor, "source", name, "owner", owner, "epoch", status.Epoch)
	}
	return status, err
}

// Publication is what a fetcher saw upstream.
type Publication struct {
	Epoch   int64
	Heads   []Head
	Problem *Problem
}

// PublishHeads records a publication of the holder of the current epoch. A publication without news is not written.
func (c *Catalog) PublishHeads(ctx context.Context, actor, name, uid string, p Publication) error {
	if err := validateHeads(p.Heads); err != nil {
		return err
	}
	var released []Written
	err := c.store.Write(ctx, actor, func(ctx context.Context, tx *store.Tx) error {
		source, err := sourceOf(ctx, tx, name, uid)
		if err != nil {
			return err
		}
		heads, err := tx.Heads(ctx, []string{uid})
		if err != nil {
			return err
		}
		before, err := ReadHeads(heads[uid])
		if err != nil {
			return err
		}
		if p.Epoch != before.Epoch {
			return refusal.New(refusal.Conflict, "source %q: epoch %d is not the current one, which is %d of %s: step down", name, p.Epoch, before.Epoch, before.Owner)
		}
		after, changed := c.merge(before, p)
		if changed {
			if err := c.publish(ctx, tx, actor, source, before, after); err != nil {
				return err
			}
		}
		// Behind the heads: who follows the catalog must not go to what a pin keeps away.
		released, err = c.release(ctx, tx, name, p.Heads)
		return err
	})
	if err == nil {
		c.tell(ctx, Self(releaser), released)
	}
	return err
}

func (c *Catalog) publish(ctx context.Context, tx *store.Tx, actor string, source store.Resource, before, after SourceStatus) error {
	state, err := json.Marshal(after)
	if err != nil {
		return fmt.Errorf("encode heads: %w", err)
	}
	if c.observer != nil {
		tx.Tell(c.observer.SourceSaid(metaOf(source), before, after)...)
	}
	c.log.InfoContext(ctx, "heads published", "actor", actor, "source", source.Name, "epoch", before.Epoch,
		"heads", len(after.Heads), "problem", after.Problem != nil)
	return tx.Publish(ctx, source, state)
}

// sourceOf returns the source that a fetcher means: one that was deleted and created again is another.
func sourceOf(ctx context.Context, tx *store.Tx, name, uid string) (store.Resource, error) {
	if !dnsLabel.MatchString(name) {
		return store.Resource{}, refusal.Missing(store.KindSource, name)
	}
	source, err := tx.Get(ctx, store.KindSource, name)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return store.Resource{}, refusal.Missing(store.KindSource, name)
	case err != nil:
		return store.Resource{}, err
	case source.UID != uid:
		return store.Resource{}, refusal.New(refusal.NotFound,
			"source %q was deleted and created again: forget the old one", name)
	}
	return source, nil
}

// merge returns the status after a publication, and whether it tells anything new. A head that
// points to the same commit keeps what was published of that first, and a problem keeps its beginning.
func (c *Catalog) merge(before SourceStatus, p Publication) (SourceStatus, bool) {
	after := SourceStatus{Heads: make([]Head, 0, len(p.Heads)), Problem: c.since(before.Problem, p.Problem)}
	changed := len(p.Heads) != len(before.Heads) || !sameProblem(before.Problem, p.Problem)
	known := make(map[string]Head, len(before.Heads))
	for _, h := range before.Heads {
		known[h.Ref] = h
	}
	for _, h := range p.Heads {
		old, ok := known[h.Ref]
		if ok && old.Revision.Commit == h.Revision.Commit {
			changed = changed || old.Resolved != h.Resolved || old.SignedBy != h.SignedBy || old.NewerVersion != h.NewerVersion
			old.Resolved, old.SignedBy, old.NewerVersion = h.Resolved, h.SignedBy, h.NewerVersion
			after.Heads = append(after.Heads, old)
			continue
		}
		if h.FetchTime.IsZero() {
			h.FetchTime = c.now().UTC()
		}
		after.Heads = append(after.Heads, h)
		changed = true
	}
	return after, changed
}

func sameProblem(a, b *Problem) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Message == b.Message && slices.Equal(a.Refs, b.Refs) && slices.EqualFunc(a.Single, b.Single, RefProblem.same)
}

// same compares what is wrong, not since when.
func (p RefProblem) same(o RefProblem) bool { return p.Ref == o.Ref && p.Message == o.Message }

// since returns the problem with the time at which it began.
func (c *Catalog) since(before, now *Problem) *Problem {
	if now == nil {
		return nil
	}
	if sameProblem(before, now) {
		return before
	}
	p := *now
	if before != nil && before.Message == p.Message && before.IsWhole() == p.IsWhole() {
		p.Since = before.Since
	}
	if p.Since.IsZero() {
		p.Since = c.now().UTC()
	}
	p.Single = slices.Clone(p.Single)
	for i := range p.Single {
		one := &p.Single[i]
		if before != nil {
			if at := slices.IndexFunc(before.Single, one.same); at >= 0 {
				one.Since = before.Single[at].Since
			}
		}
		if one.Since.IsZero() {
			one.Since = c.now().UTC()
		}
	}
	return &p
}
