package child_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"maps"
	"slices"
	"strings"
	"testing"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
)

// A chart sees the versions that its service names, as with `helm template --kube-version --api-versions`.
func TestAChartSeesTheVersionsOfItsService(t *testing.T) {
	t.Parallel()
	chart := map[string]string{
		"Chart.yaml": chartYAML + "kubeVersion: '>=1.20-0'\n",
		"templates/a.yaml": configMap("a",
			`{{ .Capabilities.KubeVersion.Version }}-{{ .Capabilities.KubeVersion.Minor }}{{ range list "apps/v1" "apps/v1/Deployment" "example.com/v1/Boat" "batch/v1/Job" "v1" }}-{{ $.Capabilities.APIVersions.Has . }}{{ end }}`),
	}
	for name, c := range map[string]struct {
		helm *deliveryv1.HelmSpec
		want string
	}{
		"the cluster's":      {&deliveryv1.HelmSpec{}, "v1.36.3-gke.1-36-true-true-false-false-true"},
		"another Kubernetes": {&deliveryv1.HelmSpec{KubeVersion: "1.29"}, "v1.29-29-true-true-false-false-true"},
		"more APIs": {
			&deliveryv1.HelmSpec{ApiVersions: []string{"example.com/v1/Boat"}},
			"v1.36.3-gke.1-36-true-true-true-false-true",
		},
		"both": {
			&deliveryv1.HelmSpec{KubeVersion: "v1.29.4", ApiVersions: []string{"example.com/v1/Boat"}},
			"v1.29.4-29-true-true-true-false-true",
		},
	} {
		got, err := run(t, &deliveryv1.RenderSpec{Helm: c.helm}, chart, nil)
		if err != nil || !strings.Contains(got["ConfigMap a"], `"`+c.want+`"`) {
			t.Errorf("%s: got %v %v; want %s", name, got, err, c.want)
		}
	}
	chart["Chart.yaml"] = chartYAML + "kubeVersion: '<1.20'\n"
	refuses(t, &deliveryv1.RenderSpec{Helm: &deliveryv1.HelmSpec{KubeVersion: "1.29"}}, chart,
		"the chart is for Kubernetes <1.20, and render.helm.kubeVersion is v1.29")
	refuses(t, &deliveryv1.RenderSpec{Helm: &deliveryv1.HelmSpec{KubeVersion: "one"}}, chart,
		`render.helm.kubeVersion: "one" is no version of Kubernetes`)
}

