// Package report tells the hub how services are. Per service the latest state wins. A state is on disk
// before it is sent, and is sent until a distributor acknowledges it as durable.
package report

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/deliveryclient"
	"fairlead.dev/platform/durable"
	"fairlead.dev/platform/retry"
)

const (
	// gather is how long changes are collected before they are sent together.
	gather = 100 * time.Millisecond
	// hold is how long a state that is going to be another one soon is kept back: what is overtaken meanwhile is never
	// sent, and in a fleet that gets all at once that is most of it. A busy hub may want it to be longer, up to
	// longestHold.
	hold, longestHold = time.Second, 15 * time.Second
	// batch is the most reports in one call; the contract allows 500. With batchBytes in them no more are
	// added: one alone has half a MiB at most, and a distributor reads 4.
	batch, batchBytes = 200, 1 << 20
	// callTimeout bounds one Report call.
	callTimeout = 30 * time.Second
	// retryFloor and retryMax bound the wait between attempts.
	retryFloor, retryMax = 200 * time.Millisecond, time.Minute
	// suffix is of files with the latest report, failureSuffix of files with the failure that is tried again.
	suffix, failureSuffix = ".report", ".failure"
)

// Reporter keeps the states and sends them. A Reporter is safe for concurrent use.
type Reporter struct {
	dir          string
	distributors *deliveryclient.Distributors
	log          *slog.Logger
	now          func() time.Time
	wake         chan struct{}
	turn         chan struct{} // the hub has time for reports that it put off

	mu sync.Mutex // guards what follows, and the files of states
	// states holds the latest report of each service.
	states map[string]*state
	// from is above which counting begins.
	from uint64
	// hold is how long passing states are kept back.
	hold time.Duration
}

type state struct {
	report *deliveryv1.ServiceReport
	acked  bool
	// restored: an earlier run left the report, and the hub may have acknowledged it then.
	restored bool
	// from is when it may be sent, and since when a passing state stands that is not sent yet; zero: at once.
	from time.Time
	// failure is what the hub knew before the service was tried again; nil: it is not tried again, or had not failed.
	failure *deliveryv1.ServiceReport
}

// passes says whether a state is one that another one follows by itself.
func passes(phase deliveryv1.Phase) bool {
	return phase == deliveryv1.Phase_PHASE_APPLYING || phase == deliveryv1.Phase_PHASE_PROGRESSING
}

// Open reads what an earlier run left: its unacknowledged reports are sent, and counting goes on above it.
func Open(dir string, distributors *deliveryclient.Distributors, metrics prometheus.Registerer, log *slog.Logger) (*Reporter, error) {
	if err := durable.Sweep(dir); err != nil {
		return nil, err
	}
	r := &Reporter{dir: dir, distributors: distributors, log: log, now: time.Now, wake: make(chan struct{}, 1), turn: make(chan struct{}, 1), states: map[string]*state{}, hold: hold}
	// Of a service that this disk knows nothing of, the hub may have reports of before the disk was lost. With a
	// counter that began at zero again, a report with the number of the last one of these would pass for it.
	r.from = uint64(r.now().UnixMicro())
	files, err := filepath.Glob(filepath.Join(dir, "*"+suffix))
	if err != nil {
		return nil, fmt.Errorf("read reports: %w", err)
	}
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("read reports: %w", err)
		}
		var report deliveryv1.ServiceReport
		if err := proto.Unmarshal(data, &report); err != nil || report.GetService()+suffix != filepath.Base(path) {
			log.Warn("a kept report is damaged and dropped; the service is reported anew", "file", filepath.Base(path))
			if err := durable.Remove(path); err != nil {
				return nil, err
			}
			continue
		}
		r.states[report.GetService()] = &state{report: &report, restored: true}
	}
	if err := r.restoreFailures(); err != nil {
		return nil, err
	}
	metrics.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "fairlead_agent_reports_pending", Help: "Services whose latest state the hub has not acknowledged.",
	}, func() float64 { return float64(r.Pending()) }))
	for number, name := range deliveryv1.Phase_name {
		if number == 0 {
			continue
		}
		metrics.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "fairlead_agent_services", Help: "Services by phase.",
			ConstLabels: prometheus.Labels{"phase": strings.ToLower(strings.TrimPrefix(name, "PHASE_"))},
		}, func() float64 { return float64(r.count(deliveryv1.Phase(number))) }))
	}
	return r, nil
}

