package reconcile

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/retry"
	"fairlead.dev/platform/telemetry"
	"fairlead.dev/services/agent/internal/desired"
	"fairlead.dev/services/agent/internal/health"
	"fairlead.dev/services/agent/internal/inventory"
	"fairlead.dev/services/agent/internal/memory"
	"fairlead.dev/services/agent/internal/object"
	"fairlead.dev/services/agent/internal/prune"
	"fairlead.dev/services/agent/internal/trial"
)

const (
	// unseenPatience is how long a state is not reported while the watches of an agent that has just started
	// have not told of all objects.
	unseenPatience = 30 * time.Second
	// mostObjects bounds the objects that a report names.
	mostObjects = 100
)

// looks is what a keeper knows of its objects besides what the memory does.
type looks struct {
	// since is when the keeper first looked at what is applied.
	since time.Time
	// leaving is what should be gone, and is looked at again from then on.
	leaving []prune.Left
	then    time.Time
	backoff retry.Backoff
	// noted is when repairs were last written to the inventory.
	noted time.Time
}

func newLooks() looks { return looks{backoff: retry.Backoff{Floor: retryFloor, Max: retryMax}} }

// observeHealth reports how the objects are, as the memory has it: the watches tell when something changes. observe
// asks the API server for nothing but what is to be removed.
func (w *worker) observeHealth(ctx, patience context.Context, service desired.Service, record inventory.Record) time.Duration {
	if w.looks.since.IsZero() {
		w.looks.since = time.Now()
	}
	record = w.retryRemovals(patience, record)
	if patience.Err() != nil {
		return 0
	}
	record = w.site.noteEnded(patience, record, nil)
	w.listObjects(service, record)
	summary := w.site.controller.Memory.Summary(w.site.name)
	if wait := unseenPatience - time.Since(w.looks.since); summary.Unseen > 0 && wait > 0 {
		return wait
	}
	w.backoff.Reset()
	w.noteDrifts(patience, record, summary.Damage)
	unready := w.giveReasons(patience, summary.Bad)
	if at := slices.IndexFunc(summary.Bad, func(h health.Health) bool { return h.Ref == summary.Worst.Ref }); at >= 0 {
		summary.Worst = summary.Bad[at]
	}
	report := w.sumState(summary, append(slices.Clone(record.Kept), splitLines(record.Applied.Warnings)...))
	w.tellRepairs(report, record, summary)
	isHealthy := report.GetPhase() == deliveryv1.Phase_PHASE_HEALTHY || report.GetPhase() == deliveryv1.Phase_PHASE_DIFFERS
	judgeTests(service, record, report)
	w.sendReport(service, record, report)
	w.endTrace(service, report)
	wait := idle
	if unready > 0 {
		wait = unready
	}
	if _, renewal, _ := splitEnvironment(record.Applied.Environment); !renewal.IsZero() && w.stance.verdict.Apply {
		wait = min(wait, max(time.Until(renewal), 0))
	}
	if len(w.looks.leaving) > 0 {
		wait = time.Until(w.looks.then)
	}
	w.readyToLeave(patience, service, record)
	if next := w.fetchLacking(patience, service); next > 0 {
		wait = min(wait, next)
	}
	if next := w.writeNote(patience, record); next > 0 {
		wait = min(wait, next)
	}
	if next := w.noteRepairs(patience, record, summary); next > 0 {
		wait = min(wait, next)
	}
	if next := w.runTests(ctx, patience, service, isHealthy); next > 0 {
		wait = min(wait, next)
	}
	return wait
}

// endTrace ends the trace of what was applied, once it is healthy for the first time.
func (w *worker) endTrace(service desired.Service, report *deliveryv1.ServiceReport) {
	if report.GetPhase() != deliveryv1.Phase_PHASE_HEALTHY || w.ripens.IsZero() {
		return
	}
	_, span := telemetry.Of(context.Background(), service.Traceparent, w.site.controller.Tracer, "agent.healthy", trace.WithTimestamp(w.ripens), trace.WithAttributes(
		attribute.String("service", w.site.name), attribute.String("digest", service.Digest), attribute.String("revision", service.Commit)))
	span.End()
	w.ripens = time.Time{}
}

