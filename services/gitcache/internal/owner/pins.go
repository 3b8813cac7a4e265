package owner

import (
	"context"
	"time"

	"fairlead.dev/platform/telemetry"
	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/source"
)

// takePins makes heads of the commits that services are pinned to and that are here, when a poll fails or is not due: a
// rollback waits neither for upstream nor for what is new there. What speaks against a commit is left for the next poll
// to report.
func (t *tenure) takePins(ctx context.Context, s source.Source) (moved bool) {
	p, isGit := &plan{found: t.newPins(s), seen: map[string]bool{}}, s.IsGit()
	if len(p.found) == 0 || t.mirror.Doubted() || isGit && t.preparePins(ctx, s, p) != nil {
		return false
	}
	moved, err := t.settleHeads(ctx, s, p)
	return moved && err == nil
}

// newPins are the commits that services are pinned to and that are here, and are no heads yet.
func (t *tenure) newPins(s source.Source) map[string]*found {
	pins := map[string]*found{}
	for ref := range s.Wants {
		id, isHash := git.ParseHash(ref)
		if _, known := t.heads[ref]; known || !isHash || !t.mirror.Has(id) {
			continue
		}
		f := &found{object: id}
		if !s.IsGit() {
			f.commit = f.object
			f.signedBy = t.signerOf(f)
		}
		pins[ref] = f
	}
	return pins
}

// pinNow takes pins between two polls and has them published.
func (t *tenure) pinNow(ctx context.Context) {
	s := t.loop.currentSource()
	if len(t.newPins(s)) == 0 {
		return
	}
	ctx, span := t.startTrace(ctx, s, time.Now())
	defer span.End()
	if !t.takePins(ctx, s) {
		return
	}
	t.found = telemetry.Inject(ctx)
	t.judgeProblem(ctx, s, true)
	t.loop.changeState(func(is *State) { is.Heads = sortHeads(t.heads) })
}

// preparePins does with commits what a poll does before it makes heads of them. Submodules and charts of repositories
// are fetched only if they are not here.
func (t *tenure) preparePins(ctx context.Context, s source.Source, p *plan) error {
	r, err := t.remoteOf(ctx, s)
	if err != nil {
		return err
	}
	verdicts, whole := t.trust, t.whole
	defer func() { t.trust, t.whole = verdicts, whole }() // of the heads, which are not in this plan
	if verdicts != nil {
		own := *verdicts
		t.trust = &own
	}
	if err := t.dropUnsigned(ctx, s, p); err != nil {
		return err
	}
	if err := t.gatherModules(ctx, r, s, p); err != nil {
		return err
	}
	is, err := t.newGathering(r, s, p).GatherCharts(ctx)
	is.Needed = nil // without bases, of which none was looked at: no head goes by that
	t.noteGathered(p, is)
	return err
}
