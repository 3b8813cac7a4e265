// Package repair puts right what others change of applied objects, or delete: on the event, one object at a time,
// and no more often than a token bucket per object allows. Where somebody keeps changing the same it is
// a fight, which repairing can't win: it is reported with the name of the other, and fought ever more slowly.
//
// Besides, it has objects compared with the cluster by a dry run, each about twice a day and only while nothing else
// is to be done: what the memory believes is checked that way.
package repair

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"fairlead.dev/platform/retry"
	"fairlead.dev/platform/telemetry"
	"fairlead.dev/services/agent/internal/memory"
	"fairlead.dev/services/agent/internal/notice"
	"fairlead.dev/services/agent/internal/object"
)

const (
	// debounce gathers the changes of a moment: an edit often comes with others.
	debounce = 150 * time.Millisecond
	// bucket repairs of one object may follow each other; then one per refill.
	bucket, refill = 5, 30 * time.Second
	// fight is this many repairs of the same fields of an object within fightWindow.
	fight, fightWindow = 3, 5 * time.Minute
	// truceFloor and truceMax bound the wait between two repairs in a fight.
	truceFloor, truceMax = time.Minute, time.Hour
	// width bounds the repairs under way; the requests are bounded besides, with all others.
	width = 32
	// verifyRound is how long it takes to compare everything once; verifyFloor is between two objects.
	verifyRound, verifyFloor = 12 * time.Hour, time.Second
	// mostTold damaged objects of a service at once are asked who changed them: in a storm that would be as many
	// requests more.
	mostTold = 10
	// again is when what could not be done at the moment is looked at once more.
	again = 10 * time.Second
	// sweep is between two looks for objects that are at peace again.
	sweep = time.Minute
)

// ErrNotNow says that a service is not to be repaired at the moment: it is being applied, or held.
var ErrNotNow = errors.New("not now")

// Outcome is what a repair did.
type Outcome struct {
	// Rival is who has changed the object, and Fields what of ours, as JSON pointers; only where it was asked for.
	Rival  string
	Fields []string
}

// Repairer applies one object anew, as it was applied last. With tell it finds out who changed what first. Errors:
// ErrNotNow, and what went wrong.
type Repairer interface {
	Repair(ctx context.Context, service string, key object.Key, tell bool) (Outcome, error)
}

// Verifier compares one object with the cluster by a dry run, without changing anything. Errors: as Repairer.
type Verifier interface {
	Verify(ctx context.Context, service string, key object.Key) (same bool, err error)
}

// Repair puts things right. A Repair is safe for concurrent use.
type Repair struct {
	memory   *memory.Memory
	repairer Repairer
	verifier Verifier
	log      *slog.Logger
	now      func() time.Time
	news     *notice.Notices
	seconds  prometheus.Histogram
	results  *prometheus.CounterVec
	verified *prometheus.CounterVec
	slots    chan struct{}
	// done gets a value when a repair has ended.
	done chan struct{}

	mu sync.Mutex // guards histories
	// histories are of the objects that were damaged lately.
	histories map[object.Key]*history
}

// history is what happened to one object.
type history struct {
	service string
	// since is when the damage that is there now was found; zero: there is none.
	since time.Time
	busy  bool
	// tokens is what the bucket held at the time of filled.
	tokens float64
	filled time.Time
	// last are the repairs of the last minutes.
	last []event
	// level is how many truces there were, until when the present one lasts.
	level int
	until time.Time
}

type event struct {
	at     time.Time
	rival  string
	fields []string
}

