package audit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"connectrpc.com/connect"
	"github.com/prometheus/client_golang/prometheus"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/retry"
	"fairlead.dev/platform/telemetry"
)

const (
	// gather is how long events wait for others to share a flush of the disk.
	gather = 200 * time.Millisecond
	// maxBatch is how many events go into a record of the spool and a call; the console takes no more.
	maxBatch = 1000
	// maxMemory is how many events wait for the disk: some seconds of 1,000 requests a second on one that hangs.
	maxMemory = 16_384
	// sendTimeout bounds one call.
	sendTimeout = 15 * time.Second
	// lastSend bounds the calls at the end of Run; what is left waits for the next start.
	lastSend = 3 * time.Second
	// retryDisk is how soon a disk that refused is tried again.
	retryDisk = time.Second

	actionLost = "audit.lost"
	whyDamaged = "a file of the spool was damaged"
	whyRefused = "the console refused them"
)

// Console is the part of the console's AuditService that takes events in.
type Console interface {
	RecordAuditEvents(ctx context.Context, req *consolev1.RecordAuditEventsRequest) (*consolev1.RecordAuditEventsResponse, error)
}

// Recorder takes events and gets them to the console. A nil Recorder takes events and forgets them.
// New, then Run.
type Recorder struct {
	console Console
	log     *slog.Logger
	replica string // the name of its host, for those who look for what is lost
	spool   *spool
	backoff retry.Backoff // the sender's

	wake    chan struct{} // there is something in memory
	spooled chan struct{} // there is something on the disk

	mu      sync.Mutex // guards what follows
	memory  []Event
	lost    int64 // since the last audit.lost
	why     string
	taken   uint64 // events that Record took
	written uint64 // of them, those that are on the disk, at the console, or lost
	moved   chan struct{}

	total *prometheus.CounterVec
}

// New opens the spool in dir and registers metrics. Events that an earlier process left there are sent by Run.
func New(dir string, console Console, metrics prometheus.Registerer, log *slog.Logger) (*Recorder, error) {
	s, left, err := openSpool(dir)
	if err != nil {
		return nil, err
	}
	replica, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("read the name of the host: %w", err)
	}
	r := &Recorder{
		console: console, log: log, replica: replica, spool: s, backoff: retry.Backoff{Floor: gather, Max: 30 * time.Second},
		wake: make(chan struct{}, 1), spooled: make(chan struct{}, 1), moved: make(chan struct{}),
		total: telemetry.FromZero(prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fairlead_audit_events_total", Help: "Audit events, by what became of them here: spooled, sent, lost.",
		}, []string{"outcome"}), "spooled", "sent", "lost"),
	}
	waiting := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "fairlead_audit_spool_bytes", Help: "Audit events on the disk that wait for the console, in bytes.",
	}, func() float64 { return float64(s.waiting()) })
	if err := errors.Join(metrics.Register(r.total), metrics.Register(waiting)); err != nil {
		return nil, fmt.Errorf("register audit metrics: %w", err)
	}
	if left.killed {
		r.Record(Event{Action: actionLost, Reason: "the process before this one at replica " + replica +
			" was killed, or could not keep what it had: events of its last moments may be missing"})
	}
	for _, in := range left.damaged {
		r.lose(1, whyDamaged)             // how many there were is not known
		_ = os.Truncate(in.path, in.size) // else each start would count it again while its batches wait
	}
	return r, nil
}

// Record takes an event. Record never waits.
func (r *Recorder) Record(e Event) {
	if r == nil {
		return
	}
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	if e.ID == "" {
		e.ID = NewID()
	}
	r.mu.Lock()
	r.taken++
	if len(r.memory) >= maxMemory {
		r.written++
		r.loseLocked(1, "the disk is too slow, or takes nothing")
	} else {
		r.memory = append(r.memory, e)
	}
	r.mu.Unlock()
	signal(r.wake)
}

// Sync returns when everything that was recorded before is on the disk, or lost for good.
func (r *Recorder) Sync(ctx context.Context) error {
	r.mu.Lock()
	until := r.taken
	r.mu.Unlock()
	for {
		r.mu.Lock()
		written, moved := r.written, r.moved
		r.mu.Unlock()
		if written >= until {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return fmt.Errorf("write audit events: %w", ctx.Err())
		}
	}
}

// Run writes and sends until ctx ends; then it writes what is in memory, and sends what it can in some seconds.
func (r *Recorder) Run(ctx context.Context) error {
	inner, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var writing sync.WaitGroup
	writing.Go(func() { r.write(inner) })
	r.send(ctx)
	stop()
	writing.Wait()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastSend)
	defer cancel()
	for more, err := true, error(nil); more && err == nil; { // the rest waits on the disk for the next start
		for again := true; again; {
			again, _ = r.writeBatch(last)
		}
		more, err = r.sendOldest(last)
	}
	r.mu.Lock()
	well := len(r.memory) == 0 && r.lost == 0
	r.mu.Unlock()
	if err := r.spool.end(well); err != nil || !well {
		r.log.Error("audit events may be lost: the next start tells of it", "err", err)
	}
	return nil
}

// write brings events from memory to the disk until ctx ends.
func (r *Recorder) write(ctx context.Context) {
	_, err := r.spool.begin() // else nobody would see that this process was killed before its first event was written
	failing := r.tell(false, err)
	for {
		select {
		case <-r.wake:
		case <-ctx.Done():
			return
		}
		wait := gather
		if failing {
			wait = retryDisk
		}
		if !retry.Sleep(ctx, wait) {
			return
		}
		for more := true; more; {
			more, err = r.writeBatch(ctx)
		}
		failing = r.tell(failing, err)
	}
}

