package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"fairlead.dev/e2e/process"
	"fairlead.dev/platform/charttest"
)

// TestChartAndValuesOfTwoSources: a chart of a repository runs with values of Git. Values that are pushed alone arrive, with the chart repository
// away; a rollback takes both back.
func TestChartAndValuesOfTwoSources(t *testing.T) {
	t.Parallel()
	s := shared(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	charts := charttest.New(t)
	release := func(version string) {
		charts.Push("several", version, map[string]string{
			"values.yaml":           "greeting: none\n",
			"templates/config.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: several}\ndata: {text: \"{{ .Values.greeting }} {{ .Chart.Version }}\"}\n",
		})
	}
	release("1.0.0")
	repo, err := s.Clone(ctx)
	if err != nil {
		t.Fatal(err)
	}
	push := func(greeting string) {
		t.Helper()
		_, err := repo.Push(ctx, "several", map[string]string{"several/prod.yaml": "greeting: " + greeting + "\n"})
		if err != nil {
			t.Fatal(err)
		}
	}
	push("hello")
	cluster := s.Clusters[0]
	resources := fmt.Sprintf(`apiVersion: fairlead.dev/v1
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
`, charts.URL, s.GitURL, cluster.Name)
	if _, err := s.FairleadStdin(ctx, resources, "apply", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	runs := func(want string) {
		t.Helper()
		err := process.Await(ctx, want+" runs", func(ctx context.Context) error {
			got, err := s.Kubectl(ctx, cluster.Kubeconfig, "get", "configmap", "several", "-n", "default", "--ignore-not-found", "-o", "jsonpath={.data.text}")
			if err == nil && got != want {
				err = fmt.Errorf("it is %q", got)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	fairlead := func(args ...string) string {
		t.Helper()
		out, err := s.Fairlead(ctx, args...)
		if err != nil {
			t.Fatalf("fairlead %v: %v\n%s", args, err, out)
		}
		return out
	}
	shows := func(words []string, args ...string) {
		t.Helper()
		err := process.Await(ctx, strings.Join(args, " ")+" names each source", func(ctx context.Context) error {
			out, err := s.Fairlead(ctx, args...)
			for _, w := range words {
				if err == nil && !strings.Contains(out, w) {
					err = fmt.Errorf("%q is not in %s", w, out)
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	runs("hello 1.0.0")
	shows([]string{"chart 1.0.0 · values "}, "history", "service", "several")

	push("goodbye")
	runs("goodbye 1.0.0")
	release("1.1.0")
	fairlead("sources", "refresh", "several-charts")
	runs("goodbye 1.1.0")
	shows([]string{"SOURCES", "chart 1.1.0 · values ", "several-values"}, "trace", "service", "several")
	shows([]string{"chart=several-charts,values=several-values", "chart=several ^1,values=HEAD"}, "get", "services", "-o", "wide")
	if out := fairlead("get", "service", "several", "-o", "yaml"); !strings.Contains(out, "sources:") || strings.Contains(out, "combination") {
		t.Errorf("the service is\n%s", out)
	}

	// One step back is the older chart with the values that it ran with.
	fairlead("rollback", "service", "several", "--reason", "a test")
	runs("goodbye 1.0.0")
}
