package object

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"hash"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Sum stands for content: equal content has equal sums. 0 is none.
type Sum uint64

// SumOf is the sum of bytes.
func SumOf(data []byte) Sum {
	sum := sha256.Sum256(data)
	return top(sum[:])
}

func top(sum []byte) Sum { return max(1, Sum(binary.BigEndian.Uint64(sum))) }

// Content is the sum of what an object says: name, namespace, labels, annotations and all top-level fields
// but the status. The version that it was read at makes no difference.
func Content(obj *unstructured.Unstructured) Sum {
	w := newWalk()
	for _, key := range slices.Sorted(maps.Keys(obj.Object)) {
		switch key {
		case "apiVersion", "kind", "status":
		case "metadata":
			meta, _ := obj.Object[key].(map[string]any)
			for _, key := range []string{"name", "namespace", "labels", "annotations"} {
				w.text(key)
				w.value(meta[key])
			}
		default:
			w.text(key)
			w.value(obj.Object[key])
		}
	}
	return w.sum()
}

// Owned is the sum of the fields that Fairlead has by its applies, and of when that last changed; 0 if it
// has none. A write of anybody else to one of these fields changes it, and so does an apply of somebody else
// under Fairlead's name.
func Owned(meta metav1.Object) Sum {
	var w *walk
	for _, entry := range meta.GetManagedFields() {
		if !ours(entry) {
			continue
		}
		if w == nil {
			w = newWalk()
		}
		if entry.Time != nil {
			w.text(entry.Time.UTC().Format(time.RFC3339))
		}
		// Decoded, because the order of the server's text depends on the way that it came.
		w.value(fieldsOf(entry))
	}
	if w == nil {
		return 0
	}
	return w.sum()
}

func ours(entry metav1.ManagedFieldsEntry) bool {
	return entry.Manager == FieldManager && entry.Operation == metav1.ManagedFieldsOperationApply && entry.Subresource == ""
}

// fieldsOf is what an entry has, as a tree; nil if it can't be read.
func fieldsOf(entry metav1.ManagedFieldsEntry) map[string]any {
	if entry.FieldsV1 == nil {
		return nil
	}
	var fields map[string]any
	if json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) != nil {
		return nil
	}
	return fields
}

// walk hashes values in one way only, whatever order their keys came in.
type walk struct {
	hash hash.Hash
	buf  []byte
}

const walkBuffer = 1 << 10

func newWalk() *walk { return &walk{hash: sha256.New(), buf: make([]byte, 0, walkBuffer)} }

func (w *walk) sum() Sum {
	w.flush()
	return top(w.hash.Sum(nil))
}

func (w *walk) flush() {
	_, _ = w.hash.Write(w.buf) // never fails
	w.buf = w.buf[:0]
}

// room flushes if the buffer is full: what is appended then stays short.
func (w *walk) room() {
	if len(w.buf) > walkBuffer-64 {
		w.flush()
	}
}

// text writes a string with its length, so that no two lists of strings look the same.
func (w *walk) text(s string) {
	w.room()
	w.buf = binary.AppendUvarint(append(w.buf, 's'), uint64(len(s)))
	for len(s) > 0 {
		part := s[:min(len(s), walkBuffer)]
		w.buf = append(w.buf, part...)
		s = s[len(part):]
		w.room()
	}
}

func (w *walk) value(value any) {
	w.room()
	switch v := value.(type) {
	case nil:
		w.buf = append(w.buf, 'n')
	case map[string]any:
		w.buf = binary.AppendUvarint(append(w.buf, 'm'), uint64(len(v)))
		for _, key := range slices.Sorted(maps.Keys(v)) {
			w.text(key)
			w.value(v[key])
		}
	case []any:
		w.buf = binary.AppendUvarint(append(w.buf, 'l'), uint64(len(v)))
		for _, one := range v {
			w.value(one)
		}
	case string:
		w.text(v)
	case bool:
		w.buf = strconv.AppendBool(append(w.buf, 'b'), v)
	case int64:
		w.buf = strconv.AppendInt(append(w.buf, 'i'), v, 10)
		w.buf = append(w.buf, ';')
	case float64:
		if whole := int64(v); float64(whole) == v && math.Abs(v) < 1<<53 {
			w.value(whole) // 1.0 and 1 are the same number
			return
		}
		w.buf = strconv.AppendFloat(append(w.buf, 'f'), v, 'g', -1, 64)
		w.buf = append(w.buf, ';')
	default: // a decoder gives none of these
		text, _ := json.Marshal(v)
		w.text(string(text))
	}
}

