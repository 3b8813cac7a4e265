package reconcile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/plural"
	"fairlead.dev/services/agent/internal/apply"
	"fairlead.dev/services/agent/internal/desired"
	"fairlead.dev/services/agent/internal/impersonate"
	"fairlead.dev/services/agent/internal/inventory"
	"fairlead.dev/services/agent/internal/mistakes"
	"fairlead.dev/services/agent/internal/object"
	"fairlead.dev/services/agent/internal/prune"
	"fairlead.dev/services/agent/internal/repair"
	"fairlead.dev/services/agent/internal/set"
	"fairlead.dev/services/agent/internal/trial"
)

// takeOut takes the service out of the cluster: its objects, then the inventory, then the report, then
// the order itself. A kill in between repeats what is left. remove ends where it is when the service is wanted again;
// what is gone by then is found missing and applied.
func (w *worker) takeOut(ctx, patience context.Context) time.Duration {
	release, ok := w.site.slot(patience)
	if !ok {
		return 0
	}
	defer release()
	service, _ := w.site.controller.Desired.Get(w.site.name)
	record, err := w.site.controller.Inventory.Get(ctx, w.site.name)
	if err != nil {
		return w.reportFailure(service, record, problem{text: err.Error() + "."})
	}
	if w.site.controller.Inventory.IsForeign(record) && len(record.Entries) > 0 {
		return w.reportFailure(service, record, problem{final: true, text: foreignStays})
	}
	if service.Sync != nil { // else the record is all that is known
		record.Orphan = orphansObjects(service)
		if account := service.Sync.GetImpersonate(); account != "" || !w.site.controller.RequireImpersonation && !w.site.controller.currentNarrower().RequireAccount {
			record.Account = account
		}
	}
	if failure := w.site.controller.accountProblem(service, record.Account); failure != nil && len(record.Entries) > 0 {
		return w.reportFailure(service, record, *failure.withState("its objects stay"))
	}
	patience = impersonate.As(patience, record.Account)
	if record, err = w.removeTests(patience, service, record); err != nil {
		return w.reportFailure(service, record, *retriedProblem(err))
	}
	if left := w.site.controller.Pruner.Prune(patience, w.site.name, trial.Objects(record)).Left; len(left) > 0 && patience.Err() == nil {
		return w.stillThere(service, record, left)
	}
	var trouble string
	for _, moment := range []set.Hook{object.PreDelete, object.PostDelete} {
		due := record.Applied.PreDelete && moment == object.PreDelete && !w.site.skipsHooks(skipPreDelete) || record.Applied.PostDelete && moment == object.PostDelete
		if !due || record.Orphan {
			continue
		}
		var wait time.Duration
		var told string
		if record, told, wait = w.runLast(ctx, patience, service, record, moment); wait > 0 || patience.Err() != nil {
			return wait
		}
		trouble = strings.TrimSpace(trouble + " " + told)
	}
	out := w.site.controller.Pruner.Remove(patience, w.site.name, record)
	record = w.site.noteSpared(ctx, record, out.Kept)
	if patience.Err() != nil {
		return 0
	}
	if len(out.Left) > 0 {
		return w.stillThere(service, record, out.Left)
	}
	kept := record.Spared
	if trouble != "" {
		kept = append([]string{trouble}, kept...)
	}
	if record.Orphan { // the objects stay, with the values in them: the service may come back
	} else if err := w.site.controller.Answers.Forget(ctx, w.site.name); apierrors.IsForbidden(err) { // then there are none, unless the right was taken away
		w.site.log.Warn("random values of a service that left may stay", "err", err)
	} else if err != nil {
		return w.reportFailure(service, record, problem{text: mistakes.EndSentence(err)})
	}
	w.site.controller.Memory.Forget(w.site.name)
	w.site.controller.decisions.forget(w.site.name)
	if err := w.site.controller.Inventory.Delete(ctx, w.site.name); err != nil {
		return w.reportFailure(service, record, problem{text: mistakes.EndSentence(err)})
	}
	if err := w.site.controller.Reports.Set(&deliveryv1.ServiceReport{Service: w.site.name, Phase: deliveryv1.Phase_PHASE_REMOVED, Message: strings.Join(shortenList(kept), " ")}); err != nil {
		w.site.log.Error("the removal can't be reported", "err", err)
		return w.backoff.Next()
	}
	if err := w.site.controller.Sets.Keep(w.site.name); err != nil {
		w.site.log.Warn("old manifests stay on disk", "err", err)
	}
	if err := w.site.controller.Journal.Forget(w.site.name); err != nil {
		w.site.log.Warn("repairs of a service that left stay on disk", "err", err)
	}
	if err := w.site.controller.Details.Forget(w.site.name); err != nil {
		w.site.log.Warn("details of a service that left stay on disk", "err", err)
	}
	if err := w.site.controller.Desired.Forget(w.site.name); err != nil {
		w.site.log.Error("the removal can't be recorded", "err", err)
		return w.backoff.Next()
	}
	w.site.log.Info("removed", "objects", len(record.Entries), "kept", kept)
	return 0
}

