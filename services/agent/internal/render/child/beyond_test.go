package child_test

import (
	"maps"
	"strings"
	"testing"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/services/agent/internal/desired"
)

// An artifact that holds more than the service's folder is rendered from that folder.

func TestKustomizeBuildsAnOverlayWithItsBasesBesideIt(t *testing.T) {
	t.Parallel()
	files := map[string]string{
		"deploy/overlays/dev/kustomization.yaml":    "namePrefix: dev-\nresources: [../../bases/backend]\nconfigMapGenerator: [{name: m, files: [../../../config/a+b]}]\n",
		"deploy/overlays/dev/sub/kustomization.yml": "nameSuffix: -sub\nresources: [../../../bases/backend]\n",
		"deploy/bases/backend/kustomization.yaml":   "resources: [a.yaml, ../../../far]\n",
		"deploy/bases/backend/a.yaml":               configMap("a", "x"),
		"far":                                       "-> further",
		"further/kustomization.yaml":                "resources: [b.yaml]\n",
		"further/b.yaml":                            configMap("b", "x"),
		"config/a+b":                                "content",
	}
	for root, path := range map[string]string{"deploy/overlays/dev": "", "deploy/overlays/dev/sub": "sub"} {
		want, err := onDisk(t, root, files)
		if err != nil {
			t.Fatal(err)
		}
		service := desired.Service{
			Name: "shop", Path: "deploy/overlays/dev", Render: &deliveryv1.RenderSpec{Path: path},
		}
		got, err := runPacked(t, service, packFor(t, service.Path, files), nil)
		if err != nil || len(got) < 2 || !maps.Equal(got, want) {
			t.Errorf("%q: got %v, %v\nwant %v", path, got, err, want)
		}
	}
	for reference, words := range map[string]string{
		"../../bases/none":                 "deploy/overlays/dev/kustomization.yaml: kustomize build: ",
		"../../../../deploy/bases/backend": "no such file", // one too many, as on a disk
		"../../../deploy":                  "cycle detected: candidate root '/deploy' contains visited root '/deploy/overlays/dev'",
	} {
		files["deploy/overlays/dev/kustomization.yaml"] = "resources: [" + reference + "]\n"
		_, err := runPacked(t, desired.Service{Name: "shop", Path: "deploy/overlays/dev"},
			packFor(t, "deploy/overlays/dev", files), nil)
		if err == nil || !strings.Contains(err.Error(), words) || strings.Contains(err.Error(), "fairlead-artifact") {
			t.Errorf("%s: %v", reference, err)
		}
	}
}

func TestOnlyTheServicesFolderIsReadAsPlainManifests(t *testing.T) {
	t.Parallel()
	files := map[string]string{
		".deploy/shop/a.yaml": "-> ../../shared/a.yaml", ".deploy/shop/b.yaml": configMap("b", "x"),
		"shared/a.yaml": configMap("a", "x"), "shared/c.yaml": configMap("c", "x"), "shared/Chart.yaml": chartYAML,
	}
	for _, spec := range []*deliveryv1.RenderSpec{nil, with(templates)} {
		got, err := runPacked(t, desired.Service{Name: "shop", Path: ".deploy/shop", Render: spec},
			packFor(t, ".deploy/shop", files), nil)
		if err != nil || len(got) != 2 || got["ConfigMap a"] == "" || got["ConfigMap b"] == "" {
			t.Errorf("%v: got %v, %v", spec, got, err)
		}
	}
	files[".deploy/shop/b.yaml"] = "{"
	_, err := runPacked(t, desired.Service{Name: "shop", Path: ".deploy/shop"}, packFor(t, ".deploy/shop", files), nil)
	if err == nil || !strings.HasPrefix(err.Error(), ".deploy/shop/b.yaml") {
		t.Errorf("got %v", err)
	}
}

func TestHelmRendersAChartWithTheTargetsOfItsLinks(t *testing.T) {
	t.Parallel()
	files := map[string]string{
		"charts/web/Chart.yaml":       chartYAML,
		"charts/web/charts/library":   "-> ../../library",
		"charts/web/templates/a.yaml": configMap("a", `{{ include "x" . }}-{{ .Values.one }}`),
		"charts/web/prod.yaml":        "one: prod\n",
		"charts/library/Chart.yaml":   "apiVersion: v2\nname: library\nversion: 1.0.0\n",
		"charts/library/templates/_x": `{{ define "x" }}seen{{ end }}`,
	}
	service := desired.Service{
		Name: "shop", Path: "charts/web",
		Render: &deliveryv1.RenderSpec{Helm: &deliveryv1.HelmSpec{ValuesFiles: []string{"prod.yaml"}}},
	}
	got, err := runPacked(t, service, packFor(t, "charts/web", files), nil)
	if err != nil || len(got) != 1 || !strings.Contains(got["ConfigMap a"], `"seen-prod"`) {
		t.Errorf("got %v, %v", got, err)
	}
	service.Render.Helm.ValuesFiles = []string{"stage.yaml"}
	if _, err := runPacked(t, service, packFor(t, "charts/web", files), nil); err == nil ||
		!strings.HasPrefix(err.Error(), "charts/web/stage.yaml: there is no such file of values") {
		t.Errorf("got %v", err)
	}
}
