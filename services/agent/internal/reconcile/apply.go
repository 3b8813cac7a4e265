package reconcile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/plural"
	"fairlead.dev/services/agent/internal/apply"
	"fairlead.dev/services/agent/internal/cluster"
	"fairlead.dev/services/agent/internal/desired"
	"fairlead.dev/services/agent/internal/health"
	"fairlead.dev/services/agent/internal/inventory"
	"fairlead.dev/services/agent/internal/kubeyaml"
	"fairlead.dev/services/agent/internal/mistakes"
	"fairlead.dev/services/agent/internal/object"
	"fairlead.dev/services/agent/internal/prune"
	"fairlead.dev/services/agent/internal/set"
)

// problem is why a service is not as it should be, for people.
type problem struct {
	// text is whole sentences.
	text string
	// failures are the objects that are at fault.
	failures []apply.Failure
	// final: trying again changes nothing before the next digest.
	final bool
	// phase to report, if it is no failure, and what a person has to confirm.
	phase deliveryv1.Phase
	guard *deliveryv1.Guard
}

// applySet does the work of applyAll, step by step; each leaves the cluster in a state to go on from.
func (w *worker) applySet(ctx, patience context.Context, service desired.Service, record inventory.Record) (*apply.Gate, *problem) {
	objects, failure := w.openPlanned(ctx, patience, service, record)
	if failure != nil {
		return nil, failure
	}
	defer func() { _ = objects.Close() }()
	release := record.ReleaseOf(service.RevisionDigest())
	request := apply.Request{Service: w.site.name, Digest: service.RevisionDigest(), Revision: release.Revision, Unnumbered: !release.Numbered, Unsealed: !release.Sealed, Set: objects, Sync: service.Sync, Record: record, Mask: w.site.maskOf(service, record, objects), Note: func(ctx context.Context, ran, failed []object.Run) error {
		return w.site.noteRuns(ctx, w.progress, inventory.Progress{Digest: service.RevisionDigest(), Ran: ran, Failed: failed}, release)
	}}
	if w.progress == nil {
		if failure := w.checkPlan(ctx, request, service); failure != nil {
			w.site.controller.Inventory.Release(w.site.name)
			return nil, failure
		}
	}
	result := w.site.controller.Applier.Advance(ctx, request, w.progress)
	done := w.progress.Done()
	w.made = done
	switch {
	case result.Waits != nil && !result.Waits.Overdue:
		return result.Waits, nil
	case result.Waits != nil:
		return result.Waits, (&problem{text: result.Waits.Why, failures: result.Waits.Items}).withState(w.progress.Applied() + ", and it goes on when that is mended")
	}
	progress := w.progress
	w.progress = nil
	if result.Err != nil {
		return nil, retriedProblem(result.Err).withState("what is applied stays")
	}
	if len(result.Failures) > 0 {
		failure := refusedProblem(result.Failures)
		failure.final = result.Final
		if len(done) == 0 {
			return nil, failure.withState(staysAsItWas(record))
		}
		return nil, failure.withState(progress.Applied() + ", the others stay as they were")
	}
	if w.held = result.Held; len(w.held) > 0 {
		return nil, heldProblem(w.held, w.site.holdReason(ctx, service, objects, w.held[0]))
	}
	return nil, w.finishApply(ctx, service, objects, progress)
}

// heldProblem is why a digest is not applied yet: people hold objects of it in the cluster. why is the reason that the
// first of them has.
func heldProblem(keys []object.Key, why string) *problem {
	text := fmt.Sprintf("%s is held by its annotation %s in the cluster", keys[0], object.HoldAnnotation)
	if why != "" {
		text += fmt.Sprintf(" (%s)", why)
	}
	stays := "stays as it was"
	if more := len(keys) - 1; more > 0 {
		text += fmt.Sprintf(", %d more %s held likewise", more, plural.Are(more))
		stays = "they stay as they were"
	}
	text += ", and " + stays +
		". All else is applied, and what left the manifests goes once the annotation is taken off."
	return &problem{phase: deliveryv1.Phase_PHASE_HELD, text: text}
}

