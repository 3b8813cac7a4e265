package reconcile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/retry"
	"fairlead.dev/services/agent/internal/apply"
	"fairlead.dev/services/agent/internal/cluster"
	"fairlead.dev/services/agent/internal/desired"
	"fairlead.dev/services/agent/internal/health"
	"fairlead.dev/services/agent/internal/impersonate"
	"fairlead.dev/services/agent/internal/inventory"
	"fairlead.dev/services/agent/internal/journal"
	"fairlead.dev/services/agent/internal/memory"
	"fairlead.dev/services/agent/internal/mode"
	"fairlead.dev/services/agent/internal/object"
	"fairlead.dev/services/agent/internal/reconcile/machine"
	"fairlead.dev/services/agent/internal/repair"
	"fairlead.dev/services/agent/internal/set"
)

const (
	// repairsNoted is how long the inventory may be behind the repairs. Until then they are in the journal.
	repairsNoted = time.Minute
	// mostJournaled bounds the repairs for which peace is waited before they are noted.
	mostJournaled = 1000
)

// prepareSoon is how long the hub may take to hand over something new before what is applied is repaired meanwhile.
const prepareSoon = 5 * time.Second

// lackingAgain is between two attempts to get content that is lacking on the disk.
const lackingAgain = 15 * time.Second

// Repair applies one object as it was applied last.
func (c *Controller) Repair(ctx context.Context, name string, key object.Key, tell bool) (repair.Outcome, error) {
	var outcome repair.Outcome
	isGone := false
	err := c.withApplied(ctx, name, key, func(ctx context.Context, k *keeper, request apply.Request, item set.Item) error {
		if tell {
			obj, _, err := request.Set.Object(item)
			if err != nil {
				return err
			}
			meta, err := k.site.controller.Metadata(ctx, item.Ref)
			if err == nil {
				outcome.Rival, outcome.Fields = object.Rivals(meta, obj.Object)
			} else if !apierrors.IsNotFound(err) {
				return err
			}
			isGone = apierrors.IsNotFound(err)
		}
		answer, problem := k.site.controller.Applier.One(ctx, request, item, false)
		if problem != nil && k.site.makeNamespace(ctx, request, item) {
			answer, problem = k.site.controller.Applier.One(ctx, request, item, false)
		}
		if problem != nil {
			return k.site.maskedError(problem.Text)
		}
		k.postLetter(letter{mended: &mended{ref: item.Ref, at: time.Now(), rival: outcome.Rival, fields: outcome.Fields, wasGone: isGone}})
		if err := k.site.controller.Journal.Add(name, journal.Repair{Key: key, UID: answer.GetUID(), Sum: item.Sum, Owned: object.Owned(answer), After: request.Record.Repairs}); err != nil {
			k.site.log.Warn("a restart makes this repair again", "err", err)
		}
		return nil
	})
	return outcome, err
}

// makeNamespace makes the namespace of an object that can't be applied where that is the one of sync.createNamespace
// and is missing, and says whether it made it.
func (s *site) makeNamespace(ctx context.Context, request apply.Request, item set.Item) bool {
	space, found, err := request.Set.Find(object.Key{Kind: "Namespace", Name: item.Namespace})
	if err != nil || !found || space.Flags&object.MakeOnce == 0 {
		return false
	}
	if _, err := s.controller.Metadata(ctx, space.Ref); !apierrors.IsNotFound(err) {
		return false // the object is refused for another reason
	}
	return len(s.controller.Applier.Make(ctx, request, []set.Item{space})) == 0
}

// Verify compares an object with the cluster by a dry run of its apply.
func (c *Controller) Verify(ctx context.Context, name string, key object.Key) (same bool, err error) {
	err = c.withApplied(ctx, name, key, func(ctx context.Context, k *keeper, request apply.Request, item set.Item) error {
		before, _ := k.site.controller.Memory.Get(key)
		answer, problem := k.site.controller.Applier.One(ctx, request, item, true)
		if problem != nil {
			return k.site.maskedError(problem.Text)
		}
		after, _ := k.site.controller.Memory.Get(key)
		same = before != after || object.Owned(answer) == before.Owned &&
			(before.Watched == 0 || cluster.DataOnly(item.GVK()) || object.Content(answer) == before.Watched)
		return nil
	})
	return same, err
}

