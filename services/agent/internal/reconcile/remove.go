package reconcile

import (
	"context"
	"fmt"
	"strings"
	"time"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/services/agent/internal/access"
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
	out := k.Pruner.Remove(patience, k.name, record)
	if patience.Err() != nil {
		return 0
	}
	if left := out.Left; len(left) > 0 {
		first := left[0]
		text := fmt.Sprintf("The service is being removed, and %d of its objects are still there: %s %s.", len(left), first.Entry.Key, first.Why)
		k.report(service, record, &deliveryv1.ServiceReport{
			Phase: deliveryv1.Phase_PHASE_PROGRESSING, Message: text, ObjectsTotal: int32(len(left)),
		})
		return k.backoff.Next()
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
