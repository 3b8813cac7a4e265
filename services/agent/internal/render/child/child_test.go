package child_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/artifact"
	"fairlead.dev/platform/longform"
	"fairlead.dev/services/agent/internal/desired"
	"fairlead.dev/services/agent/internal/kubeyaml"
	"fairlead.dev/services/agent/internal/render"
	"fairlead.dev/services/agent/internal/render/child"
)

// asChild makes this test binary be the child.
const asChild = "render"

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == asChild {
		os.Exit(child.Main(os.Stdin, os.Stdout, os.NewFile(3, "answers")))
	}
	os.Exit(m.Run())
}

const (
	helm      = deliveryv1.Renderer_RENDERER_HELM
	kustomize = deliveryv1.Renderer_RENDERER_KUSTOMIZE
	templates = deliveryv1.Renderer_RENDERER_TEMPLATE
)

// pack makes an artifact of files; "-> a" is a link to a.
func pack(t testing.TB, files map[string]string) []byte {
	t.Helper()
	return packFor(t, "", files)
}

// packFor makes an artifact for one of its folders.
func packFor(t testing.TB, base string, files map[string]string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := artifact.NewWriter(&out, artifact.Limits{})
	if base != "" {
		if err := w.Base(base); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		var err error
		if target, link := strings.CutPrefix(files[name], "-> "); link {
			err = w.Symlink(name, target)
		} else {
			err = w.File(name, false, int64(len(files[name])), strings.NewReader(files[name]))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func scope() render.Scope {
	return render.Scope{
		Cluster: render.ClusterScope{
			Name: "edge-1", Labels: map[string]string{"region": "eu"}, KubernetesVersion: "v1.36.3-gke.1",
			APIVersions: []string{"v1", "apps/v1", "apps/v1/Deployment"},
		},
		Service: render.ServiceScope{Name: "shop", Namespace: "web"},
		Release: render.ReleaseScope{Revision: 1, Install: true},
	}
}

// patience is for a machine that has much else to do.
const patience = 10 * time.Minute

// scan looks at a folder.
func scan(t testing.TB, spec *deliveryv1.RenderSpec, files map[string]string) (*render.Folder, error) {
	t.Helper()
	packed := pack(t, files)
	service := desired.Service{Name: "shop", Namespace: "web", Path: "apps", Render: spec}
	return render.Scan(service, func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(packed)), nil })
}

// run renders a folder in a child, and lists the objects as JSON by name.
func run(t testing.TB, spec *deliveryv1.RenderSpec, files map[string]string,
	lookup render.Lookup,
) (map[string]string, error) {
	t.Helper()
	return runPacked(t, desired.Service{
		Name: "shop", Namespace: "web", Path: "apps", Render: spec,
	}, pack(t, files), lookup)
}

// runWarned is run, and lists what was warned of.
func runWarned(t testing.TB, spec *deliveryv1.RenderSpec,
	files map[string]string,
) (objects map[string]string, warnings []string, err error) {
	t.Helper()
	service := desired.Service{Name: "shop", Namespace: "web", Path: "apps", Render: spec}
	objects, err = runIn(t, service, pack(t,
		files), render.Input{Scope: scope(), Warn: func(text string) { warnings = append(warnings, text) }})
	return objects, warnings, err
}

func runPacked(t testing.TB, service desired.Service, packed []byte, lookup render.Lookup) (map[string]string, error) {
	t.Helper()
	return runIn(t, service, packed, render.Input{Scope: scope(), Lookup: lookup})
}

func runIn(t testing.TB, service desired.Service, packed []byte, in render.Input) (map[string]string, error) {
	t.Helper()
	folder, err := render.Scan(service,
		func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(packed)), nil })
	if err != nil {
		return nil, err
	}
	objects := map[string]string{}
	renderer := render.New(os.Args[0], asChild)
	renderer.CPU, renderer.Time = processor, patience
	in.Folder = folder
	err = renderer.Render(t.Context(), in,
		func(obj *unstructured.Unstructured, _ kubeyaml.Position) error {
			text, err := json.Marshal(obj.Object)
			objects[obj.GetKind()+" "+obj.GetName()] = string(text)
			return err
		})
	return objects, err
}

// refuses wants a mistake of the folder, in these words, and nothing worse.
func refuses(t *testing.T, spec *deliveryv1.RenderSpec, files map[string]string, want string) {
	t.Helper()
	_, err := run(t, spec, files, nil)
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %.600v\nwant %s", err, want)
	}
	if _, mistake := errors.AsType[*kubeyaml.Error](err); !mistake {
		t.Errorf("%T is no mistake of the folder", err)
	}
}

