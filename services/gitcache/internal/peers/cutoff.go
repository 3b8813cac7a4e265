package peers

import (
	"context"
	"strconv"
	"time"

	"fairlead.dev/services/gitcache/internal/placement"
)

// A replica that reaches the others and not the console fetches what it can't publish. The replica leaves its sources
// to the others, as one that drains does, if one of them hears the console. If none does, nothing moves.
//
// Each replica says how long ago it heard the console. When the console is away for all, no two of these times are
// farther apart than the time between two polls (12 s), two heartbeats of members and two reads of their list;
// cutOffAfter is longer than all of that and heardLately together, so that no replica takes another for one that still
// hears the console. A record grows old while the store is away: its age counts as silence, and no cut-off begins
// before the members are listed again.
const (
	// cutOffAfter so long without the console a replica looks whether others hear it; at least cutOffTTLs times the
	// members' time to live.
	cutOffAfter = 45 * time.Second
	cutOffTTLs  = 3
	// heardLately bounds how long ago a replica that hears the console heard it last: a little more than the time
	// between two polls.
	heardLately = 15 * time.Second
	// mendedAfter hearing the console for so long without a break, a replica takes sources again: a link that comes and
	// goes moves them seldom.
	mendedAfter = 30 * time.Second
)

func (k known) cutOff() bool { return k.Meta[metaCutOff] != "" }

// hears says whether a replica hears the console: the silence that its record states, plus the age of that record, is
// short. The record of an earlier version states no silence.
func (k known) hears(now time.Time) bool {
	seconds, err := strconv.Atoi(k.Meta[metaSilence])
	return err == nil && seconds >= 0 && time.Duration(seconds)*time.Second+now.Sub(k.seen) < heardLately
}

// silence is how long ago this replica heard the console.
func (p *Peers) silence() time.Duration { return max(0, time.Since(p.cfg.Heard())) }

// CutOff tells whether this replica owns nothing because it does not reach the console and another one does.
func (p *Peers) CutOff() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cutOff && p.othersOwnLocked()
}

// othersOwnLocked tells whether there is a replica that neither drains nor is cut off.
func (p *Peers) othersOwnLocked() bool {
	for id, k := range p.known {
		if id != p.cfg.Replica && !k.drains() && !k.cutOff() {
			return true
		}
	}
	return false
}

// judge finds out whether this replica is cut off from the console, and tells the others when that changes.
func (p *Peers) judge(ctx context.Context) {
	silence, now := p.silence(), time.Now()
	p.mu.Lock()
	before := p.cutOff
	switch {
	case silence >= heardLately:
		p.hearsSince = time.Time{}
	case p.hearsSince.IsZero():
		p.hearsSince = now
	}
	switch {
	case before:
		p.cutOff = p.hearsSince.IsZero() || now.Sub(p.hearsSince) < mendedAfter
	case p.listed && silence >= max(cutOffAfter, cutOffTTLs*p.cfg.TTL):
		p.cutOff = p.anotherHearsLocked(now)
	}
	changed := p.cutOff != before
	if changed {
		p.settled = now
	}
	p.mu.Unlock()
	if !changed {
		return
	}
	if before {
		p.deps.Log.InfoContext(ctx, "the console is reached again: this replica owns sources again")
	} else {
		p.deps.Log.WarnContext(ctx, "the console is not reached from here, and another replica reaches it: it gets the sources of this one", "silence", silence.Round(time.Second))
	}
	if err := p.announce(ctx); err != nil {
		p.deps.Log.DebugContext(ctx, "announce replica; the heartbeat does", "err", err)
	}
	p.cfg.Changed()
}

func (p *Peers) anotherHearsLocked(now time.Time) bool {
	for id, k := range p.known {
		if id != p.cfg.Replica && !k.drains() && !k.cutOff() && k.hears(now) {
			return true
		}
	}
	return false
}

// candidate is how the ranking sees a replica: one that is cut off is left out as one that drains.
func (k known) candidate(id string) placement.Candidate {
	return placement.Candidate{Name: id, Draining: k.drains() || k.cutOff()}
}
