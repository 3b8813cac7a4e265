// Package sink sends events to where people want to hear of them: webhooks, chats, mail, alerts.
//
// How far each sink is stands in the database, so that a console that starts, or another one, goes on there: each event
// that fits is sent at least once. One console at a time sends to a sink, by a claim in the database; each sink has a
// goroutine of its own while it is sent to, so that none waits for another. Events between two messages come in one.
package sink

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/dialpolicy"
	"fairlead.dev/platform/refusal"
	"fairlead.dev/platform/retry"
	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/event"
	"fairlead.dev/services/console/internal/resource"
	"fairlead.dev/services/console/internal/store"
)

const (
	// lookEvery is how soon a sink hears of an event.
	lookEvery = 500 * time.Millisecond
	// claimFor is how long no other console sends, more than a pass takes.
	claimFor = time.Minute
	// noteTimeout bounds how long what came of a message is written, and grace how long one that is under way may take,
	// when the console stops.
	noteTimeout, grace = 5 * time.Second, 3 * time.Second
	// noteFor bounds that writing else: with sendTimeout it ends before the claim does.
	noteFor = 30 * time.Second
	// readRows is how many events are read at once, and maxRows how many in one pass or look; maxMembers is how many
	// bytes of what they say of each of many services.
	readRows, maxRows = 500, 10_000
	maxMembers        = 8 << 20
	// maxWaiting is how many events that wait are counted, and the most of one message to people; programs get
	// maxWebhook.
	maxWaiting, maxWebhook = 1000, 100
	// maxPages is how many events PagerDuty gets in a pass. Each event is up to four requests: where not all are
	// answered within sendTimeout, the next pass goes on behind those that were.
	maxPages = 20
	// behind is how many events that are not for a sink may come before that is written down, unless its filter has
	// changed.
	behind = 1000
	// Backoff doubles from minBackoff to maxBackoff, with full jitter.
	minBackoff, maxBackoff = time.Second, 5 * time.Minute
	// aloneAfter so many failures the oldest event is tried alone, and if alone it is itself not taken for so many
	// times as rejections, it is given up. failingAfter so many failures there is an event.
	aloneAfter, rejections, failingAfter = 2, 5, 3
	// defaultRetryFor is how long an event is tried.
	defaultRetryFor = 24 * time.Hour
)

// Deliverer sends events to sinks. Its goroutines end with Run.
type Deliverer struct {
	Store   *store.Store
	Catalog *catalog.Catalog
	// Addresses that may be sent to.
	Addresses *dialpolicy.Policy
	// Pages returns the address of the console's pages; empty, or nil: people reach it at none.
	Pages func() string
	// ID of this console among those of a database.
	ID      string
	Metrics *Metrics
	Log     *slog.Logger
	Now     func() time.Time

	passes sync.WaitGroup
	// reading is held by the one pass that reads what waits: a console that starts has one for each sink, and others
	// read, too.
	reading  sync.Mutex
	mu       sync.Mutex
	busy     map[string]bool     // sinks, by uid; guarded by mu
	progress map[string]progress // within an event of many services, by the uid of the sink; guarded by mu

	// The fields below are Run's own.
	at    int64            // up to here all sinks were asked
	clear map[string]int64 // up to here there is nothing for a sink, by uid
	known map[string]matcher
}