// holdReason is what the annotation of a held object in the cluster says; "" if it says nothing, or can't be read.
func (s *site) holdReason(ctx context.Context, service desired.Service, objects *set.Set, key object.Key) string {
	item, found, err := objects.Find(key)
	if err != nil || !found {
		return ""
	}
	meta, err := s.controller.Metadata(ctx, item.Ref)
	if err != nil {
		return ""
	}
	const most = 200 // characters
	// Masked first: a secret that is cut is not found.
	masked := s.maskText(service, meta.GetAnnotations()[object.HoldAnnotation])
	why := []rune(strings.Join(strings.Fields(masked), " "))
	return string(why[:min(len(why), most)])
}

// checkPlan makes sure that all may be applied and, as far as that can be told, will be; it lists all objects in
// the inventory, and plans.
func (w *worker) checkPlan(ctx context.Context, request apply.Request, service desired.Service) *problem {
	record := request.Record
	before := staysAsItWas(record)
	items, err := request.Set.Items()
	if err != nil {
		return retriedProblem(err).withState(before)
	}
	release, rendered := record.ReleaseOf(service.RevisionDigest()), items
	items = apply.Runs(service.RevisionDigest(), items, momentsOf(release))
	all := items
	items = dropNamesakes(all)
	definitions, err := w.site.unservedDefinitions(ctx, request.Set, notKept(items, object.MakeOnce))
	if err != nil {
		return retriedProblem(err).withState(before)
	}
	there, failures := w.site.findMade(ctx, record, items)
	if len(failures) > 0 {
		return refusedProblem(failures).withState(before)
	}
	if guardRemoval(service, there, items) != nil {
		renamed, err := w.site.renameGroups(ctx, there, items)
		if err != nil {
			return retriedProblem(err).withState(before)
		}
		if failure := guardRemoval(service, renamed, items); failure != nil {
			return failure
		}
	}
	if failure := mistakenForOwn(rendered); failure != nil {
		return failure.withState(before)
	}
	all, items = keptItems(all), keptItems(items)
	others, failures := w.site.claimObjects(items)
	if len(failures) > 0 {
		failure := w.takenProblem(failures).withState(before)
		w.site.noteDecided(service)
		return failure
	}
	w.site.noteDecided(service)
	all, items = leaveOut(all, others), leaveOut(items, others)
	left := slices.SortedFunc(maps.Keys(others), object.Compare)
	adopted, strangers, failures := w.site.controller.Applier.Strangers(ctx, request, items)
	if len(failures) > 0 {
		return w.takenProblem(failures).withState(before)
	}
	w.site.controller.Inventory.Want(w.site.name, nil) // it has all that it asks for
	all, items = leaveOut(all, strangers), leaveOut(items, strangers)
	maps.Copy(others, strangers)
	w.others = leftTo(others)
	needed, held := w.site.controller.Applier.Needed(w.site.name, items, record)
	// Only where there is a good state to protect: a first apply would cost twice the requests.
	if record.Applied.Digest != "" {
		if failures := w.site.controller.Applier.Rehearse(ctx, request, slices.Concat(items, definitions), needed); len(failures) > 0 {
			return refusedProblem(failures).withState(before)
		}
	}
	shared := apply.Shared(all)
	for _, item := range items {
		if shared[item.Key] && !slices.ContainsFunc(needed, func(other set.Item) bool { return other.Key == item.Key }) {
			needed = append(needed, item)
		}
	}
	superset, changed := uniteInventory(record, items, needed, held, restingHooks(rendered, all))
	superset.Left = left
	if changed {
		superset.Begun, superset.Some = setOf(service).String(), false
		superset.Progress = progressOf(record, service)
		superset.Release = release
	}
	unsealed := !w.site.controller.Inventory.Sealed(w.site.name) && slices.ContainsFunc(all, func(item set.Item) bool { return item.Hook != 0 })
	if changed || unsealed || !slices.Equal(record.Left, left) {
		if err := w.site.controller.Inventory.Save(ctx, superset); err != nil {
			return retriedProblem(err).withState(before)
		}
	}
	request.Record = superset
	if failures := w.site.controller.Applier.Make(ctx, request, definitions); len(failures) > 0 {
		return refusedProblem(failures).withState(before)
	}
	progress, err := w.site.controller.Applier.Begin(request, slices.Concat(all, definitions), adopted)
	if err != nil {
		return mistakeOrRetry(err).withState(before)
	}
	w.progress = progress
	return nil
}

