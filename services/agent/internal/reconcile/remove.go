package reconcile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/services/agent/internal/access"
	"fairlead.dev/services/agent/internal/apply"
	"fairlead.dev/services/agent/internal/desired"
	"fairlead.dev/services/agent/internal/inventory"
	"fairlead.dev/services/agent/internal/object"
	"fairlead.dev/services/agent/internal/prune"
	"fairlead.dev/services/agent/internal/set"
)

// remove takes the service out of the cluster: its objects, then the inventory, then the report, then
// the order itself. A kill in between repeats what is left. It ends where it is when the service is wanted
// again; what is gone by then is found missing and applied.
func (k *keeper) remove(ctx, patience context.Context) time.Duration {
	release, ok := k.slot(patience)
	if !ok {
		return 0
	}
	defer release()
	service, _ := k.Desired.Get(k.name)
	record, err := k.Inventory.Get(ctx, k.name)
	if err != nil {
		return k.failed(service, record, problem{text: err.Error() + "."})
	}
	if service.Sync != nil { // else the record is all that is known
		record.Orphan = orphan(service)
		if account := service.Sync.GetImpersonate(); account != "" || !k.RequireImpersonation {
			record.Account = account
		}
	}
	if failure := k.nobody(record.Account); failure != nil && len(record.Entries) > 0 {
		return k.failed(service, record, *failure.because("its objects stay"))
	}
	patience = access.As(patience, record.Account)
	var trouble string
	if record.Applied.PostDelete && !record.Orphan {
		var wait time.Duration
		if record, trouble, wait = k.runLast(ctx, patience, service, record); wait > 0 || patience.Err() != nil {
			return wait
		}
	}
	out := k.Pruner.Remove(patience, k.name, record)
	if patience.Err() != nil {
		return 0
	}
	if len(out.Left) > 0 {
		return k.stillThere(service, record, out.Left)
	}
	if trouble != "" {
		out.Kept = append([]string{trouble}, out.Kept...)
	}
	k.Memory.Forget(k.name)
	if err := k.Inventory.Delete(ctx, k.name); err != nil {
		return k.failed(service, record, problem{text: sentence(err)})
	}
	if err := k.Reports.Set(&deliveryv1.ServiceReport{Service: k.name, Phase: deliveryv1.Phase_PHASE_REMOVED, Message: strings.Join(few(out.Kept), " ")}); err != nil {
		k.log.Error("the removal can't be reported", "err", err)
		return k.backoff.Next()
	}
	if err := k.Sets.Keep(k.name); err != nil {
		k.log.Warn("old manifests stay on disk", "err", err)
	}
	if err := k.Journal.Forget(k.name); err != nil {
		k.log.Warn("repairs of a service that left stay on disk", "err", err)
	}
	if err := k.Details.Forget(k.name); err != nil {
		k.log.Warn("details of a service that left stay on disk", "err", err)
	}
	if err := k.Desired.Forget(k.name); err != nil {
		k.log.Error("the removal can't be recorded", "err", err)
		return k.backoff.Next()
	}
	k.log.Info("removed", "objects", len(record.Entries), "kept", out.Kept)
	return 0
}

// stillThere reports what a removal waits for, and says when to try again.
func (k *keeper) stillThere(service desired.Service, record inventory.Record, left []prune.Left) time.Duration {
	text := fmt.Sprintf("The service is being removed, and %d of its objects are still there: %s %s.", len(left), left[0].Entry.Key, left[0].Why)
	k.report(service, record, &deliveryv1.ServiceReport{Phase: deliveryv1.Phase_PHASE_PROGRESSING, Message: text, ObjectsTotal: int32(len(left))})
	return k.backoff.Next()
}

// isLast tells the hooks that come when the service was removed.
func isLast(item set.Item) bool {
	return item.Hook&object.PostDelete != 0 && item.Flags&object.Hold == 0
}

// runLast removes all but the namespaces that the last hooks are in, and then runs them: once, as the inventory has it. It says
// when to look again, 0 when they are through, and in a sentence what became of those that failed: the removal goes on without.
func (k *keeper) runLast(ctx, patience context.Context, service desired.Service, record inventory.Record) (_ inventory.Record, trouble string, wait time.Duration) {
	objects, err := k.appliedSet(record)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return record, "Its hooks for post-delete were not run: the agent's disk has lost them.", 0
		}
		return record, "", k.failed(service, record, *retried(err))
	}
	defer func() { _ = objects.Close() }()
	hooks, err := objects.Items()
	if err != nil {
		return record, "", k.failed(service, record, *retried(err))
	}
	hooks = slices.DeleteFunc(hooks, func(item set.Item) bool { return !isLast(item) })
	digest := "removal of " + record.Applied.Digest
	request := apply.Request{Service: k.name, Digest: digest, Set: objects, Sync: service.Sync, Record: record, Note: func(ctx context.Context, ran []object.Run) error {
		return k.noteHooks(ctx, digest, ran)
	}}
	if k.progress == nil {
		if left := k.Pruner.Prune(patience, k.name, before(hooks, record.Entries)).Left; len(left) > 0 {
			return record, "", k.stillThere(service, record, left)
		}
		if record, err = k.listLast(ctx, record, hooks); err != nil {
			return record, "", k.failed(service, record, *retried(err))
		}
		request.Record = record
		k.progress = k.Applier.BeginLast(request, hooks)
	}
	result := k.Applier.Advance(patience, request, k.progress)
	if latest, err := k.Inventory.Get(ctx, k.name); err == nil {
		record = latest
	}
	switch {
	case result.Waits != nil && !result.Waits.Overdue:
		k.report(service, record, &deliveryv1.ServiceReport{
			Phase: deliveryv1.Phase_PHASE_PROGRESSING, Message: "The service is being removed: " + result.Waits.Why + ".", ObjectsTotal: int32(len(record.Entries)),
		})
		return record, "", result.Waits.Look
	case result.Err != nil:
		k.progress = nil
		return record, "", k.failed(service, record, *retried(result.Err))
	case result.Waits != nil:
		return record, "A hook for post-delete did not come to run: " + result.Waits.Why + ".", 0
	case len(result.Failures) > 0 && !result.Final: // it may work the next time
		k.progress = nil
		return record, "", k.failed(service, record, *refused(result.Failures).because("the removal goes on after it"))
	case len(result.Failures) > 0:
		return record, "A hook for post-delete failed: " + maskText(service, result.Failures[0].String()), 0
	}
	return record, "", 0
}

// before are the entries that go before the last hooks run: all but their own and the namespaces that they are in.
func before(hooks []set.Item, entries []inventory.Entry) []inventory.Entry {
	stays := map[object.Key]bool{}
	for _, hook := range hooks {
		stays[hook.Key], stays[object.Key{Kind: "Namespace", Name: hook.Namespace}] = true, true
	}
	return slices.DeleteFunc(slices.Clone(entries), func(entry inventory.Entry) bool { return stays[entry.Key] })
}

// listLast writes down the hooks before they are made.
func (k *keeper) listLast(ctx context.Context, record inventory.Record, hooks []set.Item) (inventory.Record, error) {
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
	return record, k.Inventory.Save(ctx, record)
}