// foreignStays is why a service stays that the hub never wanted here.
const foreignStays = "The service is not removed: another hub put it into this cluster, or this hub did before the " +
	"cluster was removed from it and joined again. Its objects stay. " +
	"To keep the service apply it to the catalog again. To have all such services removed, delete ConfigMap " +
	inventory.ClusterMap + " in namespace " + inventory.Namespace + " and restart the agent."

// noteSpared writes down what a removal has kept in the cluster: the passes after this one do not come across it again.
func (s *site) noteSpared(ctx context.Context, record inventory.Record, kept []string) inventory.Record {
	kept = slices.DeleteFunc(slices.Clone(kept), func(text string) bool { return slices.Contains(record.Spared, text) })
	if len(kept) == 0 {
		return record
	}
	record.Spared = slices.Concat(record.Spared, kept)
	if err := s.controller.Inventory.Save(ctx, record); err != nil {
		s.log.Warn("what the removal has kept will not be reported", "err", err, "kept", kept)
	}
	return record
}

// stillThere reports what a removal waits for, and says when to try again. A removal that hangs is reported as
// one that fails: there may be nobody to take a finalizer off.
func (w *worker) stillThere(service desired.Service, record inventory.Record, left []prune.Left) time.Duration {
	untilHangs := w.headway.note(left, time.Now())
	if untilHangs <= 0 {
		return w.reportFailure(service, record, problem{text: describeHanging(left)})
	}
	text := fmt.Sprintf("The service is being removed, and %d of its objects are still there: %s %s.", len(left), left[0].Entry.Key, left[0].Why)
	w.sendReport(service, record, &deliveryv1.ServiceReport{Phase: deliveryv1.Phase_PHASE_PROGRESSING, Message: text, ObjectsTotal: int32(len(left))})
	return min(w.backoff.Next(), untilHangs)
}

// headway is since when the same objects are left of a removal.
type headway struct {
	left  int
	first object.Key
	since time.Time
}

// note takes over what is left, and says when the removal hangs if that is the same until then.
func (h *headway) note(left []prune.Left, now time.Time) time.Duration {
	if first := left[0].Entry.Key; h.left != len(left) || h.first != first {
		*h = headway{left: len(left), first: first, since: now}
	}
	return h.since.Add(prune.Patience).Sub(now)
}

// describeHanging says which objects keep a removal from its end, and why they are still there.
func describeHanging(left []prune.Left) string {
	const most = 5
	var text strings.Builder
	fmt.Fprintf(&text, "The removal of the service hangs: %d of its objects %s still there.", len(left), plural.Are(len(left)))
	told := 0
	for _, one := range left {
		if told < most && one.Why != prune.InTurn {
			fmt.Fprintf(&text, " %s %s.", one.Entry.Key, one.Why)
			told++
		}
	}
	return text.String()
}

const (
	// skipAnnotation of a service's inventory names hooks that people want no more: a removal does not wait for them.
	skipAnnotation = "fairlead.dev/skip-hooks"
	skipPreDelete  = "pre-delete"
	// rerunAfter is how long what a failed hook left can be looked at before it is run again.
	rerunAfter = 15 * time.Second
)

// skipsHooks tells that people let a removal go on without the hooks of a moment.
func (s *site) skipsHooks(moment string) bool {
	notes, known := s.controller.Watcher.Annotations(s.name)
	if !known {
		notes = s.controller.Inventory.Annotations(s.name)
	}
	return notes[skipAnnotation] == moment
}

// readyToLeave has the hooks of a removal on this disk before there is one: nobody tells what they were made of after
// that. Another agent may have applied them.
func (w *worker) readyToLeave(ctx context.Context, service desired.Service, record inventory.Record) {
	if !record.Applied.PreDelete && !record.Applied.PostDelete || !record.Has(service.Digest) {
		return
	}
	objects, err := w.site.openApplied(ctx, service, record, w.stance.verdict)
	switch {
	case err == nil:
		_ = objects.Close() // no object was read
	case errors.Is(err, errLacking):
		if !w.order.lacking {
			w.order.lacking = true // the content is fetched next, and rendered by the next round
			w.site.wakeKeeper()
		}
	case !errors.Is(err, repair.ErrNotNow):
		w.site.log.Warn("the hooks of a removal are not on the disk", "err", err)
	}
}