// restoreFailures reads the failures of services that an earlier run was trying again.
func (r *Reporter) restoreFailures() error {
	files, err := filepath.Glob(filepath.Join(r.dir, "*"+failureSuffix))
	if err != nil {
		return fmt.Errorf("read failures: %w", err)
	}
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("read failures: %w", err)
		}
		var failure deliveryv1.ServiceReport
		kept := r.states[strings.TrimSuffix(filepath.Base(path), failureSuffix)]
		if proto.Unmarshal(data, &failure) == nil && kept != nil &&
			kept.report.GetPhase() == deliveryv1.Phase_PHASE_APPLYING {
			kept.failure = &failure
		} else if err := durable.Remove(path); err != nil {
			return err
		}
	}
	return nil
}

// Set is told the state of a service. When it returns without an error the state is on disk. A state
// that says nothing new is dropped. Sequence and observed time are filled in here.
func (r *Reporter) Set(report *deliveryv1.ServiceReport) error {
	report = bounded(report)
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.states[report.GetService()]
	report.Sequence = r.from
	if before != nil {
		if same(before.report, report) {
			return nil
		}
		report.Sequence = before.report.GetSequence()
	}
	report.Sequence++
	report.ObservedTime = timestamppb.New(r.now())
	failure := before.lastFailure()
	switch {
	case before != nil && goesOn(before.report, report):
		report.ObservedTime = before.report.GetObservedTime()
	case failure != nil && goesOn(failure, report):
		report.ObservedTime = failure.GetObservedTime()
	}
	next := &state{report: report, from: r.sendFrom(before, report)}
	if report.GetPhase() == deliveryv1.Phase_PHASE_APPLYING {
		next.failure = failure
	}
	// A failure without its attempt is dropped at the next start; an attempt without its failure would begin another one.
	if err := r.keepFailure(before, next); err != nil {
		return err
	}
	if err := r.write(report); err != nil {
		return err
	}
	if before != nil && before.failure != nil && next.failure == nil {
		if err := durable.Remove(r.failurePath(report.GetService())); err != nil {
			return err
		}
	}
	r.states[report.GetService()] = next
	r.kick()
	return nil
}

// keepFailure keeps on disk which failure is tried again, for a run after this one. The caller holds mu.
func (r *Reporter) keepFailure(before, next *state) error {
	if next.failure == nil || before != nil && before.failure != nil {
		return nil
	}
	data, err := proto.Marshal(next.failure)
	if err != nil {
		return fmt.Errorf("encode failure: %w", err)
	}
	return durable.WriteFile(r.failurePath(next.report.GetService()), data, 0o600)
}

// sendFrom is when a state may be sent: a passing one once it was held back, counted from the first of several in a
// row. The caller holds mu.
func (r *Reporter) sendFrom(before *state, report *deliveryv1.ServiceReport) time.Time {
	switch {
	case !passes(report.GetPhase()):
		return time.Time{}
	case before != nil && !before.acked && !before.from.IsZero():
		return before.from
	}
	return r.now().Add(r.hold)
}

// HoldProgress has passing states that are set from now on kept back for so long, where that is longer than by itself.
func (r *Reporter) HoldProgress(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hold = min(max(d, hold), longestHold)
}

// Latest is what was set last about a service, also before a restart; nil: nothing. The report must not be changed.
func (r *Reporter) Latest(service string) *deliveryv1.ServiceReport {
	r.mu.Lock()
	defer r.mu.Unlock()
	if kept := r.states[service]; kept != nil {
		return kept.report
	}
	return nil
}

// Drop forgets all states, because another agent has told newer ones since. Counting begins at the time of day: below
// what that agent said the hub says so, and only a report with its very number would be taken for its.
func (r *Reporter) Drop() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.from = uint64(r.now().UnixMicro())
	for service := range r.states {
		if err := durable.Remove(r.path(service)); err != nil {
			return fmt.Errorf("drop reports: %w", err)
		}
		if err := durable.Remove(r.failurePath(service)); err != nil {
			return fmt.Errorf("drop failures: %w", err)
		}
		delete(r.states, service)
	}
	return nil
}

