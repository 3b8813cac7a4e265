package reconcile

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"fairlead.dev/platform/plural"
	"fairlead.dev/platform/retry"
	"fairlead.dev/services/agent/internal/apply"
	"fairlead.dev/services/agent/internal/desired"
	"fairlead.dev/services/agent/internal/inventory"
	"fairlead.dev/services/agent/internal/memory"
	"fairlead.dev/services/agent/internal/object"
	"fairlead.dev/services/agent/internal/set"
)

// refusal is a sync of single objects that could not be served. The service's health does not depend on it: what is
// applied stays.
type refusal struct {
	// content is what the service was to be made from.
	request, content, text string
	// again is when it is tried again; zero: only another request is worth a try.
	again   time.Time
	backoff retry.Backoff
}

// isDue tells whether the last request is worth a try now.
func (r *refusal) isDue(service desired.Service) bool {
	return r.request != service.RequestID() || !r.again.IsZero() && !time.Now().Before(r.again)
}

// isServed tells whether all of the service was applied after the refusal, and with it what the sync names. A sync that
// is worth no other try may name what the service does not have: no apply serves it.
func (r *refusal) isServed(service desired.Service, record inventory.Record) bool {
	return !r.again.IsZero() && record.Applied.Asked == service.RequestID()
}

// isLasting tells whether the refusal is still worth a word once its request is not asked any more: all the rest of the
// same content was applied.
func (r *refusal) isLasting(service desired.Service, record inventory.Record) bool {
	return r.again.IsZero() && r.content == service.Content() && record.Applied.Asked == service.RequestID()
}

// untilDue is how long it takes until the last request is due.
func (r *refusal) untilDue(service desired.Service) time.Duration {
	if r.request == "" || r.request != service.RequestID() || r.again.IsZero() {
		return idle
	}
	return max(time.Until(r.again), 0)
}

// noteRefusal keeps why the objects that a sync names were not applied; nil: they were.
func (w *worker) noteRefusal(service desired.Service, failure *problem) {
	if failure == nil {
		w.refusal = refusal{}
		return
	}
	if w.refusal.request != service.RequestID() {
		w.refusal = refusal{request: service.RequestID(), content: service.Content(), backoff: retry.Backoff{Floor: retryFloor, Max: retryMax}}
	}
	text, retry := w.site.maskText(service, failure.text), time.Duration(0)
	if w.refusal.again = (time.Time{}); !failure.final {
		retry = w.refusal.backoff.Next()
		w.refusal.again = time.Now().Add(retry)
	}
	text = fitProblem(text)
	if w.refusal.text != text { // a retry with the same outcome is no news
		w.site.log.Warn("a sync of single objects is not served", "revision", service.Commit, "err", text, "retry_in", retry)
	}
	w.refusal.text = text
}

// fitProblem cuts a text to what the hub takes of the problem of a sync.
func fitProblem(text string) string {
	const most = 2000 // bytes
	return strings.ToValidUTF8(text[:min(len(text), most)], "")
}

// syncProblem is why the objects that the last request for a sync names are not applied; empty: they are, or it names
// none.
func (w *worker) syncProblem(service desired.Service, record inventory.Record) string {
	id := service.RequestID()
	switch r := &w.refusal; {
	case id == "":
	case r.request == id && (r.again.IsZero() || w.stance.shut.request != id):
		if !r.isServed(service, record) {
			return r.text
		}
	case w.stance.shut.request == id:
		return w.stance.shut.text
	case len(service.Sync.GetRequestOnly()) > 0 && record.Applied.Asked != id && !w.stance.verdict.Apply && isOvertaken(service, record):
		return "Other content came before the objects of the sync were applied, and waits: ask for the sync again to apply them as they are now"
	}
	return ""
}

// isOvertaken tells whether the last request for a sync is about other content than what is wanted now.
func isOvertaken(service desired.Service, record inventory.Record) bool {
	content := askedFor(service, record)
	return content != "" && content != service.Content()
}

// findChosen are the items that a sync names. A chosen item is the service's own already, or nobody's.
func (s *site) findChosen(ctx context.Context, service desired.Service, record inventory.Record, objects *set.Set) ([]set.Item, *problem) {
	all, err := objects.Items()
	if err != nil {
		return nil, retriedProblem(err)
	}
	items, missing := chooseItems(all, service.Sync.GetRequestOnly())
	if missing != "" {
		return nil, &problem{final: true, text: fmt.Sprintf("The sync names %s, which is not among the %s of the service (hooks can't be named): see `fairlead tree service %s`", missing, plural.Of(len(all), "object"), s.name)}
	}
	if failure := s.refuseHeld(ctx, items); failure != nil {
		return nil, failure
	}
	others, failures := s.claimObjects(items)
	switch {
	case len(failures) > 0:
		return nil, refusedProblem(failures)
	case len(others) > 0:
		return nil, &problem{final: true, text: "The sync names a definition that is left as it is: " + leftTo(others)[0]}
	}
	adopted, strangers, failures := s.controller.Applier.Strangers(ctx, apply.Request{Service: s.name, Digest: service.RevisionDigest(), Set: objects, Sync: service.Sync, Record: record}, items)
	switch {
	case len(failures) > 0:
		return nil, refusedProblem(failures)
	case len(adopted)+len(strangers) > 0:
		return nil, &problem{final: true, text: "The sync names an object that is in the cluster already and was not made by the service: sync all of the service to take it over"}
	}
	return items, nil
}

