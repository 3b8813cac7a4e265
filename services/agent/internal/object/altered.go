package object

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Altered lists the fields, as JSON pointers, that came back from an apply with another value than was sent: what an
// admission webhook does. Altered names only what surely differs: the API server itself leaves out empty values, writes
// quantities in its own way, and keeps what it can't answer with, such as the data of Secrets, to itself.
func Altered(sent, answer map[string]any) []string {
	var pointers []string
	trees := TreesOf((&unstructured.Unstructured{Object: answer}).GetManagedFields(), ours)
	for _, key := range slices.Sorted(maps.Keys(sent)) {
		switch value, there := answer[key]; {
		case key == "apiVersion" || key == "kind" || key == "status" || key == "stringData" || !there:
		case key == "metadata":
			meta, _ := sent[key].(map[string]any)
			was, _ := value.(map[string]any)
			for _, key := range []string{"annotations", "labels"} {
				if theirs, ok := was[key]; ok {
					altered(meta[key], theirs, nil, "/metadata/"+key, &pointers)
				}
			}
		default:
			altered(sent[key], value, trees.Field(key), "/"+pointerEscape.Replace(key), &pointers)
		}
	}
	return pointers[:min(len(pointers), maxRivals)]
}

func altered(sent, answer any, trees Trees, pointer string, pointers *[]string) {
	switch mine := sent.(type) {
	case map[string]any:
		theirs, _ := answer.(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(mine)) {
			if value, ok := theirs[key]; ok {
				altered(mine[key], value, trees.Field(key), pointer+"/"+pointerEscape.Replace(key), pointers)
			}
		}
	case []any:
		theirs, _ := answer.([]any)
		partners, keyed := trees.Partners(mine, theirs)
		if !keyed && len(mine) != len(theirs) {
			return // which element is which can't be told
		}
		below := trees.Elements(mine)
		for i, element := range mine {
			if at := partners[i]; at >= 0 {
				altered(element, theirs[at], below[i], pointer+"/"+strconv.Itoa(i), pointers)
			}
		}
	case nil:
	case string:
		if mine != "" && !alike(sent, answer) { // an empty text is what the API server fills in
			*pointers = append(*pointers, pointer)
		}
	default:
		if !alike(sent, answer) {
			*pointers = append(*pointers, pointer)
		}
	}
}

// alike says whether two values mean the same to the API server, as far as that can be told.
func alike(sent, answer any) bool {
	if same(sent, answer) {
		return true
	}
	mine, theirs := text(sent), text(answer)
	if isShort(mine) && isShort(theirs) {
		if a, err := resource.ParseQuantity(mine); err == nil {
			if b, err := resource.ParseQuantity(theirs); err == nil && a.Cmp(b) == 0 {
				return true
			}
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

// isShort leaves out texts that would be read as quantities of very many digits, such as 1e999999999: to compare one
// takes hours, and more memory than there is.
func isShort(text string) bool {
	const longest, exponent = 64, len("e-18")
	at := strings.IndexAny(text, "eE")
	return len(text) <= longest && (at < 0 || len(text)-at <= exponent)
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