// unservedDefinitions are those definitions whose kind the cluster does not serve: it has all others.
func (s *site) unservedDefinitions(ctx context.Context, objects *set.Set, definitions []set.Item) ([]set.Item, error) {
	var unserved []set.Item
	for _, item := range definitions {
		obj, _, err := objects.Object(item)
		if err != nil {
			return nil, err
		}
		served := false
		resource, kind := cluster.ReadDefinition(obj)
		if resource.Version != "" {
			_, err := s.controller.Scopes.Namespaced(ctx, resource.GroupVersion().WithKind(kind))
			served = err == nil
		}
		if !served {
			unserved = append(unserved, item)
		}
	}
	return unserved, nil
}

// keptItems are the items that the service has once they are applied.
func keptItems(items []set.Item) []set.Item {
	return slices.DeleteFunc(slices.Clone(items), func(item set.Item) bool { return item.Flags&object.NotKept != 0 })
}

// notKept are the items with one of the flags.
func notKept(items []set.Item, flags object.Flags) []set.Item {
	return slices.DeleteFunc(slices.Clone(items), func(item set.Item) bool { return item.Flags&flags == 0 })
}

// leaveOut leaves out what is left to others.
func leaveOut(items []set.Item, others map[object.Key]string) []set.Item {
	return slices.DeleteFunc(slices.Clone(items), func(item set.Item) bool {
		_, left := others[item.Key]
		return left
	})
}

// leftTo says which definitions of kinds are left to others.
func leftTo(others map[object.Key]string) []string {
	var texts []string
	for _, key := range slices.SortedFunc(maps.Keys(others), object.Compare) {
		texts = append(texts, fmt.Sprintf("%s belongs to %s, and is left as it is.", key, others[key]))
	}
	return texts
}

// momentsOf are the moments of hooks that a release has.
func momentsOf(release inventory.Release) set.Hook {
	if release.Install {
		return object.Install
	}
	return object.Upgrade
}

