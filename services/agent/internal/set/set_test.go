package set_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"pgregory.net/rapid"

	"fairlead.dev/services/agent/internal/cluster"
	"fairlead.dev/services/agent/internal/kubeyaml"
	"fairlead.dev/services/agent/internal/object"
	"fairlead.dev/services/agent/internal/set"
)

type scopes map[string]bool

func (s scopes) Namespaced(_ context.Context, gvk schema.GroupVersionKind) (bool, error) {
	namespaced, ok := s[gvk.Kind]
	if !ok {
		return false, &cluster.UnknownKindError{GVK: gvk}
	}
	return namespaced, nil
}

func known() scopes {
	return scopes{
		"ConfigMap": true, "Job": true, "Namespace": false, "CustomResourceDefinition": false,
		"ClusterRoleBinding": false,
	}
}

func openStore(t *testing.T) (*set.Store, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "sets")
	store, err := set.OpenStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	return store, dir
}

func id(name string) set.ID { return set.IDOf(name, "") }

// build reads a file of manifests into a builder.
func build(t *testing.T, store *set.Store, name, text string, last *set.Set) (*set.Set, error) {
	t.Helper()
	b, err := store.Create(set.Target{Service: "shop", ID: id(name), Namespace: "shop", Scopes: known()})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Discard()
	var memo kubeyaml.Memo
	if last != nil {
		if err := b.After(last); err != nil {
			t.Fatal(err)
		}
		memo = func(at kubeyaml.Position) (bool, error) { return b.Copy(t.Context(), at) }
	}
	reader := kubeyaml.NewReader(func(obj *unstructured.Unstructured, at kubeyaml.Position) error {
		return b.Add(t.Context(), obj, at)
	}, memo)
	reader.Read("apps/a.yaml", []byte(text))
	if err := reader.Err(); err != nil {
		return nil, err
	}
	s, err := b.Commit(t.Context())
	if err == nil {
		t.Cleanup(func() { _ = s.Close() })
	}
	return s, err
}

func must(t *testing.T, store *set.Store, name, text string, last *set.Set) *set.Set {
	t.Helper()
	s, err := build(t, store, name, text, last)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// texts lists a set: every item with its content.
func texts(t *testing.T, s *set.Set) []string {
	t.Helper()
	items, err := s.Items()
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, item := range items {
		data, err := s.JSON(item)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, fmt.Sprintf("%s line %d: %s", item, item.Position.Line, data))
	}
	return list
}

const crd = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: boats.x.dev}\nspec: {group: x.dev, scope: Cluster, names: {kind: Boat}}\n---\n"

func TestObjectsGetTheirNamespaceAndTheMark(t *testing.T) {
	t.Parallel()
	const marked = `"labels":{"fairlead.dev/service":"shop"}`
	tests := map[string]struct{ text, want, err string }{
		"namespace is filled in": {
			"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}",
			`ConfigMap shop/a (apps/a.yaml, document 1) line 1: {"apiVersion":"v1","kind":"ConfigMap","metadata":{` +
				marked + `,"name":"a","namespace":"shop"}}`,
			"",
		},
		"namespace is kept": {
			"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: b}",
			`ConfigMap b/a (apps/a.yaml, document 1) line 1: {"apiVersion":"v1","kind":"ConfigMap","metadata":{` +
				marked + `,"name":"a","namespace":"b"}}`,
			"",
		},
		"cluster-scoped": {
			"apiVersion: v1\nkind: Namespace\nmetadata: {name: a, namespace: b}",
			`Namespace a (apps/a.yaml, document 1) line 1: {"apiVersion":"v1","kind":"Namespace","metadata":{` +
				marked + `,"name":"a"}}`,
			"",
		},
		"scope from a CRD that comes later": {
			"apiVersion: x.dev/v1\nkind: Boat\nmetadata: {name: b, namespace: c}\n---\n" + crd +
				"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}",
			`Boat b (apps/a.yaml, document 1) line 1: {"apiVersion":"x.dev/v1","kind":"Boat","metadata":{` + marked +
				`,"name":"b"}}`, "",
		},
		"unknown kind": {
			"apiVersion: x.dev/v1\nkind: Ship\nmetadata: {name: s}", "",
			"Ship s (apps/a.yaml, document 1): the cluster does not know kind Ship of x.dev/v1",
		},
		"twice after defaulting": {
			"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: shop}", "",
			"apps/a.yaml, document 2, line 5: ConfigMap shop/a is there twice, first in apps/a.yaml, document 1. Remove one",
		},
		"a hook and two objects of one name": {
			"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, annotations: {helm.sh/hook: pre-install}}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}", "",
			"apps/a.yaml, document 3, line 9: ConfigMap shop/a is there twice, first in apps/a.yaml, document 2. Remove one",
		},
		"annotation that makes no sense": {
			"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, annotations: {fairlead.dev/wave: soon}}", "",
			"apps/a.yaml, document 1, line 1: annotation fairlead.dev/wave: \"soon\" must be a whole number",
		},
		"an object that no cluster takes": {
			"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a: " + strings.Repeat("x", 5<<20) + "}", "",
			"more than the 4194304 that any cluster takes",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, dir := openStore(t)
			s, err := build(t, store, "1", test.text, nil)
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Errorf("got %v, want %s", err, test.err)
				}
				if left, _ := os.ReadDir(dir); len(left) > 0 {
					t.Errorf("%v is left", left)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := texts(t, s); got[0] != test.want {
				t.Errorf("got\n%s\nwant\n%s", got[0], test.want)
			}
		})
	}
}

