package object

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Trees are the fields that managers have at one place of an object.
//
// Trees say how the API server tells the elements of a list apart: it names an element in managed fields by the merge
// keys of the list's schema ("k:"), with the defaults of keys that a manifest leaves out, or by its value ("v:"). A
// list without either is one value as a whole. So the schema in force, built-in or of a CustomResourceDefinition, comes
// with each object that the API server answers with, and is asked for and kept nowhere.
type Trees []map[string]any

// TreesOf reads the managed fields for which of is true.
func TreesOf(entries []metav1.ManagedFieldsEntry, of func(metav1.ManagedFieldsEntry) bool) Trees {
	var trees Trees
	for _, entry := range entries {
		if !of(entry) {
			continue
		}
		if fields := fieldsOf(entry); fields != nil {
			trees = append(trees, fields)
		}
	}
	return trees
}

// Field goes down to a field.
func (t Trees) Field(name string) Trees {
	return t.down(func(map[string]any) string { return "f:" + name })
}

// Element goes down to an element of a list.
func (t Trees) Element(list []any, i int) Trees {
	return t.down(func(tree map[string]any) string { return steps(tree, list)[i] })
}

// Elements goes down to each element of a list.
func (t Trees) Elements(list []any) []Trees {
	next := make([]Trees, len(list))
	for _, tree := range t {
		for i, step := range steps(tree, list) {
			if below, ok := tree[step].(map[string]any); ok {
				next[i] = append(next[i], below)
			}
		}
	}
	return next
}

func (t Trees) down(step func(map[string]any) string) Trees {
	var next Trees
	for _, tree := range t {
		if below, ok := tree[step(tree)].(map[string]any); ok {
			next = append(next, below)
		}
	}
	return next
}

// Partners finds, for each element of a list, the index of the element of another state of the list that stands for
// the same thing; -1: there is none. keyed is false for a list that is one value: there, elements are the same if
// nothing differs, or else if they stand at the same place.
func (t Trees) Partners(mine, theirs []any) (partners []int, keyed bool) {
	var keys []map[string]any
	byValue := false
	for _, tree := range t {
		for step := range tree {
			if key := keyOf(step); key != nil {
				keys = append(keys, key)
			}
			byValue = byValue || strings.HasPrefix(step, "v:")
		}
	}
	switch {
	case len(keys) > 0:
		names := map[string]bool{}
		for _, key := range keys {
			for name := range key {
				names[name] = true
			}
		}
		others := make([]map[string]any, len(theirs))
		for i, element := range theirs {
			others[i] = map[string]any{}
			object, _ := element.(map[string]any)
			for name := range names {
				if value, ok := object[name]; ok {
					others[i][name] = value
				}
			}
		}
		return match(t.complete(mine), others), true
	case byValue:
		return pair(mine, theirs, same), true
	}
	partners = pair(mine, theirs, func(a, b any) bool {
		var pointers []string
		altered(a, b, nil, "", &pointers)
		return len(pointers) == 0
	})
	left := map[int]bool{}
	for i := range theirs {
		left[i] = !slices.Contains(partners, i)
	}
	for i, partner := range partners {
		if partner < 0 && left[i] {
			partners[i], left[i] = i, false
		}
	}
	for i, partner := range partners { // the place is that of an element that moved
		for at := 0; partner < 0 && len(mine) == len(theirs) && at < len(theirs); at++ {
			if left[at] {
				partners[i], partner, left[at] = at, at, false
			}
		}
	}
	return partners, false
}

// complete adds the merge keys that elements leave to their defaults, as far as a tree has them.
func (t Trees) complete(list []any) []any {
	list = slices.Clone(list)
	for _, tree := range t {
		for i, step := range steps(tree, list) {
			element, _ := list[i].(map[string]any)
			whole := maps.Clone(element)
			for name, value := range keyOf(step) {
				if _, ok := element[name]; !ok {
					whole[name] = value
				}
			}
			if len(whole) > len(element) {
				list[i] = whole
			}
		}
	}
	return list
}

