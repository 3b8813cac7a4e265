package schema_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"fairlead.dev/cli/internal/schema"
	"fairlead.dev/platform/catalogyaml"
	"fairlead.dev/platform/kind"
)

func compile(t *testing.T) *jsonschema.Schema {
	t.Helper()
	text, err := schema.Marshal(kind.All())
	if err != nil {
		t.Fatal(err)
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("fairlead.schema.json", document); err != nil {
		t.Fatal(err)
	}
	compiled, err := c.Compile("fairlead.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return compiled
}

func judge(t *testing.T, s *jsonschema.Schema, document string) error {
	t.Helper()
	var plain any
	if err := yaml.Unmarshal([]byte(document), &plain); err != nil {
		t.Fatalf("%v:\n%s", err, document)
	}
	asJSON, err := json.Marshal(plain)
	if err != nil {
		t.Fatal(err)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(asJSON))
	if err != nil {
		t.Fatal(err)
	}
	return s.Validate(value)
}

// documents are the YAML of all pages that `fairlead apply` takes.
func documents(t *testing.T) (all []string) {
	t.Helper()
	docs := filepath.Join("..", "..", "..", "docs")
	pages, err := filepath.Glob(filepath.Join(docs, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range pages {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range strings.Split(string(text), "\n```yaml\n")[1:] {
			block, _, _ := strings.Cut(part, "\n```\n")
			for document := range strings.SplitSeq("\n"+block+"\n", "\n---\n") {
				objects, err := catalogyaml.Decode(name, []byte(document))
				if err == nil && len(objects) == 1 && catalogyaml.Validate(objects) == nil {
					all = append(all, document)
				}
			}
		}
	}
	return all
}

// What apply takes, and `get -o yaml` prints with what the hub fills in, an editor does not mark.
func TestSchemaAcceptsWhatPagesShow(t *testing.T) {
	t.Parallel()
	s, seen := compile(t), map[catalogyaml.Kind]bool{}
	all := documents(t)
	if len(all) < 60 {
		t.Fatalf("only %d documents are found", len(all))
	}
	for _, document := range all {
		objects, err := catalogyaml.Decode("", []byte(document))
		if err != nil {
			t.Fatal(err)
		}
		seen[objects[0].Kind()] = true
		if err := judge(t, s, document); err != nil {
			t.Errorf("%v:\n%s", err, document)
		}
	}
	for _, k := range catalogyaml.Kinds() {
		if !seen[k] && k != catalogyaml.Role && k != catalogyaml.ServiceAccount {
			t.Errorf("no page shows a %s", k)
		}
	}
	printed := `
apiVersion: fairlead.dev/v1
kind: Source
metadata: {name: shop, uid: a, revision: 3, etag: b, createTime: "2026-01-31T12:00:00Z"}
spec: {git: {url: https://git.example.com/shop.git, interval: 1m30s}}
status: {anything: [1]}
`
	if err := judge(t, s, printed); err != nil {
		t.Error(err)
	}
}

// What breaks a rule that needs no hub is marked where it stands.
func TestSchemaMarksWhatApplyRefuses(t *testing.T) {
	t.Parallel()
	s := compile(t)
	source := "apiVersion: fairlead.dev/v1\nkind: Source\nmetadata: {name: shop}\nspec: {git: {url: https://git.example.com/shop.git}}\n"
	if err := judge(t, s, source); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ what, old, put, at string }{
		{"another kind", "kind: Source", "kind: Deployment", "/kind"},
		{"another version", "fairlead.dev/v1", "apps/v1", "/apiVersion"},
		{"no name", "{name: shop}", "{}", ""},
		{"an unknown field", "url:", "branch: main, url:", "/spec/git"},
		{"a field that must be there", "url: https://git.example.com/shop.git", "interval: 1m", "/spec/git"},
		{"a duration in words", "url:", "interval: 5 minutes, url:", "/spec/git/interval"},
		{"a list for a text", "https://git.example.com/shop.git", "[a]", "/spec/git/url"},
		{"a text that is too long", "https://git.example.com/shop.git", "https://" + strings.Repeat("x", 2048), "/spec/git/url"},
		{"a number for a text", "name: shop", "name: 5", "/metadata/name"},
	} {
		document := strings.Replace(source, c.old, c.put, 1)
		if _, err := catalogyaml.Decode("", []byte(document)); err == nil {
			objects, _ := catalogyaml.Decode("", []byte(document))
			if catalogyaml.Validate(objects) == nil {
				t.Errorf("%s: apply takes it:\n%s", c.what, document)
			}
		}
		err := judge(t, s, document)
		if err == nil {
			t.Errorf("%s: the schema takes it:\n%s", c.what, document)
		} else if !strings.Contains(err.Error(), "at '"+c.at) {
			t.Errorf("%s is marked elsewhere than at %q: %v", c.what, c.at, err)
		}
	}
}
