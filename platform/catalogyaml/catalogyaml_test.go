package catalogyaml_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	artifactv1 "fairlead.dev/gen/fairlead/artifact/v1"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/catalogyaml"
	"fairlead.dev/platform/longform"
)

const shop = `# The shop.
apiVersion: fairlead.dev/v1
kind: Service
metadata: {name: shop-a, labels: {team: "7"}}
spec: {source: shop, ref: main, path: deploy/prod, cluster: local-a, namespace: shop}
---
---
apiVersion: fairlead.dev/v1
kind: Source
metadata:
  name: shop
  uid: ignored
  revision: "12"
  etag: kept
  createTime: "2026-01-01T00:00:00Z"
spec:
  git: {url: https://git.example.com/shop.git, secret: shop-git, interval: 2m30s}
status: {heads: [{ref: main}], whatever: a newer hub says}
---
apiVersion: fairlead.dev/v1
kind: Secret
metadata: {name: shop-git}
data: {username: git, password: "1234"}
---
apiVersion: fairlead.dev/v1
kind: Cluster
metadata: {name: local-a}
spec: {description: ~}
`

func decode(text string) ([]*catalogyaml.Object, error) {
	objects, err := catalogyaml.Decode("shop.yaml", []byte(text))
	return objects, errors.Join(err, catalogyaml.Validate(objects))
}

func TestDecode(t *testing.T) {
	t.Parallel()
	objects, err := decode(shop)
	if err != nil {
		t.Fatal(err)
	}
	catalogyaml.Sort(objects)
	want := []catalogyaml.Message{
		&consolev1.Secret{
			Metadata: &consolev1.Metadata{Name: "shop-git"},
			Data:     map[string]string{"username": "git", "password": "1234"},
		},
		&consolev1.Source{
			Metadata: &consolev1.Metadata{Name: "shop", Etag: "kept"},
			Spec: &consolev1.SourceSpec{Git: &consolev1.GitSource{
				Url: "https://git.example.com/shop.git", Secret: "shop-git",
				Interval: durationpb.New(150 * time.Second),
			}},
		},
		&consolev1.Cluster{Metadata: &consolev1.Metadata{Name: "local-a"}, Spec: &consolev1.ClusterSpec{}},
		&consolev1.Service{
			Metadata: &consolev1.Metadata{Name: "shop-a", Labels: map[string]string{"team": "7"}},
			Spec: &consolev1.ServiceSpec{
				Source: "shop", Ref: "main", Path: "deploy/prod", Cluster: "local-a", Namespace: "shop",
			},
		},
	}
	if len(objects) != len(want) {
		t.Fatalf("got %d objects", len(objects))
	}
	for i, o := range objects {
		if !proto.Equal(o.Message, want[i]) {
			t.Errorf("got %v, want %v", o.Message, want[i])
		}
	}
	if objects[3].Ref() != "service/shop-a" || objects[3].Line != 2 || objects[1].Line != 8 {
		t.Errorf("places: %+v", objects)
	}
}

