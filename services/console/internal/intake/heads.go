package intake

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"fairlead.dev/platform/refusal"
	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/resource"
	"fairlead.dev/services/console/internal/state"
	"fairlead.dev/services/console/internal/store"
)

// ClaimSource gives the next epoch of a source to owner, and to nobody else ever.
func (i *Intake) ClaimSource(
	ctx context.Context, actor, name, uid, owner string,
) (status state.SourceStatus, err error) {
	if strings.ContainsFunc(owner, unicode.IsControl) {
		return state.SourceStatus{}, refusal.New(refusal.Invalid, "owner: must not hold control characters")
	}
	err = i.store.Write(ctx, actor, func(ctx context.Context, tx *store.Tx) error {
		source, err := sourceOf(ctx, tx, name, uid)
		if err != nil {
			return err
		}
		heads, err := tx.Claim(ctx, source, owner)
		if err != nil {
			return err
		}
		status, err = state.ReadHeads(heads)
		return err
	})
	if err == nil {
		i.log.InfoContext(ctx, "source claimed", "actor", actor, "source", name, "owner", owner, "epoch", status.Epoch)
	}
	return status, err
}

// Publication is what a fetcher saw upstream.
type Publication struct {
	Epoch   int64
	Heads   []state.Head
	Problem *state.Problem
}

// PublishHeads records a publication of the holder of the current epoch. A publication without news is not written.
func (i *Intake) PublishHeads(ctx context.Context, actor, name, uid string, p Publication) error {
	if err := checkHeads(p.Heads); err != nil {
		return err
	}
	var released []catalog.Written
	err := i.store.Write(ctx, actor, func(ctx context.Context, tx *store.Tx) error {
		source, err := sourceOf(ctx, tx, name, uid)
		if err != nil {
			return err
		}
		heads, err := tx.Heads(ctx, []string{uid})
		if err != nil {
			return err
		}
		before, err := state.ReadHeads(heads[uid])
		if err != nil {
			return err
		}
		if p.Epoch != before.Epoch {
			return refusal.New(refusal.Conflict, "source %q: epoch %d is not the current one, which is %d of %s: step down", name, p.Epoch, before.Epoch, before.Owner)
		}
		after, changed := i.merge(before, p)
		if changed {
			if err := i.publish(ctx, tx, actor, source, before, after); err != nil {
				return err
			}
		}
		// Behind the heads: a follower of the catalog must not go to what a pin keeps away.
		released, err = i.catalog.Release(ctx, tx, name, p.Heads)
		return err
	})
	if err == nil {
		i.catalog.LogReleased(ctx, released)
	}
	return err
}

func (i *Intake) publish(
	ctx context.Context, tx *store.Tx, actor string, source store.Resource, before, after state.SourceStatus,
) error {
	text, err := json.Marshal(after)
	if err != nil {
		return fmt.Errorf("encode heads: %w", err)
	}
	if i.observer != nil {
		tx.Tell(i.observer.SourceSaid(state.MetaOf(source), before, after)...)
	}
	i.log.InfoContext(ctx, "heads published", "actor", actor, "source", source.Name, "epoch", before.Epoch,
		"heads", len(after.Heads), "problem", after.Problem != nil)
	return tx.Publish(ctx, source, text)
}

// sourceOf returns the source that a fetcher means: one that was deleted and created again is another.
func sourceOf(ctx context.Context, tx *store.Tx, name, uid string) (store.Resource, error) {
	if !resource.IsName(name) {
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
func (i *Intake) merge(before state.SourceStatus, p Publication) (state.SourceStatus, bool) {
	now := i.now().UTC()
	after := state.SourceStatus{
		Heads: make([]state.Head, 0, len(p.Heads)), Problem: since(before.Problem, p.Problem, now),
	}
	changed := len(p.Heads) != len(before.Heads) || !sameProblem(before.Problem, p.Problem)
	known := make(map[string]state.Head, len(before.Heads))
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
			h.FetchTime = now
		}
		after.Heads = append(after.Heads, h)
		changed = true
	}
	return after, changed
}

func sameProblem(a, b *state.Problem) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Message == b.Message && slices.Equal(a.Refs, b.Refs) && slices.EqualFunc(a.Single, b.Single, sameRefProblem)
}

// sameRefProblem compares what is wrong, not since when.
func sameRefProblem(a, b state.RefProblem) bool { return a.Ref == b.Ref && a.Message == b.Message }

// since returns the problem with the time at which it began: now, unless it was there before. The same problem with
// another commit was there before.
func since(before, said *state.Problem, now time.Time) *state.Problem {
	if said == nil {
		return nil
	}
	if sameProblem(before, said) {
		return before
	}
	p := *said
	if before != nil && state.SameWords(before.Message, p.Message) && before.IsWhole() == p.IsWhole() {
		p.Since = before.Since
	}
	if p.Since.IsZero() {
		p.Since = now
	}
	p.Single = slices.Clone(p.Single)
	for i := range p.Single {
		one := &p.Single[i]
		if before != nil {
			same := func(was state.RefProblem) bool {
				return was.Ref == one.Ref && state.SameWords(was.Message, one.Message)
			}
			if at := slices.IndexFunc(before.Single, same); at >= 0 {
				one.Since = before.Single[at].Since
			}
		}
		if one.Since.IsZero() {
			one.Since = now
		}
	}
	return &p
}

var commitID = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)

// checkHeads checks what a fetcher publishes.
func checkHeads(heads []state.Head) error {
	refs := make([]string, 0, len(heads))
	for _, h := range heads {
		if h.Ref == "" || strings.ContainsFunc(h.Ref, unicode.IsControl) {
			return refusal.New(refusal.Invalid, "heads: %q is not a ref", h.Ref)
		}
		if !commitID.MatchString(h.Revision.Commit) {
			return refusal.New(refusal.Invalid, "heads: %s: %q is not a full commit id", h.Ref, h.Revision.Commit)
		}
		refs = append(refs, h.Ref)
	}
	slices.Sort(refs)
	if len(slices.Compact(slices.Clone(refs))) != len(refs) {
		return refusal.New(refusal.Invalid, "heads: a ref is listed twice")
	}
	return nil
}