// Run sends until ctx ends.
func (d *Deliverer) Run(ctx context.Context) error {
	defer d.passes.Wait()
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		if err := d.look(ctx); err != nil && ctx.Err() == nil {
			d.Log.DebugContext(ctx, "events are sent later", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// moment is what is looked at.
type moment struct {
	sinks    []store.Resource
	sendings map[string]store.Sending
	end      int64 // of the events that were read
	fresh    []numbered
}

// numbered is an event with its place.
type numbered struct {
	seq int64
	event.Told
}

// look begins to send what is due. Events that are new are read once for all sinks.
func (d *Deliverer) look(ctx context.Context) error {
	var m moment
	err := d.Store.Read(ctx, func(ctx context.Context, v store.View) (err error) {
		if m.sendings, err = v.Sendings(ctx); err != nil || len(m.sendings) == 0 {
			return err
		}
		if m.sinks, err = allSinks(ctx, v); err != nil {
			return err
		}
		if m.end, err = v.EventsEnd(ctx); err != nil || d.at == 0 || m.end <= d.at {
			return err
		}
		m.fresh, m.end, err = after(ctx, v, d.at, m.end, maxRows)
		return err
	})
	if err != nil {
		return err
	}
	d.Metrics.saw(m.sendings, d.Now())
	known, clear := make(map[string]matcher, len(m.sinks)), make(map[string]int64, len(m.sinks))
	for _, row := range m.sinks {
		of, begun := m.sendings[row.UID]
		if !begun {
			continue
		}
		match := d.known[row.UID]
		if match.etag != row.ETag() {
			match = matcherOf(row)
		}
		known[row.UID] = match
		at := max(of.Seq, d.clear[row.UID])
		waits := d.at == 0 || at < d.at || of.Seq > m.end
		for _, e := range m.fresh {
			waits = waits || e.seq > at && match.of(e, d.Now()) != nil
		}
		if !waits {
			at = max(at, m.end)
			waits = at-of.Seq > behind || at > of.Seq && len(earlierOf(row.Name, of)) > 0 // and its filters of before are forgotten
		}
		if clear[row.UID] = at; waits && of.Due && d.begin(row.UID) {
			d.passes.Go(func() {
				defer d.done(row.UID)
				if err := d.pass(ctx, row.UID); err != nil && ctx.Err() == nil {
					d.Log.WarnContext(ctx, "events for a sink are sent later", "sink", row.Name, "err", err)
				}
			})
		}
	}
	d.known, d.clear, d.at = known, clear, m.end
	return nil
}

func allSinks(ctx context.Context, v store.View) (out []store.Resource, err error) {
	for after := ""; ; {
		rows, err := v.List(ctx, store.KindSink, after, readRows)
		if err != nil {
			return nil, err
		}
		if out = append(out, rows...); len(rows) < readRows {
			return out, nil
		}
		after = rows[len(rows)-1].Name
	}
}

// after reads events behind a place, at most so many, and says up to where that is everything.
func after(ctx context.Context, v store.View, at, end int64, most int) (out []numbered, next int64, err error) {
	for members := 0; len(out) < most && members < maxMembers; {
		rows, more, err := v.EventsAfter(ctx, store.EventQuery{}, at, readRows)
		if err != nil {
			return nil, 0, err
		}
		for _, row := range rows {
			e, err := event.Decode(row)
			if err != nil {
				return nil, 0, err
			}
			out, at = append(out, numbered{row.Seq, e}), row.Seq
			members += len(row.Members)
		}
		if !more {
			return out, end, nil
		}
	}
	return out, at, nil
}

func (d *Deliverer) begin(uid string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.busy == nil {
		d.busy = map[string]bool{}
	}
	if d.busy[uid] {
		return false
	}
	d.busy[uid] = true
	return true
}

func (d *Deliverer) done(uid string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.busy, uid)
}

// waiting is what of an event is for a sink, with its place, and its part if the event is sent in several.
type waiting struct {
	seq int64
	*consolev1.Event
	part int
}

// progress is the next part of an event that is sent in several. The database knows only whole events: after a restart
// all parts are sent again.
type progress struct {
	etag string // of the sink: another filter makes other parts
	seq  int64
	part int
}

// batch is what waits for a sink.
type batch struct {
	target
	// broken is why it can't be sent to at all.
	broken *failure
	etag   string // of the sink
	// waiting are events that fit, maxWaiting of them or a few more so that all parts of the last event are there, and
	// next is up to where there are no others.
	waiting []waiting
	next    int64
	more    bool // behind next
	// plan is for a Git host; nil: the events are sent.
	plan *statusPlan
	// stale are older than they are tried, and missed says that some are not kept any more.
	stale  int
	missed bool
}

// pass sends one message to a sink, if something waits for it and nobody else sends.
func (d *Deliverer) pass(ctx context.Context, uid string) error {
	of, b, err := d.claim(ctx, uid)
	if err != nil || b == nil {
		return err
	}
	tell, wait := d.send(ctx, &of, *b)
	var done []store.CommitStatus
	var gone []string
	if p := b.plan; p != nil {
		done, gone = p.done, p.gone
	}
	noting, cancel := noteContext(ctx)
	defer cancel()
	kept, err := d.Store.PutStatuses(noting, of, wait, done, gone, tell...)
	if err == nil && !kept {
		d.Log.WarnContext(ctx, "another console took over a sink: a message may have come twice", "sink", b.name)
	}
	if err != nil || !kept {
		d.setProgress(uid, progress{})
	}
	return err
}

// noteContext is for writing what came of a message, also when the console stops meanwhile: else it were sent again. A
// database that is slow has noteFor, as what is not written is sent again when the claim ends; a console that stops
// waits noteTimeout for it.
func noteContext(ctx context.Context) (context.Context, context.CancelFunc) {
	noting, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteFor)
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(noteTimeout, cancel) })
	return noting, func() { stop(); cancel() }
}

