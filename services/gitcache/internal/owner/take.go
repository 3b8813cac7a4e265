package owner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-git/go-git/v5/plumbing"

	"fairlead.dev/platform/telemetry"
	"fairlead.dev/services/gitcache/internal/fetch"
	"fairlead.dev/services/gitcache/internal/mirror"
)

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
