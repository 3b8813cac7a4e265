package kubeyaml_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"fairlead.dev/services/agent/internal/kubeyaml"
)

// parse reads one file of a folder.
func parse(name, content string) ([]kubeyaml.Object, error) {
	var objects []kubeyaml.Object
	reader := kubeyaml.NewReader(func(obj *unstructured.Unstructured, at kubeyaml.Position) error {
		objects = append(objects, kubeyaml.Object{Unstructured: obj, Position: at})
		return nil
	}, nil)
	reader.Read("apps/hello/"+name, []byte(content))
	return objects, reader.Err()
}

func names(objects []kubeyaml.Object) string {
	var list []string
	for _, obj := range objects {
		list = append(list, obj.String())
	}
	return strings.Join(list, "\n")
}

func TestParseFindsObjects(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ file, content, want string }{
		"one": {
			"a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n",
			"ConfigMap a (apps/hello/a.yaml, document 1)",
		},
		"several documents with comments and empty ones": {
			"a.yml",
			"# licence\n---\n# nothing\n---\napiVersion: v1\nkind: Secret\nmetadata:\n  name: a\n  namespace: x\n---\n---\nnull\n--- # b\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: b}\n---\n",
			"Secret x/a (apps/hello/a.yaml, document 1)\nDeployment b (apps/hello/a.yaml, document 3)",
		},
		"document end marks": {
			"a.yaml",
			"%YAML 1.1\n---\napiVersion: v1\nkind: A\nmetadata: {name: a}\n...\n---\napiVersion: v1\nkind: B\nmetadata: {name: b}\n...\n",
			"A a (apps/hello/a.yaml, document 1)\nB b (apps/hello/a.yaml, document 2)",
		},
		"separator inside a block": {
			"a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  x: |\n    one\n    ---\n    two\n",
			"ConfigMap a (apps/hello/a.yaml, document 1)",
		},
		"List": {
			"a.yaml", "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: A, metadata: {name: a}}\n- {apiVersion: v1, kind: B, metadata: {name: b}}\n",
			"A a (apps/hello/a.yaml, document 1, item 1)\nB b (apps/hello/a.yaml, document 1, item 2)",
		},
		"typed list leaves out the kind": {
			"a.yaml", "apiVersion: v1\nkind: ConfigMapList\nitems:\n- {metadata: {name: a}}\n",
			"ConfigMap a (apps/hello/a.yaml, document 1, item 1)",
		},
		"a resource named like a list": {
			"a.yaml", "apiVersion: x.dev/v1\nkind: AllowList\nmetadata: {name: a}\nitems: [x]\n",
			"AllowList a (apps/hello/a.yaml, document 1)",
		},
		"empty List": {"a.yaml", "apiVersion: v1\nkind: List\nitems: []\n", ""},
		"JSON": {
			"a.json",
			"{\"apiVersion\":\"v1\",\"kind\":\"A\",\"metadata\":{\"name\":\"a\"}}\n{\"apiVersion\":\"v1\",\"kind\":\"B\",\"metadata\":{\"name\":\"b\"}}",
			"A a (apps/hello/a.yaml, document 1)\nB b (apps/hello/a.yaml, document 2)",
		},
		"byte order mark, CRLF": {
			"a.yaml",
			"\xef\xbb\xbfapiVersion: v1\r\nkind: A\r\nmetadata:\r\n  name: a\r\n---\r\napiVersion: v1\r\nkind: B\r\nmetadata:\r\n  name: b\r\n",
			"A a (apps/hello/a.yaml, document 1)\nB b (apps/hello/a.yaml, document 2)",
		},
		"quotes and unicode": {
			"a.yaml", "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: \"it's:ü\"}\n",
			"ClusterRole it's:ü (apps/hello/a.yaml, document 1)",
		},
		"merge keys and anchors": {
			"a.yaml", "apiVersion: v1\nkind: A\nmetadata: &m {name: a}\nspec:\n  <<: *m\n  x: 1\n",
			"A a (apps/hello/a.yaml, document 1)",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objects, err := parse(test.file, test.content)
			if err != nil {
				t.Fatal(err)
			}
			want := strings.ReplaceAll(test.want, "a.yaml", test.file)
			if got := names(objects); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func TestParseTellsMistakes(t *testing.T) {
	t.Parallel()
	bomb := "a: &a [x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c < 'k'; c++ {
		bomb += fmt.Sprintf("%c: &%c [*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c]\n", c, c, c-1, c-1, c-1, c-1, c-1, c-1, c-1,
			c-1, c-1)
	}
	tests := map[string]struct{ file, content, want string }{
		"no apiVersion": {
			"a.yaml", "kind: A\nmetadata: {name: a}\n",
			"apps/hello/a.yaml, document 1, line 1: A: apiVersion is missing",
		},
		"no kind": {
			"a.yaml", "---\n\napiVersion: v1\nmetadata: {name: a}\n",
			"apps/hello/a.yaml, document 1, line 3: kind is missing",
		},
		"values.yaml": {
			"values.yaml", "replicas: 3\n",
			"apps/hello/values.yaml, document 1, line 1: apiVersion and kind are missing. Move the file out of the folder",
		},
		"no name": {
			"a.yaml", "apiVersion: v1\nkind: A\nmetadata: {}\n", "document 1, line 1: A: metadata.name is missing",
		},
		"name is a number": {
			"a.yaml", "apiVersion: v1\nkind: A\nmetadata: {name: 12}\n",
			"A: metadata.name must be a string: put it in quotes",
		},
		"name climbs": {"a.yaml", "apiVersion: v1\nkind: A\nmetadata: {name: ../../x}\n", "can't be a name"},
		"namespace climbs": {
			"a.yaml", "apiVersion: v1\nkind: A\nmetadata: {name: x, namespace: a/b}\n",
			"must be the name of a namespace",
		},
		"generateName": {
			"a.yaml", "apiVersion: v1\nkind: Job\nmetadata: {generateName: a-}\n",
			"metadata.generateName would make a new object at every apply",
		},
		"label is a boolean": {
			"a.yaml", "apiVersion: v1\nkind: A\nmetadata: {name: a, labels: {on: yes}}\n",
			"metadata.labels[true]: expected string, got boolean. Put it in quotes",
		},
		"annotations are a list": {
			"a.yaml", "apiVersion: v1\nkind: A\nmetadata: {name: a, annotations: [x]}\n",
			"metadata.annotations: expected map, got list",
		},
		"bad apiVersion": {
			"a.yaml", "apiVersion: a/b/c\nkind: A\nmetadata: {name: a}\n",
			`apiVersion "a/b/c" is not of the form group/version`,
		},
		"syntax": {
			"a.yaml", "apiVersion: v1\nkind: A\nmetadata: {name: a}\n---\n\napiVersion: v1\nkind: : B\n",
			"apps/hello/a.yaml, document 2, line 7: is no valid YAML",
		},
		"tab": {"a.yaml", "a:\n\tb: c\n", "document 1, line 2: is no valid YAML"},
		"key twice": {
			"a.yaml", "apiVersion: v1\nkind: A\nmetadata:\n  name: a\n  name: b\n",
			`document 1, line 5: key "name" is there twice`,
		},
		"a list": {"a.yaml", "- a\n", "is no Kubernetes object: it holds a list"},
		"JSON syntax": {
			"a.json", "{\n\"kind\": ]\n}", "apps/hello/a.json, document 1, line 2: is no valid JSON",
		},
		"JSON cut short": {"a.json", "{\n\"kind\": ", "is no valid JSON"},
		"custom tag": {
			"a.yaml", "apiVersion: v1\nkind: A\nmetadata: {name: a}\nx: !Ref b\n", "line 4: tag !Ref is not supported",
		},
		"not a number": {
			"a.yaml", "apiVersion: v1\nkind: A\nmetadata: {name: a}\nx: .nan\n", "line 4: infinity and NaN",
		},
		"List of no list": {
			"a.yaml", "apiVersion: v1\nkind: List\nitems: {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n",
			"apps/hello/a.yaml, document 1, line 1: List: items: expected list, got map",
		},
		"nested Lists": {
			"a.json", strings.Repeat(`{"apiVersion":"v1","kind":"List","items":[`, 9) + strings.Repeat(`]}`, 9),
			"Lists are nested too deeply",
		},
		"alias bomb": {"a.yaml", bomb, "aliases repeat more than"},
		"alias to a long text": {
			"a.yaml", "a: &a " + strings.Repeat("x", 1<<20) + "\nb: [" + strings.Repeat("*a, ", 50) + "]\n",
			"aliases repeat more than 4194304 bytes",
		},
		"alias to a long key": {
			"a.yaml", "a: &a " + strings.Repeat("x", 1<<20) + "\nb: [" + strings.Repeat("{*a : 1}, ", 50) + "]\n",
			"aliases repeat more than 4194304 bytes",
		},
		"alias to itself": {"a.yaml", "a: &a [*a, *a]\n", "line 1"},
		"deep YAML": {
			"a.yaml", "a: " + strings.Repeat("[", 5000) + strings.Repeat("]", 5000),
			"is nested more than 200 levels deep",
		},
		"deep JSON": {
			"a.json", strings.Repeat("[", 5000) + strings.Repeat("]", 5000), "is nested more than 200 levels deep",
		},
		"too many values": {
			"a.yaml", "a: [" + strings.Repeat("1,", 600_000) + "]", "the document has more than 500000 values",
		},
		"too many documents": {
			"a.yaml", strings.Repeat("---\napiVersion: v1\nkind: A\nmetadata: {name: a}\n", 20_001),
			"more than 20000 documents",
		},
		"too large": {"a.yaml", strings.Repeat("#", 17<<20), "more than the 16777216 bytes that are read"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := parse(test.file, test.content)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v\nwant %s", err, test.want)
			}
			if _, ok := errors.AsType[*kubeyaml.Error](err); !ok {
				t.Errorf("%T is no manifest.Error", err)
			}
		})
	}
}

