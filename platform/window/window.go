// Package window decides whether new content of a service may be applied at a time, by the windows and freezes of its
// project, its cluster and its own. Agents judge by their clocks; the console shows the same by its own. The package is
// pure: settings and a time in, a State out.
//
// Every deny window that is open closes a service, and so does a freeze. Allow windows close it while none of their
// resource is open: a service can narrow what its project and its cluster allow, and never widen it. A window that
// can't be read closes the service.
package window

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/cron"
)

const (
	// foreseen is how far ahead the next change is looked for.
	foreseen = 366 * 24 * time.Hour
	// mostChanges bounds the edges of windows that are looked at on the way there.
	mostChanges = 200
	// mostMerged bounds the times that a window opens again while it is open, which are looked at for its end.
	mostMerged = 60
	// mostOpenings bounds how often a window that is written down may open on one day: what opens more often is meant
	// otherwise.
	mostOpenings = 48
	// judgedFor is how long a Cache goes without judging again: the end of a window may not be foreseeable.
	judgedFor = 10 * time.Minute
	// Longest and Shortest bound how long a window stays open.
	Longest, Shortest = 31 * 24 * time.Hour, time.Minute
)

// State is what windows and freezes say at a time.
type State struct {
	// Any: there are windows or freezes, open or not.
	Any    bool
	Closed bool
	// By is what closes it.
	By []Closing
	// Change is when Closed changes; zero: not within a year, or nobody knows.
	Change time.Time
	// Manual: a person's sync is let through. Leaves: drift stays.
	Manual, Leaves bool
	// edge is when something opens, closes or ends next, so that By may be another one; zero: nothing is known to.
	edge time.Time
}

// Closing is what closes a service.
type Closing struct {
	// Kind and Name of the resource that has it.
	Kind, Name string
	// Windows that close it: one deny window, or all allow windows of the resource.
	Windows []*deliveryv1.SyncWindow
	// Allow: they are allow windows.
	Allow bool
	// Again: it is a deny window that opens again before it ends, and again, for longer than is foreseeable.
	Again bool
	// Freeze that closes it; nil: windows do.
	Freeze *deliveryv1.Freeze
	// Fault is why the window can't be read; nil: it can.
	Fault error
}

// Manual tells whether a person's sync is let through.
func (c Closing) Manual() bool {
	// Of allow windows one has to say so, as it could have been the one that is open.
	says := func(w *deliveryv1.SyncWindow) bool { return w.GetManualSync() }
	return c.Fault == nil && c.Freeze == nil && slices.ContainsFunc(c.Windows, says)
}

func (c Closing) leaves() bool {
	says := func(w *deliveryv1.SyncWindow) bool { return w.GetDrift() == deliveryv1.WindowDrift_WINDOW_DRIFT_LEAVE }
	return c.Freeze.GetDrift() == deliveryv1.WindowDrift_WINDOW_DRIFT_LEAVE || slices.ContainsFunc(c.Windows, says)
}

// ID names what closes a service: a freeze by when it began, windows by when they are open. Agents and consoles make
// the same one.
func (c Closing) ID() string {
	of := c.Kind + "/" + c.Name + "/"
	if c.Freeze != nil {
		return of + c.Freeze.GetSinceTime().AsTime().Format(time.RFC3339Nano)
	}
	sum := sha256.New()
	for _, w := range c.Windows {
		fmt.Fprintf(sum, "%d %q %q %s\n", w.GetAction(), w.GetSchedule(), w.GetTimeZone(), w.GetDuration().AsDuration())
	}
	return of + hex.EncodeToString(sum.Sum(nil)[:8])
}

// Words name what closes a service, as in: deny window "nights" of project "shop" (the sale).
func (c Closing) Words() string {
	of := fmt.Sprintf(" of %s %q", c.Kind, c.Name)
	if f := c.Freeze; f != nil {
		return "the freeze" + of + by(f.GetAuthor()) + because(f.GetReason())
	}
	names := make([]string, len(c.Windows))
	for i, w := range c.Windows {
		names[i] = fmt.Sprintf("%q", cmp.Or(w.GetName(), w.GetSchedule()))
	}
	switch {
	case c.Fault != nil:
		return fmt.Sprintf("window %s%s can't be read (%v)", names[0], of, c.Fault)
	case c.Allow && len(names) > 1:
		return "none of the allow windows " + strings.Join(names, ", ") + of + " is open"
	case c.Allow:
		return "allow window " + names[0] + of + because(c.Windows[0].GetReason()) + " is not open"
	}
	text := "deny window " + names[0] + of + because(c.Windows[0].GetReason())
	if c.Again {
		text += ", which has no end in sight: it opens again before it ends, each of the next " + strconv.Itoa(mostMerged) + " times"
	}
	return text
}

func by(author string) string {
	if author == "" {
		return ""
	}
	return " by " + author
}