func TestWishesAreInTheIndex(t *testing.T) {
	t.Parallel()
	store, _ := openStore(t)
	s := must(t, store, "1", `
apiVersion: batch/v1
kind: Job
metadata:
  name: migrate
  annotations:
    fairlead.dev/wave: "-3"
    fairlead.dev/hook: pre-sync
    fairlead.dev/hook-delete: succeeded
    fairlead.dev/depends-on: apps/Deployment/shop/db
    fairlead.dev/timeout: 90s
---
apiVersion: v1
kind: ConfigMap
metadata: {name: never, annotations: {helm.sh/hook: test}}
`, nil)
	items, err := s.Items()
	if err != nil || len(items) != 1 {
		t.Fatalf("got %v %v", items, err)
	}
	item, ok, err := s.Find(object.Key{Group: "batch", Kind: "Job", Namespace: "shop", Name: "migrate"})
	if err != nil || !ok {
		t.Fatalf("not found: %v", err)
	}
	if fmt.Sprint(item) != fmt.Sprint(items[0]) || item.Wave != -3 || item.Hook != object.PreSync ||
		item.Flags != object.DeleteSucceeded || item.Timeout != 90*time.Second ||
		!slices.Equal(item.Depends, []object.Key{
			{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "db"},
		}) || item.Position.Line != 2 {
		t.Errorf("got %+v", item)
	}
	obj, at, err := s.Object(item)
	if err != nil || obj.GetName() != "migrate" || at.File != "apps/a.yaml" {
		t.Errorf("got %v %v %v", obj, at, err)
	}
	if _, ok, err := s.Find(object.Key{Kind: "ConfigMap", Namespace: "shop", Name: "never"}); ok || err != nil {
		t.Errorf("found a test of Helm: %v", err)
	}
}

func TestHooksThatShareANameAreCounted(t *testing.T) {
	t.Parallel()
	store, _ := openStore(t)
	const hook = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: NAME, annotations: {helm.sh/hook: pre-install}}\n---\n"
	s := must(t, store, "1",
		strings.ReplaceAll(hook, "NAME", "a")+strings.ReplaceAll(hook, "NAME", "b")+
			strings.ReplaceAll(hook, "NAME", "a"), nil)
	items, err := s.Items()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, item := range items {
		got = append(got, fmt.Sprint(item.Name, item.Nth))
	}
	if want := []string{"a0", "b0", "a1"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// A hook and an ordinary object may share a name. The ordinary one is found by it.
func TestHookMayHaveTheNameOfAnObject(t *testing.T) {
	t.Parallel()
	store, _ := openStore(t)
	const hook, ordinary = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, annotations: {helm.sh/hook: pre-install}}\n", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
	for name, text := range map[string]string{"1": hook + "---\n" + ordinary, "2": ordinary + "---\n" + hook} {
		s := must(t, store, name, text, nil)
		item, found, err := s.Find(object.Key{Kind: "ConfigMap", Namespace: "shop", Name: "a"})
		if err != nil || !found || item.Hook != 0 {
			t.Errorf("found %+v %t %v", item, found, err)
		}
	}
}