// claim takes sending to a sink on, and reads what waits for it; nil: somebody else has it, or it is gone.
func (d *Deliverer) claim(ctx context.Context, uid string) (of store.Sending, b *batch, err error) {
	d.reading.Lock()
	defer d.reading.Unlock()
	of, mine, err := d.Store.ClaimSending(ctx, uid, d.ID, claimFor)
	if err != nil || !mine {
		return of, nil, err
	}
	err = d.Store.Read(ctx, func(ctx context.Context, v store.View) error {
		row, err := v.WithUID(ctx, uid)
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		gathered, err := d.gather(ctx, v, of, row)
		b = &gathered
		return err
	})
	if err != nil { // nothing was sent: the claim holds up nobody
		noting, cancel := noteContext(ctx)
		defer cancel()
		_, failed := d.Store.PutSending(noting, of, minBackoff)
		err = errors.Join(err, failed)
	}
	return of, b, err
}

// gather reads what waits for a sink.
func (d *Deliverer) gather(ctx context.Context, v store.View, of store.Sending, row store.Resource) (b batch, err error) {
	if b.target, b.broken, err = d.target(ctx, v, row); err != nil {
		return b, err
	}
	match := matcherOf(row)
	b.etag = match.etag
	if match.broken != nil {
		b.broken = match.broken
	}
	is, err := v.Sending(ctx, of.Sink) // the filter may have changed since the claim
	if err != nil {
		return b, err
	}
	match.earlier = earlierOf(row.Name, is)
	end, err := v.EventsEnd(ctx)
	if err != nil {
		return b, err
	}
	if b.spec.Disabled || of.Seq > end { // behind the end: another database was put in the place of this one
		b.next = end
		return b, nil
	}
	gone, err := v.EventsGone(ctx)
	if err != nil {
		return b, err
	}
	b.missed = of.Seq < gone && of.Waiting > 0
	events, next, err := after(ctx, v, max(of.Seq, gone), end, maxRows)
	if err != nil {
		return b, err
	}
	b.next, b.more = next, next < end
	now := d.Now()
	oldest := now.Add(-b.interval() - b.retryFor()) // an event may wait for the next message before it is tried first
	for _, e := range events {
		list := match.list(e, now)
		switch {
		case len(list) == 0:
		case e.GetTime().AsTime().Before(oldest):
			b.stale++
		case len(b.waiting) >= maxWaiting:
			b.next, b.more = e.seq-1, true
			return b, d.planned(ctx, v, &b)
		default:
			first := 0
			if at := d.progressOf(row.UID); len(b.waiting) == 0 && at.seq == e.seq && at.etag == b.etag && at.part < len(list) {
				first = at.part
			}
			for i := first; i < len(list); i++ {
				b.waiting = append(b.waiting, waiting{e.seq, list[i], i})
			}
		}
	}
	return b, d.planned(ctx, v, &b)
}

// planned reads what is to be set where a sink is a Git host that can be sent to.
func (d *Deliverer) planned(ctx context.Context, v store.View, b *batch) error {
	if b.broken == nil && b.spec.CommitStatus() != nil && len(b.waiting) > 0 {
		return d.plan(ctx, v, b)
	}
	return nil
}

func (d *Deliverer) progressOf(uid string) progress {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.progress[uid]
}

func (d *Deliverer) setProgress(uid string, at progress) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if at.part == 0 {
		delete(d.progress, uid)
		return
	}
	if d.progress == nil {
		d.progress = map[string]progress{}
	}
	d.progress[uid] = at
}

// advance writes into of that the first n of what waits are done.
func (d *Deliverer) advance(of *store.Sending, b batch, n int) {
	if n == len(b.waiting) {
		of.Seq = b.next
		d.setProgress(b.uid, progress{})
		return
	}
	next := b.waiting[n]
	of.Seq = next.seq - 1
	d.setProgress(b.uid, progress{b.etag, next.seq, next.part})
}