func TestParseTellsMistakesOfSeveralFilesAtOnce(t *testing.T) {
	t.Parallel()
	reader := kubeyaml.NewReader(nil, nil)
	if !reader.Read("a.yaml", []byte("kind: A")) || !reader.Read("b.yaml", []byte("kind: B")) {
		t.Error("it gave up early")
	}
	err := reader.Err()
	want := "a.yaml, document 1, line 1: A: apiVersion is missing\nb.yaml, document 1, line 1: B: apiVersion is missing"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// The mistakes after the fifth are counted, and another error takes the place of all.
func TestMistakesOfManyFilesAreCounted(t *testing.T) {
	t.Parallel()
	refused := errors.New("the disk is full")
	reader := kubeyaml.NewReader(func(*unstructured.Unstructured, kubeyaml.Position) error { return refused }, nil)
	for i := range 7 {
		if !reader.Read(fmt.Sprintf("%d.yaml", i), []byte("kind: A")) {
			t.Fatalf("it gave up at file %d", i)
		}
	}
	lines := strings.Split(reader.Err().Error(), "\n")
	if len(lines) != 6 || lines[4] != "4.yaml, document 1, line 1: A: apiVersion is missing" ||
		lines[5] != "and 2 more mistakes" {
		t.Errorf("got %q", lines)
	}
	const good = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
	if reader.Read("good.yaml", []byte(good)) || reader.Err().Error() != refused.Error() {
		t.Errorf("it goes on after %v", reader.Err())
	}
}

func TestServerFieldsAreLeftOut(t *testing.T) {
	t.Parallel()
	objects, err := parse("a.yaml", `
apiVersion: v1
kind: A
metadata:
  name: a
  uid: 7c
  resourceVersion: "12"
  creationTimestamp: null
  generation: 3
  managedFields: []
  labels:
`)
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := json.Marshal(objects[0].Object["metadata"]); string(got) != `{"name":"a"}` {
		t.Errorf("got %s", got)
	}
}

// kubectl reads YAML through sigs.k8s.io/yaml: what it makes of a value is what people rely on.
func TestScalarsMeanWhatKubectlTakesThemFor(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"yes", "on", "Off", "n", "true", "'yes'", "\"on\"", "0644", "0x1f", "0b11", "1_000", "1.0", "1e3", "1.50", "-3",
		"2024-01-02", "2024-01-02T03:04:05Z", "~", "null", "''", "12:30:45", "1.2.3", "!!str 12", "9223372036854775807",
		"+5", ".5", "0o17", "08", "=", "|\n    a\n    b\n", ">-\n    a\n    b\n", "!!binary aGk=", "[a, 1, {b: no}]",
		"{1: a, true: b, 1.5e: c}",
		"Null", "TRUE", "0.1", "1e400x", "-0", "0",
	} {
		document := "apiVersion: v1\nkind: A\nmetadata: {name: a}\nx: " + text + "\n"
		objects, err := parse("a.yaml", document)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		want, err := yaml.YAMLToJSON([]byte(document))
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := json.Marshal(objects[0].Object); string(got) != string(want) {
			t.Errorf("%q is %s, kubectl takes it for %s", text, got, want)
		}
	}
}

// FuzzParse: no input makes the parser panic, and what it returns can be copied and sent.
func FuzzParse(f *testing.F) {
	f.Add("a.yaml", []byte("apiVersion: v1\nkind: A\nmetadata: {name: a}\n---\n- x\n"))
	f.Add("a.yaml", []byte("a: &a [*a]\n<<: *a\n? [x]\n: y\n!!binary x: !!float y"))
	f.Add("a.json", []byte(`{"apiVersion":"v1","kind":"List","items":[{"kind":1e999}]}`))
	f.Add("a.yml", []byte("%YAML 1.1\n---\n...\n--- !!map {}\n"))
	f.Fuzz(func(t *testing.T, name string, data []byte) {
		objects, err := parse(name, string(data))
		if err != nil {
			return
		}
		for _, obj := range objects {
			copied := obj.DeepCopy()
			if _, err := json.Marshal(copied.Object); err != nil {
				t.Errorf("an object can't be sent: %v", err)
			}
			if obj.GetName() == "" || obj.GetKind() == "" || obj.GetAPIVersion() == "" {
				t.Errorf("an object has no identity: %v", obj.Object)
			}
		}
	})
}
