package sink

import (
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// docs/notifications.md lists what templates can use.
func TestDocumentsNameAllOfTemplates(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../../docs/notifications.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Templates\n")
	section, _, _ = strings.Cut(section, "\n## ")
	table, calls, _ := strings.Cut(section, "The functions are ")
	calls, _, _ = strings.Cut(calls, ". There are no other")
	names := func(pattern string, in ...string) (all []string) {
		for _, text := range in {
			for _, found := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
				all = append(all, found[1])
			}
		}
		slices.Sort(all)
		return slices.Compact(all)
	}
	var fields []string
	for _, of := range []reflect.Type{reflect.TypeFor[Message](), reflect.TypeFor[Event]()} {
		for field := range of.Fields() {
			fields = append(fields, field.Name)
		}
	}
	slices.Sort(fields)
	fields = slices.Compact(fields)
	table, _, _ = strings.Cut(table, "```") // an example
	if got := names(`\.([A-Z]\w+)`, table); !slices.Equal(got, fields) {
		t.Errorf("documented are the fields %q, and there are %q", got, fields)
	}
	known := slices.Sorted(maps.Keys(functions()))
	known = append(known, builtins()...)
	slices.Sort(known)
	if got := names(`(?:^|\s)([a-z]+)(?:\s|$)`, strings.Fields(strings.Join(names("`([^`]+)`", calls), " "))...); !slices.Equal(got, known) {
		t.Errorf("documented are the functions %q, and there are %q", got, known)
	}
}