// target reads what is needed to send to a sink; broken is what is wrong with that.
func (d *Deliverer) target(ctx context.Context, v store.View, row store.Resource) (t target, broken *failure, err error) {
	t = target{uid: row.UID, name: row.Name}
	is, err := resource.Sinks().Decode(row)
	if err != nil {
		return t, failed("%s: write it anew", err), nil
	}
	t.spec = is.Spec
	t.credentials, err = d.Catalog.CredentialsOf(row, func(secret string) (store.Resource, error) { return v.Get(ctx, store.KindSecret, secret) })
	if refused, ok := errors.AsType[*refusal.Error](err); ok {
		return t, failed("%s", refused.Message), nil
	}
	return t, nil, err
}

func (t target) retryFor() time.Duration {
	if t.spec.RetryFor > 0 {
		return t.spec.RetryFor
	}
	return defaultRetryFor
}

// interval between messages: people read mail less often than programs take posts.
func (t target) interval() time.Duration {
	switch {
	case t.spec.Interval > 0:
		return t.spec.Interval
	case t.spec.Email != nil:
		return time.Minute
	case t.spec.Slack != nil, t.spec.Teams != nil, t.spec.CommitStatus() != nil:
		return 5 * time.Second
	}
	return time.Second
}

// pause is how long the next message waits. Alerts that wait are sent without one: the ends of a rollout would hold up
// a page.
func (b batch) pause(sent int) time.Duration {
	if (b.more || sent < len(b.waiting)) && b.spec.Alerts() && b.spec.Interval == 0 {
		return 0
	}
	if b.plan != nil && b.plan.upTo < len(b.waiting) {
		return max(b.interval(), statusPause)
	}
	return b.interval()
}

// most is how many events come in one message.
func (t target) most() int {
	switch {
	case t.spec.Webhook != nil, t.spec.Alertmanager != nil:
		return maxWebhook
	case t.spec.PagerDuty != nil:
		return maxPages
	case t.spec.Grafana != nil:
		return 1 // its API takes no more, and an annotation that comes twice is there twice
	}
	return maxWaiting
}

// steady is how many of the first events change no alert twice. Requests to PagerDuty may be answered in any order, and
// after one that failed those behind it are sent again: an alert that a message opens and ends would be opened once
// more, and page somebody a second time.
func (b batch) steady(most int) int {
	ends := map[string]bool{} // by the key of the alert
	for i, e := range b.waiting[:min(most, len(b.waiting))] {
		for _, a := range alerts(e.Event) {
			key := a.key(b.target)
			if was, seen := ends[key]; seen && was != a.ends {
				return i
			}
			ends[key] = a.ends
		}
	}
	return most
}

// send sends a message of what waits, writes what came of it into of, and returns what is to be told and when the next
// may come.
func (d *Deliverer) send(ctx context.Context, of *store.Sending, b batch) (tell []store.Event, wait time.Duration) {
	was := *of
	of.Waiting, of.Oldest = 0, time.Time{}
	if b.stale > 0 || b.missed {
		tell = append(tell, d.drop(ctx, of, b, b.stale, fmt.Sprintf("They could not be sent for %s: %s", b.retryFor(), was.Problem)))
	}
	if len(b.waiting) == 0 {
		if of.Seq = b.next; b.spec.Disabled {
			of.Problem, of.ProblemTime, of.Attempts = "", time.Time{}, 0
		}
		return tell, 0
	}
	most := b.most()
	if b.plan != nil {
		if most = b.plan.upTo; len(b.plan.set) == 0 { // every status has the state that is set
			d.advance(of, b, most)
			return tell, b.pause(most)
		}
	} else if was.Attempts >= aloneAfter && was.Waiting > 0 {
		most = 1
	} else if b.spec.PagerDuty != nil {
		most = b.steady(most)
	}
	some := b.waiting[:min(most, len(b.waiting))]
	problem := d.try(ctx, b, some)
	if ctx.Err() != nil && problem != nil {
		*of = was // the console stops: nothing is known
		return nil, 0
	}
	taken := problem == nil || problem.taken
	sent := len(some)
	if !taken {
		sent = problem.sent
	}
	d.advance(of, b, sent)
	n := sent
	if b.plan != nil {
		n = len(b.plan.done)
	}
	if n > 0 {
		of.Sent += int64(n)
		of.SendTime, of.Rejections = d.Now().UTC().Truncate(time.Microsecond), 0
		d.Metrics.events.WithLabelValues(b.spec.Kind(), "sent").Add(float64(n))
	}
	if problem == nil {
		if was.Problem != "" {
			d.Log.InfoContext(ctx, "a sink takes events again", "sink", b.name, "attempts", was.Attempts)
		}
		if was.Attempts >= failingAfter {
			tell = append(tell, event.SinkRecovers(b.name, b.spec.Project, of.Sink, was.ProblemTime, d.Now()))
		}
		of.Attempts, of.Problem, of.ProblemTime = 0, "", time.Time{}
		return tell, b.pause(sent)
	}
	d.Metrics.failures.WithLabelValues(b.spec.Kind()).Inc()
	if of.Problem == "" {
		of.ProblemTime = d.Now().UTC().Truncate(time.Microsecond)
		d.Log.WarnContext(ctx, "a sink does not take events", "sink", b.name, "err", problem)
	}
	of.Problem = problem.message
	how := "It does not take events; they wait for it: "
	if taken {
		how = "It does not take events for all: "
	}
	if of.Attempts++; of.Attempts == failingAfter {
		tell = append(tell, event.SinkFails(b.name, b.spec.Project, of.Sink, how+of.Problem, of.ProblemTime, d.Now()))
	}
	if taken {
		return tell, b.pause(sent)
	}
	of.Waiting, of.Oldest = len(b.waiting)-sent, b.waiting[sent].GetTime().AsTime()
	wait = backoff(of.Attempts)
	if problem.rejected && len(some) == 1 { // the receiver answers, and events behind this one may be taken
		of.Rejections++
		if wait = backoff(of.Rejections); of.Rejections == rejections {
			tell = append(tell, d.drop(ctx, of, b, 1, "It does not take one: "+of.Problem))
			d.advance(of, b, 1)
			of.Waiting--
		}
	}
	return tell, max(wait, problem.after)
}

