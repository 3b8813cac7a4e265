package owner

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/codes"

	"fairlead.dev/platform/coordination"
	"fairlead.dev/platform/giturl"
	"fairlead.dev/platform/retry"
	"fairlead.dev/platform/telemetry"
	"fairlead.dev/services/gitcache/internal/mirror"
	"fairlead.dev/services/gitcache/internal/pause"
	"fairlead.dev/services/gitcache/internal/source"
	"fairlead.dev/services/gitcache/internal/upstream"
)

const (
	// Retries of polls and publishes: full jitter below a bound that doubles from first to most.
	firstBackoff = 2 * time.Second
	mostBackoff  = 5 * time.Minute
	// minPause between two polls, however often somebody asks for one.
	minPause = 500 * time.Millisecond
	// claimTime and publishTime bound a call to the console, so that one that hangs does not stop
	// polling.
	consoleTime = 10 * time.Second
)

// loop is the work for one source: waits for the lease, then holds a tenure.
type loop struct {
	o      *Owner
	uid    string
	wake   chan struct{} // one place: any number of nudges during a poll cause one more poll
	back   chan struct{} // one place: the host has answered a poll of another source
	parts  chan struct{} // one place: combinations of several sources, or what these have, have changed
	looks  chan look     // mostLooks places
	cancel context.CancelFunc
	done   chan struct{}

	place handover

	mu     sync.Mutex // guards what follows
	source source.Source
	now    State
	good   time.Time // end of the last good poll, or begin of the tenure
	away   bool      // the last poll failed because the host did not answer as it should
	asked  hourly    // requests to upstream
}

func newLoop(o *Owner, s source.Source) *loop {
	return &loop{
		o: o, uid: s.UID, source: s, wake: make(chan struct{}, 1), back: make(chan struct{}, 1),
		parts: make(chan struct{}, 1), looks: make(chan look, mostLooks), done: make(chan struct{}), place: newHandover(),
	}
}

func (l *loop) run(ctx context.Context) {
	defer l.place.closeForGood()
	hold := coordination.LeaseRunner{
		Leases: l.o.deps.Leases, Key: LeaseKey(l.uid), Holder: l.o.cfg.Replica, TTL: l.o.cfg.TTL,
		Log: l.o.deps.Log.With("source", l.currentSource().Name),
		Do:  l.runTenure, Turn: l.waitForTurn, Wake: l.place.again, Over: l.leaseFree,
	}
	if err := hold.Run(ctx); err != nil {
		l.o.deps.Log.ErrorContext(ctx, "source has no fetcher", "source", l.currentSource().Name, "err", err)
	}
}

// LeaseKey names the lease of a source.
func LeaseKey(uid string) string { return "source/" + uid }

// changeSource takes in what the catalog says now.
func (l *loop) changeSource(s source.Source) {
	l.mu.Lock()
	same, combined := l.source.AsksSame(s), l.source.IsCurrent == s.IsCurrent && source.SameCombinations(l.source.Combinations, s.Combinations)
	l.source = s
	l.mu.Unlock()
	if !same {
		l.nudgeLoop()
	}
	if !combined {
		signalOnce(l.parts)
	}
}

func (l *loop) nudgeLoop() { signalOnce(l.wake) }

func signalOnce(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// currentSource is the source as it is now. However many refs a poll has troubles with, it looks at the services once.
func (l *loop) currentSource() source.Source {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.source
	if s.Users != nil {
		s.Users = sync.OnceValue(s.Users)
	}
	return s
}

func (l *loop) currentState() State {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.now
	s.UpstreamRequests = l.asked.sumRequests(time.Now())
	return s
}

func (l *loop) lastGood() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.good
}

func (l *loop) changeState(change func(*State)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(&l.now)
}

