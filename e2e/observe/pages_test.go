package observe

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// pagesTellOfMetrics: a metric that a page names is there, with the labels that it names, and each of ours is in the
// README of its service.
func pagesTellOfMetrics(t *testing.T, w *world) {
	series, err := w.query(t.Context(), `{__name__=~"(fairlead|go|process)_.+", job!=""}`)
	if err != nil {
		t.Fatal(err)
	}
	labels := map[string]map[string]bool{}
	for _, s := range series {
		name := regexp.MustCompile("_(bucket|count|sum)$").ReplaceAllString(s.Metric["__name__"], "")
		if labels[name] == nil {
			labels[name] = map[string]bool{}
		}
		for label := range s.Metric {
			labels[name][label] = true
		}
	}
	var texts []string
	for _, pattern := range []string{
		"../../*.md", "../../docs/*.md", "../../docs/operate/*.md", "../../docs/operate/runbooks/*.md",
		"../../services/*/README.md",
	} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d pages, %v", pattern, len(files), err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			texts = append(texts, string(text))
			for _, found := range regexp.MustCompile("`(fairlead_[a-z_]+[a-z]|[a-z_.]+_total)(?:{([a-z,]+)})?`").FindAllStringSubmatch(string(text), -1) {
				if !slices.ContainsFunc(named(labels, strings.TrimLeft(found[1], "._")), func(of map[string]bool) bool {
					return found[2] == "" ||
						!slices.ContainsFunc(strings.Split(found[2], ","),
							func(label string) bool { return !of[label] })
				}) {
					t.Errorf("%s: there is no metric %s", file, found[0])
				}
			}
		}
	}
	all := strings.Join(texts, "\n")
	for name := range labels {
		short := regexp.MustCompile("^fairlead_(gitcache|distributor)_").ReplaceAllString(name, "")
		if strings.HasPrefix(name, "fairlead_") && !regexp.MustCompile("`"+short+"[`{]").MatchString(all) {
			t.Errorf("no page tells of %s", name)
		}
	}
}

// named are the labels of the metrics with a name, or with one that ends so.
func named(labels map[string]map[string]bool, end string) (found []map[string]bool) {
	for name, of := range labels {
		if name == end || strings.HasSuffix(name, "_"+end) {
			found = append(found, of)
		}
	}
	return found
}
