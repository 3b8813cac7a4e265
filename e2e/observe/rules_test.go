// Package observe tests dashboards, alerts and runbooks: by Prometheus' own tools, and over a running product.
package observe

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"fairlead.dev/e2e/process"
)

const (
	observability = "../../deploy/observability"
	runbooks      = "../../docs/operate/runbooks"
)

// rule is an alert, or what is recorded for alerts.
type rule struct {
	Alert, Record, Expr string
	Labels, Annotations map[string]string
}

func rules(t *testing.T) (all []rule) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(observability, "rules", "fairlead.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Groups []struct{ Rules []rule } }
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	return all
}

func TestRulesFireWhenTheyShouldAndElseNot(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(observability, "rules")
	for _, args := range [][]string{
		{"check", "rules", filepath.Join(dir, "fairlead.yaml")},
		{"test", "rules", filepath.Join(dir, "fairlead.test.yaml")},
	} {
		if out, err := process.Run(t.Context(), nil, "", "promtool", args...); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	}
	tested, err := os.ReadFile(filepath.Join(dir, "fairlead.test.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rules(t) {
		if r.Alert != "" && !strings.Contains(string(tested),
			`alertname="`+r.Alert+`", severity="`+r.Labels["severity"]+`"`) {
			t.Errorf("no test sees %s fire with severity %q", r.Alert, r.Labels["severity"])
		}
	}
}

func TestEveryAlertHasARunbook(t *testing.T) {
	t.Parallel()
	index, err := os.ReadFile(filepath.Join(runbooks, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	pages := map[string]bool{"README.md": true}
	for _, r := range rules(t) {
		if r.Alert == "" {
			continue
		}
		page := r.Alert + ".md"
		pages[page] = true
		if text, err := os.ReadFile(filepath.Join(runbooks, page)); err != nil ||
			!strings.HasPrefix(string(text), "# "+r.Alert+"\n") {
			t.Errorf("%s has no page: %v", r.Alert, err)
		}
		if !strings.Contains(string(index), "("+page+")") {
			t.Errorf("%s is not in the list of runbooks", r.Alert)
		}
		if got := r.Annotations["runbook_url"]; got != "docs/operate/runbooks/"+page {
			t.Errorf("%s names runbook %q", r.Alert, got)
		}
		for _, name := range []string{"summary", "description"} {
			if r.Annotations[name] == "" {
				t.Errorf("%s has no %s", r.Alert, name)
			}
		}
		if !slices.Contains([]string{"critical", "warning"}, r.Labels["severity"]) {
			t.Errorf("%s has severity %q", r.Alert, r.Labels["severity"])
		}
	}
	files, err := os.ReadDir(runbooks)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !pages[f.Name()] {
			t.Errorf("%s is a page for no alert", f.Name())
		}
	}
}