// hasHooks tells whether there are hooks of some moments.
func hasHooks(items []set.Item, moments set.Hook) bool {
	return slices.ContainsFunc(items, func(item set.Item) bool { return item.Hook&moments != 0 && item.Flags&object.Hold == 0 })
}

// runLast runs the hooks of a removal: those before it while all is still there, those after it when all is gone but
// the namespaces that they are in; each once, as the inventory has it. runLast says when to look again, 0 when they are
// through, and in a sentence what became of those after the removal that failed: the removal goes on without. One
// before it that fails stops the removal, since it may be there to do so, and is run again.
func (w *worker) runLast(ctx, patience context.Context, service desired.Service, record inventory.Record, moment set.Hook) (_ inventory.Record, trouble string, wait time.Duration) {
	if told, through := w.through[moment]; through {
		return record, told, 0
	}
	if wait := time.Until(w.rerun); wait > 0 && moment == object.PreDelete {
		return record, "", wait
	}
	objects, err := w.site.appliedSet(record)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			trouble, wait := w.loseLast(service, record, moment)
			return record, trouble, wait
		}
		return record, "", w.reportFailure(service, record, *retriedProblem(err))
	}
	defer func() { _ = objects.Close() }()
	items, err := objects.Items()
	if err != nil {
		return record, "", w.reportFailure(service, record, *retriedProblem(err))
	}
	digest := removalOf(record)
	// A hook of both moments runs twice: it is numbered over both of them.
	hooks := slices.DeleteFunc(apply.Runs(digest, items, object.Removal), func(item set.Item) bool { return item.Hook&moment == 0 })
	request := apply.Request{Service: w.site.name, Digest: digest, Again: w.again, Unsealed: !record.Release.Sealed, Set: objects, Sync: service.Sync, Record: record, Mask: w.site.maskOf(service, record, objects), Note: func(ctx context.Context, ran, failed []object.Run) error {
		return w.site.noteRuns(ctx, w.progress, inventory.Progress{Digest: digest, Ran: ran, Failed: failed}, record.Release)
	}}
	if w.progress == nil {
		if moment == object.PostDelete {
			out := w.site.controller.Pruner.Prune(patience, w.site.name, beforeHooks(hooks, record.Entries))
			record = w.site.noteSpared(ctx, record, out.Kept)
			if len(out.Left) > 0 {
				return record, "", w.stillThere(service, record, out.Left)
			}
		}
		ours, failures := w.site.claimLast(patience, request, hooks)
		switch {
		case patience.Err() != nil:
			w.site.controller.Inventory.Release(w.site.name)
			return record, "", 0
		case slices.ContainsFunc(failures, func(failure apply.Failure) bool { return !failure.Problem.Mistake }): // the hook may work the next time
			w.site.controller.Inventory.Release(w.site.name)
			return record, "", w.reportFailure(service, record, *refusedProblem(failures).withState("the removal goes on after it"))
		case len(failures) > 0:
			w.site.controller.Inventory.Release(w.site.name)
			trouble, wait := w.skipLast(service, record, moment, "did not come to run: "+failures[0].String())
			return record, trouble, wait
		}
		hooks = ours
		if record, err = w.site.listLast(ctx, record, hooks); err != nil {
			return record, "", w.reportFailure(service, record, *retriedProblem(err))
		}
		request.Record = record
		w.progress = w.site.controller.Applier.BeginHooks(request, hooks, moment)
	}
	result := w.site.controller.Applier.Advance(patience, request, w.progress)
	if latest, err := w.site.controller.Inventory.Get(ctx, w.site.name); err == nil {
		record = latest
	}
	if result.Waits != nil && !result.Waits.Overdue {
		w.sendReport(service, record, &deliveryv1.ServiceReport{
			Phase: deliveryv1.Phase_PHASE_PROGRESSING, Message: "The service is being removed: " + result.Waits.Why + ".", ObjectsTotal: int32(len(record.Entries)),
		})
		return record, "", result.Waits.Look
	}
	progress := w.progress
	w.progress = nil
	switch {
	case patience.Err() != nil:
		return record, "", 0
	case result.Err != nil:
		return record, "", w.reportFailure(service, record, *retriedProblem(result.Err))
	case len(result.Failures) > 0 && !result.Final: // the hook may work the next time
		return record, "", w.reportFailure(service, record, *refusedProblem(result.Failures).withState("the removal goes on after it"))
	case result.Waits == nil && len(result.Failures) == 0:
		w.through[moment] = ""
		return record, "", 0
	}
	why := "did not come to run: "
	if result.Waits == nil {
		why = "failed: " + result.Failures[0].String()
	} else {
		why += result.Waits.Why + "."
	}
	if moment == object.PreDelete {
		w.again = true
		if err := w.site.noteRuns(ctx, progress, inventory.Progress{}, record.Release); err != nil { // those before it run again, too
			return record, "", w.reportFailure(service, record, *retriedProblem(err))
		}
	}
	trouble, wait = w.skipLast(service, record, moment, why)
	return record, trouble, wait
}

