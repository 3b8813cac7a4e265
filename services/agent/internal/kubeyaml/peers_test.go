package kubeyaml

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"

	releaseutil "helm.sh/helm/v4/pkg/release/v1/util"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// read gives the documents that the reader finds, as JSON.
func read(as Dialect, name, data string) ([]string, error) {
	var documents []string
	reader := NewReader(nil, nil)
	reader.take = func(_ Position, value any) error {
		text, err := json.Marshal(value)
		documents = append(documents, string(text))
		return err
	}
	reader.ReadAs(as, name, []byte(data))
	return documents, reader.Err()
}

// kubectl gives the documents that kubectl's resource builder finds in a stream.
func kubectl(data string) ([]string, error) {
	const buffer = 4096
	var documents []string
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(data), buffer)
	for {
		var raw runtime.RawExtension
		if err := decoder.Decode(&raw); errors.Is(err, io.EOF) {
			return documents, nil
		} else if err != nil {
			return nil, err
		}
		if raw.Raw = bytes.TrimSpace(raw.Raw); len(raw.Raw) == 0 || bytes.Equal(raw.Raw, []byte("null")) {
			continue
		}
		var value any
		if err := yaml.Unmarshal(raw.Raw, &value); err != nil {
			return nil, err
		}
		text, err := json.Marshal(value)
		if err != nil {
			return nil, err
		}
		documents = append(documents, string(text))
	}
}

// helm gives the documents that Helm finds in the output of a template: hooks as they are, and the others as they stand
// in the manifest of a release, which Helm reads with kubectl's code.
func helm(data string) ([]string, error) {
	hooks, manifests, err := releaseutil.SortManifests(map[string]string{"chart/templates/a.yaml": data}, nil,
		releaseutil.InstallOrder)
	if err != nil {
		return nil, err
	}
	var stored strings.Builder
	for _, one := range manifests {
		stored.WriteString("---\n# Source: " + one.Name + "\n" + one.Content + "\n")
	}
	documents, err := kubectl(stored.String())
	for _, hook := range hooks {
		found, hookErr := kubectl(hook.Manifest)
		documents, err = append(documents, found...), errors.Join(err, hookErr)
	}
	return documents, err
}