func TestMistakesNameLineResourceAndField(t *testing.T) {
	t.Parallel()
	const head = "apiVersion: fairlead.dev/v1\n"
	source := func(spec string) string { return head + "kind: Source\nmetadata: {name: shop}\nspec:\n" + spec }
	for name, c := range map[string]struct{ in, want string }{
		"unknown field": {
			source("  git:\n    url: https://x\n    brnch: main\n"),
			`shop.yaml:7: source "shop": spec.git.brnch: unknown field; known are: url, interval, secret`,
		},
		"near a known field": {
			source("  git:\n    ulr: https://x\n"),
			`shop.yaml:6: source "shop": spec.git.ulr: unknown field; did you mean "url"?`,
		},
		"proto's name of a field": {
			head + "kind: Source\nmeta_data: {}\n",
			`shop.yaml:3: source: meta_data: unknown field; did you mean "metadata"?`,
		},
		"unknown field at the top": {
			head + "kind: Cluster\nmetadata: {name: a}\nsepc: {}\n",
			`shop.yaml:4: cluster "a": sepc: unknown field; did you mean "spec"?`,
		},
		"unknown field in the metadata": {
			head + "kind: Cluster\nmetadata:\n  name: a\n  label: {}\n",
			`shop.yaml:5: cluster "a": metadata.label: unknown field; did you mean "labels"?`,
		},
		"field given twice": {
			head + "kind: Cluster\nmetadata:\n  name: a\n  name: b\n",
			`shop.yaml:5: cluster "a": metadata.name: is there twice, first in line 4`,
		},
		"two resources without a line between them": {
			head + "kind: Cluster\n" + head + "metadata: {name: a}\n",
			`shop.yaml:3: cluster "a": apiVersion: is there twice, first in line 1: put a line --- between two resources`,
		},
		"two alternatives": {
			source("  git: {url: https://x}\n") + "---\n" + head +
				"kind: Sink\nmetadata: {name: a}\nspec:\n  slack: {}\n  github: ~\n  email: {}\n",
			`shop.yaml:13: sink "a": spec.email: excludes spec.slack in line 11: keep one of the two`,
		},
		"number for text": {
			source("  git: {url: https://x}\n---\n" + head +
				"kind: Service\nmetadata: {name: s}\nspec:\n  ref: 1234567\n"),
			`shop.yaml:11: service "s": spec.ref: must be text: write it in quotes`,
		},
		"label without quotes": {
			head + "kind: Cluster\nmetadata: {name: a, labels: {on: true}}\n",
			`shop.yaml:3: cluster "a": metadata.labels["on"]: must be text: write it in quotes`,
		},
		"key without quotes": {
			head + "kind: Cluster\nmetadata: {name: a, labels: {1: x}}\n",
			`shop.yaml:3: cluster "a": metadata.labels.1: a key must be text: write it in quotes`,
		},
		"text that is called a flag": {
			head + "kind: Service\nmetadata: {name: s}\nspec:\n  source: a\n  cluster: c\n  sync: {requestOverride: !!bool yes}\n",
			`shop.yaml:7: service "s": spec.sync.requestOverride: must be true or false`,
		},
		"a number that is too large": {
			head + "kind: Service\nmetadata: {name: s}\nspec:\n  sync: {prune: {maxPercent: 99999999999}}\n",
			`shop.yaml:5: service "s": spec.sync.prune.maxPercent: must be a whole number between -2147483648 and 2147483647`,
		},
		"a number that YAML reads as octal": {
			head + "kind: Service\nmetadata: {name: s}\nspec:\n  sync: {prune: {maxPercent: 010}}\n",
			`shop.yaml:5: service "s": spec.sync.prune.maxPercent: must be a whole number, in digits alone`,
		},
		"a merge": {
			head + "kind: Cluster\nmetadata: {name: a, labels: {<<: {a: b}}}\n",
			`shop.yaml:3: cluster "a": metadata.labels.<<: fields of another place are not merged: write them out`,
		},
		"list for text": {
			source("  git: {url: [a]}\n"), `shop.yaml:5: source "shop": spec.git.url: must be a single value`,
		},
		"text for fields": {
			source("  git: https://x\n"),
			`shop.yaml:5: source "shop": spec.git: must have fields: url, interval, secret`,
		},
		"text for labels": {
			head + "kind: Cluster\nmetadata: {name: a, labels: x}\n",
			`shop.yaml:3: cluster "a": metadata.labels: must be keys and values`,
		},
		"no duration": {
			source("  git: {url: https://x, interval: soon}\n"),
			`shop.yaml:5: source "shop": spec.git.interval: "soon" is no duration: write it like 90s, 5m or 1h`,
		},
		"duration out of range": {
			source("  git: {url: https://x, interval: 1s}\n"), `shop.yaml:5: source "shop": spec.git.interval: must be`,
		},
		"rule broken": {
			head + "kind: Cluster\nmetadata:\n  name: Big_One\n",
			`shop.yaml:4: cluster "Big_One": metadata.name: must be 1 to 63 lower-case letters`,
		},
		"required field missing": {
			head + "kind: Source\nmetadata: {name: shop}\nspec: {}\n",
			`shop.yaml:4: source "shop": spec: set exactly one of spec.git, spec.helm, spec.oci and spec.bucket`,
		},
		"unknown value": {
			head + "kind: Service\nmetadata: {name: s}\nspec:\n  sync: {mode: HOLD}\n",
			`shop.yaml:5: service "s": spec.sync.mode: "HOLD" is not one of the values; did you mean "hold"?`,
		},
		"unlike any value": {
			head + "kind: Service\nmetadata: {name: s}\nspec:\n  sync: {mode: sometimes}\n",
			`shop.yaml:5: service "s": spec.sync.mode: "sometimes" is not one of the values; known are: auto, dry-run, hold, suspend, manual`,
		},
		"a rule of all fields": {
			head + "kind: Service\nmetadata: {name: s}\nspec: {source: shop}\n",
			`shop.yaml:1: service "s": spec.cluster: `,
		},
		"no name": {
			head + "kind: Source\nspec: {git: {url: x}}\n", `shop.yaml:1: source: metadata: value is required`,
		},
		"no kind": {
			head + "metadata: {name: a}\n",
			`shop.yaml:1: kind "": must be Role, ServiceAccount, Secret, Backend, Source, Project, Cluster, ConfigSet, GlobalService, Service, Grant, Sink, AgentConfig, ViewSet or Alert`,
		},
		"unknown kind": {
			head + "kind: Sauce\n",
			`shop.yaml:2: kind "Sauce": must be Role, ServiceAccount, Secret, Backend, Source, Project, Cluster, ConfigSet, GlobalService, Service, Grant, Sink, AgentConfig, ViewSet or Alert; did you mean Source?`,
		},
		"a Kubernetes object": {
			"apiVersion: apps/v1\nkind: Deployment\n",
			`shop.yaml:2: kind "Deployment": must be Role, ServiceAccount, Secret, Backend, Source, Project, Cluster, ConfigSet, GlobalService, Service, Grant, Sink, AgentConfig, ViewSet or Alert. Kubernetes objects belong into the repository`,
		},
		"a Kubernetes object with a kind like one of ours": {
			"apiVersion: v1\nkind: ConfigMap\n",
			`shop.yaml:2: kind "ConfigMap": must be Role, ServiceAccount, Secret, Backend, Source, Project, Cluster, ConfigSet, GlobalService, Service, Grant, Sink, AgentConfig, ViewSet or Alert. Kubernetes objects belong into the repository`,
		},
		"no version": {
			"kind: Source\n", `shop.yaml:1: apiVersion is missing: write apiVersion: fairlead.dev/v1`,
		},
		"a Service of Kubernetes": {
			"apiVersion: v1\nkind: Service\nmetadata: {name: shop}\n",
			`shop.yaml:1: apiVersion "v1": must be fairlead.dev/v1. Kubernetes objects belong into the repository of a source, not here`,
		},
		"another version": {
			"kind: Source\napiVersion: fairlead.dev/v2\n",
			`shop.yaml:2: apiVersion "fairlead.dev/v2": must be fairlead.dev/v1`,
		},
		"text":     {"hello\n", `shop.yaml:1: a document must have fields`},
		"a list":   {"- 1\n", `shop.yaml:1: a document must have fields`},
		"not YAML": {"a: [\n", `shop.yaml:1: not YAML: did not find expected node content`},
		"described twice": {
			head + "kind: Cluster\nmetadata: {name: a}\n---\n" + head + "kind: Cluster\nmetadata: {name: a}\n",
			`shop.yaml:5: cluster "a": is described twice: also at shop.yaml:1`,
		},
		"a list in a list": {
			head + "kind: List\nitems: [{apiVersion: fairlead.dev/v1, kind: List, items: []}]\n",
			`shop.yaml:3: a List must have items`,
		},
		"alias of itself": {head + "kind: Cluster\nmetadata: &a\n  name: x\n  labels: *a\n", `shop.yaml:`},
		"a tab": {
			head + "kind: Cluster\nmetadata:\n\tname: a\n",
			"shop.yaml:4: not YAML: a tab begins the line: indent with spaces",
		},
		"a character of YAML": {
			head + "kind: @x\n",
			"shop.yaml:2: not YAML: found character that cannot start any token, such as @, ` or a tab: write the value in quotes",
		},
		"no UTF-8": {
			head + "kind: Cluster\nmetadata: {name: \"a\xff\"}\n",
			"shop.yaml:3: not YAML: there are bytes that are no UTF-8: save the file in that encoding",
		},
		"unknown alias": {
			head + "kind: Cluster\nmetadata: {name: *b}\n",
			"shop.yaml:3: not YAML: *b stands for what &b names, and there is no &b before it",
		},
		"a mark and Windows' lines": {
			"\ufeff" + head + "kind: Cluster\r\nmetadata: {name: a, labls: {}}\r\n",
			`shop.yaml:3: cluster "a": metadata.labls: unknown field; did you mean "labels"?`,
		},
		"a field that is refused": {
			head + "kind: GlobalService\nmetadata: {name: g}\nspec: {template: {clstr: x}}\n",
			`shop.yaml:4: globalservice "g": spec.template.clstr: unknown field; known are: source, `,
		},
		"data that is no text": {
			head + "kind: Secret\nmetadata: {name: a}\ndata: {password: 1234}\n",
			`shop.yaml:4: secret "a": data["password"]: must be text: write it in quotes`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := decode(c.in)
			if err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}

func TestAllMistakesAreToldAtOnceAndBounded(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for i := range 30 {
		fmt.Fprintf(&b, "apiVersion: fairlead.dev/v1\nkind: Cluster\nmetadata: {name: c-%d}\nspecc: {}\n---\n", i)
	}
	_, err := catalogyaml.Decode("x.yaml", []byte(b.String()))
	if err == nil || !strings.Contains(err.Error(), `cluster "c-19"`) ||
		!strings.HasSuffix(err.Error(), "... and 10 more") {
		t.Errorf("got %v", err)
	}
}

func TestBombsAreRefusedQuickly(t *testing.T) {
	t.Parallel()
	var laughs strings.Builder
	laughs.WriteString("apiVersion: fairlead.dev/v1\nkind: Source\nmetadata: {name: a}\n")
	laughs.WriteString("x0: &x0 {a: b}\n")
	for i := 1; i < 40; i++ {
		fmt.Fprintf(&laughs, "x%d: &x%d {git: *x%d, gat: *x%d}\n", i, i, i-1, i-1)
	}
	laughs.WriteString("spec: *x39\n")
	for name, in := range map[string]string{
		"aliases": laughs.String(),
		"texts": "apiVersion: fairlead.dev/v1\nkind: Project\nmetadata: {name: a}\nspec: {sources: [&x " +
			strings.Repeat("x", 100<<10) + strings.Repeat(", *x", 2000) + "]}\n",
		"depth":  strings.Repeat("a: {", 5000) + strings.Repeat("}", 5000),
		"size":   strings.Repeat("#", catalogyaml.MaxFileBytes+1),
		"number": strings.Repeat("{apiVersion: fairlead.dev/v1, kind: Cluster, metadata: {name: a}}\n---\n", 10_001),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			start := time.Now()
			if _, err := catalogyaml.Decode("x.yaml", []byte(in)); err == nil {
				t.Error("it was taken")
			}
			if took := time.Since(start); took > 20*time.Second {
				t.Errorf("took %v", took)
			}
		})
	}
}

