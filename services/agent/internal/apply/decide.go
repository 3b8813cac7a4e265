package apply

import (
	"fmt"

	"fairlead.dev/services/agent/internal/inventory"
	"fairlead.dev/services/agent/internal/memory"
	"fairlead.dev/services/agent/internal/object"
	"fairlead.dev/services/agent/internal/set"
)

// Reason is why an object is sent; "": it is not.
type Reason string

// The reasons.
const (
	Fresh   Reason = "fresh"
	Changed Reason = "changed"
	Drifted Reason = "drifted"
	Gone    Reason = "gone"
)

// An item that is not sent is counted, too.
const (
	unchanged = "unchanged"
	kept      = "held"
)

// Decide says whether an object is to be sent: because its manifest is another, somebody changed what is ours, or
// it is gone. Never because of its health, and never to be sure.
func Decide(item set.Item, known memory.Known, ok bool) Reason {
	switch {
	case item.Flags&object.Hold != 0 || ok && known.State == memory.Held:
		return ""
	case !ok:
		return Fresh
	case known.State == memory.Gone:
		return Gone
	case known.Manifest != item.Sum:
		return Changed
	case known.State == memory.Drifted:
		return Drifted
	}
	return ""
}

// knowledge is what is known of a service's objects: by the memory, or else by the inventory.
type knowledge struct {
	memory  *memory.Memory
	service string
	entries map[object.Key]inventory.Entry
	// scalers are the namespaces in which autoscalers are about to be sent.
	scalers map[string]bool
}

func (a *Applier) knowledgeOf(service string, record inventory.Record, items []set.Item) knowledge {
	k := knowledge{memory: a.memory, service: service, entries: make(map[object.Key]inventory.Entry, len(record.Entries)), scalers: map[string]bool{}}
	for _, entry := range record.Entries {
		k.entries[entry.Key] = entry
	}
	for _, item := range items {
		if known, ok := k.knownOf(item.Key); item.Hook == 0 && object.IsScaler(item.GVK().GroupKind()) && Decide(item, known, ok) != "" {
			k.scalers[item.Namespace] = true
		}
	}
	return k
}

// decideItem is Decide with what is known of the item. The target of a new autoscaler is sent, too, though its manifest
// is the same: with that the number of replicas is given up.
func (k knowledge) decideItem(item set.Item) (reason Reason, known memory.Known, ok bool) {
	known, ok = k.knownOf(item.Key)
	reason = Decide(item, known, ok)
	if isHeld := item.Flags&object.Hold != 0 || known.State == memory.Held; reason == "" && !isHeld &&
		item.Flags&object.Scaled != 0 && k.scalers[item.Namespace] {
		reason = Changed
	}
	return reason, known, ok
}

func (k knowledge) knownOf(key object.Key) (memory.Known, bool) {
	entry, listed := k.entries[key]
	if known, ok := k.memory.Get(key); ok && known.Service == k.service {
		return known, listed
	}
	return memory.Known{Service: k.service, Manifest: entry.Sum, Owned: entry.Owned, UID: entry.UID}, listed && entry.Sum != 0
}

// wouldBeHeld says whether an object would be sent if an annotation of it in the cluster did not keep it as it is.
func wouldBeHeld(item set.Item, known memory.Known, ok bool) bool {
	return ok && known.State == memory.Held && known.Manifest != item.Sum && item.Flags&object.Hold == 0
}

// Needed lists the items that are to be sent, and those that people hold in the cluster. Hooks are not among them.
func (a *Applier) Needed(service string, items []set.Item, record inventory.Record) (needed []set.Item, holds map[object.Key]bool) {
	known := a.knowledgeOf(service, record, items)
	holds = map[object.Key]bool{}
	decisions := map[string]int{}
	for _, item := range items {
		if item.Hook != 0 {
			continue
		}
		reason, one, ok := known.decideItem(item)
		switch {
		case reason != "":
			needed = append(needed, item)
			decisions[string(reason)]++
		case item.Flags&object.Hold != 0 || ok && one.State == memory.Held:
			if wouldBeHeld(item, one, ok) {
				holds[item.Key] = true
			}
			decisions[kept]++
		default:
			decisions[unchanged]++
		}
	}
	for reason, count := range decisions {
		a.decisions.WithLabelValues(reason).Add(float64(count))
	}
	return needed, holds
}

// Failure is why an object was not applied, in words.
type Failure struct {
	Item    set.Item
	Problem Problem
}

// String is the failure as one sentence, and what to do.
func (f Failure) String() string {
	if f.Item.Position.File == "" {
		return fmt.Sprintf("%s: %s. %s", f.Item.Key, f.Problem.Text, f.Problem.Advice)
	}
	return fmt.Sprintf("%s: %s. %s", f.Item, f.Problem.Text, f.Problem.Advice)
}
