package apply

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/services/agent/internal/adopt"
	"fairlead.dev/services/agent/internal/cluster"
	"fairlead.dev/services/agent/internal/health"
	"fairlead.dev/services/agent/internal/inventory"
	"fairlead.dev/services/agent/internal/object"
	"fairlead.dev/services/agent/internal/set"
)

// Strangers finds the items that are objects of somebody else, and those that are nobody's and become ours. Only
// items that the record does not list as made by this service are looked up.
//
// A CustomResourceDefinition that somebody else has is no failure: charts bring those of other charts along. Left says
// of each of them whose it is.
func (a *Applier) Strangers(ctx context.Context, r Request, items []set.Item) (adopted map[object.Key]bool, left map[object.Key]string, failures []Failure) {
	made := make(map[object.Key]bool, len(r.Record.Entries))
	for _, entry := range r.Record.Entries {
		made[entry.Key] = entry.UID != ""
	}
	var unknown []set.Item
	for _, item := range items {
		if !made[item.Key] && item.Flags&object.Hold == 0 && item.Hook != object.Never {
			unknown = append(unknown, item)
		}
	}
	found, asked := a.scanMetadata(ctx, unknown)
	var mu sync.Mutex // guards adopted and left
	adopted, left = map[object.Key]bool{}, map[object.Key]string{}
	leave := func(item set.Item, owner string) *Problem {
		mu.Lock()
		defer mu.Unlock()
		left[item.Key] = owner
		return nil
	}
	failures = a.forEach(ctx, unknown, func(ctx context.Context, item set.Item) *Problem {
		meta, err := found[item.Key], error(nil)
		if meta == nil && !asked[item.Key] {
			meta, err = a.api.Metadata(ctx, item.Ref)
		}
		if meta == nil && err == nil || NotThere(err) {
			return nil
		}
		if err != nil {
			return explainError(item, err)
		}
		switch owner := object.Owner(meta); {
		case owner == r.Service:
			if isHeld(meta) { // an agent that ended made it, and no watch has told of the hold yet
				a.memory.Saw(item.GVK(), meta, 0, health.Health{})
			}
			return nil
		case owner != "" && item.IsCRD():
			return leave(item, fmt.Sprintf("service %q", owner))
		case owner != "":
			return Taken(owner)
		}
		if isHeld(meta) {
			return &Problem{
				Text:   "it is in the cluster already, and held by its annotation " + object.HoldAnnotation,
				Advice: "Take the annotation off there, or give it another name.", Mistake: true,
			}
		}
		tool := adopt.Tool(meta)
		if inherited := tool == "" && slices.Contains(r.Record.Left, item.Key); inherited {
			mu.Lock()
			defer mu.Unlock()
			adopted[item.Key] = true
			return nil
		}
		if problem := mayAdopt(r.Sync.GetAdoption(), item, tool); problem != nil {
			if item.IsCRD() && tool != "" {
				return leave(item, tool)
			}
			return problem
		}
		mu.Lock()
		defer mu.Unlock()
		adopted[item.Key] = true
		return nil
	})
	return adopted, left, failures
}

// Made finds the objects of entries without a UID that are in the cluster and have the service's mark: an apply that
// did not come to its end has not noted which objects it made.
func (a *Applier) Made(ctx context.Context, service string, entries []inventory.Entry) (map[object.Key]types.UID, []Failure) {
	items := make([]set.Item, 0, len(entries))
	for _, entry := range entries {
		if entry.UID == "" {
			items = append(items, set.Item{Ref: entry.Ref})
		}
	}
	found, asked := a.scanMetadata(ctx, items)
	made := map[object.Key]types.UID{}
	var mu sync.Mutex // guards made
	failures := a.forEach(ctx, items, func(ctx context.Context, item set.Item) *Problem {
		meta, err := found[item.Key], error(nil)
		if meta == nil && !asked[item.Key] {
			meta, err = a.api.Metadata(ctx, item.Ref)
		}
		switch {
		case meta == nil && err == nil, NotThere(err):
			return nil
		case err != nil:
			return explainError(item, err)
		case object.Owner(meta) == service:
			mu.Lock()
			defer mu.Unlock()
			made[item.Key] = meta.UID
		}
		return nil
	})
	return made, failures
}

// scanMetadata reads the metadata of many items by lists, where there are enough of a kind in a namespace to be worth
// it. asked are those that need no question of their own any more, whether they were found or not.
func (a *Applier) scanMetadata(ctx context.Context, items []set.Item) (found map[object.Key]*metav1.PartialObjectMetadata, asked map[object.Key]bool) {
	const (
		worth = 10 // objects
		most  = 4  // pages, of a namespace that may hold many more than are looked for
	)
	type place struct {
		gvk       schema.GroupVersionKind
		namespace string
	}
	places := map[place][]object.Key{}
	for _, item := range items {
		at := place{item.GVK(), item.Namespace}
		places[at] = append(places[at], item.Key)
	}
	found, asked = map[object.Key]*metav1.PartialObjectMetadata{}, map[object.Key]bool{}
	for at, keys := range places {
		if len(keys) <= worth {
			continue
		}
		wanted := make(map[object.Key]bool, len(keys))
		for _, key := range keys {
			wanted[key] = true
		}
		give, err := a.width.Take(ctx)
		if err != nil {
			return found, asked
		}
		all, err := a.api.Scan(ctx, at.gvk, at.namespace, most, func(meta *metav1.PartialObjectMetadata) {
			key := object.Key{Group: at.gvk.Group, Kind: at.gvk.Kind, Namespace: meta.Namespace, Name: meta.Name}
			if wanted[key] {
				found[key] = meta.DeepCopy() // and not the page that it is of
			}
		})
		give()
		if err == nil && all {
			maps.Copy(asked, wanted)
		}
	}
	return found, asked
}

