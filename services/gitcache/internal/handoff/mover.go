package handoff

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"fairlead.dev/platform/retry"
	"fairlead.dev/platform/telemetry"
	"fairlead.dev/services/gitcache/internal/mirror"
	"fairlead.dev/services/gitcache/internal/owner"
)

const (
	// DefaultSettle is how long the same replicas must live before anything moves because of them.
	DefaultSettle = 10 * time.Second
	// movers at work at once; with a drain more, since it has little time.
	movers      = 4
	drainMovers = 16
	// lookEvery is how often it is looked for what is to move.
	lookEvery = time.Second
	// coldPause before a source is offered again that the other replica is copying.
	coldPause = time.Second
	// drainPause is that pause of a replica that drains.
	drainPause = 250 * time.Millisecond
	// yieldTime bounds the wait for the end of a poll, with its fetch.
	yieldTime = 30 * time.Second
	// giveUpAfter is how long a replica that is cut off from the console offers a source before it gives the lease back
	// without: then whoever is first in the ranking takes it without a copy.
	giveUpAfter = time.Minute
	// Pauses after failures: full jitter below a bound that doubles from first to most.
	firstBackoff = 2 * time.Second
	mostBackoff  = time.Minute
)

// Deps of a Mover.
type Deps struct {
	Peers   Peers
	Owner   Owner
	Mirrors *mirror.Mirrors
	Metrics *Metrics
	Tracer  trace.Tracer
	Log     *slog.Logger
}

// Metrics of hand-offs.
type Metrics struct{ handoffs *prometheus.CounterVec }

// NewMetrics registers the metrics.
func NewMetrics(r prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{telemetry.FromZero(prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "fairlead_gitcache_handoffs_total",
		Help: "Offers of sources to the replicas that should own them, by result: ok, cold (it copies first), busy (a poll runs), failed.",
	}, []string{"result"}), "ok", "cold", "busy", "failed")}
	return m, r.Register(m.handoffs)
}

func (m *Metrics) tell(err error) {
	result := "ok"
	switch {
	case errors.Is(err, ErrCold):
		result = "cold"
	case errors.Is(err, owner.ErrBusy):
		result = "busy"
	case err != nil:
		result = "failed"
	}
	m.handoffs.WithLabelValues(result).Inc()
}

// Mover hands over what others should own.
type Mover struct {
	replica string
	settle  time.Duration
	settled func() time.Time // since when the same replicas live
	deps    Deps
	wake    chan struct{} // one place

	mu          sync.Mutex // guards what follows
	moves       map[string]*move
	cutOffSince time.Time // zero: this replica was not cut off at the last look
}

// move is a source on its way.
type move struct {
	running  bool
	began    time.Time // when it was due first
	next     time.Time // not before
	failures int
	err      error // of the last try
}

// New makes a mover. settle is how long the same replicas must live, settled since when they do.
func New(replica string, settle time.Duration, settled func() time.Time, deps Deps) *Mover {
	return &Mover{replica: replica, settle: settle, settled: settled, deps: deps, wake: make(chan struct{}, 1), moves: map[string]*move{}}
}

// Run hands sources over until ctx ends. Run returns after all work did.
func (m *Mover) Run(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		m.look(ctx, &running)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-m.wake:
		}
	}
}

// Reconsider looks now for what is to move.
func (m *Mover) Reconsider() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// look starts what is due.
func (m *Mover) look(ctx context.Context, running *sync.WaitGroup) {
	draining, cutOff := m.deps.Peers.Draining(), m.deps.Peers.CutOff()
	m.noteCutOff(cutOff)
	if m.deps.Peers.Alone() || !draining && !cutOff && time.Since(m.settled()) < m.settle {
		return
	}
	owned := m.deps.Owner.Owned()
	m.forget(owned)
	for _, o := range owned {
		to := m.target(o, draining || cutOff)
		if to == "" || !m.begin(o.UID, draining) {
			continue
		}
		running.Go(func() {
			err := m.hand(ctx, o, to, false)
			if err != nil && m.tried(o.UID) > giveUpAfter && m.deps.Peers.CutOff() {
				m.giveUp(ctx, o)
			}
			m.end(ctx, o, to, err, draining)
			m.Reconsider()
		})
	}
}

