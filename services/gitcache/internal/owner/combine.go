package owner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"fairlead.dev/platform/catalog"
	"fairlead.dev/platform/refusal"
	"fairlead.dev/services/gitcache/internal/combination"
	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/mirror"
	"fairlead.dev/services/gitcache/internal/pause"
	"fairlead.dev/services/gitcache/internal/source"
)

// Several sources of a service are a head of the first of them: the files that the service gets, side by side, are a
// commit in the mirror of that one. The others are taken at the commits that were published for them, under their own
// epochs. A combination is made whole or not at all; until it can be made the last one stays.

const (
	// combineTime bounds one run over all combinations of a source; its polls wait for it. What is left is made with
	// the next run.
	combineTime = time.Minute
	// catchUpTime is how long after its claim the catalog of a new owner may be behind that of the last one: so long
	// its combinations are no step back.
	catchUpTime = 15 * time.Second
	// maxCombinations of a source: each is a head, of which a source publishes at most 10,000, as many as charts and
	// refs.
	maxCombinations = 1000
)

var errCombineTime = fmt.Errorf("to put the sources of all services together took longer than %s. Fairlead goes on soon", combineTime)

// combineNow makes the combinations again between two polls.
func (t *tenure) combineNow(ctx context.Context) {
	s := t.loop.currentSource()
	moved := t.combineSources(ctx, s)
	if ctx.Err() != nil {
		return
	}
	t.judgeProblem(ctx, s, moved)
	t.loop.changeState(func(now *State) { now.Heads, now.Problem = sortHeads(t.heads), t.problem })
}

// combineSources makes the combinations of which a source has moved, and says whether there is a new head. What can't
// be made is told in apart, and tried again soon.
func (t *tenure) combineSources(ctx context.Context, s source.Source) (moved bool) {
	t.combineAt = time.Time{}
	if !s.IsCurrent {
		return false // what was wrong with combinations stays until they can be looked at
	}
	t.apart = nil
	until, cancel := context.WithTimeoutCause(ctx, combineTime, errCombineTime)
	defer cancel()
	c := &combining{t: t, s: s, heads: maps.Clone(t.heads), builder: combination.Builder{
		Open: t.loop.o.deps.OpenPart, Dir: t.loop.o.cfg.Dir, Seal: t.newSeal(), Tracer: t.loop.o.deps.Tracer,
	}}
	defer c.builder.Close()
	maps.DeleteFunc(c.heads, func(ref string, _ mirror.Head) bool { return catalog.IsCombination(ref) })
	for _, ref := range t.inOrder(s.Combinations) {
		c.combineOne(until, ref, s.Combinations[ref])
	}
	c.finishAll(ctx)
	for _, ref := range slices.Sorted(maps.Keys(s.Combinations)) {
		t.addPinned(s, ref, s.Combinations[ref], c.heads)
	}
	if ctx.Err() != nil {
		return false
	}
	slices.SortFunc(t.apart, func(a, b source.Trouble) int { // the same troubles are the same problem
		return cmp.Or(cmp.Compare(a.Ref, b.Ref), cmp.Compare(a.Text, b.Text))
	})
	if t.combines++; !c.isLacking {
		t.combines = 0
	} else {
		t.combineAt = time.Now().Add(jitteredPause(t.combines))
	}
	if maps.EqualFunc(c.heads, t.heads, mirror.Head.Equal) {
		return false
	}
	if err := t.saveHeads(c.heads); err != nil {
		t.apart = append(t.apart, source.Trouble{Text: err.Error()})
		t.combineAt = time.Now().Add(jitteredPause(1))
		return false
	}
	if c.trace != "" {
		t.found = c.trace
	}
	return true
}

// combinationTroubles are the troubles of combinations in a problem, as combineSources told them.
func combinationTroubles(s source.Source, p source.Problem) (troubles []source.Trouble) {
	for _, one := range p.Single {
		if catalog.IsCombination(one.Ref) {
			troubles = append(troubles, source.Trouble{Ref: one.Ref, Text: one.TextIn(s)})
		}
	}
	return troubles
}

// inOrder are the refs of combinations, those that have a head first: a new one takes no place from them.
func (t *tenure) inOrder(all map[string]source.Combination) []string {
	return slices.SortedFunc(maps.Keys(all), func(a, b string) int {
		_, isHead := t.heads[a]
		_, isOther := t.heads[b]
		switch {
		case isHead && !isOther:
			return -1
		case isOther && !isHead:
			return 1
		}
		return cmp.Compare(a, b)
	})
}