// Pending counts the services whose latest state is not acknowledged.
func (r *Reporter) Pending() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	pending := 0
	for _, kept := range r.states {
		if !kept.acked {
			pending++
		}
	}
	return pending
}

// count counts the services in a phase.
func (r *Reporter) count(phase deliveryv1.Phase) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	count := 0
	for _, kept := range r.states {
		if kept.report.GetPhase() == phase {
			count++
		}
	}
	return count
}

// goesOn tells a state that began with an earlier report: the same phase of the same digest, with the same words.
// Counts may be others. A hold goes on whatever else waits behind it, or its words tell.
func goesOn(before, now *deliveryv1.ServiceReport) bool {
	if now.GetPhase() == deliveryv1.Phase_PHASE_HELD {
		return before.GetPhase() == now.GetPhase()
	}
	return before.GetPhase() == now.GetPhase() && before.GetDigest() == now.GetDigest() && before.GetMessage() == now.GetMessage()
}

// lastFailure is the failure that the hub knows: another attempt does not end it. A failure of this run that the hub
// has not acknowledged may never reach it. nil: there is none.
func (s *state) lastFailure() *deliveryv1.ServiceReport {
	switch {
	case s == nil:
		return nil
	case s.report.GetPhase() == deliveryv1.Phase_PHASE_FAILED && (s.acked || s.restored):
		return s.report
	case s.report.GetPhase() == deliveryv1.Phase_PHASE_APPLYING:
		return s.failure
	}
	return nil
}

// same compares two states apart from when they were seen.
func same(a, b *deliveryv1.ServiceReport) bool {
	a, b = proto.CloneOf(a), proto.CloneOf(b)
	a.Sequence, b.Sequence, a.ObservedTime, b.ObservedTime = 0, 0, nil, nil
	return proto.Equal(a, b)
}

// write puts a report on disk. The caller holds mu.
func (r *Reporter) write(report *deliveryv1.ServiceReport) error {
	data, err := proto.Marshal(report)
	if err != nil {
		return fmt.Errorf("encode report: %w", err)
	}
	if err := durable.WriteFile(r.path(report.GetService()), data, 0o600); err != nil {
		return fmt.Errorf("keep report: %w", err)
	}
	return nil
}

func (r *Reporter) path(service string) string { return filepath.Join(r.dir, service+suffix) }

func (r *Reporter) failurePath(service string) string {
	return filepath.Join(r.dir, service+failureSuffix)
}

func (r *Reporter) kick() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Turn has reports that the hub put off sent at once: the hub has time for them.
func (r *Reporter) Turn() {
	select {
	case r.turn <- struct{}{}:
	default:
	}
}

// Run sends reports until ctx ends.
func (r *Reporter) Run(ctx context.Context) error {
	backoff := retry.Backoff{Floor: retryFloor, Max: retryMax}
	wait := gather
	for {
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		case <-r.turn:
			timer.Stop()
		}
		pending, held := r.pending()
		if len(pending) == 0 {
			backoff.Reset()
			if !r.sleep(ctx, held) {
				return nil
			}
			wait = gather
			continue
		}
		select { // a turn from here on is one after a refusal
		case <-r.turn:
		default:
		}
		if err := r.send(ctx, pending); err != nil {
			wait = backoff.After(err)
			if ctx.Err() == nil {
				r.log.Warn("reports are not delivered yet", "err", err, "services", len(pending), "retry_in", wait)
			}
			continue
		}
		backoff.Reset()
		wait = gather
	}
}

// sleep waits for a new state, or for so long if states are held back until then. False: ctx ended.
func (r *Reporter) sleep(ctx context.Context, held time.Duration) bool {
	var due <-chan time.Time
	if held > 0 {
		timer := time.NewTimer(held)
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-ctx.Done():
		return false
	case <-r.wake:
	case <-due:
	}
	return true
}

