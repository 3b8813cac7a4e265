package object

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Altered lists the fields, as JSON pointers, that came back from an apply with another value than was sent: what an
// admission webhook does. It names only what surely differs: the API server itself leaves out empty values, writes
// quantities in its own way, and keeps what it can't answer with, such as the data of Secrets, to itself.
func Altered(sent, answer map[string]any) []string {
	var pointers []string
	for _, key := range slices.Sorted(maps.Keys(sent)) {
		switch value, there := answer[key]; {
		case key == "apiVersion" || key == "kind" || key == "status" || key == "stringData" || !there:
		case key == "metadata":
			meta, _ := sent[key].(map[string]any)
			was, _ := value.(map[string]any)
			for _, key := range []string{"annotations", "labels"} {
				if theirs, ok := was[key]; ok {
					altered(meta[key], theirs, "/metadata/"+key, &pointers)
				}
			}
		default:
			altered(sent[key], value, "/"+pointerEscape.Replace(key), &pointers)
		}
	}
	return pointers[:min(len(pointers), maxRivals)]
}

func altered(sent, answer any, pointer string, pointers *[]string) {
	switch mine := sent.(type) {
	case map[string]any:
		theirs, _ := answer.(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(mine)) {
			if value, ok := theirs[key]; ok {
				altered(mine[key], value, pointer+"/"+pointerEscape.Replace(key), pointers)
			}
		}
	case []any:
		theirs, _ := answer.([]any)
		for i, element := range mine {
			if value, ok := counterpart(element, i, mine, theirs); ok {
				altered(element, value, pointer+"/"+strconv.Itoa(i), pointers)
			}
		}
	case nil:
	default:
		if !alike(sent, answer) {
			*pointers = append(*pointers, pointer)
		}
	}
}

// counterpart finds an element of a list in the answer: by its name, or by its place where lists are as long.
func counterpart(element any, i int, mine, theirs []any) (any, bool) {
	object, _ := element.(map[string]any)
	if name, ok := object["name"].(string); ok {
		for _, other := range theirs {
			if found, _ := other.(map[string]any); found["name"] == name {
				return other, true
			}
		}
		return nil, false
	}
	if len(mine) != len(theirs) {
		return nil, false
	}
	return theirs[i], true
}

// alike says whether two values mean the same to the API server, as far as that can be told.
func alike(sent, answer any) bool {
	if same(sent, answer) {
		return true
	}
	mine, theirs := text(sent), text(answer)
	if a, err := resource.ParseQuantity(mine); err == nil {
		if b, err := resource.ParseQuantity(theirs); err == nil && a.Cmp(b) == 0 {
			return true
		}
	}
	if a, err := time.ParseDuration(mine); err == nil {
		if b, err := time.ParseDuration(theirs); err == nil && a == b {
			return true
		}
	}
	a, err := time.Parse(time.RFC3339, mine)
	b, other := time.Parse(time.RFC3339, theirs)
	return err == nil && other == nil && a.Equal(b)
}

func text(value any) string {
	switch v := value.(type) {
	case string:
		return v
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	return ""
}