func with(renderer deliveryv1.Renderer) *deliveryv1.RenderSpec {
	return &deliveryv1.RenderSpec{Renderer: renderer}
}

const chartYAML = "apiVersion: v2\nname: web\nversion: 1.2.3\n"

func configMap(name, data string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: " + name + "\ndata:\n  a: " + data + "\n"
}

func TestTemplatesSeeTheirScope(t *testing.T) {
	t.Parallel()
	got, err := run(t, with(templates), map[string]string{
		"_parts.tpl": `{{define "name"}}{{.Service.Name}}-{{.Cluster.Labels.region}}{{end}}`,
		"a.yaml": configMap(`{{include "name" . }}`, `{{ .Cluster.Name | upper | quote }}`) +
			"{{- if semverCompare \">=1.30-0\" .Cluster.KubernetesVersion}}\n---\n" +
			configMap("new", "{{.Service.Namespace}}") + "{{end}}",
		"README.md":   "{{ .Nothing }}",
		"deep/b.yaml": "# {{/* nothing */}}",
	}, nil)
	if err != nil || len(got) != 2 || !strings.Contains(got["ConfigMap shop-eu"], `"EDGE-1"`) ||
		!strings.Contains(got["ConfigMap new"], `"web"`) {
		t.Errorf("got %v %v", got, err)
	}
	refuses(t, with(templates), map[string]string{"a.yaml": "{{ .Cluster.Labels.zone }}"},
		`apps/a.yaml: template: a.yaml:1:11: executing "a.yaml" at <.Cluster.Labels.zone>: map has no entry for key "zone"`)
	refuses(t, with(templates), map[string]string{"a.yaml": `{{ env "HOME" }}`}, `function "env" not defined`)
}

func TestKustomizeBuildsOverlays(t *testing.T) {
	t.Parallel()
	got, err := run(t, &deliveryv1.RenderSpec{Path: "overlays/prod"}, map[string]string{
		"base/kustomization.yaml":          "resources: [a.yaml]\n",
		"base/a.yaml":                      configMap("a", "base"),
		"parts/kustomization.yaml":         "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\nconfigMapGenerator:\n- name: made\n  literals: [url=https://example.com/a]\n",
		"overlays/prod/kustomization.yaml": "namePrefix: prod-\nresources: [../../base]\ncomponents: [../../parts]\npatches:\n- patch: |-\n    - {op: replace, path: /data/a, value: prod}\n  target: {kind: ConfigMap, name: a}\n",
	}, nil)
	if err != nil || len(got) != 2 || !strings.Contains(got["ConfigMap prod-a"], `"a":"prod"`) {
		t.Errorf("got %v %v", got, err)
	}
}

