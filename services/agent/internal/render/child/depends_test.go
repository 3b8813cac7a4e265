package child_test

import (
	"bytes"
	"io"
	"os"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/services/agent/internal/desired"
	"fairlead.dev/services/agent/internal/kubeyaml"
	"fairlead.dev/services/agent/internal/render"
)

// Only what reads what the cluster can do is rendered anew when that changes.
func TestWhatDependsOnTheClusterIsTold(t *testing.T) {
	t.Parallel()
	const reads = `{{ .Capabilities.KubeVersion }}`
	for name, one := range map[string]struct {
		spec  *deliveryv1.RenderSpec
		files map[string]string
		want  bool
	}{
		"chart": {
			nil, map[string]string{"Chart.yaml": chartYAML, "templates/a.yaml": configMap("a", reads)}, true,
		},
		"chart in a chart": {
			nil,
			map[string]string{
				"Chart.yaml": chartYAML, "charts/b/Chart.yaml": strings.Replace(chartYAML, "web", "b", 1),
				"charts/b/templates/a.yaml": configMap("a", reads),
			},
			true,
		},
		"chart with versions": {
			nil,
			map[string]string{
				"Chart.yaml": chartYAML + "kubeVersion: '>=1.20.0-0'\n", "templates/a.yaml": configMap("a", "b"),
			},
			true,
		},
		"chart that does not": {
			nil,
			map[string]string{"Chart.yaml": chartYAML, "templates/a.yaml": configMap("a", "{{ .Release.Name }}")},
			false,
		},
		"templates": {
			with(templates), map[string]string{"a.yaml": configMap("a", "{{ .Cluster.KubernetesVersion }}")}, true,
		},
		"templates that don't": {
			with(templates), map[string]string{"a.yaml": configMap("a", "{{ .Cluster.Name }}")}, false,
		},
		"kustomize": {
			with(kustomize),
			map[string]string{"kustomization.yaml": "resources: [a.yaml]\n", "a.yaml": configMap("a", "b")},
			false,
		},
	} {
		packed := pack(t, one.files)
		service := desired.Service{Name: "shop", Namespace: "web", Path: "apps", Render: one.spec}
		folder, err := render.Scan(service,
			func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(packed)), nil })
		if err != nil {
			t.Fatal(err)
		}
		renderer, told := render.New(os.Args[0], asChild), false
		renderer.CPU, renderer.Time = processor, patience
		add := func(*unstructured.Unstructured, kubeyaml.Position) error { return nil }
		if err := renderer.Render(t.Context(),
			render.Input{Folder: folder, Scope: scope(), Depends: func() { told = true }}, add); err != nil ||
			told != one.want {
			t.Errorf("%s: told: %t, %v", name, told, err)
		}
	}
	here := scope().Cluster
	there := here
	if there.Name = "edge-2"; here.Environment() != there.Environment() {
		t.Error("its name is nothing that a cluster can do")
	}
	if there.KubernetesVersion = "v1.37.0"; here.Environment() == there.Environment() {
		t.Error("another version is the same")
	}
	there = here
	if there.APIVersions = there.APIVersions[:2]; here.Environment() == there.Environment() {
		t.Error("fewer kinds are the same")
	}
}