// noteWritten is how long the inventory may be behind with a digest that changed nothing: a restart within it compares
// once more.
const noteWritten = time.Minute

// writeNote brings the inventory up to a digest that changed nothing, and says when to look again; 0: there is nothing
// to write.
func (w *worker) writeNote(ctx context.Context, record inventory.Record) time.Duration {
	switch {
	case !w.site.controller.Inventory.Noted(w.site.name):
		w.unwritten = time.Time{}
		return 0
	case w.unwritten.IsZero():
		w.unwritten = time.Now()
	}
	if wait := noteWritten - time.Since(w.unwritten); wait > 0 {
		return wait
	}
	w.unwritten = time.Time{}
	if err := w.site.controller.Inventory.Save(ctx, record); err != nil {
		w.site.log.Warn("the inventory does not know of the newest digest yet", "err", err)
		return noteWritten
	}
	return 0
}

// retryRemovals tries again to remove what should have gone with the last apply.
func (w *worker) retryRemovals(ctx context.Context, record inventory.Record) inventory.Record {
	if !record.Complete { // an apply was held up, and it goes on by itself
		return record
	}
	var staying, leaving []inventory.Entry
	for _, entry := range record.Entries {
		if entry.Leaving {
			leaving = append(leaving, entry)
		} else {
			staying = append(staying, entry)
		}
	}
	if len(leaving) == 0 {
		w.looks.noteLeft(nil)
		return record
	}
	gone := slices.ContainsFunc(leaving, func(entry inventory.Entry) bool {
		known, ok := w.site.controller.Memory.Get(entry.Key)
		return ok && known.State == memory.Gone
	})
	last := slices.ContainsFunc(w.looks.leaving, func(left prune.Left) bool { return left.Why == goesLast }) && w.site.allHealthy()
	if !gone && !last && len(w.looks.leaving) > 0 && time.Now().Before(w.looks.then) {
		return record
	}
	if !w.stance.verdict.Repair {
		return record // hands off
	}
	release, ok := w.site.slot(ctx)
	if !ok {
		return record
	}
	defer release()
	service, _ := w.site.controller.Desired.Get(w.site.name)
	out := w.site.pruneStale(ctx, service, leaving, staying)
	w.looks.noteLeft(out.Left)
	if len(w.looks.leaving) == len(leaving) || ctx.Err() != nil {
		return record
	}
	for _, one := range w.looks.leaving {
		staying = append(staying, one.Entry)
	}
	w.site.controller.metrics.pruned.Add(float64(len(leaving) - len(w.looks.leaving)))
	next := record
	next.Entries = staying
	next.Kept = shortenList(append(slices.Clone(record.Kept), out.Kept...))
	if err := w.site.controller.Inventory.Save(ctx, next); err != nil {
		w.site.log.Warn("the inventory can't be shortened yet", "err", err)
		return record
	}
	return next
}

// noteEnded writes down which objects were done before they go by themselves, so that no agent makes them again. done
// is what was sent of a digest that is being applied.
func (s *site) noteEnded(ctx context.Context, record inventory.Record, done map[object.Key]inventory.Entry) inventory.Record {
	next := record
	changed := false
	for i, entry := range record.Entries {
		if !object.IsJob(entry.GVK().GroupKind()) || entry.Hook || entry.Leaving || !entry.Ended.IsZero() {
			continue
		}
		known, ok := s.controller.Memory.Get(entry.Key)
		if sent, isSent := done[entry.Key]; isSent {
			entry = sent
		}
		if !ok || known.Ended.IsZero() || known.Manifest != entry.Sum {
			continue
		}
		if !changed {
			next.Entries, changed = slices.Clone(record.Entries), true
		}
		entry.Expires, entry.Ended, entry.UID = true, known.Ended, known.UID
		next.Entries[i] = entry
	}
	if !changed {
		return record
	}
	if err := s.controller.Inventory.Save(ctx, next); err != nil {
		s.log.Warn("the inventory does not know of Jobs yet that are done", "err", err)
		return record
	}
	return next
}