// tenure is the time that this replica owns the source. Its fields belong to the loop's goroutine.
type tenure struct {
	loop   *loop
	lease  *coordination.Lease
	mirror *mirror.Mirror

	epoch   int64 // 0: not claimed yet
	claimed time.Time
	// heads are what is or should be published; those whose objects are in the mirror are also there.
	heads map[string]mirror.Head
	// seen are the refs whose heads upstream itself has told in this tenure. Of all others what was
	// published may be newer than what the mirror remembers.
	seen    map[string]bool
	problem source.Problem
	// What was wrong in the last poll, and why it failed; and what is wrong with combinations.
	troubles []source.Trouble
	failure  error
	apart    []source.Trouble
	found    string // trace of the poll that found what is to be published; "" once it is

	dirty     bool      // there is something to publish
	publishAt time.Time // not before
	publishes int       // that failed in a row

	polled    bool // in this tenure
	pollAt    time.Time
	due       time.Time // pollAt as the tenure began
	notBefore time.Time // upstream said so; nudges wait, too
	failures  int       // of polls in a row that were due by themselves
	combineAt time.Time // combinations that lack something are tried again; zero: none do
	combines  int       // that lacked something, in a row
	planned   time.Time // when the next poll was due before somebody asked for one; zero: nobody did

	answers    map[lookOf]looked // of the last looks
	lookPauses pause.Pauses      // fetches that are not tried again with every look
	work
}

// credentials are those of a secret at a revision.
type credentials struct {
	upstream.Credentials
	revision int64
}

func (l *loop) runTenure(ctx context.Context, lease *coordination.Lease) error {
	due, handed := l.place.beginTenure()
	m, err := l.o.deps.Mirrors.Mirror(l.uid) // once nobody has it on loan, who may remove it
	if err != nil {
		l.place.endTenure(due, false)
		return err
	}
	l.o.deps.Metrics.CountTakeover(handed)
	l.mu.Lock()
	l.now, l.good = State{Owned: true, LastPoll: due.Last, NextPoll: due.Next}, time.Now()
	l.mu.Unlock()
	yielded := false
	defer func() {
		l.place.endTenure(Schedule{l.currentState().LastPoll, l.currentState().NextPoll}, yielded)
		l.changeState(func(s *State) { *s = State{} })
	}()
	l.o.deps.Turned()
	t := &tenure{
		loop: l, lease: lease, mirror: m, heads: m.Heads(), seen: map[string]bool{}, work: newWork(), answers: map[lookOf]looked{}, lookPauses: pause.Pauses{},
		dirty: true, pollAt: due.Next, due: due.Next, publishAt: time.Now(),
	}
	t.warmMirror(ctx)
	l.changeState(func(s *State) { s.Heads = sortHeads(t.heads) })
	t.measureMirror() // upstream may be away: what is here is known without it
	for {
		if err := t.takeStep(ctx); err != nil || ctx.Err() != nil {
			return ignoreEnd(ctx, err)
		}
		if err := t.waitForDue(ctx); err != nil {
			yielded = errors.Is(err, errYielded)
			return nil // handed over, or the lease is lost or the service stops
		}
	}
}

// ignoreEnd sorts out ends that are no fault.
func ignoreEnd(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil //nolint:nilerr // the lease is lost or the service stops
	}
	return err
}

// takeStep does what is due: publish first, so that an epoch is claimed before the first poll if the
// console is there, and publish again what a poll found, and what was made of that with other sources.
func (t *tenure) takeStep(ctx context.Context) error {
	if !t.lease.Valid() {
		<-ctx.Done() // any moment: a process that was stopped goes on, and must not act
		return ctx.Err()
	}
	if err := t.publishIfDue(ctx); err != nil {
		return err
	}
	polls := !time.Now().Before(t.pollAt)
	if polls {
		t.recheckMirror(ctx)
		t.warmMirror(ctx)
		if err := t.pollUpstream(ctx); err != nil {
			return err
		}
		if err := t.publishIfDue(ctx); err != nil {
			return err
		}
	}
	if t.mayCombine() && !time.Now().Before(t.combineAt) {
		t.combineNow(ctx)
		if err := t.publishIfDue(ctx); err != nil {
			return err
		}
	}
	if polls {
		t.lookAfter(ctx)
	}
	return nil
}

// mayCombine tells whether combinations are to be made at combineAt. A tenure without an epoch does not know which ones
// were published, and before its first poll a publication would take back what the last owner told of the source.
func (t *tenure) mayCombine() bool { return t.polled && t.epoch != 0 && !t.combineAt.IsZero() }

