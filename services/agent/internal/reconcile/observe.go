package reconcile

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/hub"
	"fairlead.dev/services/agent/internal/desired"
	"fairlead.dev/services/agent/internal/health"
	"fairlead.dev/services/agent/internal/inventory"
	"fairlead.dev/services/agent/internal/object"
	"fairlead.dev/services/agent/internal/prune"
)

const (
	// Objects that are not settled are looked at again after quickFirst, then ever more slowly up to quickMax.
	quickFirst, quickMax = 250 * time.Millisecond, 30 * time.Second
	// slowLook is between two looks at what is settled and has a status. What has none is not looked at again.
	slowLook = 5 * time.Minute
)

// watch is what a keeper knows of the health of its objects.
type watch struct {
	seen map[object.Key]health.Health
	// quick is the wait before the next look at what is not settled; slow is when all are looked at.
	quick time.Duration
	slow  time.Time
	// missing: an object is gone, so the service has to be applied again.
	missing bool
	leaving []prune.Left
}

// see takes note of an object's health.
func (w *watch) see(h health.Health) {
	if w.seen == nil {
		w.seen = map[object.Key]health.Health{}
		w.slow = time.Now().Add(hub.Spread(slowLook))
	}
	w.seen[h.Ref.Key] = h
}

// due lists the objects to look at now.
func (w *watch) due(record inventory.Record) []object.Ref {
	all := time.Now().After(w.slow)
	var refs []object.Ref
	for _, entry := range record.Entries {
		if entry.Sum == 0 || entry.Hook { // leaving, or run and done with
			continue
		}
		known, ok := w.seen[entry.Key]
		if !ok || known.State != health.Healthy || all && !known.Steady {
			refs = append(refs, entry.Ref)
		}
	}
	if all {
		w.slow = time.Now().Add(hub.Spread(slowLook))
	}
	return refs
}

// observe looks at the objects that may have changed, reports, and says when to look again. It holds
// no worker, and ends at once when something else is wanted.
func (k *keeper) observe(patience context.Context, service desired.Service, record inventory.Record) time.Duration {
	if refs := k.watch.due(record); len(refs) > 0 {
		found, err := k.Checker.Check(patience, refs)
		if err != nil {
			return 0
		}
		k.notice(found)
	}
	record = k.leave(patience, record)
	if patience.Err() != nil {
		return 0
	}
	state := k.state(record)
	k.report(service, record, state)
	if state.GetPhase() == deliveryv1.Phase_PHASE_HEALTHY {
		k.watch.quick = 0
		k.backoff.Reset()
		return max(time.Until(k.watch.slow), time.Second)
	}
	if k.watch.missing {
		return k.backoff.Next()
	}
	k.watch.quick = min(max(k.watch.quick*3/2, quickFirst), quickMax)
	return hub.Spread(k.watch.quick)
}

// notice takes over what was found.
func (k *keeper) notice(found []health.Health) {
	k.watch.missing = false
	for _, h := range found {
		if h.State == health.Missing {
			k.watch.missing = true
			k.Memory.Gone(h.Ref.Key, "", 0)
		}
		k.watch.see(h)
	}
}

// leave tries again to remove what should have gone with the last apply.
func (k *keeper) leave(ctx context.Context, record inventory.Record) inventory.Record {
	var staying, leaving []inventory.Entry
	for _, entry := range record.Entries {
		if entry.Sum == 0 {
			leaving = append(leaving, entry)
		} else {
			staying = append(staying, entry)
		}
	}
	if len(leaving) == 0 {
		k.watch.leaving = nil
		return record
	}
	release, ok := k.slot(ctx)
	if !ok {
		return record
	}
	defer release()
	service, _ := k.Desired.Get(k.name)
	k.watch.leaving = k.prune(ctx, service, leaving)
	if len(k.watch.leaving) == len(leaving) || ctx.Err() != nil {
		return record
	}
	for _, one := range k.watch.leaving {
		staying = append(staying, one.Entry)
	}
	k.metrics.pruned.Add(float64(len(leaving) - len(k.watch.leaving)))
	next := record
	next.Entries = staying
	if err := k.Inventory.Save(ctx, next); err != nil {
		k.log.Warn("the inventory can't be shortened yet", "err", err)
		return record
	}
	return next
}

