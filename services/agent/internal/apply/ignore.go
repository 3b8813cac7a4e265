package apply

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/services/agent/internal/adopt"
	"fairlead.dev/services/agent/internal/object"
	"fairlead.dev/services/agent/internal/set"
)

// Ignored lists the JSON pointers of an object that are left to others, by the service's rules and by its annotation.
func Ignored(spec *deliveryv1.SyncSpec, item set.Item, obj *unstructured.Unstructured) []string {
	var pointers []string
	fits := func(rule, value string) bool { return rule == "" || rule == value }
	for _, rule := range spec.GetIgnore() {
		if fits(rule.GetGroup(), item.Group) && fits(rule.GetKind(), item.Kind) &&
			fits(rule.GetNamespace(), item.Namespace) && fits(rule.GetName(), item.Name) {
			pointers = append(pointers, rule.GetPointers()...)
		}
	}
	if item.Flags&object.Ignore != 0 {
		wishes, err := object.WishesOf(obj.GetAnnotations())
		if err == nil { // the wishes were read before, when the set was made
			pointers = append(pointers, wishes.Ignore...)
		}
	}
	if item.Flags&object.Scaled != 0 {
		pointers = append(pointers, replicas)
	}
	return pointers
}

// replicas is the field that an autoscaler sets.
const replicas = "/spec/replicas"

// spareFields takes fields that are left to others out of what is sent for an object that is there. A field that
// somebody else has is left out; one that only we have is sent as it is, since to leave it out would remove it. Only
// for such a one the content of the object is read. Of a map, and of a list whose elements are told apart, somebody
// else may have a part: then that part is left out.
func (a *Applier) spareFields(ctx context.Context, item set.Item, wanted *unstructured.Unstructured, pointers []string) error {
	meta, err := a.api.Metadata(ctx, item.Ref)
	if NotThere(err) {
		return nil
	}
	if err != nil {
		return err
	}
	var live *unstructured.Unstructured
	var trees object.Trees // of live
	for _, pointer := range pointers {
		var ways []way
		expandWays(wanted.Object, othersFields(meta), strings.Split(strings.TrimPrefix(pointer, "/"), "/"), nil, &ways)
		slices.Reverse(ways) // so that elements that go don't move the ones that are still to be looked at
		for _, found := range ways {
			way := found.tokens
			if found.others || pointer == replicas && item.Flags&object.Scaled != 0 && !ownsScale(meta) {
				removePart(wanted.Object, found)
				continue
			}
			if live == nil {
				if live, err = a.api.Whole(ctx, item.Ref); NotThere(err) {
					return nil // the object went meanwhile: it is made as it stands in the manifests
				} else if err != nil {
					return err
				}
				trees = object.TreesOf(live.GetManagedFields(), func(metav1.ManagedFieldsEntry) bool { return true })
			}
			if value, ok := findCounterpart(wanted.Object, live.Object, trees, way); ok {
				putField(wanted.Object, way, value)
			} else {
				removePart(wanted.Object, found)
			}
		}
	}
	if item.Flags&object.Scaled == 0 {
		return nil
	}
	return a.keepScale(ctx, item, wanted, meta)
}

// keepScale sends the number of replicas that is there, where it left the manifest and only we have it: without it the
// API server would go back to its default of 1 until the autoscaler has looked.
func (a *Applier) keepScale(ctx context.Context, item set.Item, wanted *unstructured.Unstructured, meta *metav1.PartialObjectMetadata) error {
	way := []string{"spec", "replicas"}
	if _, there, _ := unstructured.NestedFieldNoCopy(wanted.Object, way...); there || len(othersFields(meta).Field("spec").Field("replicas")) > 0 {
		return nil
	}
	live, err := a.api.Whole(ctx, item.Ref)
	if NotThere(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if number, there, _ := unstructured.NestedFieldNoCopy(live.Object, way...); there && ownsScale(live) {
		return unstructured.SetNestedField(wanted.Object, number, way...)
	}
	return nil
}

// ownsScale tells whether the number of replicas is ours.
func ownsScale(meta metav1.Object) bool {
	return len(object.TreesOf(meta.GetManagedFields(), isOurs).Field("spec").Field("replicas")) > 0
}

// releaseScale gives up the number of replicas that was just sent, so that it is no drift when the autoscaler takes it
// over, or has already. The answer is brought up to that. Where it does not work the drift is put right, which gives
// the field up, too.
func (a *Applier) releaseScale(ctx context.Context, item set.Item, answer *unstructured.Unstructured) {
	const attempts = 10 // controllers write the status of an object that was just made
	var meta metav1.Object = answer
	_, given, err := adopt.Release(answer, "spec", "replicas")
	if err != nil {
		return
	}
	for attempt := 0; ownsScale(meta); attempt++ {
		patch, _, err := adopt.Release(meta, "spec", "replicas")
		if err != nil || patch == nil || attempt == attempts {
			return
		}
		if err = a.api.Patch(ctx, item.Ref, patch); err != nil && !apierrors.IsConflict(err) && !apierrors.IsInvalid(err) {
			return
		}
		latest, err := a.api.Metadata(ctx, item.Ref)
		if err != nil || latest.UID != answer.GetUID() {
			return // the watch tells
		}
		meta = latest
	}
	answer.SetManagedFields(given)
	if meta.GetGeneration() == answer.GetGeneration() { // else the watch tells what else has changed
		answer.SetResourceVersion(meta.GetResourceVersion())
	}
}

// way leads to a field.
type way struct {
	tokens []string
	// meant is how many of the tokens lead to what the pointer means; the others lead on to a part of it.
	meant int
	// others: a manager other than us has the field.
	others bool
}

// expandWays finds the ways that a pointer means; * is every key or element. trees are the fields of others at the
// value.
func expandWays(value any, trees object.Trees, tokens, before []string, ways *[]way) {
	if len(tokens) == 0 {
		splitWays(value, trees, before, len(before), ways)
		return
	}
	token := strings.ReplaceAll(strings.ReplaceAll(tokens[0], "~1", "/"), "~0", "~")
	switch v := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if token == "*" || token == key {
				expandWays(v[key], trees.Field(key), tokens[1:], append(before, key), ways)
			}
		}
	case []any:
		below := trees.Elements(v)
		for i := range v {
			switch index := strconv.Itoa(i); {
			case token != "*" && token != index:
			case len(tokens) == 1:
				*ways = append(*ways, wholeWay(below[i], append(before, index), len(before)+1))
			default:
				expandWays(v[i], below[i], tokens[1:], append(before, index), ways)
			}
		}
	}
}