func TestFilesOfOneReaderAreBoundedTogether(t *testing.T) {
	t.Parallel()
	longform.Only(t, "files at their bound")
	var entries strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&entries, "k%d: {text: v}, ", i)
	}
	in := "apiVersion: fairlead.dev/v1\nkind: GlobalService\nmetadata: {name: a}\nspec: {overrides: [&x {config: {" +
		entries.String() + "}}" + strings.Repeat(", *x", 200) + "]}\n"
	var r catalogyaml.Reader
	if _, err := r.Decode("a.yaml", []byte(in)); err != nil || r.Stopped() {
		t.Fatalf("the first: %v", err)
	}
	if _, err := r.Decode("b.yaml",
		[]byte(in)); err == nil ||
		!strings.Contains(err.Error(), "b.yaml:4: globalservice \"a\": nested too deep, or too large") || !r.Stopped() {
		t.Errorf("the second: %v", err)
	}
}

func TestAliasesMayBeUsed(t *testing.T) {
	t.Parallel()
	objects, err := decode("apiVersion: fairlead.dev/v1\nkind: Secret\nmetadata: {name: a, labels: &x {k: v}}\ndata: *x\n")
	if err != nil || objects[0].Message.(*consolev1.Secret).GetData()["k"] != "v" {
		t.Errorf("got %v, %v", objects, err)
	}
}

