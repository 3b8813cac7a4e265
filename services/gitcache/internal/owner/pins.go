package owner

import (
	"context"

	"github.com/go-git/go-git/v5/plumbing"
)

// takePins makes heads of the commits that services are pinned to and that are here, when a poll fails: a rollback waits neither for upstream
// nor for what is new there. What speaks against a commit is left for the next poll to report.
func (t *tenure) takePins(ctx context.Context, s Source) (moved bool) {
	if t.mirror.Doubted() {
		return false
	}
	p := &plan{found: map[string]*found{}, seen: map[string]bool{}}
	isGit := s.isGit()
	for ref := range s.Wants {
		if _, known := t.heads[ref]; known || !plumbing.IsHash(ref) || !t.has(plumbing.NewHash(ref)) {
			continue
		}
		f := &found{object: plumbing.NewHash(ref)}
		if !isGit {
			f.commit = f.object
			f.signedBy = t.signerOf(f)
		}
		p.found[ref] = f
	}
	if len(p.found) == 0 || isGit && t.preparePins(ctx, s, p) != nil {
		return false
	}
	moved, err := t.settle(ctx, s, p)
	return moved && err == nil
}

// preparePins does with commits what a poll does before it makes heads of them. Submodules and charts of repositories are fetched only if
// they are not here.
func (t *tenure) preparePins(ctx context.Context, s Source, p *plan) error {
	r, err := t.remote(ctx, s)
	if err != nil {
		return err
	}
	verdicts, whole := t.trust, t.whole
	defer func() { t.trust, t.whole = verdicts, whole }() // of the heads, which are not in this plan
	if verdicts != nil {
		own := *verdicts
		t.trust = &own
	}
	if err := t.verify(ctx, s, p); err != nil {
		return err
	}
	if err := t.gather(ctx, r, s, p); err != nil {
		return err
	}
	return t.depend(ctx, r, s, p)
}
