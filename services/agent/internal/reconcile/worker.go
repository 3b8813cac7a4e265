package reconcile

import (
	"context"
	"fmt"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/retry"
	"fairlead.dev/platform/telemetry"
	"fairlead.dev/services/agent/internal/apply"
	"fairlead.dev/services/agent/internal/desired"
	"fairlead.dev/services/agent/internal/inventory"
	"fairlead.dev/services/agent/internal/memory"
	"fairlead.dev/services/agent/internal/mode"
	"fairlead.dev/services/agent/internal/object"
	"fairlead.dev/services/agent/internal/reconcile/machine"
	"fairlead.dev/services/agent/internal/set"
	"fairlead.dev/services/agent/internal/trial"
)

// order is what a piece of work is about.
type order struct {
	// ctx is that of the keeper, as the service's account. patience ends when something else is wanted.
	ctx, patience context.Context
	service       desired.Service
	want          want
	// mended is the last repair; nil: there was none.
	mended *mended
	// lacking: repairs need content that is not on the disk.
	lacking bool
}

// outcome is what a piece of work comes to: an event, and how long the keeper may rest after it.
type outcome struct {
	event machine.Event
	wait  time.Duration
}

func outcomeOf(kind machine.Kind) outcome { return outcome{event: machine.Event{Kind: kind}} }

// worker does the work of a keeper, one piece at a time, each in a goroutine of its own; between two pieces the keeper
// may use the worker. A round are the pieces from one look to the next.
type worker struct {
	site  *site
	trial *trial.Trial
	order order

	round
	// doing is what the attempt is about.
	doing want
	attempt

	backoff retry.Backoff
	// fault is the last problem of an apply.
	fault problem
	// told is the last problem that was logged, or what is waited for.
	told string
	// others holds sentences on definitions of kinds that are left to who has them.
	others []string
	// unwritten is since when the inventory is behind.
	unwritten time.Time
	// drifts are the objects that stay as others left them, see noteDrifts.
	drifts map[object.Key]drift
	stance stance
	// refusal is the sync of single objects that could not be served.
	refusal refusal
	// sources names the versions of the objects that values are from, as the streams had them at the last round.
	sources string
	// recalled: the Secrets that values are from were looked at after the start.
	recalled bool
}

// round is what the pieces of work of one round leave to each other.
type round struct {
	record inventory.Record
	// judged: the verdict is known, and with it when to look again at the latest.
	judged bool
	// cleaning is when tests are to be cleared away; 0: there are none.
	cleaning time.Duration
	// standing is when what is kept back is to be compared again.
	standing time.Duration
	// release gives back the slot; nil: none is held.
	release func()
	// span of an apply, which began then, and ctx within it; nil: none is under way.
	span   trace.Span
	began  time.Time
	traced context.Context
	// problem is why the last piece of work failed, and gate what a wave waits for.
	problem *problem
	gate    *apply.Gate
	// made are the objects that an attempt sent, for the list of those that are there when it fails.
	made map[object.Key]inventory.Entry
}

// attempt is how far the worker has come with what is wanted. It begins anew with each other want.
type attempt struct {
	// announced: the hub knows that this digest is being applied.
	announced bool
	// progress is how far the digest has come, while something is waited for.
	progress *apply.Progress
	// again: a hook before the removal failed, and is run again, not before rerun.
	again bool
	rerun time.Time
	// through are the moments of a removal whose hooks have ended, and what is told of those that failed.
	through map[set.Hook]string
	// headway is that of a removal.
	headway headway
	// notBefore is when what failed is tried again, whatever is noticed until then.
	notBefore time.Time
	// taken is since when another service, which is wanted, has objects of this one; zero: none has.
	taken time.Time
	// held are the objects that people keep as they are, when nothing else is left to do.
	held  []object.Key
	looks looks
	// reasons are why objects are not healthy, see giveReasons.
	reasons map[object.Key]reason
	// ripens is since when what was just applied is waited to be healthy; zero: it is, or another agent applied it.
	ripens time.Time
}

// doAction does one piece of work.
func (w *worker) doAction(action machine.Action) outcome {
	switch action {
	case machine.Decide:
		return w.decideRound()
	case machine.FetchNamed:
		return w.fetchNamed()
	case machine.Fetch:
		return w.fetch()
	case machine.Queue:
		return w.queue()
	case machine.ApplyNamed:
		return w.applyNamed()
	case machine.Apply:
		return w.applyAll()
	case machine.TellWait:
		return w.tellWait()
	case machine.TellFailure:
		return w.tellFailure()
	case machine.Observe:
		return w.restRound(w.observeHealth(w.order.ctx, w.order.patience, w.order.service, w.record))
	case machine.Compare:
		return w.compareWaiting()
	case machine.Attend:
		return w.attend()
	case machine.Refuse:
		return w.refuse()
	case machine.Remove:
		return w.removeService()
	}
	return outcomeOf(machine.Quit)
}