// combining is one run over the combinations of a source.
type combining struct {
	t         *tenure
	s         source.Source
	heads     map[string]mirror.Head
	count     int
	isLacking bool                // a combination can't be made
	builder   combination.Builder // of all that is new
	made      []made
	trace     string // of a head that is new
}

// made is a combination that is new. Its objects are in the builder until all are made.
type made struct {
	ref        string
	id, commit git.Hash
	newest     mirror.Head // of its sources
}

func (c *combining) noteProblem(ref, format string, args ...any) {
	c.t.apart = append(c.t.apart, source.Trouble{Ref: ref, Text: fmt.Sprintf(format, args...)})
}

// combineOne looks at a combination, and keeps the last head of it until another one can be made.
func (c *combining) combineOne(ctx context.Context, ref string, is source.Combination) {
	t, s := c.t, c.s
	old, isHead := t.heads[ref]
	if isHead {
		c.heads[ref] = old
	}
	if c.count++; c.count > maxCombinations {
		c.noteProblem(ref, "%s is one more than the limit of %d combinations of sources that begin with this one. Put another source first", s.NameUsers(ref), maxCombinations)
		return
	}
	parts, err := c.findParts(ref, is)
	if err == nil && !t.mirror.Doubted() {
		err = c.renewHead(ctx, ref, old, parts)
	}
	if err == nil {
		return
	}
	c.isLacking = true
	if !errors.Is(err, errNotFetched) {
		c.noteProblem(ref, "%s", err)
	}
}

// errNotFetched is of a combination whose sources were not all fetched yet. The error is no problem: what is wrong with
// a source is told as the problem of that source.
var errNotFetched = errors.New("nothing was fetched yet")

// findParts are the sources of a combination with their heads. What is wrong with them is told.
func (c *combining) findParts(ref string, is source.Combination) (parts []source.Part, err error) {
	parts = slices.Clone(is.Parts)
	for i := range parts {
		p := &parts[i]
		if p.UID == c.s.UID {
			p.Head = c.t.heads[p.Ref]
			for _, of := range c.t.problem.Single { // also those from before a poll that failed
				if of.Ref == p.Ref {
					c.noteProblem(ref, "%s", of.TextIn(c.s))
				}
			}
		}
		if p.Problem != "" {
			c.noteProblem(ref, "source %q of %s: %s", p.Name, c.s.NameUsers(ref), p.Problem)
		}
		if p.Head.Commit.IsZero() && err == nil {
			err = errNotFetched
		}
	}
	return parts, err
}

