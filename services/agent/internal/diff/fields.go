package diff

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/services/agent/internal/object"
)

// Fields lists the fields in which two states of an object differ, but for those that are ignored, those that the API
// server keeps, and the status. A part that mask (nil: nothing is to be) changes in a value that is wanted is not told
// of the one that is there either: it may be an older secret. maskLive is for values that are there.
func Fields(live, wanted *unstructured.Unstructured, ignored []string, mask, maskLive func(string) string) []*deliveryv1.FieldDiff {
	w := walker{ignored: ignored, managers: managersOf(live), mask: mask, maskLive: maskLive}
	w.value("", nil, says(live), says(wanted))
	return w.out
}

// says is what people wrote into an object.
func says(obj *unstructured.Unstructured) map[string]any {
	out := maps.Clone(obj.Object)
	delete(out, "status")
	delete(out, "apiVersion") // as it was asked for
	delete(out, "kind")
	if meta, ok := out["metadata"].(map[string]any); ok {
		meta = maps.Clone(meta)
		for _, key := range []string{"managedFields", "resourceVersion", "generation", "uid", "creationTimestamp", "selfLink"} {
			delete(meta, key)
		}
		if annotations, ok := meta["annotations"].(map[string]any); ok {
			annotations = maps.Clone(annotations)
			delete(annotations, object.LastApplied)
			if meta["annotations"] = annotations; len(annotations) == 0 {
				delete(meta, "annotations")
			}
		}
		out["metadata"] = meta
	}
	return out
}

type walker struct {
	ignored  []string
	managers []manager
	mask     func(string) string
	maskLive func(string) string
	out      []*deliveryv1.FieldDiff
}

// manager is who has which fields.
type manager struct {
	name   string
	fields map[string]any
}

func managersOf(obj *unstructured.Unstructured) []manager {
	var out []manager
	for _, entry := range obj.GetManagedFields() {
		var fields map[string]any
		if entry.FieldsV1 == nil || entry.Subresource != "" || json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) != nil {
			continue
		}
		name := entry.Manager
		if name == object.FieldManager && entry.Operation != "Apply" {
			name += " (not by an apply)"
		}
		out = append(out, manager{name, fields})
	}
	return out
}

// value compares what stands at a pointer.
func (w *walker) value(pointer string, managers []map[string]any, live, wanted any) {
	if pointer == "" {
		for _, m := range w.managers {
			managers = append(managers, m.fields)
		}
	}
	if len(w.out) > maxFields || reflect.DeepEqual(live, wanted) || w.isIgnored(pointer) {
		return
	}
	switch l := live.(type) {
	case map[string]any:
		if wanted, ok := wanted.(map[string]any); ok {
			w.maps(pointer, managers, l, wanted)
			return
		}
	case []any:
		if wanted, ok := wanted.([]any); ok {
			w.lists(pointer, managers, l, wanted)
			return
		}
	}
	w.out = append(w.out, w.differ(pointer, text(live), text(wanted), w.who(managers)))
}

func (w *walker) differ(pointer, live, wanted, manager string) *deliveryv1.FieldDiff {
	if w.mask != nil {
		shown := w.mask(wanted)
		if shown != wanted && live != "" {
			live = strconv.Quote(masked)
		}
		pointer, wanted = w.mask(pointer), shown
	}
	if w.maskLive != nil {
		live = w.maskLive(live)
	}
	return &deliveryv1.FieldDiff{Pointer: pointer, Live: bounded(live, maxValue), Wanted: bounded(wanted, maxValue), Manager: manager}
}

// masked stands for a value with a secret in it.
const masked = "***"

func (w *walker) maps(pointer string, managers []map[string]any, live, wanted map[string]any) {
	keys := slices.Collect(maps.Keys(live))
	for key := range wanted {
		if _, ok := live[key]; !ok {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	for _, key := range keys {
		w.value(Pointer(pointer, key), below(managers, "f:"+key), live[key], wanted[key])
	}
}

// Pointer is that of a key of what stands at another pointer.
func Pointer(parent, key string) string { return parent + "/" + escape.Replace(key) }

var escape = strings.NewReplacer("~", "~0", "/", "~1") //nolint:gochecknoglobals // never changed

func (w *walker) lists(pointer string, managers []map[string]any, live, wanted []any) {
	for i := range max(len(live), len(wanted)) {
		var l, v any
		if i < len(live) {
			l = live[i]
		}
		if i < len(wanted) {
			v = wanted[i]
		}
		w.value(pointer+"/"+strconv.Itoa(i), elements(managers, l), l, v)
	}
}

// below goes one step down in the trees of fields; who has nothing there is nil.
func below(managers []map[string]any, step string) []map[string]any {
	out := make([]map[string]any, len(managers))
	for i, fields := range managers {
		out[i], _ = fields[step].(map[string]any)
	}
	return out
}

// elements goes down to an element of a list: by its keys, by its value, or, where a list is one field, not at all.
func elements(managers []map[string]any, element any) []map[string]any {
	out := make([]map[string]any, len(managers))
	for i, fields := range managers {
		if fields != nil && len(fields) == 0 {
			out[i] = fields
			continue
		}
		for step, sub := range fields {
			if belongs(step, element) {
				out[i], _ = sub.(map[string]any)
			}
		}
	}
	return out
}

func belongs(step string, element any) bool {
	if text, ok := strings.CutPrefix(step, "k:"); ok {
		var keys map[string]any
		fields, isMap := element.(map[string]any)
		if json.Unmarshal([]byte(text), &keys) != nil || !isMap {
			return false
		}
		for key, value := range keys {
			if text1, text2 := jsonOf(value), jsonOf(fields[key]); text1 != text2 {
				return false
			}
		}
		return true
	}
	text, ok := strings.CutPrefix(step, "v:")
	return ok && text == jsonOf(element)
}

// who has a field; another manager counts before Fairlead, which wants to change it.
func (w *walker) who(managers []map[string]any) string {
	var ours string
	for i, fields := range managers {
		switch {
		case fields == nil:
		case w.managers[i].name == object.FieldManager:
			ours = object.FieldManager
		default:
			return w.managers[i].name
		}
	}
	return ours
}

// isIgnored says whether a pointer is at or below one that is left to others.
func (w *walker) isIgnored(pointer string) bool {
	return slices.ContainsFunc(w.ignored, func(rule string) bool {
		at, of := strings.Split(pointer, "/"), strings.Split(rule, "/")
		if len(at) < len(of) {
			return false
		}
		for i, step := range of {
			if step != "*" && step != at[i] {
				return false
			}
		}
		return true
	})
}

// text is a value as it is shown; nothing is empty.
func text(value any) string {
	if value == nil {
		return ""
	}
	return jsonOf(value)
}

func jsonOf(value any) string {
	out, err := json.Marshal(value)
	if err != nil {
		return ""
	}
	return string(out)
}

// bounded cuts between characters.
func bounded(s string, limit int) string {
	const end = "..."
	if len(s) <= limit {
		return s
	}
	s = s[:limit-len(end)]
	for len(s) > 0 {
		if r, n := utf8.DecodeLastRuneInString(s); r != utf8.RuneError || n != 1 {
			break
		}
		s = s[:len(s)-1]
	}
	return s + end
}