// pending takes the next batch, and says for how long others are held back; 0: none is.
func (r *Reporter) pending() (reports []*deliveryv1.ServiceReport, held time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now, size := r.now(), 0
	for _, kept := range r.states {
		if len(reports) == batch || size >= batchBytes {
			break
		}
		if kept.acked {
			continue
		}
		if wait := kept.from.Sub(now); wait > 0 {
			if held == 0 || wait < held {
				held = wait
			}
			continue
		}
		reports = append(reports, kept.report)
		size += proto.Size(kept.report)
	}
	return reports, held
}

// send hands reports over. A batch that is refused as invalid is sent one by one, so that one bad
// report does not hold back the others.
func (r *Reporter) send(ctx context.Context, reports []*deliveryv1.ServiceReport) error {
	var answer *deliveryv1.ReportResponse
	err := r.distributors.Try(ctx, func(ctx context.Context, one deliveryclient.Distributor) error {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		var err error
		answer, err = one.RPC.Report(ctx, &deliveryv1.ReportRequest{Reports: reports})
		return err
	})
	if connect.CodeOf(err) == connect.CodeInvalidArgument {
		if len(reports) == 1 {
			r.log.Error("the hub refuses a report as invalid; it is dropped", "service", reports[0].GetService(), "err", err)
			return r.acknowledge(reports, []*deliveryv1.Acknowledgement{{Service: reports[0].GetService(), Sequence: reports[0].GetSequence()}})
		}
		var failed error
		for _, report := range reports {
			failed = errors.Join(failed, r.send(ctx, []*deliveryv1.ServiceReport{report}))
		}
		return failed
	}
	if err != nil {
		return fmt.Errorf("send reports: %w", err)
	}
	return r.acknowledge(reports, answer.GetAcknowledged())
}

// acknowledge takes note of what is durable. A higher sequence than ours means that our counter was
// lost: the report is sent again above it.
func (r *Reporter) acknowledge(sent []*deliveryv1.ServiceReport, acks []*deliveryv1.Acknowledgement) error {
	durableUpTo := map[string]uint64{}
	for _, ack := range acks {
		durableUpTo[ack.GetService()] = max(durableUpTo[ack.GetService()], ack.GetSequence())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	missing := 0
	for _, report := range sent {
		kept := r.states[report.GetService()]
		sequence, ok := durableUpTo[report.GetService()]
		switch {
		case kept == nil:
		case !ok || sequence < report.GetSequence():
			missing++
		case sequence > report.GetSequence() && sequence >= kept.report.GetSequence():
			again := proto.CloneOf(kept.report)
			again.Sequence = sequence + 1
			if err := r.write(again); err != nil {
				return err
			}
			kept.report, kept.acked = again, false
		case sequence >= kept.report.GetSequence():
			if err := r.settled(kept); err != nil {
				return err
			}
		}
	}
	if missing > 0 {
		return fmt.Errorf("send reports: the hub did not acknowledge %d of %d", missing, len(sent))
	}
	return nil
}

// settled marks a state as delivered. A service that was removed is forgotten then. The caller holds mu.
func (r *Reporter) settled(kept *state) error {
	kept.acked = true
	if kept.report.GetPhase() != deliveryv1.Phase_PHASE_REMOVED {
		return nil
	}
	delete(r.states, kept.report.GetService())
	r.from = max(r.from, kept.report.GetSequence()) // else a report of the service, once it is back, may have its number
	return durable.Remove(r.path(kept.report.GetService()))
}

// The contract's limits, in bytes, less a little.
const (
	maxMessage       = 8000
	maxObjectMessage = 4000
	maxObjects       = 100
)

// bounded returns a copy that the contract allows.
func bounded(report *deliveryv1.ServiceReport) *deliveryv1.ServiceReport {
	report = proto.CloneOf(report)
	report.Message = cut(report.GetMessage(), maxMessage)
	report.Objects = report.GetObjects()[:min(len(report.GetObjects()), maxObjects)]
	for _, object := range report.GetObjects() {
		object.Message = cut(object.GetMessage(), maxObjectMessage)
	}
	return report
}

func cut(text string, limit int) string {
	if len(text) > limit {
		text = text[:limit] + " ..."
	}
	return strings.ToValidUTF8(text, "")
}