// try lets a message that is under way come to its end when the console stops, within grace.
func (d *Deliverer) try(ctx context.Context, b batch, some []waiting) *failure {
	if b.broken != nil {
		return b.broken
	}
	sending, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(grace, cancel) })
	defer stop()
	if b.plan != nil {
		_, problem := d.sender().statuses(sending, b.target, b.plan)
		return problem
	}
	_, problem := d.sender().send(sending, b.target, events(some))
	return problem
}

func (d *Deliverer) sender() *sender { return &sender{addresses: d.Addresses, now: d.Now} }

func events(list []waiting) []*consolev1.Event {
	out := make([]*consolev1.Event, len(list))
	for i, e := range list {
		out[i] = e.Event
	}
	return out
}

// drop counts events that are given up.
func (d *Deliverer) drop(ctx context.Context, of *store.Sending, b batch, n int, why string) store.Event {
	of.Dropped += int64(n)
	of.Rejections = 0 // the rejections were those of the dropped events
	d.Metrics.events.WithLabelValues(b.spec.Kind(), "dropped").Add(float64(n))
	d.Log.WarnContext(ctx, "events for a sink are given up", "sink", b.name, "events", n, "why", why)
	return event.SinkDrops(b.name, b.spec.Project, of.Sink, why, of.Dropped, d.Now())
}

// backoff has full jitter, so that sinks at one receiver are not all tried at once.
func backoff(attempts int) time.Duration {
	return minBackoff/2 + retry.Pause(attempts, minBackoff, maxBackoff)
}

// Test sends an event of type test to a sink, or sets a status at a Git host, and returns what the other side said, or
// why it does not take it.
func (d *Deliverer) Test(ctx context.Context, name, actor string) (answer string, taken bool, err error) {
	var t target
	var status commitStatus
	var problem *failure
	err = d.Store.Read(ctx, func(ctx context.Context, v store.View) error {
		row, err := v.Get(ctx, store.KindSink, name)
		if err == nil {
			t, problem, err = d.target(ctx, v, row)
		}
		if err == nil && problem == nil && t.spec.CommitStatus() != nil {
			status, problem, err = d.trial(ctx, v, t)
		}
		return err
	})
	switch {
	case err != nil:
		return "", false, err
	case problem != nil:
	case t.spec.CommitStatus() != nil:
		if answer, problem = d.sender().statuses(ctx, t, &statusPlan{set: []commitStatus{status}}); problem == nil {
			answer = fmt.Sprintf("status %s of %s in %s: %s", status.name, shortCommit(status.Commit), status.Repository, answer)
		}
	default:
		answer, problem = d.sender().send(ctx, t, []*consolev1.Event{event.Trial(name, t.spec.Project, actor, d.Now())})
	}
	if taken = problem == nil; !taken {
		answer = problem.message
	}
	return answer, taken, nil
}
