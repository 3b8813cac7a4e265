package child_test

import (
	"strings"
	"testing"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
)

func TestKustomizeFollowsLinks(t *testing.T) {
	t.Parallel()
	for name, files := range map[string]map[string]string{
		"to a file": {"a.yaml": "-> real/a", "real/a": configMap("a", "x"), "k": "resources: [a.yaml]"},
		"to a folder": {
			"base": "-> real", "real/kustomization.yaml": "resources: [a]", "real/a": configMap("a", "x"),
			"k": "resources: [base]",
		},
		"to a kustomization": {
			"base/kustomization.yaml": "-> ../real", "real": "resources: [a]", "base/a": configMap("a", "x"),
			"k": "resources: [base]",
		},
		"to a link": {
			"a.yaml": "-> b", "b": "-> c/d", "c": "-> real", "real/d": configMap("a", "x"), "k": "resources: [a.yaml]",
		},
		"\"..\" after a name": {
			"a.yaml": "-> none/../../overlay/real", "none/x": "", "real": configMap("a", "x"),
			"k": "resources: [a.yaml]",
		},
		"\"..\" after a link": {
			"a.yaml": "-> far/../real", "far": "-> one/two", "one/two/x": "", "one/real": configMap("a", "x"),
			"k": "resources: [a.yaml]",
		},
		"base below a link": {
			"up": "-> one/two", "one/two/kustomization.yaml": "resources: [../near]",
			"one/near/kustomization.yaml": "resources: [a]", "one/near/a": configMap("a", "x"), "k": "resources: [up]",
		},
		"values of a generator": {
			"v": "-> real/v", "real/v": "a=b\n", "k": "configMapGenerator: [{name: m, envs: [v], files: [f=v]}]",
		},
		"a patch": {
			"p": "-> real/p", "real/p": configMap("a", "y"), "a": configMap("a", "x"),
			"k": "resources: [a]\npatches: [{path: p}]",
		},
		"unused, out": {
			"out": "-> ../../../etc/passwd", "abs": "-> /etc", "gone": "-> nothing", "git": "-> .git/config",
			"loop": "-> loop", "a": configMap("a", "x"), "k": "resources: [a]",
		},
		"unused, out, roundabout": {"out": "-> a/../../../x", "a": configMap("a", "x"), "k": "resources: [a]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tree := map[string]string{"overlay/kustomization.yaml": files["k"] + "\n"}
			delete(files, "k")
			for name, content := range files {
				tree["overlay/"+name] = content
			}
			builds(t, "overlay", tree)
		})
	}
}

func TestKustomizeLinkOutOfTheFolderIsNamed(t *testing.T) {
	t.Parallel()
	for target, words := range map[string]string{
		"../../passwd": `link "a.yaml" -> "../../passwd" leads out of the folder`,
		"/etc/passwd":  `link "a.yaml" -> "/etc/passwd" leads out of the folder`,
		"b/../../x":    `link "a.yaml" -> "b/../../x" leads out of the folder`,
		"a.yaml":       `through more links than are followed`,
		"nothing":      `no such file`,
	} {
		refuses(t, nil, map[string]string{
			"kustomization.yaml": "resources: [a.yaml]\n", "a.yaml": "-> " + target, "b/c": "x",
		}, words)
	}
}

// Charts with links are loaded as Helm loads them from a disk.
func TestHelmFollowsLinks(t *testing.T) {
	t.Parallel()
	files := map[string]string{
		"shared/library/Chart.yaml":       "apiVersion: v2\nname: library\nversion: 1.0.0\ntype: library\n",
		"shared/library/templates/_a.tpl": `{{ define "library.a" }}from-library{{ end }}`,
		"shared/crds/boat.yaml":           "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: boats.x.dev}\n",
		"shared/extra.yaml":               configMap("extra", "{{ .Chart.Name }}"),
		"shared/dashboard":                "{}",
		"chart/Chart.yaml":                chartYAML,
		"chart/.helmignore":               "*.bak\nout/\n",
		"chart/charts/library":            "-> ../../shared/library",
		"chart/crds":                      "-> ../shared/crds",
		"chart/templates/a.yaml": configMap("a",
			`{{ include "library.a" . }}-{{ .Files.Get "files/dashboard" }}-{{ .Values.one }}`),
		"chart/templates/extra.yaml":      "-> ../../shared/extra.yaml",
		"chart/files/dashboard":           "-> ../../shared/../shared/dashboard",
		"chart/values.yaml":               "-> ../values/chart.yaml",
		"chart/secret.bak":                "-> /etc/passwd",
		"chart/out":                       "-> ../../out",
		"values/chart.yaml":               "one: chart\n",
		"values/prod.yaml":                "one: prod\n",
		"values/now.yaml":                 "-> prod.yaml",
		"unrelated/deeper/than/the/chart": "-> ../../../../../../../x",
		"unrelated/kustomization.yaml":    "resources: [https://example.com/x]\n",
	}
	spec := &deliveryv1.RenderSpec{Path: "chart", Helm: &deliveryv1.HelmSpec{ValuesFiles: []string{"values/now.yaml"}}}
	got, err := run(t, spec, files, nil)
	if err != nil || len(got) != 3 || !strings.Contains(got["ConfigMap a"], `"from-library-{}-prod"`) ||
		!strings.Contains(got["ConfigMap extra"], `"web"`) || got["CustomResourceDefinition boats.x.dev"] == "" {
		t.Errorf("got %v, %v", got, err)
	}
	for target, words := range map[string]string{
		"../../../x": `apps/chart/templates/b.yaml: is a link that can't be followed: link "chart/templates/b.yaml" -> "../../../x" leads out of the folder`,
		"/etc":       "leads out of the folder", "nothing": "file does not exist",
		"b.yaml": "more links than are followed", "..": "is a link to a folder that it is in",
		"../templates": "is a link to a folder that it is in",
	} {
		files["chart/templates/b.yaml"] = "-> " + target
		refuses(t, spec, files, words)
	}
	delete(files, "chart/templates/b.yaml")
	files["values/now.yaml"] = "-> ../../prod.yaml"
	refuses(t, spec, files, `apps/values/now.yaml: is a link that can't be followed`)
}

func TestTemplatesFollowLinksToFiles(t *testing.T) {
	t.Parallel()
	got, err := run(t, &deliveryv1.RenderSpec{Path: "prod", Renderer: templates}, map[string]string{
		"shared/parts": `{{ define "x" }}seen{{ end }}`, "shared/a": configMap("a", `{{ include "x" . }}`),
		"prod/_parts.tpl": "-> ../shared/parts", "prod/a.yaml": "-> ../shared/a", "prod/out": "-> ../../x",
	}, nil)
	if err != nil || !strings.Contains(got["ConfigMap a"], `"seen"`) {
		t.Errorf("got %v, %v", got, err)
	}
}