// A hook of several moments is run at each of them, also when its text was copied from the set before.
func TestHookOfSeveralMomentsIsOneOfEach(t *testing.T) {
	t.Parallel()
	store, _ := openStore(t)
	const text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, annotations: {helm.sh/hook: \"pre-install,pre-upgrade,post-install,post-delete,test\"}}"
	first := must(t, store, "1", text, nil)
	for _, s := range []*set.Set{first, must(t, store, "2", text, first)} {
		items, err := s.Items()
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, item := range items {
			obj, _, err := s.Object(item)
			if err != nil || obj.GetName() != "a" {
				t.Errorf("got %v, %v", obj, err)
			}
			got = append(got, fmt.Sprint(item.Hook, item.Nth))
		}
		if want := []string{
			fmt.Sprint(object.PostDelete, 0), fmt.Sprint(object.PreInstall, 1), fmt.Sprint(object.PreUpgrade, 2),
			fmt.Sprint(object.PostInstall, 3),
		}; !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	}
}

// A set is found again by another process, and only the ones that are named stay.
func TestSetsAreKept(t *testing.T) {
	t.Parallel()
	store, dir := openStore(t)
	const text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}"
	for _, name := range []string{"1", "2", "3"} {
		must(t, store, name, text, nil)
	}
	other, err := store.Create(set.Target{Service: "shop2", ID: id("1"), Namespace: "x", Scopes: known()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	killed, err := store.Create(set.Target{Service: "shop", ID: id("4")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(killed.Discard)
	if err := store.Keep("shop", id("1"), id("3")); err != nil {
		t.Fatal(err)
	}
	again, err := set.OpenStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range []struct {
		service, name string
		there         bool
	}{{"shop", "1", true}, {"shop", "2", false}, {"shop", "3", true}, {"shop", "4", false}, {"shop2", "1", true}} {
		s, err := again.Open(one.service, id(one.name))
		if (err == nil) != one.there || err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%v: %v", one, err)
		}
		if err == nil {
			_ = s.Close()
		}
	}
	if left, _ := os.ReadDir(dir); len(left) != 3 {
		t.Errorf("%v is left", left)
	}
}

// If any byte of the file goes bad, nothing wrong is read, and the service is rendered anew.
func TestDamagedSetIsNeverBelieved(t *testing.T) {
	t.Parallel()
	store, dir := openStore(t)
	const environment = "1.36 of 40 kinds"
	b, err := store.Create(set.Target{Service: "shop", ID: id("1"), Namespace: "shop", Scopes: known()})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Discard()
	reader := kubeyaml.NewReader(func(obj *unstructured.Unstructured, at kubeyaml.Position) error {
		return b.Add(t.Context(), obj, at)
	}, nil)
	reader.Read("apps/a.yaml",
		[]byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}"))
	b.For(environment)
	made, err := b.Commit(t.Context())
	if err = errors.Join(err, reader.Err()); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = made.Close() }()
	good := texts(t, made)
	path := filepath.Join(dir, "shop."+id("1").String())
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	key := object.Key{Kind: "ConfigMap", Namespace: "shop", Name: "b"}
	for at := range whole {
		data := slices.Clone(whole)
		data[at] ^= 0x10
		if at%7 == 0 {
			data = data[:at]
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		found, everything := false, 0
		s, err := store.Open("shop", id("1"))
		if err == nil {
			if got := s.Environment(); got != environment {
				t.Fatalf("byte %d: it is for %q", at, got)
			}
			var item set.Item
			if item, found, err = s.Find(key); found {
				_, _, err = s.Object(item)
			} else if err == nil {
				t.Fatalf("byte %d: an object is taken for gone", at)
			}
			items, listErr := s.Items()
			for i, item := range items {
				data, readErr := s.JSON(item)
				if readErr == nil {
					everything++
					if got := fmt.Sprintf("%s line %d: %s", item, item.Position.Line, data); got != good[i] {
						t.Fatalf("byte %d: got %s", at, got)
					}
				}
				err = errors.Join(err, readErr)
			}
			err = errors.Join(err, listErr)
			_ = s.Close()
		}
		if err == nil && everything != len(good) || err == nil && !found {
			t.Fatalf("byte %d: no error, and only %d objects", at, everything)
		}
		if _, statErr := os.Stat(path); err != nil && statErr == nil {
			t.Fatalf("byte %d: %v, and the file is still there", at, err)
		}
	}
}

// Objects that a text gave are copied; the result is byte for byte that of reading everything.
func TestCopyIsLikeReading(t *testing.T) {
	t.Parallel()
	dirs := t.TempDir()
	rapid.Check(t, func(r *rapid.T) {
		dir, err := os.MkdirTemp(dirs, "") //nolint:usetesting // one of many
		if err != nil {
			t.Fatal(err)
		}
		store, err := set.OpenStore(dir)
		if err != nil {
			t.Fatal(err)
		}
		documents := []string{
			"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n",
			"# b\n\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: b, namespace: z}\n",
			strings.TrimSuffix(crd, "---\n"), "apiVersion: x.dev/v1\nkind: Boat\nmetadata: {name: c}\n",
			"apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: d}}\n- {apiVersion: v1, kind: Namespace, metadata: {name: e, namespace: f}}\n",
			"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: g}\n...\n", "# nothing\n",
		}
		pick := rapid.SliceOfNDistinct(rapid.SampledFrom(documents), 1, len(documents), rapid.ID[string])
		join := func(label string) string { return strings.Join(pick.Draw(r, label), "---\n") }
		before, after := join("before"), join("after")
		last, err := build(t, store, "last", before, nil)
		want, wantErr := build(t, store, "want", after, nil)
		if err != nil {
			return
		}
		got, gotErr := build(t, store, "got", after, last)
		if fmt.Sprint(wantErr) != fmt.Sprint(gotErr) {
			r.Fatalf("got %v, want %v", gotErr, wantErr)
		}
		if wantErr == nil {
			if got, want := texts(t, got), texts(t, want); !slices.Equal(got, want) {
				r.Fatalf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		}
	})
}

// FuzzSetIndex: no file makes the reader panic, or read more than there is.
func FuzzSetIndex(f *testing.F) {
	dir := f.TempDir()
	store, err := set.OpenStore(dir)
	if err != nil {
		f.Fatal(err)
	}
	b, err := store.Create(set.Target{Service: "shop", ID: id("1"), Namespace: "shop", Scopes: known()})
	if err != nil {
		f.Fatal(err)
	}
	obj := &unstructured.Unstructured{
		Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "a"}},
	}
	if err := b.Add(f.Context(), obj, kubeyaml.Position{File: "a.yaml"}); err != nil {
		f.Fatal(err)
	}
	if _, err := b.Commit(f.Context()); err != nil {
		f.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(dir, "shop."+id("1").String()))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := t.TempDir()
		store, err := set.OpenStore(dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "shop."+id("1").String()), data, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := store.Open("shop", id("1"))
		if err != nil {
			return
		}
		defer func() { _ = s.Close() }()
		_, _, _ = s.Find(object.Key{Kind: "ConfigMap", Namespace: "shop", Name: "a"})
		items, _ := s.Items()
		for _, item := range items {
			_, _, _ = s.Object(item)
		}
	})
}