// withApplied gives do an object of what is applied of a service. Nothing new is applied of it meanwhile.
func (c *Controller) withApplied(ctx context.Context, name string, key object.Key, do func(context.Context, *keeper, apply.Request, set.Item) error) error {
	k := c.keeperOf(name)
	if k == nil || !k.grantRepair() {
		return repair.ErrNotNow
	}
	defer k.postLetter(letter{kind: machine.Returned})
	service, what := k.site.controller.Desired.Get(name)
	record, ok := k.site.controller.Inventory.Glance(name)
	if !ok || what != desired.Apply || k.site.controller.accountProblem(service, service.Sync.GetImpersonate()) != nil {
		return repair.ErrNotNow
	}
	verdict := mode.Decide(k.site.gatherFacts(service, record))
	if !verdict.Repair {
		return repair.ErrNotNow
	}
	ctx = impersonate.As(ctx, service.Sync.GetImpersonate())
	objects, item, err := k.site.findApplied(ctx, service, record, key, verdict)
	if err != nil {
		if errors.Is(err, errLacking) {
			k.postLetter(letter{lacking: true})
		}
		return err
	}
	defer func() { _ = objects.Close() }()
	if item.Flags&object.Hold != 0 {
		return repair.ErrNotNow
	}
	return do(ctx, k, apply.Request{Service: name, Digest: record.Applied.Digest, Set: objects, Sync: service.Sync, Record: record}, item)
}

// findApplied finds an object as it was applied last.
func (s *site) findApplied(ctx context.Context, service desired.Service, record inventory.Record, key object.Key, verdict mode.Verdict) (*set.Set, set.Item, error) {
	if !record.Complete {
		return s.findParts(record, key)
	}
	objects, err := s.openApplied(ctx, service, record, verdict)
	if err != nil {
		return nil, set.Item{}, err
	}
	item, found, err := objects.Find(key)
	if err == nil && !found {
		err = fmt.Errorf("%s is not among what was applied", key)
	}
	if err != nil {
		return nil, set.Item{}, errors.Join(err, objects.Close())
	}
	return objects, item, nil
}

// findParts finds an object as it was sent last, where the cluster holds parts of what was applied and of what is to
// be.
func (s *site) findParts(record inventory.Record, key object.Key) (*set.Set, set.Item, error) {
	known, _ := s.controller.Memory.Get(key)
	for _, name := range []string{record.Begun, record.Applied.Set} {
		objects, err := s.namedSet(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, set.Item{}, err
		}
		item, found, err := objects.Find(key)
		if err == nil && found && item.Sum == known.Manifest {
			return objects, item, nil
		}
		if err = errors.Join(err, objects.Close()); err != nil {
			return nil, set.Item{}, err
		}
	}
	return nil, set.Item{}, repair.ErrNotNow // the former object is not known: it is sent with what is to be
}

// errLacking says that repairs need content that is not on the disk.
var errLacking = fmt.Errorf("the content is not on the disk: %w", repair.ErrNotNow)

// openApplied opens what was applied. On a disk that was lost it is rendered anew, if it is still what is wanted. For
// its content applied does not wait: the keeper fetches that, see fetchLacking.
func (s *site) openApplied(ctx context.Context, service desired.Service, record inventory.Record, verdict mode.Verdict) (*set.Set, error) {
	s.renders.restoring.Lock()
	defer s.renders.restoring.Unlock()
	objects, err := s.appliedSet(record)
	if !errors.Is(err, fs.ErrNotExist) || !record.Has(service.Digest) {
		return objects, err
	}
	if !s.controller.Artifacts.Has(service) {
		return nil, errLacking
	}
	objects, failure := s.openWanted(ctx, ctx, service, record, verdict)
	if failure != nil {
		return nil, errors.New(s.maskText(service, failure.text))
	}
	return objects, nil
}