// renewHead makes a combination if one of its sources has moved.
func (c *combining) renewHead(ctx context.Context, ref string, old mirror.Head, parts []source.Part) error {
	t, isSealed := c.t, combination.IsNeeded(c.s, parts, c.t.trustedKeys(c.s))
	id := combination.ID(ref, parts, isSealed)
	if old.Object == id && t.mirror.Has(old.Commit) {
		t.seen[ref] = true
		return nil
	}
	err := t.pauses.Check(id.String())
	if err != nil {
		return err
	}
	newest := slices.MaxFunc(parts, func(a, b source.Part) int { return a.Head.FetchTime.Compare(b.Head.FetchTime) }).Head
	if !t.seen[ref] && newest.FetchTime.Before(old.FetchTime) && time.Since(t.claimed) < catchUpTime {
		c.isLacking = true // the catalog here may be behind that of the last owner
		return nil
	}
	if err = ctx.Err(); err == nil {
		var commit git.Hash
		if commit, err = c.builder.MakeCommit(ctx, ref, newest.Traceparent, parts, isSealed); err == nil {
			c.made = append(c.made, made{ref, id, commit, newest})
			return nil
		}
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	err = fmt.Errorf("the sources of %s can't be put together: %w", c.s.NameUsers(ref), err)
	if !errors.Is(err, context.Canceled) { // the end of the tenure puts nothing off
		t.pauses.Add(id.String(), err, pause.Most)
	}
	return err
}

// finishAll brings all that was made into the mirror at once, and makes heads of it.
func (c *combining) finishAll(ctx context.Context) {
	t := c.t
	err := c.storeObjects(ctx)
	for _, m := range c.made {
		var h mirror.Head
		if err == nil {
			h, err = t.headOf(m.ref, m.id, m.commit)
		}
		if err != nil {
			c.isLacking = true
			c.noteProblem(m.ref, "the sources of %s can't be kept: %s. Check the disk of replica %q", c.s.NameUsers(m.ref), err, t.loop.o.cfg.Replica)
			continue
		}
		if old := t.heads[m.ref]; old.Commit == h.Commit {
			h.FetchTime, h.Traceparent = old.FetchTime, old.Traceparent
		} else {
			h.FetchTime, h.Traceparent, c.trace = m.newest.FetchTime, m.newest.Traceparent, m.newest.Traceparent
		}
		t.pauses.Clear(m.id.String())
		c.heads[m.ref], t.seen[m.ref] = h, true
	}
}

func (c *combining) storeObjects(ctx context.Context) error {
	if !slices.ContainsFunc(c.made, func(m made) bool { return !c.t.mirror.Has(m.commit) }) {
		return nil
	}
	objects, err := c.builder.PackObjects()
	if err != nil {
		return err
	}
	c.t.grown = true
	_, err = c.t.mirror.AddPack(ctx, objects)
	return err
}

// headOf is the head of a combination at a commit that is here.
func (t *tenure) headOf(ref string, id, commit git.Hash) (mirror.Head, error) {
	o := t.mirror.Objects()
	defer o.Close()
	c, err := o.Commit(commit)
	if err != nil {
		return mirror.Head{}, err
	}
	return mirror.Head{
		Ref: ref, Object: id, Commit: commit, CommitTime: c.Time, Subject: c.Subject, Author: c.Author,
		FetchTime: time.Now().UTC().Truncate(time.Microsecond),
	}, nil
}

// addPinned adds heads for revisions of a combination that services are pinned to. A revision is of the combination if
// its commit says so.
func (t *tenure) addPinned(s source.Source, ref string, is source.Combination, heads map[string]mirror.Head) {
	for _, pin := range is.Pins {
		at := catalog.PinnedRef(ref, pin.String())
		if old, known := t.heads[at]; known && old.Object == pin && t.mirror.Has(pin) {
			heads[at] = old
			continue
		}
		h, err := t.headOf(at, pin, pin)
		if err == nil && t.mirror.CombinationOf(pin) != ref {
			err = errors.New("it is of other sources")
		}
		if err == nil {
			err := t.checkSeal(s, pin)
			if err == nil || t.heads[at].Commit == pin { // what was published stays
				heads[at] = h
			}
			if err != nil {
				t.apart = append(t.apart, source.Trouble{Ref: at, Text: fmt.Sprintf(
					"revision %s, which %s is pinned to, %s. Pin to another revision, or release the pin, and put the revisions back in the sources", pin.Short(), s.NameUsers(at), err)})
			}
			continue
		}
		if old, known := t.heads[at]; known { // published, and another replica may have it
			heads[at] = old
		}
		t.apart = append(t.apart, source.Trouble{Ref: at, Text: fmt.Sprintf(
			"revision %s, which %s is pinned to, is no revision of its sources here: `fairlead history service NAME` lists those that ran; pin to one of them, or release the pin", pin.Short(), s.NameUsers(at))})
	}
}

// keepCombinations adds the heads of combinations, which polls leave alone, to those of refs.
func (t *tenure) keepCombinations(heads map[string]mirror.Head, o *mirror.Objects) {
	for ref, h := range t.heads {
		if !catalog.IsCombination(ref) {
			continue
		}
		if !o.Has(h.Commit) { // of a mirror that was cloned again: it is made again
			h.Object = git.Hash{}
		}
		heads[ref] = h
	}
}

// lookForCombination is lookFor for several sources: what they were before, which ran or was published.
func (t *tenure) lookForCombination(s source.Source, ref string) looked {
	combination, pin, _ := catalog.ParseCombinationRef(ref)
	commit := git.HashOf(pin)
	if pin != "" && t.mirror.CombinationOf(commit) == combination {
		if err := t.checkSeal(s, commit); err != nil {
			return looked{err: refusal.New(refusal.Precondition, "source %q: revision %.8s %s", s.Name, pin, err)}
		}
		return looked{commit: commit}
	}
	return looked{err: refusal.New(refusal.NotFound,
		"source %q: %.8s is no revision of the service's sources: `fairlead history service NAME` lists those that ran", s.Name, pin)}
}

func (t *tenure) newSeal() combination.Seal {
	return combination.Seal{Secret: t.loop.o.deps.Secret, UID: t.loop.uid}
}

// checkSeal says why a combination counts for nothing; nil: it counts.
func (t *tenure) checkSeal(s source.Source, id git.Hash) error {
	if !s.Verification.IsWanted() {
		return nil
	}
	return t.newSeal().CheckCommit(t.mirror, id, t.trustedKeys(s))
}