// tell logs when the disk begins to refuse events, and when it takes them again.
func (r *Recorder) tell(failing bool, err error) bool {
	switch {
	case failing && err == nil:
		r.log.Info("audit events are written again")
	case err != nil && !failing:
		r.log.Error("audit events can't be written: make room in the data folder; until then they go to the console at once, and are kept in memory as far as there is room", "err", err)
	}
	return err != nil
}

// writeBatch writes one batch, if there is something to write, and says whether there may be more. The console may take
// a batch that the disk does not take: an error says that the disk is not well, whether the console took it or not.
func (r *Recorder) writeBatch(ctx context.Context) (more bool, err error) {
	r.mu.Lock()
	taken := r.memory[:min(len(r.memory), maxBatch)]
	lost, why := r.lost, r.why
	r.mu.Unlock()
	events := make([]*consolev1.AuditEvent, 0, len(taken)+1)
	if lost > 0 && len(taken) < maxBatch {
		events = append(events, Event{
			ID: NewID(), Time: time.Now(), Action: actionLost, Reason: fmt.Sprintf("%d events are lost at replica %s: %s", lost, r.replica, why),
		}.Proto())
	} else {
		lost = 0
	}
	for _, e := range taken {
		events = append(events, e.Proto())
	}
	if len(events) == 0 {
		return false, nil
	}
	lose, whyLost := 0, ""
	err = r.spool.append(events)
	switch {
	case err == nil:
		r.total.WithLabelValues("spooled").Add(float64(len(taken)))
		signal(r.spooled)
	case errors.Is(err, errFull):
		if lost == 0 {
			r.log.Error("audit events are lost until the console takes some in", "err", err)
		}
		lost, lose, whyLost, err = 0, len(taken), "the console did not take them in, and the spool is full", nil
	default:
		refused, undelivered := r.deliver(ctx, events)
		if undelivered != nil {
			signal(r.wake)
			return false, errors.Join(err, undelivered)
		}
		r.total.WithLabelValues("sent").Add(float64(len(events) - refused))
		lose, whyLost = refused, whyRefused
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lost -= lost
	r.loseLocked(lose, whyLost)
	r.written += uint64(len(taken))
	// Records went behind the batch meanwhile. The rest moves to the front, so that the array doesn't grow.
	n := copy(r.memory, r.memory[len(taken):])
	clear(r.memory[n:])
	r.memory = r.memory[:n]
	close(r.moved)
	r.moved = make(chan struct{})
	return n > 0, err
}

func (r *Recorder) lose(n int, why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.loseLocked(n, why)
}

func (r *Recorder) loseLocked(n int, why string) {
	if n == 0 {
		return
	}
	r.lost += int64(n)
	r.why = why
	r.total.WithLabelValues("lost").Add(float64(n))
	signal(r.wake)
}

// dropped is the end of the oldest batch: now there may be room to tell what was lost.
func (r *Recorder) dropped() {
	r.spool.drop()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lost > 0 {
		signal(r.wake)
	}
}

// send brings batches to the console until ctx ends.
func (r *Recorder) send(ctx context.Context) {
	failing := false
	for ctx.Err() == nil {
		more, err := r.sendOldest(ctx)
		if err != nil && ctx.Err() == nil {
			if !failing {
				r.log.Warn("audit events wait on the disk: the console does not take them in", "err", err)
			}
			failing = true
			retry.Sleep(ctx, r.backoff.Next())
			continue
		}
		if err == nil && more {
			if failing {
				r.log.Info("the console takes audit events in again")
			}
			failing = false
			r.backoff.Reset()
			continue
		}
		select {
		case <-r.spooled:
		case <-ctx.Done():
		}
	}
}

// sendOldest sends the oldest batch; more is false if there was none.
func (r *Recorder) sendOldest(ctx context.Context) (more bool, err error) {
	b, ok := r.spool.oldest()
	if !ok {
		return false, nil
	}
	events := b.events
	if events == nil {
		if events, err = b.read(); err != nil {
			// The segment is gone, or the disk is broken: this segment can't keep the others from being sent.
			r.log.Error("audit events on the disk can't be read", "file", b.in.path, "at", b.at, "err", err)
			r.lose(1, whyDamaged) // how many there were is not known
			r.dropped()
			return true, nil
		}
	}
	refused, err := r.deliver(ctx, events)
	if err != nil {
		return true, err
	}
	r.total.WithLabelValues("sent").Add(float64(len(events) - refused))
	r.lose(refused, whyRefused)
	r.dropped()
	return true, nil
}

// deliver sends events. Events that the console refuses for good are counted: the others shall not wait for them.
func (r *Recorder) deliver(ctx context.Context, events []*consolev1.AuditEvent) (refused int, err error) {
	call, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	_, err = r.console.RecordAuditEvents(call, &consolev1.RecordAuditEventsRequest{Events: events})
	if connect.CodeOf(err) != connect.CodeInvalidArgument {
		return 0, err
	}
	if len(events) <= 1 {
		r.log.Error("the console refuses an audit event", "err", err)
		return len(events), nil
	}
	half := len(events) / 2
	for _, part := range [][]*consolev1.AuditEvent{events[:half], events[half:]} {
		n, err := r.deliver(ctx, part)
		if err != nil {
			return 0, err // the part that was taken in is known there when it comes again
		}
		refused += n
	}
	return refused, nil
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