// dropHeld gives back what the round holds.
func (w *worker) dropHeld() {
	w.giveSlot()
	w.endSpan()
}

// forgetRound ends a round.
func (w *worker) forgetRound() {
	w.dropHeld()
	w.order, w.round = order{}, round{}
}

func (w *worker) giveSlot() {
	if w.release != nil {
		w.release()
		w.release = nil
	}
}

func (w *worker) endSpan() {
	if w.span != nil {
		w.span.End()
		w.span = nil
	}
}

// takeUp begins a round, and a new attempt where something else is wanted.
func (w *worker) takeUp() {
	w.round = round{standing: idle}
	if w.order.want == w.doing {
		return
	}
	w.doing, w.attempt = w.order.want, attempt{looks: newLooks(), through: map[set.Hook]string{}}
	w.site.controller.Watcher.Unfollow(w.site.name)
	w.site.controller.decisions.forget(w.site.name)
	w.trial.Refollow()
	w.backoff.Reset()
}

// soonestWait is the wait after a round, which is no longer than windows, tests and a sync of single objects let it be.
func (w *worker) soonestWait(wait time.Duration) time.Duration {
	if !w.judged {
		return wait
	}
	if w.stance.named { // else no try is made when it is due
		wait = min(wait, w.refusal.untilDue(w.order.service))
	}
	wait = min(wait, w.windowsLook())
	if w.cleaning > 0 {
		wait = min(wait, w.cleaning)
	}
	return wait
}

// restRound ends a round.
func (w *worker) restRound(wait time.Duration) outcome {
	return outcome{event: machine.Event{Kind: machine.Done}, wait: w.soonestWait(wait)}
}

// failRound ends a piece of work with a problem, which is told next.
func (w *worker) failRound(failure *problem) outcome {
	w.problem = failure
	return outcome{event: machine.Event{Kind: machine.Fell, Final: failure.final}}
}

// decideRound reads what is known of the service, writes down what has to survive the agent, and judges.
func (w *worker) decideRound() outcome {
	w.takeUp()
	ctx, service := w.order.ctx, w.order.service
	record, err := w.site.controller.Inventory.Get(ctx, w.site.name)
	w.record = record
	if err != nil {
		return w.failRound(&problem{text: err.Error() + "."})
	}
	if failure := w.site.controller.accountProblem(service, service.Sync.GetImpersonate()); failure != nil {
		return w.failRound(failure.withState(staysAsItWas(record)))
	}
	for _, note := range []func(context.Context, desired.Service, inventory.Record) (inventory.Record, error){
		w.site.noteWishes, w.site.noteAsked, w.site.callOff, w.endTests,
	} {
		record, err = note(ctx, service, record)
		if w.record = record; err != nil {
			return w.failRound(retriedProblem(err).withState(staysAsItWas(record)))
		}
	}
	w.record, w.cleaning = w.trial.Clear(ctx, w.order.patience, record)
	return w.weighWanted()
}

// weighWanted judges what is to be done about a service that is wanted.
func (w *worker) weighWanted() outcome {
	service := w.order.service
	w.site.controller.Watcher.SetRules(w.site.name, service.Sync.GetHealth())
	w.site.controller.Watcher.FollowSources(w.site.name, sourcesOf(service))
	w.recallSecrets(w.order.ctx, service)
	isFresh := w.noteSources()
	w.judgeService(service, w.record)
	out := w.judgeOutcome()
	out.event.Named, out.event.Fresh = w.stance.due, isFresh
	return out
}

// judgeOutcome is what was judged.
func (w *worker) judgeOutcome() outcome {
	w.judged = true
	out := outcomeOf(machine.Judged)
	if out.event.Diff = w.stance.verdict.Diff; !w.stance.verdict.Apply {
		return out
	}
	out.event.Apply, out.event.Current = true, w.isCurrent()
	wait := time.Until(w.notBefore)
	if out.event.Ready = wait <= 0 || w.heldReleased(); !out.event.Ready {
		out.wait = w.soonestWait(wait)
	}
	return out
}

// isCurrent tells whether what is wanted is what was applied, and would be rendered as it was.
func (w *worker) isCurrent() bool {
	return w.record.Has(w.order.service.Digest) && !w.site.isOutdated(w.record.Applied.Environment) &&
		!w.site.controller.Inventory.Inherits(w.record)
}