// describeEndings says which objects were done and went by themselves.
func describeEndings(ends []memory.End) string {
	if len(ends) == 0 {
		return ""
	}
	text := fmt.Sprintf("%s was complete at %s, and went by its ttlSecondsAfterFinished.", ends[0].Key, ends[0].At.Format(time.RFC3339))
	if more := len(ends) - 1; more > 0 {
		text += fmt.Sprintf(" So were %d more.", more)
	}
	return text
}

// noteLeft notes what should be gone and is still there, and when to look again.
func (l *looks) noteLeft(leaving []prune.Left) {
	if len(leaving) < len(l.leaving) || len(leaving) == 0 {
		l.backoff.Reset()
	}
	l.leaving, l.then = leaving, time.Now().Add(l.backoff.Next())
}

// sumState sums up how a service is. kept is what stayed of it though it left the manifests.
func (w *worker) sumState(summary memory.Summary, kept []string) *deliveryv1.ServiceReport {
	report := &deliveryv1.ServiceReport{
		Phase: deliveryv1.Phase_PHASE_HEALTHY, ObjectsTotal: int32(summary.Total), ObjectsHealthy: int32(summary.Healthy),
	}
	now := time.Now()
	quarrels := make(map[object.Key]memory.Rival, len(summary.Rivals))
	for _, rival := range summary.Rivals {
		quarrels[rival.Key] = rival
	}
	for _, h := range summary.Bad {
		one := objectReport(h.Ref, stateWord(h.State), h.Message)
		one.Rival, one.Fields = quarrels[h.Ref.Key].Manager, quarrels[h.Ref.Key].Fields
		delete(quarrels, h.Ref.Key)
		report.Objects = append(report.Objects, one)
	}
	for _, rival := range summary.Rivals {
		if _, left := quarrels[rival.Key]; left && len(report.Objects) < mostObjects {
			one := objectReport(rival.Health.Ref, stateWord(rival.Health.State), describeQuarrel(rival))
			one.Rival, one.Fields = rival.Manager, rival.Fields
			report.Objects = append(report.Objects, one)
		}
	}
	switch summary.Worst.State {
	case health.Healthy:
	case health.Degraded, health.Missing:
		report.Phase = deliveryv1.Phase_PHASE_DEGRADED
	default:
		report.Phase = deliveryv1.Phase_PHASE_PROGRESSING
	}
	if summary.Worst.State != health.Healthy {
		report.Message = fmt.Sprintf("%s: %s", summary.Worst.Ref.Key, summary.Worst.Message)
	}
	if ref, ok := w.underRepair(summary, now); ok && summary.Worst.State == health.Missing { // no failure: it is back in a moment
		report.Phase, report.Message = deliveryv1.Phase_PHASE_PROGRESSING, ref.Key.String()+": it was deleted, and is made again."
	}
	for _, rival := range summary.Rivals {
		switch { // a rival makes the service no worse than its objects are, but for a webhook, whose change is never undone
		case !rival.Webhook:
		case report.GetPhase() != deliveryv1.Phase_PHASE_DEGRADED:
			report.Phase, report.Message = deliveryv1.Phase_PHASE_DEGRADED, describeQuarrel(rival)
			fallthrough
		default:
			report.ObjectsDrifted++
		}
	}
	w.tellDamage(report, summary, now)
	if rival, ok := firstRival(summary.Rivals); ok && report.GetPhase() == deliveryv1.Phase_PHASE_HEALTHY {
		report.Message = describeQuarrel(rival)
	}
	if len(w.looks.leaving) > 0 && report.GetPhase() == deliveryv1.Phase_PHASE_HEALTHY {
		report.Phase = deliveryv1.Phase_PHASE_PROGRESSING
		report.Message = fmt.Sprintf("All objects are applied; %d that are no longer in the manifests are still there: %s %s.",
			len(w.looks.leaving), w.looks.leaving[0].Entry.Key, w.looks.leaving[0].Why)
	}
	if text := describeEndings(summary.Ended); text != "" {
		report.Message = strings.TrimSpace(report.GetMessage() + " " + text)
	}
	if len(kept) > 0 {
		report.Message = strings.TrimSpace(report.GetMessage() + " " + strings.Join(kept, " "))
	}
	return report
}