// warmMirror takes in what other replicas have and is missing here. Heads that upstream itself has told stand.
func (t *tenure) warmMirror(ctx context.Context) {
	if !t.loop.o.deps.Warm(ctx, t.loop.uid, t.loop.currentSource().Name) {
		return
	}
	clear(t.whole)
	t.checked = false // the copy may lack what was here
	for ref, h := range t.mirror.Heads() {
		if !t.seen[ref] {
			t.heads[ref] = h
		}
	}
}

// waitForDue sleeps until something is due or somebody asks for a poll.
func (t *tenure) waitForDue(ctx context.Context) error {
	next := t.pollAt
	if t.dirty && t.publishAt.Before(next) {
		next = t.publishAt
	}
	if t.mayCombine() && t.combineAt.Before(next) {
		next = t.combineAt
	}
	timer := time.NewTimer(time.Until(next))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
	case <-t.loop.place.yield:
		return errYielded
	case s := <-t.loop.place.late:
		t.adoptSchedule(s)
	case k := <-t.loop.looks:
		t.lookUp(ctx, k)
	case <-t.loop.parts:
		t.combineAt, t.combines = time.Now(), 0
		if !t.polled && len(t.loop.currentSource().Combinations) > 0 {
			t.pollSoon()
		}
	case <-t.loop.wake:
		if time.Now().Before(t.notBefore) { // a pin to what is here asks nobody
			t.pinNow(ctx)
		}
		t.pollSoon()
	case <-t.loop.back:
		if t.loop.isAway() { // else its own poll has met the host since
			t.pollSoon()
		}
	}
	return nil
}

// pollSoon brings the next poll forward, as somebody asks. If it fails, the one that was planned stays where it was.
func (t *tenure) pollSoon() {
	if t.planned.IsZero() {
		t.planned = t.pollAt
	}
	t.pollAt = laterOf(time.Now(), laterOf(t.notBefore, t.loop.currentState().LastPoll.Add(minPause)))
	t.loop.changeState(func(s *State) { s.NextPoll = t.pollAt })
}

// noteHost notes how a poll met the host. The first good poll after an outage wakes the other sources of the host,
// whose pauses may be long by now; the budget of the host spreads their polls. The other replicas are told once per
// outage. A poll that fails although the host answered another one shows that the outage goes on: its end is announced,
// and heard of, again.
func (t *tenure) noteHost(ctx context.Context, s source.Source, err error) {
	is := isUnanswered(err)
	t.loop.mu.Lock()
	was := t.loop.away
	t.loop.away = is
	t.loop.mu.Unlock()
	switch host := hostOf(s.URL); {
	case is:
		t.loop.o.cutOff(host)
	case was && err == nil:
		t.loop.o.wakeHost(host, t.loop)
		t.loop.o.announceHost(ctx, host)
	}
}

func (l *loop) isAway() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.away
}

// isUnanswered says whether an error of a poll is the host's, so that its other sources have it, too.
func isUnanswered(err error) bool {
	known, ok := errors.AsType[*upstream.Error](err)
	if !ok {
		return false
	}
	switch known.Kind {
	case upstream.KindUnreachable, upstream.KindTimeout, upstream.KindThrottled, upstream.KindServer:
		return true
	default:
		return false
	}
}

// hostOf is the host and port of a repository's URL; empty: it can't be read.
func hostOf(text string) string {
	u, err := giturl.Parse(text)
	if err != nil {
		u, err = giturl.ParseFolder(text) // of charts
	}
	if err != nil {
		u, err = giturl.ParseRegistry(text)
	}
	if err != nil {
		return ""
	}
	return strings.ToLower(u.Host)
}

// schedulePoll sets the time of the next poll.
func (t *tenure) schedulePoll(s source.Source, err error, retryAfter time.Duration) {
	now := time.Now()
	if err == nil {
		t.failures = 0
		t.pollAt, t.notBefore = now.Add(retry.Spread(s.PollInterval())), time.Time{}
	} else {
		t.notBefore = now.Add(retryAfter)
		if t.failures == 0 || !t.planned.After(now) { // else webhooks during an outage would lengthen the pause with each push
			t.failures++
			t.planned = now.Add(jitteredPause(t.failures))
		}
		t.pollAt = laterOf(t.planned, t.notBefore)
		if retryAfter > 0 {
			t.pollAt = laterOf(t.planned, t.notBefore.Add(retry.Between(0, firstBackoff)))
		}
	}
	t.planned = time.Time{}
	t.loop.changeState(func(s *State) { s.NextPoll = t.pollAt })
}