// New prepares the repairs; Run does them.
func New(m *memory.Memory, repairer Repairer, verifier Verifier, now func() time.Time, log *slog.Logger, metrics prometheus.Registerer) *Repair {
	r := &Repair{
		memory: m, repairer: repairer, verifier: verifier, now: now, log: log, news: notice.New(debounce),
		slots: make(chan struct{}, width), done: make(chan struct{}, 1), histories: map[object.Key]*history{},
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "fairlead_agent_repair_seconds", Help: "Time from the news of a change to its repair.", Buckets: prometheus.ExponentialBuckets(0.05, 2, 12),
		}),
		results:  telemetry.FromZero(prometheus.NewCounterVec(prometheus.CounterOpts{Name: "fairlead_agent_repairs_total", Help: "Repairs of objects, by result."}, []string{"result"}), "repaired", "failed"),
		verified: telemetry.FromZero(prometheus.NewCounterVec(prometheus.CounterOpts{Name: "fairlead_agent_verifications_total", Help: "Objects that were compared by a dry run with what is believed of them, by result."}, []string{"result"}), "same", "different", "failed"),
	}
	metrics.MustRegister(r.seconds, r.results, r.verified)
	return r
}

// Notice says that something of a service has changed. Notice does not block.
func (r *Repair) Notice(service string) { r.news.Put(service) }