func TestHelmRendersAChartWithDependencies(t *testing.T) {
	t.Parallel()
	got, err := run(t, &deliveryv1.RenderSpec{Helm: &deliveryv1.HelmSpec{
		ValuesFiles: []string{"prod.yaml"}, Values: "two: spec\ndb: {size: 7}\n",
	}}, map[string]string{
		"Chart.yaml": chartYAML +
			"dependencies:\n- {name: db, version: 1.x, condition: db.enabled}\n- {name: cache, version: 1.x, alias: redis, condition: redis.enabled}\n",
		"values.yaml": "one: chart\ntwo: chart\nthree: chart\nredis: {enabled: false}\n",
		"prod.yaml":   "two: file\nthree: file\n",
		".helmignore": "*.bak\n",
		"templates/a.yaml": configMap("{{ .Release.Name }}",
			"{{ .Values.one }}-{{ .Values.two }}-{{ .Values.three }}-{{ .Release.Service }}-{{ .Capabilities.KubeVersion.Minor }}-{{ .Capabilities.APIVersions.Has \"apps/v1/Deployment\" }}"),
		"templates/bad.yaml.bak":        "{{ nonsense }}",
		"templates/_helpers.tpl":        `{{ define "x" }}x{{ end }}`,
		"templates/NOTES.txt":           "thanks",
		"templates/tests/t.yaml":        configMap("test", "x"),
		"crds/boat.yaml":                "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: boats.x.dev}\n",
		"charts/db/Chart.yaml":          "apiVersion: v2\nname: db\nversion: 1.0.0\n",
		"charts/db/values.yaml":         "size: 1\n",
		"charts/db/templates/b.yaml":    configMap("db", "\"{{ .Values.size }}\""),
		"charts/cache/Chart.yaml":       "apiVersion: v2\nname: cache\nversion: 1.0.0\n",
		"charts/cache/templates/c.yaml": configMap("cache", "x"),
	}, nil)
	want := []string{"ConfigMap db", "ConfigMap shop", "ConfigMap test", "CustomResourceDefinition boats.x.dev"}
	if err != nil || !slices.Equal(slices.Sorted(maps.Keys(got)), want) ||
		!strings.Contains(got["ConfigMap shop"], `"chart-spec-file-Helm-36-true"`) ||
		!strings.Contains(got["ConfigMap db"], `"7"`) {
		t.Errorf("got %v %v", got, err)
	}
	refuses(t, nil, map[string]string{
		"Chart.yaml": chartYAML + "dependencies:\n- {name: db, version: 1.x, repository: https://example.com}\n",
	}, "dependency db is not in charts/, and nothing is fetched")
	refuses(t, nil, map[string]string{
		"Chart.yaml": chartYAML +
			"dependencies:\n- {name: db, version: 1.x}\n- {name: cache, version: 1.x, alias: redis}\n- {name: cache, version: 2.x, alias: valkey}\n",
	},
		"dependencies db, cache are not in charts/, and nothing is fetched. Run `helm dependency update`, and push charts/")
	refuses(t, nil, map[string]string{"Chart.yaml": chartYAML + "kubeVersion: '<1.20'\n"},
		"the chart is for Kubernetes <1.20, and the cluster has v1.36.3")
	refuses(t, nil, map[string]string{"Chart.yaml": chartYAML, "templates/a.yaml": `{{ fail "say what" }}`}, "say what")
	refuses(t, nil, map[string]string{"Chart.yaml": chartYAML, "values.schema.json": `{"$ref": "file:///etc/passwd"}`},
		`refers to "file:///etc/passwd", and nothing is fetched`)
	refuses(t, nil, map[string]string{"Chart.yaml": chartYAML, "values.schema.json": `{"required": ["port"]}`},
		"missing property 'port'")
}

// A template sees what the lookup of its service gives, and not what it is refused.
func TestLookupSeesOnlyTheAccountsObjects(t *testing.T) {
	t.Parallel()
	lookup := func(_ context.Context, gvk schema.GroupVersionKind, namespace, name string) (json.RawMessage, error) {
		switch {
		case gvk.Kind == "Secret":
			return nil, errors.New(`secrets is forbidden: User "system:serviceaccount:web:shop" cannot get them`)
		case namespace == "web" && name == "settings":
			return json.RawMessage(`{"data":{"a":"seen"}}`), nil
		}
		return nil, nil
	}
	chart := map[string]string{
		"Chart.yaml": chartYAML,
		"templates/a.yaml": configMap("a",
			`{{ (lookup "v1" "ConfigMap" "web" "settings").data.a }}{{ if not (lookup "v1" "ConfigMap" "web" "other") }}-none{{ end }}`),
	}
	got, err := run(t, nil, chart, lookup)
	if err != nil || !strings.Contains(got["ConfigMap a"], `"seen-none"`) {
		t.Errorf("got %v %v", got, err)
	}
	chart["templates/b.yaml"] = `{{ lookup "v1" "Secret" "kube-system" "root" }}`
	if _, err := run(t, nil, chart, lookup); err == nil ||
		!strings.Contains(err.Error(), "system:serviceaccount:web:shop") {
		t.Errorf("got %v", err)
	}
}

// Helm's lookup gives integers as int64: a template compares them with literals.
func TestLookupGivesIntegersAsHelmDoes(t *testing.T) {
	t.Parallel()
	lookup := func(context.Context, schema.GroupVersionKind, string, string) (json.RawMessage, error) {
		return json.RawMessage(`{"spec":{"replicas":3,"share":0.5}}`), nil
	}
	got, err := run(t, nil, map[string]string{
		"Chart.yaml": chartYAML,
		"templates/a.yaml": configMap("a",
			`{{ $l := lookup "apps/v1" "Deployment" "web" "shop" }}{{ eq $l.spec.replicas 3 }}-{{ kindOf $l.spec.replicas }}-{{ kindOf $l.spec.share }}`),
	}, lookup)
	if err != nil || !strings.Contains(got["ConfigMap a"], `"true-int64-float64"`) {
		t.Errorf("got %v %v", got, err)
	}
}