// A set that is made again just as it was stays on the disk, and counts as made now.
func TestSetThatIsTheSameIsNotWrittenAgain(t *testing.T) {
	t.Parallel()
	store, dir := openStore(t)
	const one, other = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {x: \"1\"}\n", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {x: \"2\"}\n"
	file := func() os.FileInfo {
		t.Helper()
		entries, err := os.ReadDir(dir)
		if err != nil || len(entries) != 1 {
			t.Fatalf("%v, %v", entries, err)
		}
		info, err := entries[0].Info()
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	first := must(t, store, "1", one, must(t, store, "1", one, nil)) // with what it was read from
	before := file()
	long := time.Now().Add(-time.Hour)
	if err := os.Chtimes(filepath.Join(dir, before.Name()), long, long); err != nil {
		t.Fatal(err)
	}
	again := must(t, store, "1", one, first)
	if !os.SameFile(before, file()) || time.Since(again.Made()) > time.Minute ||
		time.Since(file().ModTime()) > time.Minute {
		t.Errorf("another file: %t, made %v, %v", !os.SameFile(before, file()), again.Made(), file().ModTime())
	}
	if got, want := texts(t, again), texts(t, first); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	changed := must(t, store, "1", other, again)
	if os.SameFile(before, file()) || !strings.Contains(texts(t, changed)[0], `"2"`) {
		t.Error("the change is lost")
	}
}

// An agent that is started anew knows what a set was made for: it has nothing but the file.
func TestSetKnowsWhatItWasMadeFor(t *testing.T) {
	t.Parallel()
	store, _ := openStore(t)
	const text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
	before := texts(t, must(t, store, "1", text, nil))
	for _, environment := range []string{"v1.36", "v1.37", ""} {
		b, err := store.Create(set.Target{Service: "shop", ID: id("1"), Namespace: "shop", Scopes: known()})
		if err != nil {
			t.Fatal(err)
		}
		reader := kubeyaml.NewReader(func(obj *unstructured.Unstructured, at kubeyaml.Position) error {
			return b.Add(t.Context(), obj, at)
		}, nil)
		reader.Read("apps/a.yaml", []byte(text))
		b.For(environment)
		made, err := b.Commit(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = made.Close() })
		again, err := store.Open("shop", id("1"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = again.Close() })
		if made.Environment() != environment || again.Environment() != environment {
			t.Errorf("made for %q, and %q when opened again, want %q", made.Environment(), again.Environment(),
				environment)
		}
		if after := texts(t, again); !slices.Equal(after, before) {
			t.Errorf("got %v, want %v", after, before)
		}
	}
}

// A List of which one item has to be read each time is read as a whole: the others alone would be taken for all of it.
func TestAListOfWhichAnItemIsReadAgainKeepsAllItems(t *testing.T) {
	t.Parallel()
	const text = `apiVersion: v1
kind: List
items:
- apiVersion: rbac.authorization.k8s.io/v1
  kind: ClusterRoleBinding
  metadata: {name: own, namespace: dropped}
- {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}
`
	store, _ := openStore(t)
	var last *set.Set
	for _, name := range []string{"one", "two", "three"} {
		s, err := build(t, store, name, text, last)
		if err != nil {
			t.Fatal(err)
		}
		if s.Len() != 2 {
			t.Errorf("set %s has %d objects", name, s.Len())
		}
		last = s
	}
}

// The warning is told of each revision, also of one that leaves the manifest as it is.
func TestAnAnnotationThatNobodyReadsIsToldEachTime(t *testing.T) {
	t.Parallel()
	const text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, annotations: {fairlead.dev/prun: never}}\n"
	const want = "apps/a.yaml, document 1, line 1: ConfigMap a: its annotation fairlead.dev/prun means nothing; " +
		"did you mean fairlead.dev/prune?"
	store, _ := openStore(t)
	var last *set.Set
	for _, name := range []string{"one", "two", "three"} {
		s, err := build(t, store, name, text, last)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Warnings(); got != want {
			t.Errorf("set %s: got %q, want %q", name, got, want)
		}
		last = s
	}
}

// The same hook in two documents is run twice, however often the set is made of the one before.
func TestTwoDocumentsOfTheSameTextStayTwo(t *testing.T) {
	t.Parallel()
	const hook = `apiVersion: batch/v1
kind: Job
metadata: {name: warm, annotations: {fairlead.dev/hook: pre-sync}}
`
	store, _ := openStore(t)
	var last *set.Set
	for _, name := range []string{"one", "two", "three"} {
		s, err := build(t, store, name, hook+"---\n"+hook, last)
		if err != nil {
			t.Fatal(err)
		}
		if s.Len() != 2 {
			t.Errorf("set %s has %d hooks", name, s.Len())
		}
		last = s
	}
}

// A namespace that was dropped only when the definition came is not lost once the kind has namespaces.
func TestANamespaceThatWasDroppedLateIsReadAgain(t *testing.T) {
	t.Parallel()
	store, _ := openStore(t)
	const boat = "apiVersion: x.dev/v1\nkind: Boat\nmetadata: {name: b, namespace: harbour}\n"
	wide := must(t, store, "two", boat+"---\n"+crd, must(t, store, "one", crd, nil)) // with what it was read from
	s := must(t, store, "three", strings.Replace(crd, "scope: Cluster", "scope: Namespaced", 1)+boat, wide)
	_, found, err := s.Find(object.Key{Group: "x.dev", Kind: "Boat", Namespace: "harbour", Name: "b"})
	if err != nil || !found {
		t.Errorf("got %v, %v", texts(t, s), err)
	}
}
