package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"fairlead.dev/e2e/process"
	"fairlead.dev/e2e/stack"
	"fairlead.dev/platform/charttest"
)

// TestPushedChartVersionGoesLive: a chart of a repository runs in every cluster, a pushed patch version arrives, a
// rollback takes it back, and with the repository away everything stays.
func TestPushedChartVersionGoesLive(t *testing.T) {
	t.Parallel()
	s := newLive(t)
	repo := charttest.New(t)
	push := func(version, text string) {
		repo.Push("greeter", version, map[string]string{
			"values.yaml":              "greeting: hello\n",
			"templates/namespace.yaml": "apiVersion: v1\nkind: Namespace\nmetadata: {name: greeter}\n",
			"templates/config.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: greeter}\ndata: {text: \"" +
				text + " {{ .Values.greeting }} {{ .Chart.Version }}\"}\n",
		})
	}
	push("1.0.0", "first")
	push("2.0.0", "another")
	var resources strings.Builder
	fmt.Fprintf(&resources, "apiVersion: fairlead.dev/v1\nkind: Source\nmetadata: {name: chart-repository}\nspec: {helm: {url: %q}}\n", repo.URL)
	for _, c := range s.Clusters {
		fmt.Fprintf(&resources, "---\napiVersion: fairlead.dev/v1\nkind: Service\nmetadata: {name: greeter-%s}\nspec: {source: chart-repository, chart: greeter, version: ^1, cluster: %s, namespace: greeter, render: {helm: {values: \"greeting: world\"}}}\n", c.Name, c.Name)
	}
	s.apply(resources.String())
	runs := func(want string) {
		t.Helper()
		s.runs("greeter", "greeter", want)
	}
	runs("first world 1.0.0")

	push("1.0.1", "patched")
	s.fairlead("sources", "refresh", "chart-repository")
	runs("patched world 1.0.1")
	service := "greeter-" + s.Clusters[0].Name
	traced(s.ctx, t, s.Stack, service, "greeter ^1", "greeter 1.0.1 (app 9.9)")
	if out := s.fairlead("get", "services", service); !strings.Contains(out, "greeter ^1") &&
		!strings.Contains(out, service) {
		t.Errorf("the list shows\n%s", out)
	}
	if out := s.fairlead("sources", "cat", "chart-repository", "templates/config.yaml", "--ref",
		"chart:greeter@^1"); !strings.Contains(out, "patched") {
		t.Errorf("the file is\n%s", out)
	}
	if out := s.fairlead("sources", "tree", "chart-repository", "--ref",
		"chart:greeter@^1"); !strings.Contains(out, "Chart.yaml") {
		t.Errorf("the tree is\n%s", out)
	}
	if out := s.fairlead("sources", "log", "chart-repository", "--ref",
		"chart:greeter@^1"); !strings.Contains(out, "greeter 1.0.1 (app 9.9)") {
		t.Errorf("the log is\n%s", out)
	}
	if out := s.fairlead("get", "service", service, "-o",
		"yaml"); !strings.Contains(out, "chart: greeter") || !strings.Contains(out, "version: ^1") ||
		strings.Contains(out, "ref: chart") {
		t.Errorf("the service is\n%s", out)
	}

	s.rollBack("greeter")
	runs("first world 1.0.0")

	// Other content under the number of a version that runs is told, and changes nothing.
	push("1.0.1", "replaced")
	s.fairlead("sources", "refresh", "chart-repository")
	s.says([]string{"replaced upstream"}, "get", "source", "chart-repository")
	runs("first world 1.0.0")
}

// traced waits until the trace of a service names what it follows and what that is.
func traced(ctx context.Context, t *testing.T, s *stack.Stack, service string, words ...string) {
	t.Helper()
	err := process.Await(ctx, "the trace names the chart", func(ctx context.Context) error {
		out, err := s.Fairlead(ctx, "trace", "service", service, "-o", "json")
		var trace struct{ Steps map[string]string }
		if err == nil {
			err = json.Unmarshal([]byte(out), &trace)
		}
		if err == nil && trace.Steps["chart"] != "ok" {
			err = fmt.Errorf("the steps are %v", trace.Steps)
		}
		if err != nil {
			return err
		}
		if out, err = s.Fairlead(ctx, "trace", "service", service); err != nil {
			return err
		}
		for _, w := range words {
			if !strings.Contains(out, w) {
				return fmt.Errorf("%q is not in %s", w, out)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