func because(reason string) string {
	if reason = strings.TrimSuffix(strings.TrimSpace(reason), "."); reason == "" {
		return ""
	}
	return " (" + reason + ")"
}

// Words say why a service is closed, and until when; empty: it is open.
func (s State) Words() string {
	if !s.Closed {
		return ""
	}
	parts := make([]string, len(s.By))
	for i, c := range s.By {
		parts[i] = c.Words()
	}
	until := ""
	if !s.Change.IsZero() {
		until = " until " + Clock(s.Change)
	}
	return "Closed" + until + ": " + strings.Join(parts, ", and ") + "."
}

// Clock is a time as messages have it.
func Clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

// Check says what is wrong with a window that somebody writes down; nil: nothing.
func Check(w *deliveryv1.SyncWindow) error {
	t, err := parse(w)
	if err != nil {
		return err
	}
	if n := t.schedule.PerDay(); n > mostOpenings {
		return fmt.Errorf("schedule %q opens it %d times a day, and %d are allowed: open it less often, and for longer", w.GetSchedule(), n, mostOpenings)
	}
	return nil
}

// Cache keeps the last State of one service, for as long as nothing opens or closes. A Cache is safe for concurrent
// use.
type Cache struct{ last atomic.Pointer[judged] }

type judged struct {
	sets  []*deliveryv1.WindowSet
	at    time.Time
	state State
}

// Judge is as the function. The sets of the last call are known again by the slice that they are in, which nobody may
// change.
func (c *Cache) Judge(sets []*deliveryv1.WindowSet, now time.Time) State {
	if len(sets) == 0 {
		return State{}
	}
	now = now.Round(0) // the monotonic reading goes on where the clock is put back
	if l := c.last.Load(); l != nil && len(l.sets) == len(sets) && &l.sets[0] == &sets[0] && !now.Before(l.at) &&
		now.Sub(l.at) < judgedFor && (l.state.edge.IsZero() || now.Before(l.state.edge)) {
		return l.state
	}
	state := Judge(sets, now)
	c.last.Store(&judged{sets, now, state})
	return state
}

// Overridden tells whether all that closes a service now, and lets no person's sync through, is what somebody overrode:
// ids names what closed it when the override was asked for, and it has closed the service ever since.
func Overridden(sets []*deliveryv1.WindowSet, ids []string, asked, now time.Time) bool {
	if asked.After(now) { // the clocks differ
		asked = now
	}
	for _, set := range sets {
		r := parseSet(set)
		for _, c := range r.closings(now) {
			if !c.Manual() && (!slices.Contains(ids, c.ID()) || !r.closedSince(c, asked, now)) {
				return false
			}
		}
	}
	return true
}

// Judge says what the windows and freezes of a service's resources mean at a time.
func Judge(sets []*deliveryv1.WindowSet, now time.Time) State {
	parsed := make([]resource, 0, len(sets))
	for _, set := range sets {
		if len(set.GetWindows()) > 0 || set.GetFreeze() != nil {
			parsed = append(parsed, parseSet(set))
		}
	}
	if len(parsed) == 0 {
		return State{}
	}
	out := State{Any: true, Manual: true}
	for _, r := range parsed {
		out.By = append(out.By, r.closings(now)...)
	}
	out.Closed = len(out.By) > 0
	for _, c := range out.By {
		out.Manual, out.Leaves = out.Manual && c.Manual(), out.Leaves || c.leaves()
	}
	out.Change = change(parsed, out.Closed, now)
	out.edge = edge(parsed, now)
	return out
}

// edge is when something of one of the resources opens, closes or ends next; zero: nothing does.
func edge(parsed []resource, after time.Time) (next time.Time) {
	for _, r := range parsed {
		next = first(next, r.edge(after))
	}
	return next
}

// change is when it is first otherwise than closed says.
func change(parsed []resource, closed bool, now time.Time) time.Time {
	at := now
	for range mostChanges {
		next := edge(parsed, at)
		if next.IsZero() || next.Sub(now) > foreseen {
			return time.Time{}
		}
		at = next
		if slices.ContainsFunc(parsed, func(r resource) bool { return len(r.closings(at)) > 0 }) != closed {
			return at
		}
	}
	return time.Time{}
}