// mayAdopt: the object's annotation counts more than the service's spec.
func mayAdopt(policy deliveryv1.Adoption, item set.Item, tool string) *Problem {
	switch {
	case item.Flags&object.AdoptAlways != 0:
		return nil
	case item.Flags&object.AdoptNever != 0 || policy == deliveryv1.Adoption_ADOPTION_NEVER:
		return &Problem{
			Text:    "it is in the cluster already, and must not be taken over",
			Advice:  "Delete it there, give it another name, or set its annotation " + object.AdoptAnnotation + ": always.",
			Mistake: true,
		}
	case policy == deliveryv1.Adoption_ADOPTION_ALWAYS || tool == "":
		return nil
	}
	return &Problem{
		Text: "it belongs to " + tool,
		Advice: fmt.Sprintf("Remove it there first, or take it over: annotation %s: always, or adoption: ALWAYS in the service's sync. Then see to it that the other lets go of it.",
			object.AdoptAnnotation),
		Mistake: true,
	}
}

// adoptFields makes the fields that tools wrote ours, so that they go when they leave the manifests.
func (a *Applier) adoptFields(ctx context.Context, ref object.Ref) error {
	const attempts = 5
	for attempt := 1; ; attempt++ {
		meta, err := a.api.Metadata(ctx, ref)
		if NotThere(err) {
			return nil
		}
		if err != nil {
			return err
		}
		patch, err := adopt.Migration(meta)
		if err != nil || patch == nil {
			return err
		}
		err = a.api.Patch(ctx, ref, patch)
		// Another client wrote it in between: the test of the version fails.
		if again := apierrors.IsConflict(err) || apierrors.IsInvalid(err); !again || attempt == attempts {
			return err
		}
	}
}

// namesOfNamespaces are the namespaces among items.
func namesOfNamespaces(items []set.Item) map[string]bool {
	names := map[string]bool{}
	for _, item := range items {
		if item.GVK().GroupKind() == (schema.GroupKind{Kind: "Namespace"}) {
			names[item.Name] = true
		}
	}
	return names
}

// Rehearse sends the items that need it as a dry run, so that a mistake is found before anything is changed. An object
// that can't be rehearsed passes: one whose namespace or kind is missing and comes with it, one whose kind or namespace changes with
// it, one that is made anew, and one that a webhook without dry run intercepts.
func (a *Applier) Rehearse(ctx context.Context, r Request, items, needed []set.Item) []Failure {
	if len(needed) < 2 && len(items) == len(needed) {
		return nil // a single object is applied or not: there is nothing in between to protect
	}
	kinds, err := ownKinds(r.Set, items)
	if err != nil {
		return []Failure{{Item: items[0], Problem: Problem{Text: err.Error(), Advice: triedAgain}}}
	}
	changing, err := ownKinds(r.Set, needed)
	if err != nil {
		return []Failure{{Item: items[0], Problem: Problem{Text: err.Error(), Advice: triedAgain}}}
	}
	namespaces, relabelled := namesOfNamespaces(items), namesOfNamespaces(needed)
	// brought says whether a dry run failed only for what comes with the set.
	brought := func(item set.Item, err error) bool {
		if unknown, ok := errors.AsType[*cluster.UnknownKindError](err); ok {
			return kinds[item.GVK().GroupKind()] || !unknown.Wide && item.Flags&object.LateKind != 0
		}
		return apierrors.IsNotFound(err) && namespaces[item.Namespace]
	}
	return a.forEach(ctx, needed, func(ctx context.Context, item set.Item) *Problem {
		if changing[item.GVK().GroupKind()] || relabelled[item.Namespace] {
			return nil
		}
		_, err := a.applyObject(ctx, r, item, true)
		if Recreates(item, err) {
			takes, err := a.takesClaims(ctx, item)
			switch {
			case err != nil:
				return explainError(item, err)
			case takes:
				return claimsGo()
			}
			return nil
		}
		if err == nil || brought(item, err) || noDryRun(err) {
			return nil
		}
		return explainError(item, err)
	})
}

// Shrinks says whether so much would be removed that a person has to confirm it, and names that removal. before are the
// objects that are there, going those of them that are not among the new ones.
func Shrinks(spec *deliveryv1.PruneSpec, content string, before, going []inventory.Entry, wanted int) (id string, guarded bool) {
	const (
		usual = 50 // percent
		few   = 3  // objects, below which names may just have changed
	)
	switch percent := usual; {
	case len(going) == 0:
		return "", false
	case wanted == 0: // nothing but hooks: whatever the threshold is
	case spec != nil && spec.MaxPercent != nil:
		if len(going)*100 <= int(spec.GetMaxPercent())*len(before) {
			return "", false
		}
	case len(going)*100 <= percent*len(before), len(going) < few && (len(going) < len(before) || wanted >= len(before)):
		return "", false
	}
	var text strings.Builder
	text.WriteString(content)
	for _, entry := range going {
		text.WriteString("\n" + entry.Group + "/" + entry.String())
	}
	id = fmt.Sprintf("%016x", uint64(object.SumOf([]byte(text.String()))))
	return id, spec.GetConfirmed() != id
}