// Schemas are read as Helm reads them, but that nothing is fetched: what is in the schema, what the library has, and
// names (urn:) are.
func TestASchemaIsReadWithoutTheNetwork(t *testing.T) {
	t.Parallel()
	const remote = `{"properties": {"port": {"$ref": "https://schemas.example.com/port.json"}}}`
	chart := func(schema, values string) map[string]string {
		return map[string]string{
			"Chart.yaml": chartYAML, "values.schema.json": schema, "values.yaml": values,
			"templates/a.yaml": configMap("a", `{{ .Values.port | quote }}`),
		}
	}
	for name, c := range map[string]struct {
		schema, values, want string // "" is accepted
	}{
		"remote": {
			remote, "port: 1",
			`apps/values.schema.json: the schema of chart web refers to "https://schemas.example.com/port.json", and nothing is fetched. Write it into the schema, or set render.helm.skipSchemaValidation`,
		},
		"remote, unused": {
			`{"$defs": {"x": {"$ref": "https://schemas.example.com/port.json"}}, "properties": {"port": {"type": "integer"}}}`,
			"port: 1", "",
		},
		"file": {
			`{"$ref": "other.json"}`, "port: 1", "refers to \"file:///other.json\", and nothing is fetched",
		},
		"of the machine": {
			`{"$ref": "file:///etc/passwd"}`, "port: 1", "refers to \"file:///etc/passwd\", and nothing is fetched",
		},
		"unknown language": {
			`{"$schema": "https://schemas.example.com/language", "properties": {"port": {"type": "integer"}}}`,
			"port: 1", "refers to \"https://schemas.example.com/language\", and nothing is fetched",
		},
		"bundled": {
			`{"$defs": {"port": {"$id": "https://schemas.example.com/port.json", "type": "integer"}}, "properties": {"port": {"$ref": "https://schemas.example.com/port.json"}}}`,
			"port: 1", "",
		},
		"bundled, refused": {
			`{"$defs": {"port": {"$id": "https://schemas.example.com/port.json", "type": "integer"}}, "properties": {"port": {"$ref": "https://schemas.example.com/port.json"}}}`,
			"port: high", "got string, want integer",
		},
		"with a name": {
			`{"$id": "https://schemas.example.com/web.json", "$defs": {"port": {"type": "integer"}}, "properties": {"port": {"$ref": "#/$defs/port"}}}`,
			"port: high", "got string, want integer",
		},
		"language of a draft": {
			`{"$schema": "http://json-schema.org/draft-04/schema#", "properties": {"port": {"type": "integer"}}}`,
			"port: high", "got string, want integer",
		},
		"a resolved urn": {`{"properties": {"port": {"$ref": "urn:example:port"}}}`, "port: 1", ""},
		"text of that name": {
			`{"properties": {"port": {"const": {"$ref": "https://schemas.example.com/port.json"}, "default": 1}, "x": {"examples": ["$ref"]}}}`,
			"x: 1", "",
		},
	} {
		if c.want != "" {
			refuses(t, nil, chart(c.schema, c.values), c.want)
			continue
		}
		if _, err := run(t, nil, chart(c.schema, c.values), nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	skip := &deliveryv1.RenderSpec{Helm: &deliveryv1.HelmSpec{SkipSchemaValidation: true}}
	got, err := run(t, skip, chart(remote, "port: high"), nil)
	if err != nil || !strings.Contains(got["ConfigMap a"], `"high"`) {
		t.Errorf("without schemas: got %v, %v", got, err)
	}
	// That of a dependency counts if it is enabled, and gets values.
	below := chart(`{}`, "db: {port: 1, enabled: true}")
	below["Chart.yaml"] += "dependencies:\n- {name: db, version: 1.x, condition: db.enabled}\n"
	below["charts/db/Chart.yaml"], below["charts/db/values.schema.json"] = "apiVersion: v2\nname: db\nversion: 1.0.0\n", remote
	refuses(t, nil, below, "apps/values.schema.json: the schema of chart db refers to \"https://schemas.example.com/port.json\"")
	below["values.yaml"] = "db: {port: 1, enabled: false}"
	if _, err := run(t, nil, below, nil); err != nil {
		t.Errorf("a disabled dependency: %v", err)
	}
}

// pack of a chart as `helm package` writes it.
func packedChart(t *testing.T, name string, files map[string]string) string {
	t.Helper()
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	w := tar.NewWriter(zip)
	for _, file := range slices.Sorted(maps.Keys(files)) {
		if err := w.WriteHeader(&tar.Header{
			Name: name + "/" + file, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(files[file])),
		}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(files[file])); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := zip.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// A chart that `helm dependency update` puts into charts/ is a .tgz. What the lock says of it is what was tried.
func TestAPackedDependencyIsRenderedAndHeldAgainstTheLock(t *testing.T) {
	t.Parallel()
	db := packedChart(t, "db", map[string]string{
		"Chart.yaml": "apiVersion: v2\nname: db\nversion: 1.2.0\n", "values.yaml": "size: 1\n",
		"templates/b.yaml": configMap("{{ .Chart.Name }}", "{{ .Values.size | quote }}"),
		"crds/boat.yaml":   "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: boats.x.dev}\n",
	})
	chart := map[string]string{
		"Chart.yaml": chartYAML +
			"dependencies:\n- {name: db, version: 1.x, alias: first, repository: 'https://charts.example.com'}\n- {name: db, version: '>=1.2.0', alias: second, repository: 'https://charts.example.com'}\n",
		"values.yaml":         "second: {size: 7}\n",
		"charts/db-1.2.0.tgz": db,
	}
	got, warnings, err := runWarned(t, nil, chart)
	if err != nil || len(warnings) > 0 || !strings.Contains(got["ConfigMap first"], `"1"`) ||
		!strings.Contains(got["ConfigMap second"], `"7"`) || got["CustomResourceDefinition boats.x.dev"] == "" {
		t.Errorf("got %v %v %v", got, warnings, err)
	}
	lock := func(version string) string {
		return "dependencies:\n- {name: db, repository: 'https://charts.example.com', version: " + version +
			"}\n- {name: db, repository: 'https://charts.example.com', version: " + version +
			"}\ndigest: sha256:aa\ngenerated: 2026-01-01T00:00:00Z\n"
	}
	chart["Chart.lock"] = lock("1.2.0")
	if _, warnings, err := runWarned(t, nil, chart); err != nil || len(warnings) > 0 {
		t.Errorf("as the lock says: got %v %v", warnings, err)
	}
	chart["Chart.lock"] = lock("1.3.0")
	_, warnings, err = runWarned(t, with(helm), chart)
	if want := []string{
		"apps/Chart.lock says db 1.3.0, and charts/ has 1.2.0, which is rendered. Run `helm dependency build`, and push charts/.",
	}; err != nil || !slices.Equal(warnings, want) {
		t.Errorf("got %q %v, want %q", warnings, err, want)
	}
}

// A dependency that `helm dependency build` would take from a folder need not be in charts/.
func TestADependencyIsTakenFromAFolderOfTheService(t *testing.T) {
	t.Parallel()
	spec := &deliveryv1.RenderSpec{Path: "web"}
	files := map[string]string{
		"web/Chart.yaml": chartYAML +
			"dependencies:\n- {name: db, version: 1.x, alias: first, repository: 'file://../parts/db'}\n- {name: db, version: '>=1.0.0', alias: second, repository: 'file://../parts/db'}\n- {name: cache, version: 1.x, repository: 'file://../cache', condition: cache.enabled}\n",
		"web/values.yaml":           "second: {size: 7}\ncache: {enabled: false}\n",
		"parts/db/Chart.yaml":       "apiVersion: v2\nname: db\nversion: 1.2.0\ndependencies:\n- {name: base, version: 1.x, repository: 'file://../../base'}\n",
		"parts/db/values.yaml":      "size: 1\n",
		"parts/db/.helmignore":      "*.bak\n",
		"parts/db/x.bak":            "-> /nowhere",
		"parts/db/templates/a":      "",
		"parts/db/templates/b.yaml": configMap("{{ .Chart.Name }}", `{{ include "base" . | quote }}`),
		"base/Chart.yaml":           "apiVersion: v2\nname: base\nversion: 1.0.0\ntype: library\n",
		"base/templates/_b.tpl":     `{{ define "base" }}{{ .Values.size }}{{ end }}`,
		"cache/Chart.yaml":          "apiVersion: v2\nname: cache\nversion: 1.0.0\n",
		"cache/templates/c.yaml":    configMap("cache", "1"),
	}
	got, err := run(t, spec, files, nil)
	if err != nil || len(got) != 2 || !strings.Contains(got["ConfigMap first"], `"1"`) ||
		!strings.Contains(got["ConfigMap second"], `"7"`) {
		t.Errorf("got %v, %v", got, err)
	}
	with := func(name, text string) map[string]string {
		changed := maps.Clone(files)
		changed[name] = text
		return changed
	}
	refuses(t, spec, with("parts/db/Chart.yaml", "apiVersion: v2\nname: db\nversion: 2.0.0\n"),
		"apps/web/Chart.yaml: wants db 1.x of file://../parts/db, and there is db 2.0.0")
	refuses(t, spec, with("base/Chart.yaml",
		"apiVersion: v2\nname: base\nversion: 1.0.0\ndependencies:\n- {name: web, version: 1.x, repository: 'file://../web'}\n"), "dependency web (file://../web) leads back to a chart that it is a dependency of")
	refuses(t, spec, with("parts/db/templates/b.yaml", "{{ nothing }}"), "function \"nothing\" not defined")
	refuses(t, spec, with("web/Chart.yaml",
		chartYAML+"dependencies:\n- {name: db, version: 1.x, repository: 'file://../../out'}\n- {name: etc, version: 1.x, repository: 'file:///etc'}\n- {name: far, version: 1.x, repository: 'https://charts.example.com'}\n"),
		"dependencies db, etc, far are not in charts/, and nothing is fetched")
}