// skipLast reports a hook of a removal that did not end well. After the removal nothing more is done about it than to
// say so. Before it the removal stops, and the hook is run again after the wait.
func (w *worker) skipLast(service desired.Service, record inventory.Record, moment set.Hook, why string) (trouble string, wait time.Duration) {
	if moment == object.PostDelete {
		w.through[moment] = "A hook for post-delete " + w.site.maskText(service, why)
		return w.through[moment], 0
	}
	wait = max(w.reportFailure(service, record, problem{text: fmt.Sprintf(
		"The service is not removed, since a hook for pre-delete %s It is run again. To remove the service without it: kubectl annotate configmap -n %s inventory.%s %s=%s",
		why, inventory.Namespace, w.site.name, skipAnnotation, skipPreDelete)}), rerunAfter)
	w.rerun = time.Now().Add(wait)
	return "", wait
}

// loseLast reports that the disk does not have the hooks of a removal. After the removal nothing more is done about
// that than to say so. Before it the removal stops: the hooks may be there to keep what would be lost, or to take down
// what would block the cluster.
func (w *worker) loseLast(service desired.Service, record inventory.Record, moment set.Hook) (trouble string, wait time.Duration) {
	if moment == object.PostDelete {
		return "Its hooks for post-delete were not run: the agent's disk has lost them.", 0
	}
	return "", max(w.reportFailure(service, record, problem{text: fmt.Sprintf(
		"The service is not removed, since the agent's disk has lost the hooks for pre-delete. To run them: apply the service again as it was, and remove it once it is healthy. "+
			"To remove the service without them: kubectl annotate configmap -n %s inventory.%s %s=%s", inventory.Namespace, w.site.name, skipAnnotation, skipPreDelete)}), rerunAfter)
}

// removalPrefix begins the names of runs of a removal's hooks.
const removalPrefix = "removal of "

// removalOf names the run of a removal's hooks. A removal that was called off is another one than the next.
func removalOf(record inventory.Record) string {
	name := removalPrefix + record.Applied.Digest
	if record.CalledOff > 0 {
		name += fmt.Sprintf(" (%d)", record.CalledOff+1)
	}
	return name
}

// callOff notes that a service is wanted again of which a removal has run hooks: the next removal runs all of them.
func (s *site) callOff(ctx context.Context, _ desired.Service, record inventory.Record) (inventory.Record, error) {
	if !strings.HasPrefix(record.Progress.Digest, removalPrefix) {
		return record, nil
	}
	record.Progress = inventory.Progress{}
	record.CalledOff++
	return record, s.controller.Inventory.Save(ctx, record)
}

// claimLast makes sure, as a sync does, that the objects of the hooks are no one else's: a removal takes over, and
// deletes, no more than a sync would. The answer leaves out definitions of kinds that belong to others.
func (s *site) claimLast(ctx context.Context, request apply.Request, hooks []set.Item) (ours []set.Item, failures []apply.Failure) {
	items := dropNamesakes(hooks)
	if failure := mistakenForOwn(items); failure != nil {
		return nil, failure.failures
	}
	others, failures := s.claimObjects(items)
	if len(failures) > 0 {
		return nil, failures
	}
	_, strangers, failures := s.controller.Applier.Strangers(ctx, request, leaveOut(items, others))
	maps.Copy(others, strangers)
	return leaveOut(hooks, others), failures
}

// beforeHooks are the entries that go before the last hooks run: all but their own and the namespaces that they are in.
func beforeHooks(hooks []set.Item, entries []inventory.Entry) []inventory.Entry {
	stays := map[object.Key]bool{}
	for _, hook := range hooks {
		stays[hook.Key], stays[object.Key{Kind: "Namespace", Name: hook.Namespace}] = true, true
	}
	return slices.DeleteFunc(slices.Clone(entries), func(entry inventory.Entry) bool { return stays[entry.Key] })
}

// listLast writes down the hooks before they are made.
func (s *site) listLast(ctx context.Context, record inventory.Record, hooks []set.Item) (inventory.Record, error) {
	listed := map[object.Key]bool{}
	for _, entry := range record.Entries {
		listed[entry.Key] = true
	}
	known := len(record.Entries)
	for _, item := range hooks {
		if !listed[item.Key] {
			listed[item.Key] = true
			record.Entries = append(record.Entries, inventory.Entry{Ref: item.Ref, Wave: item.Wave, Hook: true})
		}
	}
	if len(record.Entries) == known {
		return record, nil
	}
	return record, s.controller.Inventory.Save(ctx, record)
}