// fetchLacking gets the content that repairs lack, and says when to try again; 0: they lack nothing.
func (w *worker) fetchLacking(patience context.Context, service desired.Service) time.Duration {
	if !w.order.lacking {
		return 0
	}
	ctx, cancel := context.WithTimeout(patience, prepareSoon)
	defer cancel()
	if err := w.site.controller.Artifacts.Prepare(ctx, service); err != nil {
		return retry.Spread(lackingAgain)
	}
	w.order.lacking = false
	return 0
}

// mended is an object that was put right.
type mended struct {
	ref    object.Ref
	at     time.Time
	rival  string
	fields []string
	// wasGone: it had been deleted.
	wasGone bool
}

// tellRepairs adds to a report what was put right, once there is peace: a storm is told of at its end.
func (w *worker) tellRepairs(report *deliveryv1.ServiceReport, record inventory.Record, summary memory.Summary) {
	last := w.order.mended
	if last == nil || summary.Drifted+summary.Missing > 0 {
		return
	}
	report.Repairs = record.Repairs + uint64(w.site.controller.Journal.Count(w.site.name))
	report.RepairTime = timestamppb.New(last.at.Truncate(time.Second))
	report.Repaired = objectReport(last.ref, string(health.Healthy), "")
	if last.wasGone {
		report.Repaired.Message = "it had been deleted"
	}
	if known, ok := w.site.controller.Memory.Get(last.ref.Key); ok {
		report.Repaired.Health = stateWord(known.Health)
	}
	const most = 20 // as the contract has it
	report.Repaired.Rival, report.Repaired.Fields = last.rival, last.fields[:min(len(last.fields), most)]
}

// noteRepairs brings the inventory up to what repairs have made, once there is peace, and says when to look again; 0:
// there is nothing to note.
func (w *worker) noteRepairs(ctx context.Context, record inventory.Record, summary memory.Summary) time.Duration {
	count := w.site.controller.Journal.Count(w.site.name)
	if count == 0 {
		return 0
	}
	if wait := repairsNoted - time.Since(w.looks.noted); wait > 0 || summary.Drifted+summary.Missing > 0 && count < mostJournaled {
		return max(wait, retryFloor)
	}
	for i, entry := range record.Entries {
		if known, ok := w.site.controller.Memory.Get(entry.Key); ok && known.State == memory.Present && !entry.Leaving {
			record.Entries[i].Owned, record.Entries[i].UID = known.Owned, known.UID
		}
	}
	record.Repairs += uint64(count)
	w.looks.noted = time.Now()
	if err := w.site.controller.Inventory.Save(ctx, record); err != nil {
		w.site.log.Warn("the inventory does not know of repairs yet", "err", err)
		return repairsNoted
	}
	if err := w.site.controller.Journal.Drop(w.site.name, count, record.Repairs); err != nil {
		w.site.log.Warn("repairs that the inventory knows of stay in the journal", "err", err)
	}
	return 0
}

// describeQuarrel says who keeps changing what, and what to do about it.
func describeQuarrel(rival memory.Rival) string {
	who, fields := rival.Manager, strings.Join(rival.Fields, ", ")
	switch {
	case rival.Webhook:
		return fmt.Sprintf("%s: an admission webhook changes %s of what is applied: add it to sync.ignore, or take it out of Git.", rival.Key, fields)
	case fields == "":
		return fmt.Sprintf("%s: somebody keeps deleting it. It is made again with pauses from 1 minute to 1 hour: find out who does, or take it out of Git.", rival.Key)
	case who == "":
		who = "somebody"
	}
	return fmt.Sprintf("%s: %s keeps changing %s: add it to sync.ignore, or take it out of Git.", rival.Key, who, fields)
}