// first is the earlier of two times of which either may be none.
func first(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// resource is a WindowSet that was read.
type resource struct {
	set     *deliveryv1.WindowSet
	windows []*times
	faults  []Closing
}

func parseSet(set *deliveryv1.WindowSet) resource {
	r := resource{set: set}
	for _, w := range set.GetWindows() {
		t, err := parse(w)
		if err != nil {
			r.faults = append(r.faults, Closing{Kind: set.GetKind(), Name: set.GetName(), Windows: []*deliveryv1.SyncWindow{w}, Fault: err})
			continue
		}
		r.windows = append(r.windows, t)
	}
	return r
}

// closings are what closes a service at a time.
func (r *resource) closings(at time.Time) []Closing {
	out := slices.Clone(r.faults)
	of := Closing{Kind: r.set.GetKind(), Name: r.set.GetName()}
	if f := r.set.GetFreeze(); f != nil && (f.GetUntilTime() == nil || at.Before(f.GetUntilTime().AsTime())) {
		c := of
		c.Freeze = f
		out = append(out, c)
	}
	allows, allowed := of, false
	allows.Allow = true
	for _, t := range r.windows {
		end, open := t.open(at)
		switch {
		case t.is.GetAction() == deliveryv1.WindowAction_WINDOW_ACTION_ALLOW:
			allows.Windows, allowed = append(allows.Windows, t.is), allowed || open
		case open:
			c := of
			c.Windows, c.Again = []*deliveryv1.SyncWindow{t.is}, end.IsZero()
			out = append(out, c)
		}
	}
	if len(allows.Windows) > 0 && !allowed {
		out = append(out, allows)
	}
	return out
}

// closedSince tells whether what closes a service now has done so without a break since an earlier time.
func (r *resource) closedSince(c Closing, since, now time.Time) bool {
	for _, t := range r.windows {
		if !slices.Contains(c.Windows, t.is) {
			continue
		}
		end, open := t.open(since)
		if c.Allow {
			next := t.schedule.Next(since)
			if open || !next.IsZero() && !next.After(now) {
				return false
			}
			continue
		}
		if !open || !end.IsZero() && !now.Before(end) {
			return false
		}
	}
	return true // a freeze, and a window that can't be read, have no breaks
}

// edge is when something of a resource opens, closes or ends next; zero: nothing does.
func (r *resource) edge(after time.Time) (next time.Time) {
	if until := r.set.GetFreeze().GetUntilTime(); until != nil && until.AsTime().After(after) {
		next = until.AsTime()
	}
	for _, t := range r.windows {
		if end, open := t.open(after); open {
			next = first(next, end)
		} else {
			next = first(next, t.schedule.Next(after))
		}
	}
	return next
}

// times are when a window is open.
type times struct {
	is       *deliveryv1.SyncWindow
	schedule *cron.Schedule
	lasts    time.Duration
	zone     *time.Location // of a deny window; nil: of an allow window
	// from and to are the time that was found last; to is zero if the end is not foreseeable.
	from, to time.Time
}

func parse(w *deliveryv1.SyncWindow) (*times, error) {
	switch w.GetAction() {
	case deliveryv1.WindowAction_WINDOW_ACTION_ALLOW, deliveryv1.WindowAction_WINDOW_ACTION_DENY:
	default:
		return nil, errors.New("its action is neither allow nor deny")
	}
	schedule, err := cron.Parse(w.GetSchedule(), w.GetTimeZone())
	if err != nil {
		return nil, err
	}
	lasts := w.GetDuration().AsDuration()
	if lasts < Shortest || lasts > Longest {
		return nil, fmt.Errorf("duration %s must be between a minute and 31 days", lasts)
	}
	t := &times{is: w, schedule: schedule, lasts: lasts}
	if w.GetAction() == deliveryv1.WindowAction_WINDOW_ACTION_DENY { // in doubt a service is closed
		t.schedule = schedule.ThroughGaps()
		if t.zone, err = time.LoadLocation(w.GetTimeZone()); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// end is when the window closes that opened at a time. A deny window over an hour that comes twice ends by the clock on
// the wall: else one of 24 hours would leave the last hour of that day open.
func (t *times) end(start time.Time) time.Time {
	end := start.Add(t.lasts)
	if t.zone == nil {
		return end
	}
	from := start.In(t.zone)
	to := time.Date(from.Year(), from.Month(), from.Day(), from.Hour(), from.Minute(), from.Second(), 0, time.UTC).Add(t.lasts)
	if wall := time.Date(to.Year(), to.Month(), to.Day(), to.Hour(), to.Minute(), to.Second(), to.Nanosecond(), t.zone); wall.After(end) {
		return wall
	}
	return end
}

// open tells whether the window is open at a time, and when it closes; zero: not foreseeable.
func (t *times) open(at time.Time) (end time.Time, open bool) {
	if !t.from.IsZero() && !at.Before(t.from) && (t.to.IsZero() || at.Before(t.to)) {
		return t.to, true
	}
	start := t.schedule.Last(at)
	if start.IsZero() || !at.Before(t.end(start)) {
		return time.Time{}, false
	}
	t.from, t.to = start, t.end(start)
	for range mostMerged {
		again := t.schedule.Next(start)
		if again.IsZero() || again.After(t.to) {
			return t.to, true
		}
		start, t.to = again, t.end(again)
	}
	t.to = time.Time{}
	return t.to, true
}
