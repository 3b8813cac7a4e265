package pages

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// today are the pages about what is: not those about decisions and changes of their time.
func today(t *testing.T) []page {
	t.Helper()
	return slices.DeleteFunc(pages(t),
		func(p page) bool { return strings.HasPrefix(p.name, "docs/adr/") || p.name == "CHANGELOG.md" })
}

// source is all that is no page and no test.
func source(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, pattern := range []string{"*.go", "*.proto", "*.yaml", "*.tpl", "*.sh", "*.service", ".env", "Makefile"} {
		for _, name := range files(t, pattern) {
			if !strings.HasSuffix(name, "_test.go") && !strings.HasPrefix(name, "gen/") {
				all.WriteString(read(t, name))
			}
		}
	}
	return all.String()
}

// things are what events and actions are about.
const things = "access|audit|catalog|cluster|config|debug|freeze|guard|hold|join-token|lever|login|pin|recording|removals|" +
	"secret|service|session|shard|sink|source|token"

// Annotations, variables, procedures, and the names of events and of actions in the audit trail are in the code.
func TestNamesAreThoseOfTheCode(t *testing.T) {
	t.Parallel()
	code := source(t)
	quoted := func(name string) bool { return strings.Contains(code, `"`+name+`"`) }
	seen := 0
	for _, name := range []struct {
		what    string
		pattern *regexp.Regexp
		known   func(found []string) bool
	}{
		{"annotation or label", regexp.MustCompile(`\bfairlead\.dev/([a-z]+(?:-[a-z]+)*)`), func(found []string) bool {
			return strings.Contains(code, found[0])
		}},
		{"variable", regexp.MustCompile(`\bFAIRLEAD_([A-Z]+(?:_[A-Z]+)*)\b`), func(found []string) bool {
			flag := strings.ToLower(strings.ReplaceAll(found[1], "_", "-"))
			return strings.Contains(code, found[0]) || quoted(flag)
		}},
		{"procedure", regexp.MustCompile(`\b([A-Z]\w+Service)[./]([A-Z]\w+)`), func(found []string) bool {
			_, service, _ := strings.Cut(code, "\nservice "+found[1]+" {")
			service, _, _ = strings.Cut(service, "\n}\n")
			return strings.Contains(service, "rpc "+found[2]+"(")
		}},
		{"event or action", regexp.MustCompile("`((?:" + things + ")\\.[a-z_-]+)`"), func(found []string) bool {
			return quoted(found[1]) || strings.HasSuffix(found[1], ".go")
		}},
	} {
		for _, page := range today(t) {
			for _, found := range name.pattern.FindAllStringSubmatch(page.text, -1) {
				if seen++; !name.known(found) {
					t.Errorf("%s: there is no %s %s", page.name, name.what, found[0])
				}
			}
		}
	}
	if seen < 250 {
		t.Errorf("only %d names are found", seen)
	}
}

// What programs say, as pages quote it, is in the code: its longest part without names, numbers and what stands for
// others.
func TestMessagesAreThoseOfTheCode(t *testing.T) {
	t.Parallel()
	code := source(t)
	for _, pattern := range []string{"*_test.go", "*.txt", "*.ts", "*.tsx"} {
		for _, name := range files(t, pattern) {
			code += read(t, name)
		}
	}
	command := regexp.MustCompile(`^(--|\.\w|[a-z0-9-]+ [a-z-]+ .*(--|/)|(fairlead|kubectl|make|git|curl|helm|docker|openssl|flux|argocd|go) |[A-Z_]+=|[\w.]+: )`)
	varies := regexp.MustCompile("[A-Z]{2,}|\\d+|[<>…\"%:()\\[\\],=*]|\\.\\.\\.|\\b\\w+[-/]\\w+\\b")
	block, inline := regexp.MustCompile("(?s)```.*?```"), regexp.MustCompile("`([^`]+)`")
	seen := 0
	for _, page := range today(t) {
		for _, found := range inline.FindAllStringSubmatch(block.ReplaceAllString(page.text, ""), -1) {
			text := strings.Join(strings.Fields(found[1]), " ")
			if strings.Count(text, " ") < 3 || strings.Contains(text, "{") || command.MatchString(text) ||
				slices.Contains(foreignWords(), text) {
				continue
			}
			longest := slices.MaxFunc(varies.Split(text, -1), func(a, b string) int { return len(a) - len(b) })
			if seen++; !strings.Contains(code, strings.TrimSpace(longest)) {
				t.Errorf("%s: nothing says %q", page.name, text)
			}
		}
	}
	if seen < 30 {
		t.Errorf("only %d messages are found", seen)
	}
}

// foreignWords are what other programs say, and what is no message.
func foreignWords() []string {
	return []string{
		"error reading from error stream: ... close 1006 (abnormal closure)", // kubectl
		"and or not eq ne lt le gt ge len index",                             // of templates
		"l d y e s",                                                          // keys
		"credit + buffered + read + owed = window",                           // a formula
	}
}

// A value of a chart that a page names in code, such as `console.allowAddresses`, is in values.yaml.
func TestValuesOfChartsAreThere(t *testing.T) {
	t.Parallel()
	var charts []map[string]any
	for _, chart := range []string{"hub", "agent"} {
		values := map[string]any{}
		if err := yaml.Unmarshal([]byte(read(t, "deploy/charts/"+chart+"/values.yaml")), &values); err != nil {
			t.Fatal(err)
		}
		charts = append(charts, values)
	}
	code, seen := source(t), 0
	for _, page := range today(t) {
		for _, found := range regexp.MustCompile("`([a-z][A-Za-z]*(?:\\.[a-z][A-Za-z]*)+)(?:: [^`]*)?`").FindAllStringSubmatch(page.text, -1) {
			path := strings.Split(found[1], ".")
			ours := slices.ContainsFunc(charts,
				func(values map[string]any) bool { _, ok := values[path[0]]; return ok })
			// such as a span, or a file
			if !ours || slices.Contains(alike(), found[1]) || strings.Contains(code, `"`+found[1]+`"`) {
				continue
			}
			if seen++; !slices.ContainsFunc(charts, func(values map[string]any) bool { return has(values, path) }) {
				t.Errorf("%s: neither chart has the value %s", page.name, found[1])
			}
		}
	}
	if seen < 30 {
		t.Errorf("only %d values are found", seen)
	}
}

// alike are names of other things that begin like values of charts.
func alike() []string { return []string{"console.db.lock", "hub.example.com", "resources.sealed"} }

// has tells whether values have a path, or an empty list or map in which it may be.
func has(values any, path []string) bool {
	if len(path) == 0 {
		return true
	}
	switch values := values.(type) {
	case map[string]any:
		if len(values) == 0 {
			return true
		}
		below, ok := values[path[0]]
		return ok && has(below, path[1:])
	case []any:
		return len(values) == 0
	}
	return false
}
