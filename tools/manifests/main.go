// Command manifests copies the alerts into the hub's chart, and renders the charts of deploy/charts with Helm into deploy/kustomize.
package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	"sigs.k8s.io/yaml"
)

// monitoring is the API of the Prometheus operator.
const monitoring = "monitoring.coreos.com/v1"

// render is one folder of deploy/kustomize.
type render struct {
	chart, name, namespace string
	apis                   []string
}

// renders are all of them.
func renders() []render {
	return []render{
		{"hub", "base", "fairlead", nil},
		{"hub", "ha", "fairlead", nil},
		{"hub", "monitoring", "fairlead", []string{monitoring}},
		{"hub", "ingress-http1", "fairlead", nil},
		{"hub", "ingress-http2", "fairlead", nil},
		{"hub", "gateway", "fairlead", nil},
		{"agent", "base", "fairlead-system", nil},
		{"agent", "least", "fairlead-system", nil},
	}
}

func main() {
	if err := run(filepath.Join("..", "..", "deploy")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// rules are the alerts: where they are written, and their copy in the chart, which can have no files from outside.
func rules(deploy string) (from, to string) {
	return filepath.Join(deploy, "observability", "rules", "fairlead.yaml"), filepath.Join(deploy, "charts", "hub", "rules", "fairlead.yaml")
}

func run(deploy string) error {
	from, to := rules(deploy)
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.WriteFile(to, text, 0o600); err != nil {
		return err
	}
	for _, r := range renders() {
		text, err := r.text(deploy)
		if err != nil {
			return err
		}
		if err := os.WriteFile(r.file(deploy), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

func (r render) file(deploy string) string {
	return filepath.Join(deploy, "kustomize", r.chart, r.name, "manifests.yaml")
}

func (r render) text(deploy string) (string, error) {
	values := map[string]any{}
	text, err := os.ReadFile(filepath.Join(deploy, "kustomize", r.chart, "values-"+r.name+".yaml"))
	if err != nil {
		return "", err
	}
	if err := yaml.UnmarshalStrict(text, &values); err != nil {
		return "", fmt.Errorf("values of %s/%s: %w", r.chart, r.name, err)
	}
	out, err := helm(filepath.Join(deploy, "charts", r.chart), r.namespace, values, r.apis...)
	if err != nil {
		return "", fmt.Errorf("render %s/%s: %w", r.chart, r.name, err)
	}
	return "# Rendered by `make manifests` from values-" + r.name + ".yaml: change that, or the chart.\n" + out, nil
}

// helm renders a chart as `helm template` does, for something that is not Helm's afterwards.
func helm(dir, namespace string, values map[string]any, apis ...string) (string, error) {
	chart, err := loader.LoadDir(dir)
	if err != nil {
		return "", err
	}
	able := common.DefaultCapabilities.Copy()
	able.APIVersions = append(able.APIVersions, apis...)
	all, err := util.ToRenderValues(chart, values, common.ReleaseOptions{Name: chart.Name(), Namespace: namespace, Revision: 1, IsInstall: true}, able)
	if err != nil {
		return "", err
	}
	if release, ok := all["Release"].(map[string]any); ok {
		release["Service"] = "fairlead"
	}
	rendered, err := engine.Render(chart, all)
	if err != nil {
		return "", err
	}
	names := slices.Sorted(maps.Keys(rendered))
	slices.SortStableFunc(names, func(a, b string) int { return order(a) - order(b) })
	var out strings.Builder
	for _, name := range names {
		if text := strings.TrimSpace(rendered[name]); text != "" && strings.HasSuffix(name, ".yaml") {
			fmt.Fprintf(&out, "---\n%s\n", strings.TrimSpace(strings.TrimPrefix(text, "---")))
		}
	}
	return out.String(), nil
}

// order puts a namespace before what is in it.
func order(name string) int {
	if filepath.Base(name) == "namespace.yaml" {
		return 0
	}
	return 1
}
