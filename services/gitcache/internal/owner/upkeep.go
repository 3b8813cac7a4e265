package owner

import (
	"context"
	"time"
)

// upkeepers at work at once: each may hold the names of all objects of a mirror in memory.
const upkeepers = 1

// mostNeglect bounds the pause after upkeep that did not succeed.
const mostNeglect = time.Hour

// lookAfter keeps the mirror small after it has grown, while the lease is held. A tenure that finds all places taken
// goes on polling and comes again: the repack of a large repository delays nobody else.
func (t *tenure) lookAfter(ctx context.Context) {
	const key = "upkeep"
	if !t.grown {
		return
	}
	t.measureMirror()
	if t.pauses.Check(key) != nil {
		return
	}
	select {
	case t.loop.o.upkeep <- struct{}{}:
		defer func() { <-t.loop.o.upkeep }()
	default:
		return
	}
	err := t.mirror.Maintain(ctx)
	switch {
	case err == nil:
		t.grown = false
		t.pauses.Clear(key)
	case ctx.Err() != nil:
		return
	default:
		t.pauses.Add(key, err, mostNeglect)
		t.loop.o.deps.Log.WarnContext(ctx, "mirror is not repacked; it goes on with more packs than it needs", "source", t.loop.currentSource().Name, "err", err)
	}
	t.loop.o.deps.Metrics.CountUpkeep(err)
	t.measureMirror()
}

// recheckTime bounds the check of a doubted mirror; then it is cloned again.
const recheckTime = 10 * time.Minute

// recheckMirror spares a clone where a doubted mirror turns out to be whole, or what is damaged can be made again.
func (t *tenure) recheckMirror(ctx context.Context) {
	if err := t.mirror.RemakeFolder(); err != nil {
		t.loop.o.deps.Log.WarnContext(ctx, "folder of a mirror can't be used. Check the disk", "source", t.loop.currentSource().Name, "err", err)
	}
	if !t.mirror.Doubted() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, recheckTime)
	defer cancel()
	if err := t.mirror.Check(ctx); err != nil && ctx.Err() == nil {
		t.loop.o.deps.Log.WarnContext(ctx, "mirror is damaged and is cloned again", "source", t.loop.currentSource().Name, "err", err)
	}
}

// Repair polls now if the mirror of a source is to be replaced, so that nobody waits for the next poll. Repair may be
// called with every request: while upstream fails, or a mirror was cloned just before, it does nothing.
func (o *Owner) Repair(uid string) {
	l := o.loopOf(uid)
	if l == nil {
		return
	}
	s := l.currentState()
	if m, ok := o.deps.Mirrors.Lookup(uid); ok && s.Owned && s.StaleSince.IsZero() && m.Doubted() {
		l.nudgeLoop()
	}
}

func (t *tenure) measureMirror() {
	bytes, packs := t.mirror.Size()
	t.loop.changeState(func(s *State) { s.MirrorBytes, s.MirrorPacks = bytes, packs })
}

// countRequests notes requests to upstream.
func (l *loop) countRequests(requests int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked.addRequests(time.Now(), requests)
}

// hourly counts what happened in the last hour, by minutes.
type hourly struct {
	minutes [60]int
	last    int64 // the minute, since 1970, that was counted last
}

func (h *hourly) addRequests(now time.Time, n int) {
	h.forgetOld(now)
	h.minutes[h.last%60] += n
}

func (h *hourly) sumRequests(now time.Time) (n int) {
	h.forgetOld(now)
	for _, m := range h.minutes {
		n += m
	}
	return n
}

// forgetOld clears the minutes that were not counted in for an hour. A clock that goes back counts on.
func (h *hourly) forgetOld(now time.Time) {
	minute := now.Unix() / 60
	for m := max(h.last+1, minute-59); m <= minute; m++ {
		h.minutes[m%60] = 0
	}
	h.last = max(h.last, minute)
}
