package apply

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/services/agent/internal/object"
	"fairlead.dev/services/agent/internal/set"
)

// Ignored lists the JSON pointers of an object that are left to others, by the service's rules and by its annotation.
func Ignored(spec *deliveryv1.SyncSpec, item set.Item, obj *unstructured.Unstructured) []string {
	var pointers []string
	fits := func(rule, value string) bool { return rule == "" || rule == value }
	for _, rule := range spec.GetIgnore() {
		if fits(rule.GetGroup(), item.Group) && fits(rule.GetKind(), item.Kind) && fits(rule.GetNamespace(), item.Namespace) && fits(rule.GetName(), item.Name) {
			pointers = append(pointers, rule.GetPointers()...)
		}
	}
	if item.Flags&object.Ignore != 0 {
		wishes, err := object.WishesOf(obj.GetAnnotations())
		if err == nil { // it was read before, when the set was made
			pointers = append(pointers, wishes.Ignore...)
		}
	}
	return pointers
}

// spare takes fields that are left to others out of what is sent for an object that is there. One that somebody
// else has is left out; one that only we have is sent as it is, since to leave it out would remove it. Only for such a
// one the content of the object is read.
func (a *Applier) spare(ctx context.Context, item set.Item, wanted *unstructured.Unstructured, pointers []string) error {
	meta, err := a.api.Metadata(ctx, item.Ref)
	if notThere(err) {
		return nil
	}
	if err != nil {
		return err
	}
	var live *unstructured.Unstructured
	for _, pointer := range pointers {
		var ways [][]string
		expand(wanted.Object, strings.Split(strings.TrimPrefix(pointer, "/"), "/"), nil, &ways)
		slices.Reverse(ways) // so that elements that go don't move the ones that are still to be looked at
		for _, way := range ways {
			if ofOthers(meta.GetManagedFields(), wanted.Object, way) {
				remove(wanted.Object, way)
				continue
			}
			if live == nil {
				if live, err = a.api.Whole(ctx, item.Ref); notThere(err) {
					return nil // it went meanwhile: it is made as it stands in the manifests
				} else if err != nil {
					return err
				}
			}
			if value, ok := counterpart(wanted.Object, live.Object, way); ok {
				put(wanted.Object, way, value)
			} else {
				remove(wanted.Object, way)
			}
		}
	}
	return nil
}

// expand finds the ways that a pointer means; * is every key or element.
func expand(value any, tokens, way []string, ways *[][]string) {
	if len(tokens) == 0 {
		*ways = append(*ways, slices.Clone(way))
		return
	}
	token := strings.ReplaceAll(strings.ReplaceAll(tokens[0], "~1", "/"), "~0", "~")
	switch v := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if token == "*" || token == key {
				expand(v[key], tokens[1:], append(way, key), ways)
			}
		}
	case []any:
		for i := range v {
			if index := strconv.Itoa(i); token == "*" || token == index {
				expand(v[i], tokens[1:], append(way, index), ways)
			}
		}
	}
}

// ofOthers tells whether a manager other than us has the field.
func ofOthers(entries []metav1.ManagedFieldsEntry, wanted any, way []string) bool {
	for _, entry := range entries {
		if entry.Manager == object.FieldManager && entry.Operation == metav1.ManagedFieldsOperationApply || entry.FieldsV1 == nil {
			continue
		}
		var fields map[string]any
		if json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) == nil && owns(fields, wanted, way) {
			return true
		}
	}
	return false
}

// owns follows a way through the fields of a manager.
func owns(fields map[string]any, value any, way []string) bool {
	for _, token := range way {
		var next any
		switch v := value.(type) {
		case map[string]any:
			next, _ = fields["f:"+token].(map[string]any)
			value = v[token]
		case []any:
			i, _ := strconv.Atoi(token)
			next = element(fields, v[i], i)
			value = v[i]
		}
		found, ok := next.(map[string]any)
		if !ok || found == nil {
			return false
		}
		fields = found
	}
	return true
}

// element finds the fields of a list's element: by its keys, its value or its place.
func element(fields map[string]any, value any, i int) any {
	for name, below := range fields {
		kind, text, _ := strings.Cut(name, ":")
		switch kind {
		case "k":
			var keys map[string]any
			object, ok := value.(map[string]any)
			if ok && json.Unmarshal([]byte(text), &keys) == nil && fitsKeys(object, keys) {
				return below
			}
		case "v":
			own, err := json.Marshal(value)
			if err == nil && string(own) == text {
				return below
			}
		case "i":
			if text == strconv.Itoa(i) {
				return below
			}
		}
	}
	return nil
}

// fitsKeys compares by text: a number is an int64 in one and a float64 in the other.
func fitsKeys(object, keys map[string]any) bool {
	for key, value := range keys {
		own, ok := object[key]
		if !ok && key == "protocol" && value == "TCP" { // the default that manifests leave out
			continue
		}
		a, _ := json.Marshal(own)
		b, _ := json.Marshal(value)
		if !ok || string(a) != string(b) {
			return false
		}
	}
	return true
}

// counterpart reads a field in the live object. Elements of lists are found by name, or by their place.
func counterpart(wanted, live any, way []string) (any, bool) {
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
			wanted = w[token]
		case []any:
			l, ok := live.([]any)
			i, _ := strconv.Atoi(token)
			if !ok {
				return nil, false
			}
			if live, ok = twin(w[i], l, i); !ok {
				return nil, false
			}
			wanted = w[i]
		}
	}
	return live, true
}

func twin(element any, live []any, i int) (any, bool) {
	if named, ok := element.(map[string]any); ok && named["name"] != nil {
		for _, one := range live {
			if other, ok := one.(map[string]any); ok && other["name"] == named["name"] {
				return one, true
			}
		}
		return nil, false
	}
	if i < len(live) {
		return live[i], true
	}
	return nil, false
}

// remove takes a field out. An element of a list that is named by the way itself goes, too.
func remove(value any, way []string) {
	edit(value, way, func(parent any, last string) any {
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

func put(value any, way []string, field any) {
	edit(value, way, func(parent any, last string) any {
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

// edit changes what holds the field at the end of the way, and puts what becomes of it in its place.
func edit(value any, way []string, do func(parent any, last string) any) any {
	if len(way) == 1 {
		return do(value, way[0])
	}
	switch v := value.(type) {
	case map[string]any:
		v[way[0]] = edit(v[way[0]], way[1:], do)
	case []any:
		i, _ := strconv.Atoi(way[0])
		v[i] = edit(v[i], way[1:], do)
	}
	return value
}