// splitWays finds the ways to the parts of a value of which others have some and not all; else the way to the value.
// Elements of lists are not split: they are told apart by fields of theirs.
func splitWays(value any, trees object.Trees, before []string, meant int, ways *[]way) {
	isWhole := func(tree map[string]any) bool { return len(tree) == 0 }
	fields, _ := value.(map[string]any)
	elements, _ := value.([]any)
	if len(trees) == 0 || slices.ContainsFunc(trees, isWhole) || len(fields)+len(elements) == 0 {
		*ways = append(*ways, wholeWay(trees, before, meant))
		return
	}
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		splitWays(fields[key], trees.Field(key), append(before, key), meant, ways)
	}
	for i, below := range trees.Elements(elements) {
		*ways = append(*ways, wholeWay(below, append(before, strconv.Itoa(i)), meant))
	}
}

func wholeWay(trees object.Trees, tokens []string, meant int) way {
	return way{tokens: slices.Clone(tokens), meant: meant, others: len(trees) > 0}
}

// othersFields returns the fields that managers other than us have.
func othersFields(meta metav1.Object) object.Trees {
	return object.TreesOf(meta.GetManagedFields(), func(entry metav1.ManagedFieldsEntry) bool { return !isOurs(entry) })
}

func isOurs(entry metav1.ManagedFieldsEntry) bool {
	return entry.Manager == object.FieldManager && entry.Operation == metav1.ManagedFieldsOperationApply
}

// findCounterpart reads a field in the live object.
func findCounterpart(wanted, live any, trees object.Trees, way []string) (any, bool) {
	for _, token := range way {
		switch w := wanted.(type) {
		case map[string]any:
			l, ok := live.(map[string]any)
			if !ok {
				return nil, false
			}
			if live, ok = l[token]; !ok {
				return nil, false
			}
			trees, wanted = trees.Field(token), w[token]
		case []any:
			l, ok := live.([]any)
			i, _ := strconv.Atoi(token)
			if !ok {
				return nil, false
			}
			partners, _ := trees.Partners(w, l)
			if partners[i] < 0 {
				return nil, false
			}
			trees, wanted, live = trees.Element(l, partners[i]), w[i], l[partners[i]]
		}
	}
	return live, true
}

// removePart takes out a field that a pointer means, or a part of one. A map or list that nothing is left of goes, too:
// the sender of an empty one owns it, and loses it to the first manager that adds to it.
func removePart(value any, part way) {
	removeField(value, part.tokens)
	for at := len(part.tokens) - 1; at >= part.meant && isEmptyAt(value, part.tokens[:at]); at-- {
		removeField(value, part.tokens[:at])
	}
}

func isEmptyAt(value any, way []string) bool {
	for _, token := range way {
		switch v := value.(type) {
		case map[string]any:
			value = v[token]
		case []any:
			i, _ := strconv.Atoi(token)
			value = v[i]
		}
	}
	fields, isMap := value.(map[string]any)
	elements, isList := value.([]any)
	return isMap && len(fields) == 0 || isList && len(elements) == 0
}

// removeField takes a field out. An element of a list that is named by the way itself goes, too.
func removeField(value any, way []string) {
	editField(value, way, func(parent any, last string) any {
		switch v := parent.(type) {
		case map[string]any:
			delete(v, last)
		case []any:
			i, _ := strconv.Atoi(last)
			return slices.Delete(v, i, i+1)
		}
		return parent
	})
}

func putField(value any, way []string, field any) {
	editField(value, way, func(parent any, last string) any {
		switch v := parent.(type) {
		case map[string]any:
			v[last] = field
		case []any:
			i, _ := strconv.Atoi(last)
			v[i] = field
		}
		return parent
	})
}

// editField changes what holds the field at the end of the way, and puts what becomes of it in its place.
func editField(value any, way []string, do func(parent any, last string) any) any {
	if len(way) == 1 {
		return do(value, way[0])
	}
	switch v := value.(type) {
	case map[string]any:
		v[way[0]] = editField(v[way[0]], way[1:], do)
	case []any:
		i, _ := strconv.Atoi(way[0])
		v[i] = editField(v[i], way[1:], do)
	}
	return value
}