// maxRivals bounds the fields that are named.
const maxRivals = 20

// Rivals says who has taken fields of the manifest from Fairlead, and which, as JSON pointers. Of several
// managers it is the one with most. If the fields are simply gone it is who wrote the object last.
func Rivals(meta metav1.Object, manifest map[string]any) (manager string, pointers []string) {
	var mine map[string]any
	var others []metav1.ManagedFieldsEntry
	for _, entry := range meta.GetManagedFields() {
		if ours(entry) {
			mine = fieldsOf(entry)
		} else if entry.Subresource == "" {
			others = append(others, entry)
		}
	}
	var all []lost
	missing(mine, manifest, nil, "", &all)
	if len(all) == 0 {
		return "", nil
	}
	for _, entry := range others {
		var taken []string
		fields := fieldsOf(entry)
		for _, field := range all {
			if has(fields, field.path) {
				taken = append(taken, field.pointer)
			}
		}
		if len(taken) > len(pointers) {
			manager, pointers = entry.Manager, taken
		}
	}
	if len(pointers) == 0 {
		var latest *metav1.Time
		for _, entry := range others {
			if entry.Time != nil && !entry.Time.Before(latest) {
				manager, latest = entry.Manager, entry.Time
			}
		}
		for _, field := range all {
			pointers = append(pointers, field.pointer)
		}
	}
	return manager, pointers[:min(len(pointers), maxRivals)]
}

// lost is a field of the manifest that Fairlead does not have.
type lost struct {
	pointer string
	path    []string // keys of the tree of fields
}

// missing walks the manifest beside the tree of fields that Fairlead has.
func missing(fields, manifest map[string]any, path []string, pointer string, all *[]lost) {
	for _, key := range slices.Sorted(maps.Keys(manifest)) {
		here := pointer + "/" + pointerEscape.Replace(key)
		if silent(here) || manifest[key] == nil {
			continue
		}
		step := append(slices.Clone(path), "f:"+key)
		sub, ok := fields["f:"+key].(map[string]any)
		if !ok {
			*all = append(*all, leaves(manifest[key], step, here)...)
			continue
		}
		missingIn(sub, manifest[key], step, here, all)
	}
}

func missingIn(fields map[string]any, value any, path []string, pointer string, all *[]lost) {
	if len(fields) == 0 {
		return // Fairlead has all of it
	}
	switch v := value.(type) {
	case map[string]any:
		missing(fields, v, path, pointer, all)
	case []any:
		named := steps(fields, v)
		for i, element := range v {
			here := pointer + "/" + strconv.Itoa(i)
			key := named[i]
			if key == "" {
				continue // a list that is known by its index, or an element under a key that is not known any more
			}
			sub, _ := fields[key].(map[string]any)
			missingIn(sub, element, append(slices.Clone(path), key), here, all)
		}
	}
}

// leaves lists a value's own fields: others may have some of it only.
func leaves(value any, path []string, pointer string) []lost {
	found := []lost{{pointer: pointer, path: path}}
	object, ok := value.(map[string]any)
	if !ok || len(object) == 0 {
		return found
	}
	found = found[:0]
	for _, key := range slices.Sorted(maps.Keys(object)) {
		found = append(found, leaves(object[key], append(slices.Clone(path), "f:"+key), pointer+"/"+pointerEscape.Replace(key))...)
	}
	return found
}

func same(a, b any) bool {
	switch v := a.(type) { // most values: they need no sum
	case nil, string, bool, int64:
		if _, number := b.(float64); !number {
			return v == b
		}
	}
	x, y := newWalk(), newWalk()
	x.value(a)
	y.value(b)
	return x.sum() == y.sum()
}

// has says whether a tree of fields has a path, or all of something above it.
func has(fields map[string]any, path []string) bool {
	for i, step := range path {
		sub, ok := fields[step].(map[string]any)
		if !ok {
			return i > 0 && len(fields) == 0
		}
		fields = sub
	}
	return true
}

// silent are the fields that no manager ever has.
func silent(pointer string) bool {
	switch pointer {
	case "/apiVersion", "/kind", "/status", "/metadata/name", "/metadata/namespace", "/metadata/creationTimestamp":
		return true
	}
	return false
}

var pointerEscape = strings.NewReplacer("~", "~0", "/", "~1") //nolint:gochecknoglobals // It has no state.