// pair pairs elements for which equal is true, each once, at best those at the same place.
func pair(mine, theirs []any, equal func(a, b any) bool) []int {
	partners := make([]int, len(mine))
	taken := make([]bool, len(theirs))
	for i := range mine {
		partners[i] = -1
		if i < len(theirs) && equal(mine[i], theirs[i]) {
			partners[i], taken[i] = i, true
		}
	}
	for i := range mine {
		for at := 0; partners[i] < 0 && at < len(theirs); at++ {
			if !taken[at] && equal(mine[i], theirs[at]) {
				partners[i], taken[at] = at, true
			}
		}
	}
	return partners
}

// steps names each element of a list as a tree does; "": the tree does not have it.
func steps(tree map[string]any, list []any) []string {
	named := make([]string, len(list))
	var keys []map[string]any
	var texts []string
	for _, step := range slices.Sorted(maps.Keys(tree)) {
		if key := keyOf(step); key != nil {
			keys, texts = append(keys, key), append(texts, step)
		}
	}
	for i, at := range match(list, keys) {
		switch {
		case at >= 0:
			named[i] = texts[at]
		case len(keys) > 0:
		default:
			if text, err := json.Marshal(list[i]); err == nil && tree["v:"+string(text)] != nil {
				named[i] = "v:" + string(text)
			} else if tree["i:"+strconv.Itoa(i)] != nil {
				named[i] = "i:" + strconv.Itoa(i)
			}
		}
	}
	return named
}

// keyOf reads the merge keys of a step; nil: it has none.
func keyOf(step string) map[string]any {
	text, ok := strings.CutPrefix(step, "k:")
	if !ok {
		return nil
	}
	var key map[string]any
	if json.Unmarshal([]byte(text), &key) != nil {
		return nil
	}
	return key
}

// keyDefaults are the defaults of merge keys in the built-in API.
var keyDefaults = map[string]any{"protocol": "TCP"} //nolint:gochecknoglobals // It never changes.

// match finds the key of each element, by its index; -1: there is none. An element that leaves a key to a default that
// is not known here gets the only key that is left for it: two elements with the same keys are refused by the API
// server.
func match(list []any, keys []map[string]any) []int {
	names := map[string]bool{}
	for _, key := range keys {
		for name := range key {
			names[name] = true
		}
	}
	found := make([]int, len(list))
	taken := make([]bool, len(keys))
	value := func(object map[string]any, name string) (any, bool) {
		value, have := object[name]
		if !have {
			value, have = keyDefaults[name]
		}
		return value, have
	}
	fits := func(element any, at int, complete bool) bool {
		object, ok := element.(map[string]any)
		if !ok || taken[at] {
			return false
		}
		for name := range names {
			mine, have := value(object, name)
			theirs, want := keys[at][name]
			if have != want && (complete || have) || have && want && !same(mine, theirs) {
				return false
			}
		}
		return true
	}
	sorted := slices.Sorted(maps.Keys(names))
	sumOf := func(get func(name string) (any, bool)) (sum Sum, complete bool) {
		complete = true
		values := make([]any, 0, 2*len(sorted))
		for _, name := range sorted {
			value, have := get(name)
			complete = complete && have
			values = append(values, have, value)
		}
		w := newWalk()
		w.value(values)
		return w.sum(), complete
	}
	bySum := make(map[Sum][]int, len(keys))
	for at, key := range keys {
		sum, _ := sumOf(func(name string) (any, bool) { value, have := key[name]; return value, have })
		bySum[sum] = append(bySum[sum], at)
	}
	var left []int // elements that leave a key to its default
	for i, element := range list {
		found[i] = -1
		object, ok := element.(map[string]any)
		if !ok {
			continue
		}
		sum, complete := sumOf(func(name string) (any, bool) { return value(object, name) })
		for _, at := range bySum[sum] {
			if fits(element, at, true) {
				found[i], taken[at] = at, true
				break
			}
		}
		if found[i] < 0 && !complete {
			left = append(left, i)
		}
	}
	for again := true; again; {
		again = false
		for _, i := range left {
			if found[i] >= 0 {
				continue
			}
			only, count := -1, 0
			for at := range keys {
				if fits(list[i], at, false) {
					only, count = at, count+1
				}
			}
			if count == 1 {
				found[i], taken[only], again = only, true, true
			}
		}
	}
	return found
}