// A cluster that does not answer, or refuses, is no mistake of the folder: the render is worth another try.
func TestALookupThatFailsIsTriedAgain(t *testing.T) {
	t.Parallel()
	lookup := func(context.Context, schema.GroupVersionKind, string, string) (json.RawMessage, error) {
		return nil, errors.New("the API server is not there")
	}
	_, err := run(t, nil, map[string]string{
		"Chart.yaml": chartYAML, "templates/a.yaml": `{{ lookup "v1" "Secret" "web" "root" }}`,
	}, lookup)
	if err == nil || !strings.Contains(err.Error(), "the API server is not there") {
		t.Errorf("got %v", err)
	}
	if _, mistake := errors.AsType[*kubeyaml.Error](err); mistake {
		t.Errorf("%v is taken for a mistake of the folder", err)
	}
}

// Templates may keep all that they look up.
func TestLookupsOfARenderAreBoundedInAll(t *testing.T) {
	t.Parallel()
	large := json.RawMessage(`{"data":{"a":"` + strings.Repeat("x", 1<<20) + `"}}`)
	asked := 0
	lookup := func(context.Context, schema.GroupVersionKind, string, string) (json.RawMessage, error) {
		asked++
		return large, nil
	}
	chart := func(count string) map[string]string {
		return map[string]string{"Chart.yaml": chartYAML, "templates/a.yaml": "# all of them\n" +
			configMap("a", `{{ $all := list }}{{ range until `+count+
				` }}{{ $all = append $all (lookup "v1" "ConfigMap" "web" "large") }}{{ end }}{{ len $all }}`)}
	}
	if got, err := run(t, nil, chart("15"), lookup); err != nil || !strings.Contains(got["ConfigMap a"], `"a":15`) {
		t.Errorf("got %v %v", got, err)
	}
	asked = 0
	_, err := run(t, nil, chart("500"), lookup)
	if _, mistake := errors.AsType[*kubeyaml.Error](err); !mistake || asked != 16 ||
		!strings.Contains(err.Error(), "find more than 16 MiB in all") ||
		!strings.Contains(err.Error(), "templates/a.yaml:") {
		t.Errorf("after %d lookups: %v", asked, err)
	}
}

// Nor may a later try give anything else.
func TestARefusedLookupIsAMistakeOfTheChart(t *testing.T) {
	t.Parallel()
	lookup := func(context.Context, schema.GroupVersionKind, string, string) (json.RawMessage, error) {
		return nil, &render.RefusedError{Why: `project "shop" does not allow lookup of kind Secret`}
	}
	_, err := run(t, nil, map[string]string{
		"Chart.yaml": chartYAML, "templates/a.yaml": "\n{{ lookup \"v1\" \"Secret\" \"web\" \"root\" }}",
	}, lookup)
	if _, mistake := errors.AsType[*kubeyaml.Error](err); !mistake ||
		!strings.Contains(err.Error(), `templates/a.yaml:2:`) ||
		!strings.Contains(err.Error(), "does not allow lookup of kind Secret") {
		t.Errorf("got %v", err)
	}
}

func TestKustomizeRemoteBaseIsRefused(t *testing.T) {
	t.Parallel()
	for _, base := range []string{
		"https://example.com/a.yaml", "github.com/a/b//c?ref=v1", "git@github.com:a/b.git", "ssh://host/a",
		"file:///etc",
	} {
		refuses(t, nil, map[string]string{"kustomization.yaml": "# the base\nresources:\n- " + base + "\n"},
			"apps/kustomization.yaml, line 3: \""+base+"\" is not in the service's folder, and nothing is fetched")
	}
	refuses(t, nil, map[string]string{"kustomization.yaml": "patches:\n- path: http://127.0.0.1/x\n"},
		"nothing is fetched")
	refuses(t, nil, map[string]string{"kustomization.yaml": "helmCharts:\n- name: x\n"}, "set render.renderer to helm")
}

func TestKustomizeLeavesItsFolder(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"../../../../etc/passwd", "/etc/passwd", "../other"} {
		refuses(t, nil, map[string]string{
			"kustomization.yaml": "resources: [" + path + "]\n", "a.yaml": configMap("a", "a"),
		}, "kustomize build")
	}
}

func TestKustomizeCycle(t *testing.T) {
	t.Parallel()
	refuses(t, &deliveryv1.RenderSpec{Path: "a"}, map[string]string{
		"a/kustomization.yaml": "resources: [../b]\n", "b/kustomization.yaml": "resources: [../a]\n",
	}, "cycle")
}

