package kustomization_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"fairlead.dev/services/gitcache/internal/kustomization"
)

// shown writes references as texts: "b:" for bases, "p:" for plugins, "r" and the line for remote ones.
func shown(all []kustomization.Reference) []string {
	texts := make([]string, 0, len(all))
	for _, r := range all {
		mark := ""
		if r.Base {
			mark += "b"
		}
		if r.Plugin {
			mark += "p"
		}
		if r.Remote != "" {
			mark += fmt.Sprint("r", r.Line)
		}
		texts = append(texts, mark+":"+r.Path+r.Remote)
	}
	slices.Sort(texts)
	return texts
}

func TestReferencesOfEveryFieldAreFound(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"resources: [a.yaml, ../b/, ./c]":                               {"b:../b", "b:a.yaml", "b:c"},
		"bases: [../../base]":                                           {"b:../../base"},
		"components: [../c]":                                            {"b:../c"},
		"crds: [c.json]":                                                {":c.json"},
		"configurations: [n.yaml]":                                      {":n.yaml"},
		"patchesStrategicMerge:\n- p.yaml\n- |\n  kind: A\n":            {":p.yaml"},
		"patches: [{path: p.yaml, target: {kind: A}}, {patch: 'x: y'}]": {":p.yaml"},
		"patchesJson6902: [{path: j.yaml, target: {name: ../not}}]":     {":j.yaml"},
		"replacements: [{path: r.yaml}, {source: {path: no}}]":          {":r.yaml"},
		"openapi: {path: s.json}":                                       {":s.json"},
		"configMapGenerator: [{name: a, files: [f, k=g], envs: [e], env: d, literals: [a=b]}]":  {":d", ":e", ":f", ":g", ":k=g"},
		"secretGenerator: [{files: [../s]}]":                                                    {":../s"},
		"generators: [g.yaml]\ntransformers: [../t]\nvalidators: [v]":                           {"bp:../t", "bp:g.yaml", "bp:v"},
		"transformers:\n- |-\n  kind: PatchTransformer\n  path: ../p.yaml\n":                    {":../p.yaml"},
		"x: &r [../a]\nresources: *r":                                                           {"b:../a"},
		"namePrefix: ../a\nimages: [{name: ../b}]\nlabels: [{pairs: {path: ../c}}]":             nil,
		"resources: [/etc/passwd, 'oci://example.com/a', '']":                                   nil,
		"resources:\n- 'https://example.com/a/b?ref=v1'\ncomponents: [git@example.com:a/b.git]": {"b:git@example.com:a/b.git", "br2:https://example.com/a/b?ref=v1", "br3:git@example.com:a/b.git"},
		"x: &r 'https://example.com/a/b'\nbases:\n- *r":                                         {"br3:https://example.com/a/b"},
		"generators: ['https://example.com/a/b']\ncrds: ['https://example.com/a/b']":            nil,
		"resources: {\n": nil,
		"":               nil,
		"- resources":    nil,
	} {
		if got := shown(kustomization.References([]byte(text))); !slices.Equal(got, want) {
			t.Errorf("%q refers to %q, want %q", text, got, want)
		}
	}
}

func TestReferencesOfPluginsAreFound(t *testing.T) {
	t.Parallel()
	const text = `apiVersion: builtin
kind: ConfigMapGenerator
metadata: {name: x}
files: [a, key=b]
---
kind: ReplacementTransformer
replacements: [{path: ../r}]
---
kind: PatchTransformer
path: p
target: {kind: A}
`
	want := []string{":../r", ":a", ":b", ":key=b", ":p"}
	if got := shown(kustomization.PluginReferences([]byte(text))); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

// A few KB that aliases make 10^10 references of.
func TestAliasesAreBounded(t *testing.T) {
	t.Parallel()
	text := "a: &a [" + strings.Repeat("x,", 10_000) + "x]\nb: &b [" + strings.Repeat("{files: *a},", 10_000) +
		"]\nconfigMapGenerator: *b\nsecretGenerator: *b\n"
	if n := len(kustomization.References([]byte(text))); n != kustomization.Max {
		t.Errorf("%d references", n)
	}
	if n := len(kustomization.PluginReferences([]byte(text))); n != kustomization.Max {
		t.Errorf("%d references of a plugin", n)
	}
}

// With any content of a repository: no panic, and no more than there is text for.
func FuzzReferences(f *testing.F) {
	f.Add([]byte("resources: [../a]\n---\ngenerators:\n- |-\n  path: x\n"))
	f.Add([]byte("a: &a [*a]\nresources: *a\n<<: *a\n"))
	f.Add([]byte("a: &a {<<: *a, path: x}\npatches: [*a]\n"))
	f.Add([]byte("&a transformers: &b [*b, {path: *a}]"))
	f.Add([]byte("x: &r https://example.com/a/b//c?ref=v1\nresources: [*r, 'git@example.com:a/b']\ncomponents:\n- github.com/a/b?version=1\n"))
	f.Fuzz(func(t *testing.T, content []byte) {
		for _, r := range append(kustomization.References(content), kustomization.PluginReferences(content)...) {
			if r.Remote != "" && r.Path == "" && r.Base && !r.Plugin && r.Line > 0 {
				continue
			}
			if r.Path == "" || strings.HasPrefix(r.Path, "/") || strings.Contains(r.Path, "\n") {
				t.Errorf("refers to %q", r.Path)
			}
		}
	})
}

// A value that is merged or named by very many aliases is looked at a bounded number of times: each of these would take
// hours.
func TestRepeatedValuesAreBounded(t *testing.T) {
	t.Parallel()
	const many = 150_000
	pairs, aliases := strings.Repeat("a,", many), strings.Repeat("*x,", many)
	for name, content := range map[string]string{
		"merged":  "x: &x {" + pairs + "}\n<<: [" + aliases + "]\n",
		"patches": "x: &x {" + pairs + "}\npatches: [" + aliases + "]\n",
		"inline":  "x: &x |\n" + strings.Repeat("  a: {b: c}\n", many/10) + "generators: [" + aliases + "]\n",
	} {
		if found := kustomization.References([]byte(content)); len(found) > kustomization.Max {
			t.Errorf("%s: %d references", name, len(found))
		}
	}
}