func TestWhatIsPrintedCanBeAppliedAgain(t *testing.T) {
	t.Parallel()
	full := &consolev1.Source{
		Metadata: &consolev1.Metadata{
			Name: "shop", Labels: map[string]string{"yes": "no", "n": "1"}, Uid: "u", Revision: 7, Etag: "e",
			CreateTime: timestamppb.New(time.Unix(1e9, 5)),
		},
		Spec: &consolev1.SourceSpec{
			Git: &consolev1.GitSource{Url: "https://x/<&>", Interval: durationpb.New(1500 * time.Millisecond)},
		},
		Status: &consolev1.SourceStatus{
			Epoch: 3, Problem: &consolev1.Problem{Message: strings.Repeat("connection refused ", 20)},
			Heads: []*consolev1.Head{{Ref: "HEAD", Revision: &artifactv1.Revision{Commit: "1234567"}}},
		},
	}
	wanted := proto.CloneOf(full)
	wanted.Status = nil
	wanted.Metadata = &consolev1.Metadata{Name: "shop", Labels: full.Metadata.Labels, Etag: "e"}
	service := &consolev1.Service{
		Metadata: &consolev1.Metadata{Name: "s"},
		Spec:     &consolev1.ServiceSpec{Source: "shop", Ref: "0123456", Cluster: "1e3"},
	}
	for name, write := range map[string]func() ([]byte, error){
		"yaml": func() ([]byte, error) { return catalogyaml.YAML(full, service) },
		"json": func() ([]byte, error) { return catalogyaml.JSONList(full, service) },
	} {
		text, err := write()
		if err != nil {
			t.Fatal(err)
		}
		objects, err := catalogyaml.Decode("x", text)
		if err != nil || len(objects) != 2 {
			t.Fatalf("%s: %v in\n%s", name, err, text)
		}
		if !proto.Equal(objects[0].Message, wanted) || !proto.Equal(objects[1].Message, service) {
			t.Errorf("%s: got %v and %v from\n%s", name, objects[0].Message, objects[1].Message, text)
		}
		if !strings.Contains(string(text), "https://x/<&>") || strings.Count(string(text), "connection refused") != 20 {
			t.Errorf("%s escapes or folds what people read:\n%s", name, text)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(shop)
	f.Add(`{"apiVersion":"fairlead.dev/v1","kind":"List","items":[{"apiVersion":"fairlead.dev/v1","kind":"Cluster","metadata":{"name":"a"}}]}`)
	f.Add("a: &a [*a]\n--- !!binary x\n? {}\n: <<")
	f.Fuzz(func(t *testing.T, text string) {
		objects, err := catalogyaml.Decode("x", []byte(text))
		_ = catalogyaml.Validate(objects)
		if err != nil {
			return
		}
		var messages []catalogyaml.Message
		for _, o := range objects {
			messages = append(messages, o.Message)
		}
		again, err := catalogyaml.YAML(messages...)
		if err != nil {
			t.Fatal(err)
		}
		back, err := catalogyaml.Decode("x", again)
		if err != nil || len(back) != len(objects) {
			t.Fatalf("%d objects became %d: %v in\n%s", len(objects), len(back), err, again)
		}
		for i := range back {
			if !proto.Equal(back[i].Message, objects[i].Message) {
				t.Fatalf("%v became %v through\n%s", objects[i].Message, back[i].Message, again)
			}
		}
	})
}

// Files say dry-run; the API's JSON says SYNC_MODE_DRY_RUN, which who copies it from there may leave as it is.
func TestEnumsAreShort(t *testing.T) {
	t.Parallel()
	const spec = "apiVersion: fairlead.dev/v1\nkind: Service\nmetadata:\n  name: s\nspec:\n  cluster: c\n  path: p\n  ref: main\n  source: shop\n  sync:\n    mode: %s\n"
	for _, mode := range []string{"dry-run", "SYNC_MODE_DRY_RUN"} {
		objects, err := catalogyaml.Decode("shop.yaml", fmt.Appendf(nil, spec, mode))
		if err != nil {
			t.Fatal(err)
		}
		service, _ := objects[0].Message.(*consolev1.Service)
		if got := service.GetSpec().GetSync().GetMode(); got != deliveryv1.SyncMode_SYNC_MODE_DRY_RUN ||
			catalogyaml.Short(got) != "dry-run" {
			t.Errorf("%s is %s, short %s", mode, got, catalogyaml.Short(got))
		}
		if text, err := catalogyaml.YAML(service); err != nil || string(text) != fmt.Sprintf(spec, "dry-run") {
			t.Errorf("%s is written as\n%s%v", mode, text, err)
		}
	}
	preview := &consolev1.PreviewConfigResponse{
		Entries: []*consolev1.EffectiveConfig{{Type: consolev1.ConfigType_CONFIG_TYPE_NUMBER}, {Type: 77}},
	}
	text, err := catalogyaml.PlainYAML(preview)
	if want := "entries:\n  - type: number\n  - type: 77\n"; err != nil || string(text) != want ||
		catalogyaml.Short(consolev1.ConfigType(77)) != "unknown" {
		t.Errorf("a list's, and one of a newer hub: %s %v", text, err)
	}
}