// heldReleased tells that people keep one of the held objects no longer. An object that no watch has told of yet is as
// the apply found it.
func (w *worker) heldReleased() bool {
	return slices.ContainsFunc(w.held, func(key object.Key) bool {
		known, ok := w.site.controller.Memory.Get(key)
		return !ok || known.State != memory.Held && known.State != memory.Unseen
	})
}

// slot waits for a turn at the cluster.
func (s *site) slot(ctx context.Context) (release func(), ok bool) {
	give, err := s.controller.turns.takeSlot(ctx)
	return give, err == nil
}

// queue waits for a turn at the cluster: neither a hub that is slow to answer nor what is waited for in the cluster
// holds one.
func (w *worker) queue() outcome {
	release, ok := w.site.slot(w.order.patience)
	if !ok {
		return outcomeOf(machine.Quit)
	}
	w.release = release
	return outcomeOf(machine.Admitted)
}

// fetch gets the content of what is to be applied.
func (w *worker) fetch() outcome {
	service, record := w.order.service, w.record
	if !w.announced && (!record.Complete || record.Applied.RevisionDigest() != service.RevisionDigest()) {
		w.sendReport(service, record, &deliveryv1.ServiceReport{Phase: deliveryv1.Phase_PHASE_APPLYING})
	}
	w.announced = true
	w.began = time.Now()
	w.traced, w.span = telemetry.Of(w.order.ctx, service.Traceparent, w.site.controller.Tracer, "agent.apply",
		trace.WithAttributes(attribute.String("service", w.site.name), attribute.String("digest", service.Digest),
			attribute.String("revision", service.Commit)))
	if err := w.site.controller.Artifacts.Prepare(w.order.patience, service); err != nil {
		return w.endApply(nil, retriedProblem(err).withState(staysAsItWas(record)))
	}
	return outcomeOf(machine.Fetched)
}

// applyAll brings the service to its digest.
func (w *worker) applyAll() outcome {
	defer w.giveSlot()
	return w.endApply(w.applySet(w.traced, w.order.patience, w.order.service, w.record))
}

// endApply sums up an apply.
func (w *worker) endApply(gate *apply.Gate, failure *problem) outcome {
	ctx := w.traced
	if ctx.Err() != nil || w.order.patience.Err() != nil && failure != nil {
		return outcomeOf(machine.Quit) // something else is wanted meanwhile, or the agent stops
	}
	telemetry.Observe(ctx, w.site.controller.metrics.seconds, time.Since(w.began))
	switch w.gate = gate; {
	case failure != nil:
		return w.failRound(failure)
	case gate != nil:
		return outcomeOf(machine.Waits)
	}
	w.site.controller.metrics.applies.WithLabelValues("applied").Inc()
	w.ripens = time.Now()
	service := w.order.service
	w.site.log.Info("applied",
		"revision", service.Commit, "digest", service.Digest, "seconds", time.Since(w.began).Seconds())
	w.backoff.Reset()
	w.endSpan()
	return outcomeOf(machine.Applied)
}

// tellWait reports what a wave waits for.
func (w *worker) tellWait() outcome {
	defer w.endSpan()
	w.trial.Close() // a run goes on after the wait, which may last: others run their tests meanwhile
	ctx, service, gate := w.traced, w.order.service, w.gate
	record, err := w.site.controller.Inventory.Get(ctx, w.site.name)
	if err != nil {
		return w.restRound(gate.Look)
	}
	record = w.site.noteEnded(ctx, record, w.progress.Done())
	if w.told != gate.Why {
		w.told = gate.Why
		w.sendReport(service, record, &deliveryv1.ServiceReport{
			Phase: deliveryv1.Phase_PHASE_APPLYING, ObjectsTotal: int32(len(record.Entries)),
			Message: fmt.Sprintf("%s. %s; what comes after it waits.", w.progress.Applied(), gate.Why),
		})
	}
	return w.restRound(gate.Look)
}

// tellFailure reports a problem.
func (w *worker) tellFailure() outcome {
	w.trial.Close() // a run goes on after the failure is mended: others run their tests meanwhile
	if w.span != nil {
		return w.tellFailedApply()
	}
	return w.restRound(w.reportFailure(w.order.service, w.record, *w.problem))
}

// tellFailedApply reports why an apply failed, and what is there of it.
func (w *worker) tellFailedApply() outcome {
	defer w.endSpan()
	ctx, service, failure := w.traced, w.order.service, *w.problem
	w.site.controller.metrics.applies.WithLabelValues("failed").Inc()
	w.span.SetStatus(codes.Error, "not applied")
	w.site.controller.Keep(ctx, "agent.apply", w.began, "not applied",
		attribute.String("service", w.site.name), attribute.String("revision", service.Commit))
	w.fault = failure
	record := w.record
	if latest, err := w.site.controller.Inventory.Get(ctx, w.site.name); err == nil {
		record = latest
	}
	w.listMade(service, record)
	wait := w.reportFailure(service, record, failure)
	if w.gate != nil {
		w.notBefore = time.Time{}
		wait = w.gate.Look
	}
	if failure.final {
		w.refuseTests(w.order.ctx, w.order.patience, service, w.told)
	}
	return w.restRound(wait)
}

