package audit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"connectrpc.com/connect"
	"github.com/prometheus/client_golang/prometheus"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/durable"
	"fairlead.dev/platform/hub"
	"fairlead.dev/platform/telemetry"
)

const (
	// gather is how long events wait for others to share a flush of the disk.
	gather = 200 * time.Millisecond
	// maxBatch is how many events go into a file and a call; the console takes no more.
	maxBatch = 1000
	// maxMemory is how many events wait for the disk: some seconds of 1,000 requests a second on one that hangs.
	maxMemory = 16_384
	// sendTimeout bounds one call.
	sendTimeout = 15 * time.Second
	// lastSend bounds the calls at the end of Run; what is left waits for the next start.
	lastSend = 3 * time.Second
	// retryDisk is how soon a disk that refused is tried again.
	retryDisk = time.Second
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
	backoff hub.Backoff // the sender's

	wake    chan struct{} // there is something in memory
	spooled chan struct{} // there is something on the disk

	mu      sync.Mutex // guards what follows
	memory  []Event
	lost    int64 // since the last audit.lost
	why     string
	taken   uint64 // events that Record took
	written uint64 // of them, those that are on the disk or lost
	moved   chan struct{}
	spool   *spool

	total *prometheus.CounterVec
}

// New opens the spool in dir and registers metrics. Events that an earlier process left there are sent by Run.
func New(dir string, console Console, metrics prometheus.Registerer, log *slog.Logger) (*Recorder, error) {
	s, err := openSpool(dir)
	if err != nil {
		return nil, err
	}
	r := &Recorder{
		console: console, log: log, spool: s, backoff: hub.Backoff{Floor: gather, Max: 30 * time.Second},
		wake: make(chan struct{}, 1), spooled: make(chan struct{}, 1), moved: make(chan struct{}),
		total: telemetry.FromZero(prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fairlead_audit_events_total", Help: "Audit events, by what became of them here: spooled, sent, lost.",
		}, []string{"outcome"}), "spooled", "sent", "lost"),
	}
	waiting := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "fairlead_audit_spool_bytes", Help: "Audit events on the disk that wait for the console, in bytes.",
	}, func() float64 {
		r.mu.Lock()
		defer r.mu.Unlock()
		return float64(r.spool.bytes)
	})
	if err := errors.Join(metrics.Register(r.total), metrics.Register(waiting)); err != nil {
		return nil, fmt.Errorf("register audit metrics: %w", err)
	}
	return r, nil
}

// Record takes an event. It never waits.
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
		r.loseLocked(1, "the disk is too slow")
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
	for {
		if more, err := r.sendOldest(last); err != nil || !more {
			return nil // what is left waits on the disk for the next start
		}
	}
}

// write brings events from memory to the disk until ctx ends, and the rest then.
func (r *Recorder) write(ctx context.Context) {
	failing := false
	for {
		wait := gather
		select {
		case <-r.wake:
		case <-ctx.Done():
			for more := true; more; {
				more, _ = r.writeBatch() // whatever can't be written now is gone with this process
			}
			return
		}
		if failing {
			wait = retryDisk
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
		more, err := r.writeBatch()
		for err == nil && more {
			more, err = r.writeBatch()
		}
		if err != nil {
			if !failing {
				r.log.Error("audit events can't be written: they are kept in memory as far as there is room", "err", err)
			}
			signal(r.wake)
		}
		failing = err != nil
	}
}

// writeBatch writes one file, if there is something to write, and says whether there may be more.
func (r *Recorder) writeBatch() (more bool, err error) {
	r.mu.Lock()
	batch := r.memory[:min(len(r.memory), maxBatch)]
	lost, why := r.lost, r.why
	r.mu.Unlock()
	events := make([]*consolev1.AuditEvent, 0, len(batch)+1)
	if lost > 0 && len(batch) < maxBatch {
		events = append(events, Event{
			ID: NewID(), Time: time.Now(), Action: "audit.lost", Reason: fmt.Sprintf("%d events are lost: %s", lost, why),
		}.Proto())
	} else {
		lost = 0
	}
	for _, e := range batch {
		events = append(events, e.Proto())
	}
	if len(events) == 0 {
		return false, nil
	}
	data, err := encode(events)
	if err != nil {
		return false, err
	}
	err = r.keep(data, events)
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case errors.Is(err, errFull):
		if r.lost == 0 {
			r.log.Error("audit events are lost until the console takes some in", "err", err)
		}
		r.loseLocked(len(batch), "the console did not take them in, and the spool is full")
	case err != nil:
		return false, err
	default:
		r.lost -= lost
		r.written += uint64(len(batch))
		r.total.WithLabelValues("spooled").Add(float64(len(batch)))
	}
	// Records went behind the batch meanwhile. What is left moves to the front, so that the array doesn't grow.
	n := copy(r.memory, r.memory[len(batch):])
	clear(r.memory[n:])
	r.memory = r.memory[:n]
	close(r.moved)
	r.moved = make(chan struct{})
	return n > 0, nil
}

