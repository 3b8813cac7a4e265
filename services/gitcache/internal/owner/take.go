package owner

import (
	"context"
	"fmt"
	"slices"
	"time"

	"fairlead.dev/platform/telemetry"
	"fairlead.dev/services/gitcache/internal/mirror"
	"fairlead.dev/services/gitcache/internal/source"
	"fairlead.dev/services/gitcache/internal/upstream"
)

// resolveHeads makes heads of what was found, and keeps the last good ones of all other refs.
func (t *tenure) resolveHeads(ctx context.Context, s source.Source, p *plan) (map[string]mirror.Head, error) {
	o := t.mirror.Objects()
	defer o.Close()
	heads := map[string]mirror.Head{}
	for _, ref := range s.WantedRefs() {
		old, known := t.heads[ref]
		if known {
			heads[ref] = old
		}
		f, ok := p.found[ref]
		if !ok {
			continue
		}
		h, err := t.makeHead(ctx, s, o, ref, f)
		switch {
		case err == nil:
			heads[ref], p.seen[ref] = h, true
		case mirror.IsUnreadable(err):
			return nil, t.markDamaged(ref, err)
		default:
			p.noteLost(ref, describeUnusable(s, ref, err))
		}
	}
	t.gathered.KeepHeads(heads, t.heads, p.gathered)
	t.keepCombinations(heads, o)
	return heads, nil
}

// markDamaged makes the next poll clone again.
func (t *tenure) markDamaged(ref string, err error) error {
	t.mirror.Doubt(err)
	return &upstream.Error{Kind: upstream.KindContent, Message: fmt.Sprintf("ref %q can't be read after the fetch; it is cloned again", ref)}
}

func (t *tenure) makeHead(ctx context.Context, s source.Source, o *mirror.Objects, ref string, f *found) (mirror.Head, error) {
	h, known := t.heads[ref]
	if !known || h.Object != f.object || !f.commit.IsZero() && h.Commit != f.commit {
		commit := f.commit
		if commit.IsZero() {
			var err error
			if commit, err = o.Peel(f.object); err != nil {
				return mirror.Head{}, err
			}
		}
		c, err := o.Commit(commit)
		if err == nil && c.Combination != "" {
			err = source.ErrCombined
		}
		if err != nil {
			return mirror.Head{}, err
		}
		if !known || h.Commit != commit {
			h.FetchTime, h.Traceparent = time.Now().UTC().Truncate(time.Microsecond), telemetry.Inject(ctx)
		}
		h.Ref, h.Object, h.Commit = ref, f.object, commit
		h.CommitTime, h.Subject, h.Author = c.Time, c.Subject, c.Author
		if !s.IsGit() { // the commit has neither
			h.CommitTime, h.Author = f.listed.Created, ""
		}
	}
	h.Resolved, h.SignedBy, h.Newer = f.resolved, f.signedBy, f.newer
	if !slices.Equal(h.Submodules, f.submodules) {
		h.Submodules = f.submodules
	}
	return h, nil
}

// describeUnusable says that what a ref points to is no commit, or can't be read.
func describeUnusable(s source.Source, ref string, err error) string {
	return fmt.Sprintf("ref %q of %s can't be used: %v", ref, s.NameUsers(ref), err)
}