// seeds are texts that tools read differently.
func seeds() []string {
	const a, b = "apiVersion: v1\nkind: A\nmetadata: {name: a}\n", "apiVersion: v1\nkind: B\nmetadata: {name: b}\n"
	hook := "apiVersion: v1\nkind: H\nmetadata: {name: h, annotations: {helm.sh/hook: pre-install}}\n"
	return []string{
		a + "---\n" + b, "---\n" + a + "---\n---\n" + b + "---", a + "---# a comment\n" + b,
		"---# a comment\n" + a + "---# another\n" + b,
		"---" + a + "---" + b, "---\t " + a, "---\r\n" + strings.ReplaceAll(a+"---\n"+b, "\n", "\r\n"),
		a + "--- # comment\n" + b, "--- {a: 1}\n--- x",
		"-----BEGIN CERTIFICATE-----\n", "------\n" + a, a + " ---\n", "\n\n  \n---\n\n" + a, "---\n  " + a,
		"\u00a0---\n" + a, "\u00a0\n---\n\u0085" + a,
		a + "...\n---\n" + b, a + "...\n" + b, a + "... # c\n" + b, "%YAML 1.1\n---\n" + a,
		"# c\n---\n# c\n---\nnull\n---\n~\n---\n" + a, "", "---", "\n", "...",
		a + "d: |\n  x\n  ---\n  y\n", a + "d: |\n  x", a + "d: |\n  x\n\n\n---\n" + b, a + "d: |+\n  x",
		a + "d: |+\n  x\n---\n" + b, a + "d: |+\n  x\n\n\n---\n" + b,
		a + "d: |-\n  x\n\n", a + "d: >\n  x\n  y", a + "d: >+\n  x\n\n", a + "d: \"x\n\n  y\"\n",
		a + "d: x\n  y\n\n  z", a + "d: |2\n    x\n   y\n", a + "d: |\n\n\n", a + "d: |+\n\n", a + "d: |\n  x\n  ",
		hook + "d: |+\n  x", hook + "d: |+\n  x\n---\n" + a, hook + "d: |+\n  x\n\n---" + hook + "d: |\n  y\n\n",
		hook + "d: |\n  x",
		`{"a": 1}`, `{"a": 1}{"b": 2}`, "{\"a\": 1}\n{\"b\": 2}\n---\n{\"c\": 3}", "{\"a\": 1}\n---\n{\"b\": 2}",
		"{a: 1}\n---\n{b: 2}", "{\"a\": 1}\n\n  b: 2\n", " \n{\"a\": 1e3}\nnull\n", "{\"a\":1}\n---\nb: |\n  x",
		"[1]\n",
		"a: 1\na: 2\n", "a: {x: 1}\na: {y: 2}\n",
		"a: &m {x: 1, y: 2}\nb: {x: 3, <<: *m}\nc: {<<: *m, x: 3}\nd: {<<: [*m, {x: 4, z: 5}]}\n", "\"<<\": 1\n",
		"<<: {a: 1}\n",
		"a: 18446744073709551615\nb: 9223372036854775807\nc: 9223372036854775808\nd: 1e+06\ne: 1.2345678e+07\nf: 12345678901234567890123\ng: -9223372036854775808\n",
		"a: 0644\nb: 0o17\nc: 08\nd: 0x1F\ne: 0b11\nf: -0644\ng: 1_000\nh: 0_\n",
		"yes: no\non: Off\ny: n\n~: 1\n1: 2\n-1: 3\n0x10: 4\n",
		"a: |\n  x\n\t\n  y\n", "a: |\n\t\n  y\n", "a: |\n  x\n  \t\n  y\n", "a: |\n  x\n \t\n", "a: |\n  x\n\t",
		"a: |\n  x\n\t# c\nb: 1\n", "a:\tb\n", "a: b\t# c\n", "a:\n\tb: 1\n", "a: \"\t\"\n", "- a\n-\tb\n",
		"a: !!str 1\nb: !!int \"1\"\nc: !!float 1\nd: !!bool yes\ne: !!binary aGk=\n",
		"a: 2001-01-01\nb: 12:30:45\nc: 1:1\nd: 190:20:30.15\n", "a: .inf\n", "a: =\nb: <<\nc: '~'\nd: ''\ne:\n",
		"? a\n: b\n? [c]\n: d\n", "\xef\xbb\xbfa: 1\n---\nb: 2\n",
		"a: @x\n", "a: `x`\n", "a: %x\n", "a: x: y\n", "a: 'it''s'\nb: \"\\u00e9\\x41\\n\"\n", "a: *x\n",
		"a: &x 1\nb: *x\n", "a: é\u2028b\n", "a: \x07\n", "a: !custom b\n", "key: [a, b,]\nb: {c, d: }\n",
	}
}

// deliberate tells whether an error is one that only the reader gives: text that nobody wants, or an endless one.
func deliberate(err error) bool {
	return slices.ContainsFunc([]string{
		"is there twice", "a key must be a string", "tag ", "infinity and NaN", "levels deep", "aliases repeat",
	}, func(text string) bool { return strings.Contains(err.Error(), text) })
}

// The documents of a plain file are those that kubectl finds, and those of a template's output are those that Helm
// applies.
func FuzzDocumentsAreThoseOfKubectlAndHelm(f *testing.F) {
	for _, seed := range seeds() {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data string) {
		data = strings.ReplaceAll(data, byteOrderMark, "") // Helm takes it off a template, kubectl keeps it in a name
		if regexp.MustCompile(`!(\s|[]},]|$)`).MatchString(data) {
			t.Skip("the parser does not tell the tag ! (a string, whatever it looks like) from none")
		}
		compare(t, "kubectl", Plain, data, kubectl)
		compare(t, "helm", HelmTemplate, data, helm)
	})
}

func compare(t *testing.T, tool string, as Dialect, data string, peer func(string) ([]string, error)) {
	t.Helper()
	want, err := peer(data)
	if err != nil {
		return
	}
	got, err := read(as, "a.yaml", data)
	if err != nil && (deliberate(err) ||
		strings.Contains(err.Error(), invalidYAML) && !slices.Contains(seeds(), data)) {
		return // the tools' parser looks less far ahead, and takes some broken texts
	}
	// hooks are told apart from the others, and come last; those of no known moment are left out
	if as == HelmTemplate {
		odd := func(text string) bool {
			return strings.Contains(text, "helm.sh/hook") &&
				!strings.Contains(text, `"metadata":{"annotations":{"helm.sh/hook":"pre-install"}`)
		}
		got, want = slices.DeleteFunc(got, odd), slices.DeleteFunc(want, odd)
		slices.Sort(got)
		slices.Sort(want)
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%q\nfairlead: %q %v\n%s: %q", data, got, err, tool, want)
	}
}
