package e2e

import (
	"context"
	"fmt"
	"net/url"
	"testing"

	"fairlead.dev/e2e/process"
	"fairlead.dev/platform/charttest"
)

// TestChartInGitRunsWithChartsOfARepository: the hub brings what Chart.lock names, with the values of the chart in Git,
// and a commit that changes the lock changes what runs.
func TestChartInGitRunsWithChartsOfARepository(t *testing.T) {
	t.Parallel()
	s := shared(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	charts := charttest.New(t)
	for _, version := range []string{"1.0.0", "1.1.0"} {
		charts.Push("note", version, map[string]string{
			"values.yaml":           "text: own\n",
			"templates/config.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: depending-note}\ndata: {text: \"{{ .Values.text }} {{ .Chart.Version }}\"}\n",
		})
	}
	at, err := url.Parse(charts.URL)
	if err != nil {
		t.Fatal(err)
	}
	repo, err := s.Clone(ctx)
	if err != nil {
		t.Fatal(err)
	}
	push := func(version string) {
		t.Helper()
		_, err := repo.Push(ctx, "depend", map[string]string{
			"depending/Chart.yaml":            fmt.Sprintf("apiVersion: v2\nname: depending\nversion: 0.1.0\ndependencies:\n- {name: note, version: ^1, repository: %q}\n", charts.URL),
			"depending/Chart.lock":            fmt.Sprintf("dependencies:\n- {name: note, version: %s, repository: %q}\n", version, charts.URL),
			"depending/values.yaml":           "note: {text: given}\n",
			"depending/templates/config.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: depending}\n",
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	push("1.0.0")
	cluster := s.Clusters[0]
	resources := fmt.Sprintf("apiVersion: fairlead.dev/v1\nkind: Source\nmetadata: {name: depending}\nspec: {git: {url: %q, interval: 5s, allow: [%q]}}\n---\napiVersion: fairlead.dev/v1\nkind: Service\nmetadata: {name: depending}\nspec: {source: depending, path: depending, cluster: %s, namespace: default}\n", s.GitURL, at.Host, cluster.Name)
	if _, err := s.FairleadStdin(ctx, resources, "apply", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	runs := func(want string) {
		t.Helper()
		err := process.Await(ctx, want+" runs", func(ctx context.Context) error {
			got, err := s.Kubectl(ctx, cluster.Kubeconfig, "get", "configmap", "depending-note", "-n", "default",
				"--ignore-not-found", "-o", "jsonpath={.data.text}")
			if err == nil && got != want {
				err = fmt.Errorf("it is %q", got)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	runs("given 1.0.0")
	push("1.1.0")
	runs("given 1.1.0")
}