func TestKustomizeExecPluginIsRefused(t *testing.T) {
	t.Parallel()
	const plugin = "apiVersion: x.dev/v1\nkind: Run\nmetadata:\n  name: x\n  annotations:\n    config.kubernetes.io/function: |\n      exec: {path: /bin/sh}\n"
	refuses(t, nil, map[string]string{"kustomization.yaml": "generators: [run.yaml]\n", "run.yaml": plugin},
		"kustomize build")
	refuses(t, nil, map[string]string{
		"kustomization.yaml": "transformers: [run.yaml]\nresources: [a.yaml]\n", "run.yaml": plugin,
		"a.yaml": configMap("a", "a"),
	}, "kustomize build")
}

func TestEndlessTemplateLoop(t *testing.T) {
	t.Parallel()
	longform.Only(t, "templates that run until their limit")
	refuses(t, with(templates),
		map[string]string{"a.yaml": `{{ define "a" }}{{ template "a" . }}{{ end }}{{ template "a" . }}`},
		"exceeded maximum template depth")
	refuses(t, with(templates),
		map[string]string{"a.yaml": `{{ define "a" }}{{ include "a" . }}{{ end }}{{ template "a" . }}`},
		"include is nested more than 200 deep")
	if memoryIsTold {
		refuses(t, with(templates), map[string]string{"a.yaml": `{{ range until 2000000000 }}{{ end }}`}, "to render")
	}
	refuses(t, with(templates),
		map[string]string{"a.yaml": `{{ range until 30000 }}{{ range until 30000 }}{{ end }}{{ end }}`},
		fmt.Sprintf("takes more than %s of processor time to render. Look for a loop", processor))
}

func TestTemplateThatPrintsForever(t *testing.T) {
	t.Parallel()
	refuses(t, with(templates), map[string]string{"a.yaml": `{{ range until 1000000 }}{{ repeat 1000 "x" }}{{ end }}`},
		"renders to more than")
	if memoryIsTold {
		refuses(t, with(templates), map[string]string{"a.yaml": `{{ repeat 2000000000 "x" }}`}, "of memory")
	}
}

func TestHelmRecursiveInclude(t *testing.T) {
	t.Parallel()
	refuses(t, nil, map[string]string{
		"Chart.yaml": chartYAML, "templates/a.yaml": `{{ define "a" }}{{ include "a" . }}{{ end }}{{ include "a" . }}`,
	}, "nested reference name")
}

func TestHelmTplBomb(t *testing.T) {
	t.Parallel()
	longform.Only(t, "templates that run until their limit")
	refuses(t, nil, map[string]string{
		"Chart.yaml": chartYAML, "values.yaml": "t: '{{ tpl .Values.t . }}{{ tpl .Values.t . }}'\n",
		"templates/a.yaml": `{{ tpl .Values.t . }}`,
	}, "apps")
}