// keep makes a file of the spool.
func (r *Recorder) keep(data []byte, events []*consolev1.AuditEvent) error {
	r.mu.Lock()
	name, err := r.spool.reserve(int64(len(data)))
	r.mu.Unlock()
	if err != nil {
		return err
	}
	if err := durable.WriteFile(filepath.Join(r.spool.dir, name), data, 0o600); err != nil {
		return fmt.Errorf("write audit events: %w", err)
	}
	r.mu.Lock()
	r.spool.add(spoolFile{name, int64(len(data)), events})
	r.mu.Unlock()
	signal(r.spooled)
	return nil
}

func (r *Recorder) loseLocked(n int, why string) {
	r.lost += int64(n)
	r.why = why
	r.written += uint64(n)
	r.total.WithLabelValues("lost").Add(float64(n))
}

// send brings files to the console until ctx ends.
func (r *Recorder) send(ctx context.Context) {
	failing := false
	for ctx.Err() == nil {
		more, err := r.sendOldest(ctx)
		if err != nil && ctx.Err() == nil {
			if !failing {
				r.log.Warn("audit events wait on the disk: the console does not take them in", "err", err)
			}
			failing = true
			select {
			case <-time.After(r.backoff.Next()):
			case <-ctx.Done():
			}
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

// sendOldest sends the oldest file; more is false if there was none.
func (r *Recorder) sendOldest(ctx context.Context) (more bool, err error) {
	r.mu.Lock()
	if len(r.spool.files) == 0 {
		r.mu.Unlock()
		return false, nil
	}
	name, events := r.spool.files[0].name, r.spool.files[0].events
	r.mu.Unlock()
	if events == nil {
		if events, err = r.read(name); err != nil {
			// It is not there any more, or the disk is broken: it can't keep the others from being sent.
			return true, r.give(name, 0, err)
		}
	}
	refused, err := r.deliver(ctx, events)
	if err != nil {
		return true, err
	}
	r.total.WithLabelValues("sent").Add(float64(len(events) - refused))
	return true, r.give(name, refused, nil)
}

func (r *Recorder) read(name string) ([]*consolev1.AuditEvent, error) {
	data, err := os.ReadFile(filepath.Join(r.spool.dir, name))
	if err != nil {
		return nil, err
	}
	return decode(data)
}

// deliver sends events. Those that the console refuses for good are counted: the others shall not wait for them.
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

// give is the end of a file: it was sent, but for some events, or can't be.
func (r *Recorder) give(name string, refused int, damage error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if damage != nil {
		r.log.Error("audit events on the disk can't be read", "file", name, "err", damage)
		r.loseLocked(0, "a file of the spool was damaged")
		r.lost++ // how many there were is not known
	}
	if refused > 0 {
		r.loseLocked(0, "the console refused them")
		r.lost += int64(refused)
	}
	if r.lost > 0 {
		signal(r.wake) // there is room now to tell of it
	}
	return r.spool.drop(name)
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