// state sums up health.
func (k *keeper) state(record inventory.Record) *deliveryv1.ServiceReport {
	report := &deliveryv1.ServiceReport{Phase: deliveryv1.Phase_PHASE_HEALTHY}
	worst := health.Health{State: health.Healthy}
	for _, key := range slices.SortedFunc(maps.Keys(k.watch.seen), object.Compare) {
		h := k.watch.seen[key]
		report.ObjectsTotal++
		if h.State == health.Healthy {
			report.ObjectsHealthy++
			continue
		}
		report.Objects = append(report.Objects, objectReport(h.Ref, shown(h.State), h.Message))
		if rank(h.State) > rank(worst.State) {
			worst = h
		}
	}
	switch worst.State {
	case health.Healthy:
	case health.Degraded, health.Missing:
		report.Phase = deliveryv1.Phase_PHASE_DEGRADED
	default:
		report.Phase = deliveryv1.Phase_PHASE_PROGRESSING
	}
	if worst.State != health.Healthy {
		report.Message = fmt.Sprintf("%s: %s", worst.Ref.Key, worst.Message)
	}
	if len(k.watch.leaving) > 0 {
		if report.Phase == deliveryv1.Phase_PHASE_HEALTHY {
			report.Phase = deliveryv1.Phase_PHASE_PROGRESSING
			report.Message = fmt.Sprintf("All objects are applied; %d that are no longer in the manifests are still there: %s %s.",
				len(k.watch.leaving), k.watch.leaving[0].Entry.Key, k.watch.leaving[0].Why)
		}
	}
	if report.ObjectsTotal == 0 {
		report.ObjectsTotal = int32(len(record.Entries))
	}
	return report
}

func rank(state health.State) int {
	return slices.Index([]health.State{health.Healthy, health.Progressing, health.Unknown, health.Missing, health.Degraded}, state)
}

// shown is the word of the contract for a state. What can't be read is on no account healthy.
func shown(state health.State) string {
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

// failed reports a problem and says when to try again.
func (k *keeper) failed(service desired.Service, record inventory.Record, p problem) time.Duration {
	report := &deliveryv1.ServiceReport{Phase: cmp.Or(p.phase, deliveryv1.Phase_PHASE_FAILED), Message: p.text, Guard: p.guard}
	for _, failure := range p.failures {
		report.Objects = append(report.Objects, objectReport(failure.Item.Ref, "Failed",
			fmt.Sprintf("%s: %s. %s", failure.Item.Position, failure.Problem.Text, failure.Problem.Advice)))
	}
	report.ObjectsTotal = int32(len(record.Entries))
	for _, h := range k.watch.seen {
		if h.State == health.Healthy {
			report.ObjectsHealthy++
		}
	}
	k.report(service, record, report)
	wait := idle
	if !p.final {
		wait = k.backoff.Next()
	}
	tell := k.log.Warn
	if k.told == p.text { // a retry with the same outcome is no news
		tell = k.log.Debug
	}
	k.told = p.text
	tell("not applied", "revision", service.Commit, "digest", service.Digest, "err", p.text, "retry_in", wait)
	return wait
}

// report fills in what all reports say, and hands it over.
func (k *keeper) report(service desired.Service, record inventory.Record, report *deliveryv1.ServiceReport) {
	report.Service, report.Digest, report.Commit, report.Traceparent = k.name, service.Digest, service.Commit, service.Traceparent
	if record.Applied.Digest != "" {
		report.AppliedDigest, report.AppliedCommit = record.Applied.Digest, record.Applied.Commit
		report.AppliedTime = timestamppb.New(record.Applied.Time)
	}
	if err := k.Reports.Set(report); err != nil {
		k.log.Error("the state can't be reported", "err", err)
	}
}