// noteCutOff remembers when the cut-off that lasts now was seen first.
func (m *Mover) noteCutOff(cutOff bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case !cutOff:
		m.cutOffSince = time.Time{}
	case m.cutOffSince.IsZero():
		m.cutOffSince = time.Now()
	}
}

// target is the replica that should own a source instead of this one; empty: none, or not now.
func (m *Mover) target(o owner.Owned, leaving bool) string {
	// Without the console nobody else could claim it, and what is kept is kept: but a drain comes first, and so does
	// that others reach the console.
	if !leaving && (o.Kept || !o.Claimed) {
		return ""
	}
	rank := m.deps.Peers.Rank(o.UID)
	if len(rank) == 0 || rank[0] == m.replica {
		return ""
	}
	return rank[0]
}

// forget drops what is known of sources that are not owned any more.
func (m *Mover) forget(owned []owner.Owned) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.moves, func(uid string, mv *move) bool {
		return !mv.running && !slices.ContainsFunc(owned, func(o owner.Owned) bool { return o.UID == uid })
	})
}

// begin takes one of the slots for a source that is due.
func (m *Mover) begin(uid string, draining bool) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	most, busy := movers, 0
	if draining {
		most = drainMovers
	}
	for _, mv := range m.moves {
		if mv.running {
			busy++
		}
	}
	mv := m.moves[uid]
	if mv == nil {
		mv = &move{began: time.Now()}
		m.moves[uid] = mv
	}
	if busy >= most || mv.running || time.Now().Before(mv.next) {
		return false
	}
	mv.running = true
	return true
}

// hurry ends the pause after a failure.
func (m *Mover) hurry(uid string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if mv := m.moves[uid]; mv != nil {
		mv.next = time.Time{}
	}
}

func (m *Mover) end(ctx context.Context, o owner.Owned, to string, err error, draining bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	mv := m.moves[o.UID]
	mv.running, mv.err = false, err
	cold := coldPause
	if draining {
		cold = drainPause
	}
	switch {
	case err == nil:
		delete(m.moves, o.UID)
		m.deps.Log.InfoContext(ctx, "source handed over", "source", o.Name, "replica", to)
	case draining, errors.Is(err, ErrCold):
		mv.failures, mv.next = 0, time.Now().Add(retry.Around(cold))
	default:
		mv.failures++
		mv.next = time.Now().Add(retry.Pause(mv.failures-1, firstBackoff, mostBackoff))
		if mv.failures == 1 && ctx.Err() == nil {
			m.deps.Log.WarnContext(ctx, "source is not handed over; it is tried again", "source", o.Name, "replica", to, "err", err)
		}
	}
}

// hand offers a source and, if the other replica has a copy, gives it over.
func (m *Mover) hand(ctx context.Context, o owner.Owned, to string, keep bool) (err error) {
	ctx, span := m.deps.Tracer.Start(ctx, "gitcache.handoff", trace.WithNewRoot(),
		trace.WithAttributes(attribute.String("source", o.Name), attribute.String("replica", to)))
	defer span.End()
	defer func() {
		m.deps.Metrics.tell(err)
		if err != nil {
			span.SetStatus(codes.Error, "handoff")
		}
	}()
	member, ok := m.deps.Peers.Member(to)
	if !ok {
		return errors.New("the replica is gone")
	}
	cutOff := m.deps.Peers.CutOff()
	offer := Offer{UID: o.UID, Keep: keep}
	if !cutOff {
		mirror, err := m.deps.Mirrors.Mirror(o.UID)
		if err != nil {
			return err
		}
		for _, h := range mirror.Heads() {
			offer.Heads = append(offer.Heads, h)
		}
	} // else nobody can have a copy of what was never published: the other replica polls at once
	if err := m.deps.Peers.Offer(ctx, member, offer); err != nil {
		return err
	}
	if cutOff && !m.deps.Peers.CutOff() {
		return fmt.Errorf("the console is reached again, and the source was offered without heads: %w", ErrCold)
	}
	yielding, cancel := context.WithTimeout(ctx, yieldTime)
	defer cancel()
	if offer.Schedule, err = m.deps.Owner.Yield(yielding, o.UID); err != nil {
		return err
	}
	if cutOff {
		offer.Schedule = owner.Schedule{}
	}
	offer.Released = true
	if err := m.deps.Peers.Offer(context.WithoutCancel(ctx), member, offer); err != nil {
		// The lease is free: whoever is first in the ranking takes it, this replica if nobody else does.
		return err
	}
	return nil
}