// refuseHeld refuses objects that are neither applied nor repaired. An object that a lookup of the chart found is one
// of them: the set has no content of it, and to send that would empty the object. An object of which no watch has told
// yet is asked for.
func (s *site) refuseHeld(ctx context.Context, items []set.Item) *problem {
	for _, item := range items {
		known, _ := s.controller.Memory.Get(item.Key)
		isHeld := known.State == memory.Held
		if item.Flags&object.Hold == 0 && known.State == memory.Unseen {
			meta, err := s.controller.Metadata(ctx, item.Ref)
			if err == nil {
				_, isHeld = meta.Annotations[object.HoldAnnotation]
			} else if !apply.NotThere(err) {
				return retriedProblem(err)
			}
		}
		switch {
		case item.Flags&object.Hold != 0:
			return &problem{final: true, text: fmt.Sprintf(
				"The sync names %s, which stays as it is: its manifest has the annotation %s, "+
					"or the chart looks it up and leaves it out",
				item.Key, object.HoldAnnotation)}
		case isHeld:
			return &problem{final: true, text: fmt.Sprintf(
				"The sync names %s, which is held by its annotation %s in the cluster: "+
					"take that off, and ask for the sync again",
				item.Key, object.HoldAnnotation)}
		}
	}
	return nil
}

// chooseItems finds the items that are named, as KIND/NAME or KIND/NAMESPACE/NAME; missing is a name that fits none.
func chooseItems(items []set.Item, names []string) (out []set.Item, missing string) {
	for _, name := range names {
		fits := func(item set.Item) bool {
			return item.Hook == 0 && item.Flags&object.NotKept == 0 && namesObject(item.Key, name)
		}
		if !slices.ContainsFunc(items, fits) {
			return nil, name
		}
		for _, item := range items {
			if fits(item) && !slices.ContainsFunc(out, func(other set.Item) bool { return other.Key == item.Key }) {
				out = append(out, item)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b set.Item) int { return int(a.Wave) - int(b.Wave) })
	return out, ""
}

// namesObject tells whether a text names an object.
func namesObject(key object.Key, text string) bool {
	parts := strings.Split(text, "/")
	kind, name := parts[0], parts[len(parts)-1]
	if len(parts) == 3 && parts[1] != key.Namespace || name != key.Name {
		return false
	}
	return strings.EqualFold(kind, key.Kind) || strings.EqualFold(kind, key.Kind+"."+key.Group)
}

// sendItems applies items one by one. The inventory lists them before, and how far it came after.
func (s *site) sendItems(ctx context.Context, service desired.Service, record inventory.Record, objects *set.Set, items []set.Item) (inventory.Record, *problem) {
	next := record
	next.Entries = slices.Clone(record.Entries)
	at := map[object.Key]int{}
	for i, entry := range next.Entries {
		at[entry.Key] = i
	}
	for _, item := range items {
		if _, ok := at[item.Key]; !ok {
			at[item.Key] = len(next.Entries)
			next.Entries = append(next.Entries, inventory.Entry{Ref: item.Ref, Wave: item.Wave})
		}
	}
	if setOf(service).String() != record.Applied.Set {
		next.Complete, next.Begun, next.Some = false, setOf(service).String(), true
	}
	if err := s.controller.Inventory.Save(ctx, next); err != nil {
		return record, retriedProblem(err).withState("what is applied stays")
	}
	request := apply.Request{Service: s.name, Digest: service.RevisionDigest(), Set: objects, Sync: service.Sync, Record: next}
	var failures []apply.Failure
	for _, item := range items {
		answer, refusal := s.controller.Applier.One(ctx, request, item, false)
		if refusal != nil {
			failures = append(failures, apply.Failure{Item: item, Problem: *refusal})
			continue
		}
		entry := &next.Entries[at[item.Key]]
		entry.Version, entry.UID, entry.Sum, entry.Leaving = item.Version, answer.GetUID(), item.Sum, false
	}
	if len(failures) == 0 {
		next.Applied.Asked = service.RequestID()
	}
	if err := s.controller.Inventory.Save(ctx, next); err != nil {
		return record, retriedProblem(err).withState("what is applied stays")
	}
	s.keepSets(next)
	if len(failures) > 0 {
		return next, refusedProblem(failures).withState(fmt.Sprintf("%d of %d named objects are applied", len(items)-len(failures), len(items)))
	}
	s.log.Info("applied named objects", "revision", service.Commit, "objects", len(items))
	return next, nil
}