// firstRival is one that changes objects in the cluster.
func firstRival(rivals []memory.Rival) (memory.Rival, bool) {
	for _, rival := range rivals {
		if !rival.Webhook {
			return rival, true
		}
	}
	return memory.Rival{}, false
}

// splitLines splits text, of which nothing is no line.
func splitLines(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

// stateWord is the word of the contract for a state. An object that can't be read is on no account healthy.
func stateWord(state health.State) string {
	if state == health.Unknown {
		return string(health.Progressing)
	}
	return string(state)
}

func objectReport(ref object.Ref, state, message string) *deliveryv1.ObjectReport {
	return &deliveryv1.ObjectReport{
		Group: ref.Group, Version: ref.Version, Kind: ref.Kind, Namespace: ref.Namespace, Name: ref.Name, Health: state, Message: message,
	}
}

// reportFailure reports a problem and says when to try again.
func (w *worker) reportFailure(service desired.Service, record inventory.Record, p problem) time.Duration {
	p.text = w.site.maskText(service, p.text)
	report := &deliveryv1.ServiceReport{Phase: cmp.Or(p.phase, deliveryv1.Phase_PHASE_FAILED), Message: p.text, Guard: p.guard}
	for _, failure := range p.failures {
		report.Objects = append(report.Objects, objectReport(failure.Item.Ref, "Failed",
			fmt.Sprintf("%s: %s. %s", failure.Item.Position, failure.Problem.Text, failure.Problem.Advice)))
	}
	report.ObjectsTotal = int32(len(record.Entries))
	report.ObjectsHealthy = int32(w.site.controller.Memory.Summary(w.site.name).Healthy)
	w.sendReport(service, record, report)
	wait := idle
	if !p.final {
		wait = w.backoff.Next()
	}
	w.notBefore = time.Now().Add(wait)
	tell := w.site.log.Warn
	if w.told == p.text { // a retry with the same outcome is no news
		tell = w.site.log.Debug
	}
	w.told = p.text
	tell("not applied", "revision", service.Commit, "digest", service.Digest, "err", p.text, "retry_in", wait)
	return wait
}

// sendReport fills in what all reports say, and hands it over.
func (w *worker) sendReport(service desired.Service, record inventory.Record, report *deliveryv1.ServiceReport) {
	report.Service, report.Digest, report.Commit, report.Traceparent = w.site.name, service.Digest, service.Commit, service.Traceparent
	if record.Applied.Digest != "" {
		report.AppliedDigest, report.AppliedCommit = record.Applied.Digest, record.Applied.Commit
		report.AppliedTime = timestamppb.New(record.Applied.Time)
	}
	if last := w.site.controller.Reports.Latest(w.site.name); last != nil && report.GetRepairs() == 0 {
		report.Repairs, report.RepairTime, report.Repaired = last.GetRepairs(), last.GetRepairTime(), proto.CloneOf(last.GetRepaired())
	}
	report.Tests = trial.Summary(record)
	w.addVerdict(service, record, report)
	w.site.maskReport(service, report)
	if err := w.site.controller.Reports.Set(report); err != nil {
		w.site.log.Error("the state can't be reported", "err", err)
	}
}