// jitteredPause is a pause with full jitter, but never none.
func jitteredPause(failures int) time.Duration {
	return minPause + retry.Pause(failures-1, firstBackoff, mostBackoff)
}

func (t *tenure) publishIfDue(ctx context.Context) error {
	if !t.dirty || time.Now().Before(t.publishAt) {
		return nil
	}
	err := t.publishHeads(ctx)
	switch {
	case err == nil:
		t.dirty, t.publishes = false, 0
	case stepsDown(err):
		return err
	case ctx.Err() == nil:
		t.publishes++
		t.publishAt = time.Now().Add(jitteredPause(t.publishes))
		t.loop.o.deps.Metrics.CountPublish("failed")
		t.loop.o.deps.Log.WarnContext(ctx, "heads are not published yet; polling goes on", "source", t.loop.currentSource().Name, "err", err)
	}
	return nil
}

func (t *tenure) publishHeads(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, consoleTime)
	defer cancel()
	s := t.loop.currentSource()
	if t.epoch == 0 {
		if err := t.claimEpoch(ctx, s); err != nil {
			return err
		}
		if !t.polled {
			return nil // nothing of our own to say yet; the poll comes next
		}
	}
	ctx, span := telemetry.Of(ctx, t.found, t.loop.o.deps.Tracer, "gitcache.publish")
	defer span.End()
	err := t.loop.o.deps.Console.Publish(ctx, Publication{
		Source: s.Name, UID: s.UID, Epoch: t.epoch, Heads: sortHeads(t.heads), Problem: t.problem,
	})
	if err != nil {
		span.SetStatus(codes.Error, "publish")
		return err
	}
	t.found = ""
	t.loop.o.deps.Metrics.CountPublish("ok")
	return nil
}

// claimEpoch takes the next epoch. The heads that were published last stand wherever this replica has not seen upstream
// for itself: a head that upstream has lost meanwhile, or that can't be fetched right now.
func (t *tenure) claimEpoch(ctx context.Context, s source.Source) error {
	claimed, err := t.loop.o.deps.Console.Claim(ctx, s.Name, s.UID, t.loop.o.cfg.Replica)
	if err != nil {
		return err
	}
	t.epoch, t.claimed = claimed.Epoch, time.Now()
	for _, h := range claimed.Heads {
		mine, known := t.heads[h.Ref]
		switch {
		case known && mine.Commit == h.Commit:
			// The same commit: keep the time and the trace of who found it first.
			mine.FetchTime, mine.Traceparent = h.FetchTime, h.Traceparent
			t.heads[h.Ref] = mine
		case !t.seen[h.Ref]:
			// Published by somebody who was the owner after us. The head has no Object, so the next poll compares
			// nothing and fetches.
			t.heads[h.Ref] = h
		}
	}
	t.takeOverProblem(ctx, s, claimed.Problem)
	t.loop.changeState(func(st *State) { st.Epoch, st.Heads, st.Problem = t.epoch, sortHeads(t.heads), t.problem })
	t.loop.o.deps.Log.InfoContext(ctx, "source claimed", "source", s.Name, "epoch", t.epoch)
	return nil
}

// takeOverProblem has a fault that was published before keep its beginning: it outlasts the gitcache that found it. The
// first poll says whether it goes on, and of combinations the first run over them.
func (t *tenure) takeOverProblem(ctx context.Context, s source.Source, published source.Problem) {
	t.apart = combinationTroubles(s, published)
	own := t.problem
	t.problem = published
	if t.polled {
		t.judgeProblem(ctx, s, false)
		t.problem.KeepBeginning(own)
	}
	if !published.IsWhole() || t.polled && t.failure == nil {
		return
	}
	t.loop.changeState(func(st *State) {
		if st.StaleSince.IsZero() || published.Since.Before(st.StaleSince) {
			st.StaleSince = published.Since
		}
	})
}

func sortHeads(heads map[string]mirror.Head) []mirror.Head {
	list := make([]mirror.Head, 0, len(heads))
	for _, ref := range slices.Sorted(maps.Keys(heads)) {
		list = append(list, heads[ref])
	}
	return list
}

func laterOf(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