// tried is how long a source has been offered in the cut-off that lasts now.
func (m *Mover) tried(uid string) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cutOffSince.IsZero() {
		return 0
	}
	return min(time.Since(m.moves[uid].began), time.Since(m.cutOffSince))
}

// giveUp gives the lease of a source back though nobody has taken the offer.
func (m *Mover) giveUp(ctx context.Context, o owner.Owned) {
	ctx, cancel := context.WithTimeout(ctx, yieldTime)
	defer cancel()
	if _, err := m.deps.Owner.Yield(ctx, o.UID); err == nil { // else it is tried again
		m.deps.Log.WarnContext(ctx, "source is given up without a copy elsewhere: it can't be published from here", "source", o.Name)
	}
}

// Move hands a source over because somebody says so, and returns when the other replica owns it.
// ErrCold: it has no copy before ctx ends.
func (m *Mover) Move(ctx context.Context, uid, to string) error {
	if to == m.replica {
		if !m.deps.Owner.Keep(uid) {
			return owner.ErrNotOwned
		}
		return nil
	}
	for {
		owned := m.deps.Owner.Owned()
		i := slices.IndexFunc(owned, func(o owner.Owned) bool { return o.UID == uid })
		if i < 0 {
			return owner.ErrNotOwned
		}
		err := owner.ErrBusy // with a move that runs already
		m.hurry(uid)
		if m.begin(uid, true) {
			err = m.hand(ctx, owned[i], to, true)
			m.end(ctx, owned[i], to, err, true)
		}
		if err == nil || !errors.Is(err, ErrCold) && !errors.Is(err, owner.ErrBusy) {
			return err
		}
		pause := time.NewTimer(drainPause)
		select {
		case <-ctx.Done():
			pause.Stop()
			return err
		case <-pause.C:
		}
	}
}

// Leave hands over everything that others have copies of, until ctx ends or nothing is left. This
// replica drains already.
func (m *Mover) Leave(ctx context.Context) {
	if m.deps.Peers.Alone() {
		return
	}
	began, before := time.Now(), m.deps.Owner.Owned()
	m.Reconsider()
	tick := time.NewTicker(drainPause)
	defer tick.Stop()
	for len(m.deps.Owner.Owned()) > 0 && !m.deps.Peers.Alone() { // the others may end as well
		select {
		case <-ctx.Done():
			m.logLeft(ctx, before)
			return
		case <-tick.C:
			m.Reconsider()
		}
	}
	m.deps.Log.InfoContext(ctx, "handed over what others take", "sources", len(before)-len(m.deps.Owner.Owned()), "took", time.Since(began))
}

// maxLogged names of sources in a line.
const maxLogged = 10

func (m *Mover) logLeft(ctx context.Context, before []owner.Owned) {
	left := m.deps.Owner.Owned()
	var names []string
	for _, o := range left[:min(len(left), maxLogged)] {
		names = append(names, o.Name)
	}
	var err error
	m.mu.Lock()
	for _, mv := range m.moves {
		err = mv.err // any tells something
	}
	m.mu.Unlock()
	m.deps.Log.WarnContext(ctx, "not everything was handed over in time: others take it when the lease is free, and copy it from whoever has it",
		"handed", len(before)-len(left), "left", len(left), "sources", strings.Join(names, " "), "err", err)
}