func TestCompressedBombInAChart(t *testing.T) {
	t.Parallel()
	longform.Only(t, "a package that grows until its limit")
	var bomb bytes.Buffer
	zip := gzip.NewWriter(&bomb)
	w := tar.NewWriter(zip)
	const size = 200 << 20
	if err := w.WriteHeader(&tar.Header{
		Name: "bomb/values.yaml", Typeflag: tar.TypeReg, Mode: 0o644, Size: size,
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := io.CopyN(w, zeros{}, size); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Close(), zip.Close()); err != nil {
		t.Fatal(err)
	}
	refuses(t, nil, map[string]string{"Chart.yaml": chartYAML, "charts/bomb.tgz": bomb.String()},
		"error unpacking subchart bomb.tgz")
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// large makes a folder of plain manifests that is read by a child.
func large(text string) map[string]string {
	return map[string]string{"a.yaml": text, "b.yaml": "# " + strings.Repeat("x", 2<<20)}
}

func TestYAMLAliasBomb(t *testing.T) {
	t.Parallel()
	longform.Only(t, "documents that grow until their limit")
	bomb := "a: &a [x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c < 'k'; c++ {
		bomb += fmt.Sprintf("%c: &%c [*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c]\n", c, c, c-1, c-1, c-1, c-1, c-1, c-1, c-1,
			c-1, c-1)
	}
	refuses(t, nil, map[string]string{"a.yaml": bomb}, "aliases repeat more than")
	refuses(t, nil, large(bomb), "aliases repeat more than")
	refuses(t, with(kustomize), map[string]string{
		"kustomization.yaml": "resources: [a.yaml]\n", "a.yaml": bomb,
	}, "apps")
	refuses(t, nil, map[string]string{"Chart.yaml": chartYAML, "values.yaml": bomb}, "apps")
}

func TestDeepNesting(t *testing.T) {
	t.Parallel()
	deep := "a: " + strings.Repeat("[", 9000) + strings.Repeat("]", 9000)
	refuses(t, nil, map[string]string{"a.yaml": deep}, "is nested more than 200 levels deep")
	refuses(t, with(kustomize),
		map[string]string{"kustomization.yaml": "resources: [a.yaml]\n", "a.yaml": configMap("a", "x") + deep}, "apps")
	refuses(t, nil, map[string]string{
		"Chart.yaml": chartYAML, "values.yaml": deep, "templates/a.yaml": configMap("a", "{{ .Values.a }}"),
	}, "apps")
}

func TestHundredThousandDocuments(t *testing.T) {
	t.Parallel()
	longform.Only(t, "100,000 documents")
	many := strings.Repeat("---\napiVersion: v1\nkind: A\nmetadata: {name: a}\n", 100_000)
	refuses(t, nil, map[string]string{"a.yaml": many}, "more than 20000 documents")
	refuses(t, with(templates),
		map[string]string{
			"a.yaml": `{{ range until 100000 }}{{ print "---\napiVersion: v1\nkind: A\nmetadata: {name: a}\n" }}{{ end }}`,
		}, "more than 20000 documents")
}

// A tar that says a file has another kind, another place or another time than files of folders have.
func TestTarWithLinksDevicesAndDots(t *testing.T) {
	t.Parallel()
	for name, header := range map[string]tar.Header{
		"dots":      {Name: "../a.yaml", Typeflag: tar.TypeReg, Mode: 0o644},
		"absolute":  {Name: "/a.yaml", Typeflag: tar.TypeReg, Mode: 0o644},
		"device":    {Name: "a.yaml", Typeflag: tar.TypeChar, Mode: 0o644},
		"hard link": {Name: "a.yaml", Typeflag: tar.TypeLink, Linkname: "b.yaml", Mode: 0o644},
		".git":      {Name: ".GIT/a.yaml", Typeflag: tar.TypeReg, Mode: 0o644},
		"mode 0":    {Name: "a.yaml", Typeflag: tar.TypeReg},
	} {
		var out bytes.Buffer
		w := tar.NewWriter(&out)
		if err := w.WriteHeader(&header); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		_, err := render.Scan(desired.Service{Path: "apps"},
			func() (io.ReadCloser, error) { return io.NopCloser(&out), nil })
		if _, mistake := errors.AsType[*kubeyaml.Error](err); !mistake ||
			!strings.Contains(err.Error(), "apps: the folder is refused") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A child that dies in the middle is an error of this render; the next one is not touched by it.
func TestChildKilledMidway(t *testing.T) {
	t.Parallel()
	packed := pack(t, map[string]string{"a.yaml": configMap("a", "x")})
	folder, err := render.Scan(desired.Service{Name: "shop", Render: with(templates)},
		func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(packed)), nil })
	if err != nil {
		t.Fatal(err)
	}
	add := func(*unstructured.Unstructured, kubeyaml.Position) error { return nil }
	killed := render.New("/bin/sh", "-c", "kill -9 $$").Render(t.Context(),
		render.Input{Folder: folder, Scope: scope()}, add)
	if killed == nil || !strings.Contains(killed.Error(), "the renderer ended in the middle (signal: killed)") {
		t.Errorf("got %v", killed)
	}
	if _, mistake := errors.AsType[*kubeyaml.Error](killed); mistake {
		t.Error("it is taken for a mistake, and not tried again")
	}
	if err := render.New("/nowhere/agent-render").Render(t.Context(), render.Input{Folder: folder, Scope: scope()},
		add); err == nil || !strings.Contains(err.Error(), "It belongs beside the agent") {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("something else is wanted"))
	if err := render.New("/bin/cat").Render(ctx, render.Input{Folder: folder, Scope: scope()}, add); err == nil {
		t.Error("it went on for nobody")
	}
	if err := render.New(os.Args[0], asChild).Render(t.Context(), render.Input{Folder: folder, Scope: scope()},
		add); err != nil {
		t.Errorf("the next one: %v", err)
	}
}