// dropNamesakes leaves out hooks that share the name of another item.
func dropNamesakes(items []set.Item) []set.Item {
	ordinary, seen := map[object.Key]bool{}, map[object.Key]bool{}
	for _, item := range items {
		if item.Hook == 0 {
			ordinary[item.Key] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(items), func(item set.Item) bool {
		if item.Hook == 0 {
			return false
		}
		before := seen[item.Key] || ordinary[item.Key]
		seen[item.Key] = true
		return before
	})
}

// progressOf is which hooks have run for the digest: another one runs its own.
func progressOf(record inventory.Record, service desired.Service) inventory.Progress {
	if record.Progress.Digest != service.RevisionDigest() {
		return inventory.Progress{}
	}
	return record.Progress
}

// noteRuns records hooks that have ended, and the objects that progress has made.
func (s *site) noteRuns(ctx context.Context, progress *apply.Progress, ran inventory.Progress, release inventory.Release) error {
	record, err := s.controller.Inventory.Get(ctx, s.name)
	if err != nil {
		return err
	}
	done := progress.Done()
	for i, entry := range record.Entries {
		if now, ok := done[entry.Key]; ok {
			record.Entries[i] = now
		}
	}
	record.Progress, record.Release = ran, release
	return s.controller.Inventory.Save(ctx, record)
}

// finishApply removes what is no longer there, and records the digest as applied.
func (w *worker) finishApply(ctx context.Context, service desired.Service, objects *set.Set, progress *apply.Progress) *problem {
	done := progress.Done()
	record, err := w.site.controller.Inventory.Get(ctx, w.site.name)
	if err != nil {
		return retriedProblem(err).withState("all objects are applied")
	}
	entries := slices.Collect(maps.Values(done))
	items, err := objects.Items()
	if err != nil {
		return retriedProblem(err).withState("all objects are applied")
	}
	stays := staysUnapplied(items)
	released := map[object.Key]bool{} // definitions that the service had, and is not to have any more
	for _, item := range notKept(items, object.NotKept) {
		released[item.Key] = true
	}
	rests := restingHooks(items, apply.Runs(service.RevisionDigest(), items, momentsOf(record.ReleaseOf(service.RevisionDigest()))))
	var stale, releasing, unsure []inventory.Entry
	for _, entry := range record.Entries {
		_, applied := done[entry.Key]
		switch {
		case applied:
		case released[entry.Key]:
			releasing = append(releasing, entry)
		case entry.Hook && progress.Dropped(entry.Key):
		case rests(entry):
			entry.Leaving = false
			entries = append(entries, entry)
		case entry.Hook && entry.UID == "" && service.Sync.GetPrune().GetDisabled(): // the hook may never have been made
		case !stays[entry.Key]:
			stale = append(stale, entry)
		case entry.UID != "": // held
			entry.Sum = max(entry.Sum, 1)
			entries = append(entries, entry)
		default: // held, and perhaps made by an apply that did not come to its end
			unsure = append(unsure, entry)
		}
	}
	made, failures := w.site.controller.Applier.Made(ctx, w.site.name, unsure)
	if len(failures) > 0 {
		return refusedProblem(failures).withState("all objects are applied")
	}
	for _, entry := range unsure {
		if entry.UID = made[entry.Key]; entry.UID != "" {
			entry.Sum = max(entry.Sum, 1)
			entries = append(entries, entry)
		}
	}
	if left := w.site.controller.Pruner.Release(ctx, w.site.name, releasing); len(left) > 0 {
		return retriedProblem(fmt.Errorf("%s %s", left[0].Entry.Key, left[0].Why)).withState("all objects are applied")
	}
	record.Kept, record.Spared = shortenList(w.others), nil
	if len(stale) > 0 {
		if stale, err = w.site.noteLeaving(ctx, service, record, stale); err != nil {
			return retriedProblem(err).withState("all objects are applied")
		}
		out := w.site.pruneStale(ctx, service, stale, entries)
		w.site.controller.metrics.pruned.Add(float64(len(stale) - len(out.Left)))
		w.site.log.Info("removed objects that are no longer in the manifests", "objects", len(stale)-len(out.Left), "left", len(out.Left), "kept", out.Kept)
		for _, one := range out.Left {
			entries = append(entries, one.Entry)
		}
		w.looks.noteLeft(out.Left)
		record.Kept = shortenList(append(slices.Clone(w.others), out.Kept...))
	}
	before := record.Applied
	isNew := before.RevisionDigest() != service.RevisionDigest()
	record.Entries = entries
	record.Complete, record.Begun, record.Some = true, "", false
	record.Progress, record.Release = progressOf(record, service), record.ReleaseOf(service.RevisionDigest())
	record.Orphan, record.Account = orphansObjects(service), service.Sync.GetImpersonate()
	record.Applied = inventory.Applied{
		Digest: service.Digest, ContentDigest: service.ContentDigest, Commit: service.Commit, Set: setOf(service).String(), Environment: objects.Environment(),
		Values: service.Values(), ReleaseService: objects.ReleaseService(), Warnings: objects.Warnings(),
		PreDelete: hasHooks(items, object.PreDelete), PostDelete: hasHooks(items, object.PostDelete), Time: time.Now().UTC().Truncate(time.Second),
		Asked: service.RequestID(),
	}
	if !isNew && before.Digest != service.Digest { // only its tests are others
		record.Applied.Commit, record.Applied.Time = before.Commit, before.Time
	}
	if !w.site.controller.Inventory.Note(record) {
		if err := w.site.controller.Inventory.Save(ctx, record); err != nil {
			return retriedProblem(err).withState("all objects are applied")
		}
	}
	w.site.keepSets(record)
	if isNew { // rivals for the fields of before may have been given them
		for _, rival := range w.site.controller.Memory.Summary(w.site.name).Rivals {
			w.site.controller.Memory.Peace(rival.Key)
		}
	}
	return nil
}

// staysUnapplied are the objects that stay though they were not applied: people hold them. An ordinary object may share
// its name with a hook.
func staysUnapplied(items []set.Item) map[object.Key]bool {
	stays := make(map[object.Key]bool, len(items))
	for _, item := range items {
		stays[item.Key] = stays[item.Key] || item.Hook == 0 || item.Flags&object.Hold != 0
	}
	return stays
}

// restingHooks tells the hooks' objects that stay while hooks of other moments run. Data is among them even where it
// left the manifests: a chart makes a Secret in a hook so that no upgrade changes it, and may not even render it at
// one. Such data goes with the service, or when a hook with metadata.generateName has made another one in its place.
func restingHooks(rendered, runs []set.Item) func(inventory.Entry) bool {
	hooks := map[object.Key]bool{}
	for _, item := range rendered {
		hooks[item.Key] = hooks[item.Key] || item.Hook != 0
	}
	replaced := map[object.Key]bool{} // by the beginning of the name
	for _, item := range runs {
		if key, ok := apply.Beginning(item.Key); ok && item.Flags&object.Generated != 0 {
			replaced[key] = true
		}
	}
	return func(entry inventory.Entry) bool {
		if !entry.Hook || entry.UID == "" {
			return false
		}
		beginning, ok := apply.Beginning(entry.Key)
		return hooks[entry.Key] || apply.HoldsData(entry.GVK().GroupKind()) && (!ok || !replaced[beginning])
	}
}

// noteLeaving writes down what is about to be removed, so that nobody makes it again, not even who follows on an agent
// that is killed meanwhile.
func (s *site) noteLeaving(ctx context.Context, service desired.Service, record inventory.Record, stale []inventory.Entry) ([]inventory.Entry, error) {
	stays := service.Sync.GetPrune().GetDisabled()
	at := make(map[object.Key]int, len(record.Entries))
	for i, entry := range record.Entries {
		at[entry.Key] = i
	}
	changed := false
	for i := range stale {
		before := stale[i]
		if stale[i].Leaving, stale[i].Sum = true, 0; stays {
			stale[i].Sum = max(before.Sum, 1)
		}
		record.Entries[at[before.Key]] = stale[i]
		changed = changed || stale[i] != before
	}
	if stays || !changed { // the list that is written next has it, too
		return stale, nil
	}
	return stale, s.controller.Inventory.Save(ctx, record)
}

// pruneStale removes objects that left the manifests, unless that is not wanted, or was not when they left. An object
// that stays is not removed by the name of another group.
func (s *site) pruneStale(
	ctx context.Context, service desired.Service, stale, staying []inventory.Entry,
) prune.Outcome {
	var going []inventory.Entry
	var stays []prune.Left
	refs := make([]object.Ref, len(staying))
	for i, entry := range staying {
		refs[i] = entry.Ref
	}
	renamed, err := s.renamedGroups(ctx, stale, refs)
	for _, entry := range stale {
		_, isRenamed := renamed[entry.Key]
		switch {
		case err != nil:
			stays = append(stays, prune.Left{Entry: entry, Why: maySame})
		case isRenamed: // off the list, as if it were gone
		case service.Sync.GetPrune().GetDisabled():
			stays = append(stays, prune.Left{Entry: entry, Why: "stays, because removing is switched off (prune.disabled)"})
		case !entry.Going():
			stays = append(stays, prune.Left{Entry: entry, Why: "stays until the next sync, because removing was switched off when it left"})
		case s.goesLast(ctx, entry):
			stays = append(stays, prune.Left{Entry: entry, Why: goesLast})
		default:
			going = append(going, entry)
		}
	}
	out := s.controller.Pruner.Prune(ctx, s.name, going)
	out.Left = append(out.Left, stays...)
	return out
}

// maySame is why an object waits while the API server does not say what it is.
const maySame = "may be an object that stays, by the name of another API group: the API server does not say"

// goesLast is why an object that left waits.
const goesLast = "goes when all others are healthy (PruneLast)"

// goesLast tells an object that is to go last, while others are not healthy. An object that can't be read goes its
// usual way, which says why.
func (s *site) goesLast(ctx context.Context, entry inventory.Entry) bool {
	if s.allHealthy() {
		return false
	}
	meta, err := s.controller.Metadata(ctx, entry.Ref)
	if err != nil {
		return false
	}
	wishes, err := object.WishesOf(meta.GetAnnotations())
	return err == nil && wishes.Flags&object.PruneLast != 0
}

// allHealthy tells that all objects of the service are there, and healthy.
func (s *site) allHealthy() bool {
	summary := s.controller.Memory.Summary(s.name)
	return summary.Unseen == 0 && summary.Worst.State == health.Healthy
}

// shortenList shortens what is told of objects that stay.
func shortenList(kept []string) []string {
	const most = 5
	if len(kept) <= most {
		return kept
	}
	return append(kept[:most:most], fmt.Sprintf("So do %d more.", len(kept)-most))
}

// orphansObjects says whether the objects of a service stay when it goes.
func orphansObjects(service desired.Service) bool {
	return service.Sync.GetOnDelete() == deliveryv1.DeletePolicy_DELETE_POLICY_ORPHAN
}

// noteWishes writes down in the cluster what decides about the objects when all else is lost, before it is needed.
func (s *site) noteWishes(ctx context.Context, service desired.Service, record inventory.Record) (inventory.Record, error) {
	same := record.Orphan == orphansObjects(service) && record.Account == service.Sync.GetImpersonate() &&
		!s.controller.Inventory.IsForeign(record)
	record.Orphan, record.Account = orphansObjects(service), service.Sync.GetImpersonate()
	if same || len(record.Entries) == 0 { // the first list of objects has it
		return record, nil
	}
	return record, s.controller.Inventory.Save(ctx, record)
}

// guardRemoval stops what would remove so much that it looks like an accident, until a person confirms it. No object is
// changed until then.
func guardRemoval(service desired.Service, record inventory.Record, items []set.Item) *problem {
	const sampled = 20
	if service.Sync.GetPrune().GetDisabled() {
		return nil
	}
	stays, wanted := make(map[object.Key]bool, len(items)), 0
	for _, item := range items {
		stays[item.Key] = true
		if item.Hook == 0 {
			wanted++
		}
	}
	var before, going []inventory.Entry
	for _, entry := range record.Entries {
		if entry.Hook || entry.UID == "" || entry.Going() { // its removal was confirmed, where it had to be
			continue
		}
		before = append(before, entry)
		if !stays[entry.Key] {
			going = append(going, entry)
		}
	}
	id, guarded := apply.Shrinks(service.Sync.GetPrune(), service.Content(), before, going, wanted)
	if !guarded {
		return nil
	}
	told := &deliveryv1.Guard{Id: id, Removing: int32(len(going)), ObjectsTotal: int32(len(before))}
	for _, entry := range going[:min(len(going), sampled)] {
		told.Sample = append(told.Sample, &deliveryv1.ManagedObject{
			Group: entry.Group, Version: entry.Version, Kind: entry.Kind, Namespace: entry.Namespace, Name: entry.Name, Uid: string(entry.UID), Wave: entry.Wave,
		})
	}
	return &problem{phase: deliveryv1.Phase_PHASE_WAITING, guard: told, final: true, text: fmt.Sprintf(
		"%.8s would remove %s, the first is %s: %s. Nothing is changed until somebody confirms it: `fairlead confirm prune %s %s`. If it is an accident, put the manifests back and push.",
		service.Commit, plural.Part(len(going), len(before), "object"), going[0].Key, whyGuarded(service.Sync.GetPrune(), wanted), service.Name, id)}
}

// findMade is the record with the UIDs of the objects that an apply made which did not come to its end, where objects
// left the manifests since.
func (s *site) findMade(ctx context.Context, record inventory.Record, items []set.Item) (inventory.Record, []apply.Failure) {
	stays := make(map[object.Key]bool, len(items))
	for _, item := range items {
		stays[item.Key] = true
	}
	isGone := func(entry inventory.Entry) bool { return !entry.Hook && !entry.Going() && !stays[entry.Key] }
	if !slices.ContainsFunc(record.Entries, isGone) {
		return record, nil
	}
	made, failures := s.controller.Applier.Made(ctx, s.name, record.Entries)
	record.Entries = slices.Clone(record.Entries)
	for i, entry := range record.Entries {
		if uid, ok := made[entry.Key]; ok {
			record.Entries[i].UID = uid
		}
	}
	return record, failures
}

// renameGroups is the record with the items' names of objects that it has by the names of other groups: they do not go.
func (s *site) renameGroups(ctx context.Context, record inventory.Record, items []set.Item) (inventory.Record, error) {
	refs := make([]object.Ref, len(items))
	for i, item := range items {
		refs[i] = item.Ref
	}
	renamed, err := s.renamedGroups(ctx, record.Entries, refs)
	record.Entries = slices.Clone(record.Entries)
	for i, entry := range record.Entries {
		if ref, ok := renamed[entry.Key]; ok {
			record.Entries[i].Ref = ref
		}
	}
	return record, err
}

// renamedGroups finds those entries that are one of the objects by the name of another group, as an Ingress or an Event
// may have. The cluster says so: an entry has the UID of before the repairs that are not noted yet.
func (s *site) renamedGroups(
	ctx context.Context, entries []inventory.Entry, objects []object.Ref,
) (map[object.Key]object.Ref, error) {
	withoutGroup := func(key object.Key) object.Key {
		key.Group = ""
		return key
	}
	has, named := make(map[object.Key]bool, len(objects)), make(map[object.Key][]object.Ref, len(objects))
	for _, ref := range objects {
		has[ref.Key] = true
		named[withoutGroup(ref.Key)] = append(named[withoutGroup(ref.Key)], ref)
	}
	renamed := map[object.Key]object.Ref{}
	for _, entry := range entries {
		if has[entry.Key] {
			continue
		}
		for _, ref := range named[withoutGroup(entry.Key)] {
			uid, err := s.uidOf(ctx, ref)
			if err != nil {
				return nil, err
			}
			if uid != "" && uid != entry.UID {
				if entry.UID, err = s.uidOf(ctx, entry.Ref); err != nil {
					return nil, err
				}
			}
			if uid != "" && uid == entry.UID {
				renamed[entry.Key] = ref
			}
		}
	}
	return renamed, nil
}

// uidOf is the UID that an object has in the cluster; "": it is not there.
func (s *site) uidOf(ctx context.Context, ref object.Ref) (types.UID, error) {
	meta, err := s.controller.Metadata(ctx, ref)
	if apply.NotThere(err) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return meta.UID, nil
}

// whyGuarded is why a removal waits for a person.
func whyGuarded(spec *deliveryv1.PruneSpec, wanted int) string {
	switch {
	case wanted == 0:
		return "nothing but hooks would be left"
	case spec != nil && spec.MaxPercent != nil:
		return fmt.Sprintf("more than the %d%% that sync.prune.maxPercent allows", spec.GetMaxPercent())
	}
	return "more than half of them, and the default of sync.prune.maxPercent is 50"
}

// mistakenForOwn refuses what the agent itself keeps in the cluster, be it an object or a hook of whatever moment.
func mistakenForOwn(items []set.Item) *problem {
	var failures []apply.Failure
	for _, item := range items {
		if inventory.Own(item.Key) {
			failures = append(failures, apply.Failure{Item: item, Problem: apply.Problem{
				Text: "it is what the agent itself keeps there", Advice: "Give it another name and push.", Mistake: true,
			}})
		}
	}
	if len(failures) > 0 {
		return refusedProblem(failures)
	}
	return nil
}

// claimObjects makes sure that no other service has one of the objects, or is about to make it. Definitions of kinds
// that another service has are left to it: left says to which.
func (s *site) claimObjects(items []set.Item) (left map[object.Key]string, failures []apply.Failure) {
	keys := make([]object.Key, len(items))
	for i, item := range items {
		keys[i] = item.Key
	}
	left = map[object.Key]string{}
	taken := s.controller.Inventory.Claim(s.name, keys)
	for _, item := range items {
		if owner, ok := taken[item.Key]; ok && item.IsCRD() {
			left[item.Key] = fmt.Sprintf("service %q", owner)
		} else if ok {
			failures = append(failures, apply.Failure{Item: item, Problem: *apply.Taken(owner)})
		}
	}
	switch {
	case len(failures) > 0:
		return nil, failures
	case len(left) == 0:
		return left, nil
	}
	// No object was reserved yet.
	again, failures := s.claimObjects(leaveOut(items, left))
	if len(failures) > 0 {
		return nil, failures
	}
	maps.Copy(left, again)
	return left, nil
}

// ownerPatience is how long a service waits for another one, which is wanted, to let go of its objects. The hub tells
// of a service that was renamed, or of an object that moved, in any order.
const ownerPatience = 10 * time.Second

// takenProblem is the problem of objects that are not this service's. A service that has them all and is being removed,
// as after a service was renamed, is waited for; a wanted one for a moment only, since it may
// be about to leave.
func (w *worker) takenProblem(failures []apply.Failure) *problem {
	var wanted []object.Key
	for _, failure := range failures {
		if failure.Problem.Owner != "" {
			wanted = append(wanted, failure.Item.Key)
		}
	}
	w.site.controller.Inventory.Want(w.site.name, wanted)
	first, text := failures[0], "Waits until service %q, which is being removed, has let go of %s"
	for _, failure := range failures {
		switch _, what := w.site.controller.Desired.Get(failure.Problem.Owner); what {
		case desired.Remove:
			if record, _ := w.site.controller.Inventory.Glance(failure.Problem.Owner); w.site.controller.Inventory.IsForeign(record) {
				return refusedProblem(failures) // it stays
			}
			continue
		case desired.Apply:
			text = "Waits for a moment, in case service %q is about to let go of %s"
		case desired.Nothing:
			return refusedProblem(failures)
		}
		if w.taken.IsZero() {
			w.taken = time.Now()
		}
		if time.Since(w.taken) > ownerPatience {
			return refusedProblem(failures)
		}
		first = failure
	}
	text = fmt.Sprintf(text, first.Problem.Owner, first.Item.Key)
	return &problem{phase: deliveryv1.Phase_PHASE_APPLYING, text: text}
}

// uniteInventory lists what is there and what is to come. An object that is to be sent has no sum until it was: a kill
// in between leaves open what the cluster has of it. changed: it says something else than the record.
func uniteInventory(record inventory.Record, items, needed []set.Item, held map[object.Key]bool, rests func(inventory.Entry) bool) (superset inventory.Record, changed bool) {
	all := slices.Clone(record.Entries)
	at := make(map[object.Key]int, len(all))
	for i, entry := range all {
		at[entry.Key] = i
	}
	send := make(map[object.Key]bool, len(needed))
	for _, item := range needed {
		send[item.Key] = true
	}
	stays := 0
	wanted := make(map[object.Key]bool, len(items))
	for _, item := range items {
		wanted[item.Key] = true
	}
	for _, entry := range all {
		if !wanted[entry.Key] && rests(entry) {
			stays++
		}
	}
	for _, item := range items {
		i, ok := at[item.Key]
		if !ok {
			changed = true
			all = append(all, inventory.Entry{Ref: item.Ref, Wave: item.Wave, Hook: item.Hook != 0})
			continue
		}
		stays++
		entry := all[i]
		entry.Version, entry.Wave, entry.Leaving = item.Version, item.Wave, false
		if item.Flags&object.Hold == 0 { // an object that stays as it is stays a hook's, too
			entry.Hook = item.Hook != 0
		}
		if send[item.Key] {
			entry.Sum, entry.Ended = 0, time.Time{}
		} else if entry.Sum == 0 && !entry.Hook && item.Flags&object.Hold == 0 && !held[item.Key] {
			entry.Sum = item.Sum // sent before, by an attempt that did not come to its end
		}
		changed = changed || entry != all[i] || entry.Hook
		all[i] = entry
	}
	changed = changed || stays < len(record.Entries) && record.Complete
	superset = record
	superset.Entries = all
	if changed {
		superset.Complete = false
	}
	return superset, changed
}

func staysAsItWas(record inventory.Record) string {
	switch {
	case record.Applied.Digest == "":
		return "nothing was applied"
	case !record.Complete:
		return "what is applied stays"
	}
	return "the previous state stays applied"
}

// withState ends the text with what that means for the cluster: "...; the previous state stays applied."
func (p *problem) withState(state string) *problem {
	p.text = strings.TrimSuffix(p.text, ".") + "; " + state + "."
	if more := len(p.failures) - 1; more == 1 {
		p.text += " One more object has a problem, too."
	} else if more > 1 {
		p.text += fmt.Sprintf(" %d more objects have problems, too.", more)
	}
	return p
}

func retriedProblem(err error) *problem {
	return &problem{text: mistakes.EndSentence(err) + " It is tried again."}
}

// mistakeOrRetry tells manifests that are wrong from a cluster that does not answer.
func mistakeOrRetry(err error) *problem {
	if mistake := (*kubeyaml.Error)(nil); errors.As(err, &mistake) {
		return &problem{text: mistakes.EndSentence(err) + " Fix the manifest and push.", final: true}
	}
	return retriedProblem(err)
}

func refusedProblem(failures []apply.Failure) *problem {
	first := failures[0]
	return &problem{
		text:     first.String(),
		failures: failures,
	}
}