// Run works until ctx ends.
func (r *Repair) Run(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	open := map[string]bool{} // services with damage
	swept := r.now()
	verify := r.now().Add(r.pace())
	var cursor uint32
	for {
		for _, service := range r.news.Take() {
			open[service] = true
		}
		next := r.now().Add(sweep)
		for service := range open {
			keys, when := r.due(service)
			for _, key := range keys {
				r.start(ctx, &running, service, key, len(keys) <= mostTold)
			}
			if !when.IsZero() && when.Before(next) {
				next = when
			}
			if len(keys) == 0 && when.IsZero() {
				delete(open, service)
			}
		}
		now := r.now()
		if now.Sub(swept) >= sweep {
			r.sweep(now)
			swept = now
		}
		if !now.Before(verify) {
			if len(open) == 0 {
				cursor = r.verify(ctx, cursor)
			}
			verify = r.now().Add(r.pace())
		}
		if verify.Before(next) {
			next = verify
		}
		timer := time.NewTimer(max(next.Sub(r.now()), time.Millisecond))
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-r.news.Due():
		case <-r.done:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// due lists the damaged objects of a service that may be repaired now, and says when the next may; zero: there
// is none.
func (r *Repair) due(service string) (keys []object.Key, next time.Time) {
	now := r.now()
	r.mu.Lock() // before the question: what is not busy any more is not damaged any more either
	defer r.mu.Unlock()
	for _, key := range r.memory.Damaged(service) {
		h := r.histories[key]
		if h == nil {
			h = &history{service: service, tokens: bucket, filled: now}
			r.histories[key] = h
		}
		if h.since.IsZero() {
			h.since = now
		}
		if when := h.when(now, r.memory.Backoff(key)); when.After(now) {
			if next.IsZero() || when.Before(next) {
				next = when
			}
			continue
		}
		if !h.busy {
			keys = append(keys, key)
		} else if next.IsZero() {
			next = now.Add(again)
		}
	}
	return keys, next
}

// when is when the object may be repaired.
func (h *history) when(now, backoff time.Time) time.Time {
	when := backoff
	if h.until.After(when) {
		when = h.until
	}
	if tokens := h.holds(now); tokens < 1 {
		if free := now.Add(time.Duration((1 - tokens) * float64(refill))); free.After(when) {
			when = free
		}
	}
	return when
}

// holds is what the bucket holds. A clock that goes back fills nothing.
func (h *history) holds(now time.Time) float64 {
	return min(h.tokens+max(now.Sub(h.filled), 0).Seconds()/refill.Seconds(), bucket)
}

// start repairs one object on the side, once there is a slot. With few others it is asked who changed it.
func (r *Repair) start(ctx context.Context, running *sync.WaitGroup, service string, key object.Key, few bool) {
	select {
	case r.slots <- struct{}{}:
	case <-ctx.Done():
		return
	}
	r.mu.Lock()
	h := r.histories[key]
	now := r.now()
	h.busy, h.tokens, h.filled = true, h.holds(now)-1, now
	tell := few || len(h.last) > 0 || h.level > 0
	r.mu.Unlock()
	running.Go(func() {
		outcome, err := r.repairer.Repair(ctx, service, key, tell)
		<-r.slots
		r.ended(ctx, service, key, outcome, err)
		select {
		case r.done <- struct{}{}:
		default:
		}
	})
}

// ended takes note of what a repair did.
func (r *Repair) ended(ctx context.Context, service string, key object.Key, outcome Outcome, err error) {
	now := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.histories[key]
	h.busy = false
	switch {
	case ctx.Err() != nil:
		return
	case errors.Is(err, ErrNotNow):
		h.tokens++
		h.until = maxTime(h.until, now.Add(again))
		return
	case err != nil:
		r.memory.Failed(key, now, err.Error())
		r.results.WithLabelValues("failed").Inc()
		r.log.Warn("an object can't be put right", "service", service, "object", key.String(), "err", err)
		return
	}
	r.memory.Succeeded(key)
	r.results.WithLabelValues("repaired").Inc()
	r.seconds.Observe(max(now.Sub(h.since), 0).Seconds())
	h.since = time.Time{}
	h.last = append(slices.DeleteFunc(h.last, func(e event) bool { return now.Sub(e.at) > fightWindow }),
		event{at: now, rival: outcome.Rival, fields: outcome.Fields})
	if h.level == 0 && !h.fights() {
		r.log.Info("put right", "service", service, "object", key.String(), "manager", outcome.Rival, "fields", outcome.Fields)
		return
	}
	truce := min(truceFloor<<min(h.level, 10), truceMax)
	h.level++
	h.until = now.Add(truce)
	r.memory.Fought(key, outcome.Rival, outcome.Fields, h.until)
	r.log.Warn("somebody keeps changing an object", "service", service, "object", key.String(),
		"manager", outcome.Rival, "fields", outcome.Fields, "next_repair_in", truce)
}

// fights says whether the last repairs were about the same. Of the first of them nobody knows what it was about.
func (h *history) fights() bool {
	if len(h.last) < fight {
		return false
	}
	one, other := h.last[len(h.last)-1], h.last[len(h.last)-2]
	return one.rival == other.rival && slices.Equal(one.fields, other.fields)
}

// sweep forgets what is long over.
func (r *Repair) sweep(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, h := range r.histories {
		if h.busy || now.Before(h.until.Add(fightWindow)) {
			continue
		}
		if known, _ := r.memory.Get(key); known.State == memory.Drifted || known.State == memory.Gone {
			continue
		}
		h.since = time.Time{} // of damage that an apply, or the other, has put right
		if len(h.last) > 0 && now.Sub(h.last[len(h.last)-1].at) <= fightWindow {
			continue
		}
		if h.level > 0 {
			r.memory.Peace(key)
		}
		delete(r.histories, key)
	}
}

// pace is the wait between two comparisons.
func (r *Repair) pace() time.Duration {
	total := r.memory.Counts().Total
	if total == 0 {
		return retry.Spread(sweep)
	}
	return retry.Spread(max(verifyRound/time.Duration(total), verifyFloor))
}

// verify compares the next object with the cluster, and returns where to go on.
func (r *Repair) verify(ctx context.Context, cursor uint32) uint32 {
	service, key, cursor, ok := r.memory.Next(cursor)
	if !ok {
		return 0
	}
	same, err := r.verifier.Verify(ctx, service, key)
	switch {
	case errors.Is(err, ErrNotNow):
	case err != nil:
		r.verified.WithLabelValues("failed").Inc()
	case same:
		r.verified.WithLabelValues("same").Inc()
	default:
		r.verified.WithLabelValues("different").Inc()
		r.log.Warn("an object was not as it was believed to be", "service", service, "object", key.String())
		r.memory.Distrust(key)
	}
	return cursor
}

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
