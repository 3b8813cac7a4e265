package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/services/agent/internal/health"
	"fairlead.dev/services/agent/internal/inventory"
	"fairlead.dev/services/agent/internal/memory"
	"fairlead.dev/services/agent/internal/mistakes"
	"fairlead.dev/services/agent/internal/object"
)

// mostDrifts bounds the drifted objects of a service of which the keeper finds out who changed what: each costs a
// request.
const mostDrifts = 20

// drift is an object that differs from what is applied and is not repaired, because the mode forbids it.
type drift struct {
	// version of the object that manager and fields are about.
	version uint64
	since   time.Time
	manager string
	fields  []string
}

// noteDrifts finds out who changed what of the objects that stay as others left them, once per change.
func (w *worker) noteDrifts(ctx context.Context, record inventory.Record, damage []memory.Damage) {
	if w.stance.verdict.Repair {
		w.drifts = nil
		return
	}
	known := w.drifts
	w.drifts = make(map[object.Key]drift, len(damage))
	for _, d := range damage {
		one, isKnown := known[d.Ref.Key]
		if !isKnown {
			one.since = time.Now().Truncate(time.Second)
		}
		if (!isKnown || one.version != d.Version) && d.State == memory.Drifted && len(w.drifts) < mostDrifts {
			manager, fields, err := w.site.rivalOf(ctx, record, d.Ref)
			if err != nil && ctx.Err() == nil {
				w.site.log.Debug("who changed an object is not known", "object", d.Ref.Key.String(), "err", err)
			}
			one.version, one.manager, one.fields = d.Version, manager, fields
		}
		w.drifts[d.Ref.Key] = one
	}
}

// rivalOf tells which manager changed which fields of an applied object.
func (s *site) rivalOf(ctx context.Context, record inventory.Record, ref object.Ref) (manager string, fields []string, err error) {
	objects, err := s.appliedSet(record)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = errors.New("what was applied is not on the disk")
		}
		return "", nil, err
	}
	defer func() { _ = objects.Close() }()
	item, found, err := objects.Find(ref.Key)
	if err != nil || !found {
		return "", nil, err
	}
	obj, _, err := objects.Object(item)
	if err != nil {
		return "", nil, err
	}
	meta, err := s.controller.Metadata(ctx, item.Ref)
	if apierrors.IsNotFound(err) {
		return "", nil, nil
	}
	if err != nil {
		return "", nil, err
	}
	manager, fields = object.Rivals(meta, obj.Object)
	return manager, fields, nil
}

// damageSum names the damage that a comparison is about, where it is not repaired: a change by others is worth another
// comparison.
func (w *worker) damageSum() string {
	if w.stance.verdict.Repair {
		return ""
	}
	var b strings.Builder
	for _, d := range w.site.controller.Memory.Summary(w.site.name).Damage {
		fmt.Fprintf(&b, " %s@%d", d.Ref.Key, d.Version)
	}
	return b.String()
}

// tellDamage adds to a report what is not as it was applied: what is about to be repaired, what waits for its next
// attempt, and what stays.
func (w *worker) tellDamage(report *deliveryv1.ServiceReport, summary memory.Summary, now time.Time) {
	listed := make(map[string]*deliveryv1.ObjectReport, len(report.GetObjects()))
	for _, o := range report.GetObjects() {
		listed[reportedName(o)] = o
	}
	rivals := make(map[object.Key]memory.Rival, len(summary.Rivals))
	for _, rival := range summary.Rivals {
		rivals[rival.Key] = rival
	}
	first := "" // the text about the service
	count := 0
	for _, d := range summary.Damage {
		rival, isFought := rivals[d.Ref.Key]
		postponed := d.Next.After(now)
		var text string
		switch {
		case !w.stance.verdict.Repair:
			text = w.describeDamage(d)
		case postponed && isFought:
			text = describeQuarrel(rival)
		case postponed:
			text = fmt.Sprintf("%s: it can't be put right: %s", d.Ref.Key, mistakes.EndSentence(errors.New(d.Why)))
		default: // the repair is under way
			continue
		}
		count++
		first = cmp.Or(first, text)
		o := listed[fullName(d.Ref)]
		if o == nil {
			if len(report.GetObjects()) >= mostObjects {
				continue
			}
			state := string(health.Missing)
			if known, ok := w.site.controller.Memory.Get(d.Ref.Key); ok && d.State == memory.Drifted {
				state = stateWord(known.Health)
			}
			o = objectReport(d.Ref, state, "")
			report.Objects = append(report.Objects, o)
		}
		o.Message = strings.TrimPrefix(text, d.Ref.Key.String()+": ")
		if postponed && w.stance.verdict.Repair {
			o.NextAttemptTime = timestamppb.New(d.Next.Truncate(time.Second))
		}
		if isFought {
			o.Rival, o.Fields = rival.Manager, rival.Fields
		}
		if one, ok := w.drifts[d.Ref.Key]; ok {
			o.DriftTime = timestamppb.New(one.since)
			if one.manager != "" || len(one.fields) > 0 {
				o.Rival, o.Fields = one.manager, one.fields
			}
		}
	}
	report.ObjectsDrifted += int32(count)
	isOnlyMissing := summary.Worst.State == health.Missing // which is told here, with its reason
	switch {
	case count == 0:
		return
	case w.stance.verdict.Repair:
		if report.GetPhase() != deliveryv1.Phase_PHASE_DEGRADED || isOnlyMissing {
			report.Phase, report.Message = deliveryv1.Phase_PHASE_DEGRADED, first
		}
	default:
		if report.GetPhase() == deliveryv1.Phase_PHASE_HEALTHY {
			report.Phase = deliveryv1.Phase_PHASE_DIFFERS
		}
		text := "1 object differs from what is applied: " + first
		if count > 1 {
			text = fmt.Sprintf("%d objects differ from what is applied, the first is %s", count, first)
		}
		if isOnlyMissing {
			report.Message = ""
		}
		report.Message = strings.TrimSpace(report.GetMessage() + " " + text)
	}
}

// describeDamage says how an object differs that is not repaired.
func (w *worker) describeDamage(d memory.Damage) string {
	one := w.drifts[d.Ref.Key]
	switch {
	case d.State == memory.Gone:
		return fmt.Sprintf("%s: it was deleted.", d.Ref.Key)
	case len(one.fields) == 0:
		return fmt.Sprintf("%s: somebody changed it.", d.Ref.Key)
	}
	return fmt.Sprintf("%s: %s changed %s.", d.Ref.Key, cmp.Or(one.manager, "somebody"), strings.Join(one.fields, ", "))
}

// reportedName and fullName name an object in a report, and one of the memory, in the same words.
func reportedName(o *deliveryv1.ObjectReport) string {
	return strings.Join([]string{o.GetGroup(), o.GetKind(), o.GetNamespace(), o.GetName()}, "/")
}

func fullName(ref object.Ref) string {
	return strings.Join([]string{ref.Group, ref.Kind, ref.Namespace, ref.Name}, "/")
}

// underRepair is a missing object that is made again at once; ok is false if there is none, or if one waits for its
// next attempt.
func (w *worker) underRepair(summary memory.Summary, now time.Time) (first object.Ref, ok bool) {
	if !w.stance.verdict.Repair {
		return first, false
	}
	for _, d := range summary.Damage {
		switch {
		case d.State != memory.Gone:
		case d.Next.After(now):
			return first, false
		case !ok:
			first, ok = d.Ref, true
		}
	}
	return first, ok
}
