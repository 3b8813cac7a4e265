package e2e

import (
	"fmt"
	"strings"
	"testing"

	"fairlead.dev/platform/charttest"
)

// severalSources are two sources, and a service with a chart of the first and values of the second.
const severalSources = `apiVersion: fairlead.dev/v1
kind: Source
metadata: {name: several-charts}
spec: {helm: {url: %q}}
---
apiVersion: fairlead.dev/v1
kind: Source
metadata: {name: several-values}
spec: {git: {url: %q, interval: 5s}}
---
apiVersion: fairlead.dev/v1
kind: Service
metadata: {name: several}
spec:
  cluster: %s
  namespace: default
  sources:
  - {name: chart, source: several-charts, chart: several, version: ^1}
  - {name: values, source: several-values}
  render: {helm: {valuesFiles: [$values/several/prod.yaml]}}
`

// TestChartAndValuesOfTwoSources: a chart of a repository runs with values of Git. Values that are pushed alone arrive;
// a rollback takes both back.
func TestChartAndValuesOfTwoSources(t *testing.T) {
	t.Parallel()
	s := newLive(t)
	charts := charttest.New(t)
	release := func(version string) {
		charts.Push("several", version, map[string]string{
			"values.yaml":           "greeting: none\n",
			"templates/config.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: several}\ndata: {text: \"{{ .Values.greeting }} {{ .Chart.Version }}\"}\n",
		})
	}
	release("1.0.0")
	repo, err := s.Clone(s.ctx)
	if err != nil {
		t.Fatal(err)
	}
	push := func(greeting string) {
		t.Helper()
		_, err := repo.Push(s.ctx, "several", map[string]string{"several/prod.yaml": "greeting: " + greeting + "\n"})
		if err != nil {
			t.Fatal(err)
		}
	}
	push("hello")
	cluster := s.Clusters[0]
	s.apply(fmt.Sprintf(severalSources, charts.URL, s.GitURL, cluster.Name))
	runs := func(want string) {
		t.Helper()
		s.runs("default", "several", want, cluster)
	}
	runs("hello 1.0.0")
	s.says([]string{"chart 1.0.0 · values "}, "history", "service", "several")

	push("goodbye")
	runs("goodbye 1.0.0")
	release("1.1.0")
	s.fairlead("sources", "refresh", "several-charts")
	runs("goodbye 1.1.0")
	s.says([]string{"SOURCES", "chart 1.1.0 · values ", "several-values"}, "trace", "service", "several")
	s.says([]string{"chart=several-charts,values=several-values", "chart=several ^1,values=HEAD"}, "get", "services",
		"-o", "wide")
	if out := s.fairlead("get", "service", "several", "-o", "yaml"); !strings.Contains(out, "sources:") ||
		strings.Contains(out, "combination") {
		t.Errorf("the service is\n%s", out)
	}

	// One step back is the older chart with the values that it ran with.
	s.fairlead("rollback", "service", "several", "--reason", "a test")
	runs("goodbye 1.0.0")
}