// refuse says once more why the content is not tried: of a digest of which only tests are new the hub does not know it.
func (w *worker) refuse() outcome {
	service := w.order.service
	if w.site.controller.Reports.Latest(w.site.name).GetDigest() != service.Digest {
		w.reportFailure(service, w.record, w.fault)
		w.refuseTests(w.order.ctx, w.order.patience, service, w.told)
	}
	return w.restRound(idle)
}

// compareWaiting tells the hub what an apply would change of a service that nothing new is applied of now.
func (w *worker) compareWaiting() outcome {
	service := w.order.service
	next, failure := w.compareWanted(w.order.ctx, w.order.patience, service, w.record)
	switch {
	case w.order.patience.Err() != nil:
		return outcomeOf(machine.Quit)
	case failure == nil:
		w.standing = next
	case w.stance.verdict.Phase != deliveryv1.Phase_PHASE_UNSPECIFIED:
		return w.failRound(failure)
	default: // nothing new waits: what is applied is as good as it was
		w.stance.diff = nil
		w.site.log.Warn("what a sync would change is not known", "err", w.site.maskText(service, failure.text))
		w.standing = retry.Spread(compareRetry)
	}
	return outcomeOf(machine.Compared)
}

// attend looks after a service that nothing new is applied of now. Changes by others are repaired beside it.
func (w *worker) attend() outcome {
	service, record, wait := w.order.service, w.record, w.standing
	if record.Applied.Digest == "" && len(record.Entries) == 0 {
		w.sendReport(service, record, &deliveryv1.ServiceReport{Phase: deliveryv1.Phase_PHASE_HEALTHY})
	} else {
		wait = min(wait, w.observeHealth(w.order.ctx, w.order.patience, service, record))
	}
	if w.stance.verdict.Phase == deliveryv1.Phase_PHASE_WAITING {
		wait = min(wait, retry.Spread(dependencyLook))
	}
	return w.restRound(wait)
}

// fetchNamed gets the content of which a sync names objects.
func (w *worker) fetchNamed() outcome {
	before := staysAsItWas(w.record)
	if w.record.Applied.Digest == "" {
		return w.endNamed((&problem{
			final: true,
			text:  "A sync of single objects needs a service that was applied before: sync all of it first",
		}).withState(before))
	}
	if err := w.site.controller.Artifacts.Prepare(w.order.patience, w.order.service); err != nil {
		return w.endNamed(retriedProblem(err).withState(before))
	}
	return outcomeOf(machine.Fetched)
}

// applyNamed applies those objects of what is wanted that a sync names, and no others: nothing is removed, and no hook
// runs. The inventory has the service as one that holds parts of two revisions, so that drift of each object is
// repaired to what was sent of it.
func (w *worker) applyNamed() outcome {
	defer w.giveSlot()
	ctx, service := w.order.ctx, w.order.service
	objects, failure := w.site.openWanted(ctx, w.order.patience, service, w.record, w.stance.verdict)
	if failure != nil {
		return w.endNamed(failure)
	}
	defer func() { _ = objects.Close() }()
	items, failure := w.site.findChosen(ctx, service, w.record, objects)
	if failure != nil {
		w.site.controller.Inventory.Release(w.site.name)
		return w.endNamed(failure.withState(staysAsItWas(w.record)))
	}
	w.record, failure = w.site.sendItems(ctx, service, w.record, objects, items)
	return w.endNamed(failure)
}

// endNamed sums up a sync of single objects, and judges what is to be done about the rest.
func (w *worker) endNamed(failure *problem) outcome {
	if w.order.patience.Err() != nil {
		return outcomeOf(machine.Quit)
	}
	w.noteRefusal(w.order.service, failure)
	w.judgeService(w.order.service, w.record)
	return w.judgeOutcome()
}

// removeService takes the service out of the cluster.
func (w *worker) removeService() outcome {
	w.takeUp()
	w.site.controller.Watcher.FollowSources(w.site.name, nil)
	w.stance.verdict, w.stance.shut = mode.Verdict{Apply: true, Repair: true}, refusal{}
	wait := w.takeOut(w.order.ctx, w.order.patience)
	switch {
	case wait > 0:
		return w.restRound(wait)
	case w.order.patience.Err() != nil:
		return outcomeOf(machine.Quit)
	}
	return outcomeOf(machine.Removed)
}
