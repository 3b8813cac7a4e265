package child_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
)

// chart makes a chart of templates, by their names below templates/.
func chart(templates map[string]string) map[string]string {
	files := map[string]string{"Chart.yaml": chartYAML}
	for name, text := range templates {
		files["templates/"+name] = text
	}
	return files
}

// Whitespace control often eats the line break after a separator. Helm cuts there all the same.
func TestHelmSplitsAtGluedSeparators(t *testing.T) {
	t.Parallel()
	glued := "---\n\n{{- if true -}}\n# a comment\n" + configMap("a", "x") + "{{- end }}\n---\n\n{{- if true -}}\n" +
		configMap("b", "x") + "{{ end }}---\n{{- /* nothing */ -}}\n---\n" + configMap("c", "x")
	got, err := run(t, nil, chart(map[string]string{"a.yaml": glued}), nil)
	if err != nil || !slices.Equal(slices.Sorted(maps.Keys(got)), []string{
		"ConfigMap a", "ConfigMap b", "ConfigMap c",
	}) {
		t.Errorf("got %v %v", got, err)
	}
}

// Helm ends an ordinary object with one more line break than its template has, and a hook with none.
func TestBlockScalarsEndAsInTheManifestThatHelmStores(t *testing.T) {
	t.Parallel()
	text := func(name, scalar string) string {
		return "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: " + name + "\ndata:\n  a: " + scalar
	}
	hook := strings.Replace(text("hook", "|+\n    x\n"), "metadata:\n",
		"metadata:\n  annotations: {helm.sh/hook: pre-install}\n", 1)
	got, err := run(t, nil, chart(map[string]string{
		"a.yaml": strings.Join([]string{
			text("keep", "|+\n    x\n\n"), text("clip", "|\n    x\n\n\n"), text("strip", "|-\n    x\n\n"), hook,
			text("last", "|+\n    x"),
		}, "---\n"),
		"b.yaml": text("open", "|\n    x"),
	}), nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"keep": `x\n\n\n`, "clip": `x\n`, "strip": "x", "last": `x\n`, "open": `x\n`, "hook": `x\n`,
	} {
		if !strings.Contains(got["ConfigMap "+name], `"data":{"a":"`+want+`"}`) {
			t.Errorf("%s: got %s, want %s", name, got["ConfigMap "+name], want)
		}
	}
}

// A template may have any name and ending, and line breaks of Windows.
func TestHelmRendersFilesOfAnyName(t *testing.T) {
	t.Parallel()
	got, err := run(t, nil, chart(map[string]string{
		"a.tpl": configMap("a", "x"), "plain": configMap("b", "x"),
		"c.yaml": strings.ReplaceAll("---\n"+configMap("c", "x")+"---\n"+configMap("d", "x"), "\n", "\r\n"),
		"e.yaml": "\xef\xbb\xbf" + configMap("e", "\tx"), "OLD-NOTES.txt": "no manifest",
		"_f.tpl":     "{{ define \"f\" }}{{ end }}",
		"sub/g.json": `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "g"}}`,
	}), nil)
	want := []string{"ConfigMap a", "ConfigMap b", "ConfigMap c", "ConfigMap d", "ConfigMap e", "ConfigMap g"}
	if err != nil || !slices.Equal(slices.Sorted(maps.Keys(got)), want) {
		t.Errorf("got %v %v", got, err)
	}
}

// Plain manifests and our own templates are read as kubectl reads them: a separator stands alone.
func TestASeparatorOfPlainManifestsStandsAlone(t *testing.T) {
	t.Parallel()
	const want = `apps/a.yaml, document 1, line 7: the separator --- is followed by "apiVersion: v1". kubectl takes nothing but a comment there: begin a new line`
	for _, spec := range []*deliveryv1.RenderSpec{nil, with(templates)} {
		refuses(t, spec, map[string]string{"a.yaml": configMap("a", "x") + "---" + configMap("b", "x")}, want)
	}
}

// Helm takes the last of two equal keys; the author hears of it. Plain manifests are refused.
func TestHelmTakesTheLastOfTwoEqualKeysAndWarns(t *testing.T) {
	t.Parallel()
	twice := configMap("a", "first") + "  a: second\n"
	files := chart(map[string]string{"a.yaml": twice})
	files["crds/b.yaml"] = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: x.dev}\nspec: {a: 1, a: 2}\n"
	got, warnings, err := runWarned(t, nil, files)
	want := []string{
		`apps/crds/b.yaml, document 1, line 4: key "a" is there twice, and Helm takes the last.`,
		`apps/templates/a.yaml, document 1, line 7: key "a" is there twice, and Helm takes the last.`,
	}
	if err != nil || !strings.Contains(got["ConfigMap a"], `{"a":"second"}`) || !slices.Equal(warnings, want) {
		t.Errorf("got %v %q %v", got, warnings, err)
	}
	refuses(t, nil, map[string]string{"a.yaml": twice}, `apps/a.yaml, document 1, line 7: key "a" is there twice`)
}

// kubectl ends a document at "...", and reads nothing after that.
func TestTextAfterADocumentEndIsLeftOutWithAWarning(t *testing.T) {
	t.Parallel()
	files := map[string]string{
		"a.yaml": configMap("a", "x") + "...\n# nothing\n---\n" + configMap("b", "x") + "...\n" + configMap("c", "x"),
	}
	got, warnings, err := runWarned(t, nil, files)
	want := []string{
		`apps/a.yaml, document 2: text after a line "..." is left out, as kubectl and Helm do. Begin it with a line "---".`,
	}
	if err != nil || len(got) != 2 || !slices.Equal(warnings, want) {
		t.Errorf("got %v %q %v", got, warnings, err)
	}
}

// A number that Kubernetes has no value for is a mistake of the folder: trying again does not help.
func TestKustomizeRefusesNumbersThatJSONDoesNotHave(t *testing.T) {
	t.Parallel()
	refuses(t, nil, map[string]string{
		"kustomization.yaml": "resources: [a.yaml]\n",
		"a.yaml":             "apiVersion: x.dev/v1\nkind: A\nmetadata: {name: a}\nspec: {x: .nan}\n",
	}, "A a holds NaN: infinity and NaN are no values in Kubernetes")
	refuses(t, nil, chart(map[string]string{
		"a.yaml": "apiVersion: x.dev/v1\nkind: A\nmetadata: {name: a}\nspec: {x: .inf}\n",
	}), "infinity and NaN are no values in Kubernetes")
}
