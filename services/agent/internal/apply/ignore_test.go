package apply

import (
	"context"
	"encoding/json"
	"reflect"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/services/agent/internal/kubeyaml"
	"fairlead.dev/services/agent/internal/memory"
	"fairlead.dev/services/agent/internal/object"
	"fairlead.dev/services/agent/internal/set"
)

// touched is a cluster with one object, of which somebody else has fields. It keeps what is applied.
type touched struct {
	API

	live   string // as JSON
	theirs string // fields, as in managed fields
	sent   *unstructured.Unstructured
}

func (*touched) Namespaced(context.Context, schema.GroupVersionKind) (bool, error) { return true, nil }

func (c *touched) entries() []metav1.ManagedFieldsEntry {
	return []metav1.ManagedFieldsEntry{{
		Manager: "kubectl-edit", Operation: metav1.ManagedFieldsOperationUpdate, FieldsType: "FieldsV1",
		FieldsV1: metav1.NewFieldsV1(c.theirs),
	}}
}

func (c *touched) Metadata(context.Context, object.Ref) (*metav1.PartialObjectMetadata, error) {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{ManagedFields: c.entries()}}, nil
}

func (c *touched) Whole(context.Context, object.Ref) (*unstructured.Unstructured, error) {
	var content map[string]any
	err := json.Unmarshal([]byte(c.live), &content)
	obj := &unstructured.Unstructured{Object: content}
	obj.SetManagedFields(c.entries())
	return obj, err
}

func (c *touched) Apply(_ context.Context, obj *unstructured.Unstructured, _ bool) (*unstructured.Unstructured, error) {
	c.sent = obj
	return obj, nil
}

// renderedSet is a set of a service with the object of a manifest, in JSON.
func renderedSet(t *testing.T, scopes set.Scopes, manifest string) (*set.Set, []set.Item) {
	t.Helper()
	store, err := set.OpenStore(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	building, err := store.Create(set.Target{Service: "web", ID: set.IDOf("d", ""), Namespace: "shop", Scopes: scopes})
	if err != nil {
		t.Fatal(err)
	}
	defer building.Discard()
	reader := kubeyaml.NewReader(func(obj *unstructured.Unstructured, at kubeyaml.Position) error {
		return building.Add(t.Context(), obj, at)
	}, nil)
	reader.Read("a.json", []byte(manifest))
	if err := reader.Err(); err != nil {
		t.Fatal(err)
	}
	objects, err := building.Commit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = objects.Close() })
	items, err := objects.Items()
	if err != nil {
		t.Fatal(err)
	}
	return objects, items
}

// apply applies a manifest, in JSON, of which a field is left to others, and returns what is sent.
func (c *touched) apply(t *testing.T, manifest, pointer string) map[string]any {
	t.Helper()
	objects, items := renderedSet(t, c, manifest)
	a := New(c, NewWidth(), memory.New(func(string) {}), nil)
	spec := &deliveryv1.SyncSpec{Ignore: []*deliveryv1.IgnoreRule{{Pointers: []string{pointer}}}}
	request := Request{Service: "web", Set: objects, Sync: spec}
	if _, err := a.applyObject(t.Context(), request, items[0], true); err != nil {
		t.Fatal(err)
	}
	return c.sent.Object
}

// Without its mark an object would leave the streams, be taken for changed by others, and stay when the service goes.
func TestAnObjectWhoseLabelsAreLeftToOthersKeepsItsMark(t *testing.T) {
	t.Parallel()
	c := &touched{
		live:   `{"metadata":{"labels":{"team":"theirs"}}}`, // somebody took the mark off
		theirs: `{"f:metadata":{"f:labels":{"f:team":{}}}}`,
	}
	const manifest = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","labels":{"team":"ours"}}}`
	for _, pointer := range []string{"/metadata/labels", "/metadata/labels/*"} {
		sent := &unstructured.Unstructured{Object: c.apply(t, manifest, pointer)}
		if got, want := sent.GetLabels(), map[string]string{object.ServiceLabel: "web"}; !reflect.DeepEqual(got, want) {
			t.Errorf("%s: sent %v, want %v", pointer, got, want)
		}
	}
}

// A part of a field that others have is no reason to give up the rest of it: that would be gone from the cluster.
func TestOfAFieldThatIsLeftToOthersTheServiceKeepsWhatIsItsOwn(t *testing.T) {
	t.Parallel()
	const manifest = `{"apiVersion":"x.dev/v1","kind":"Boat","metadata":{"name":"a"},"spec":{"lists":{"crew":[{"name":"kim","age":1},{"name":"lee"}]},"sails":{"main":"1","jib":"1","fore":"1"}}}`
	const live = `{"spec":{"lists":{"crew":[{"name":"kim","age":9},{"name":"lee"},{"name":"theirs"}]},"sails":{"main":"1","jib":"2","theirs":"2"}}}`
	for name, test := range map[string]struct {
		theirs, pointer, want string // in spec
	}{
		"some keys of a map": {
			`{"f:spec":{"f:sails":{"f:jib":{},"f:theirs":{}}}}`, "/spec/sails",
			`{"lists":{"crew":[{"name":"kim","age":1},{"name":"lee"}]},"sails":{"main":"1"}}`,
		},
		"all keys of a map": {
			`{"f:spec":{"f:sails":{"f:jib":{},"f:main":{},"f:fore":{}}}}`, "/spec/sails",
			`{"lists":{"crew":[{"name":"kim","age":1},{"name":"lee"}]}}`,
		},
		"a map as one value": {
			`{"f:spec":{"f:sails":{}}}`, "/spec/sails",
			`{"lists":{"crew":[{"name":"kim","age":1},{"name":"lee"}]}}`,
		},
		"an element of a list": {
			`{"f:spec":{"f:lists":{"f:crew":{"k:{\"name\":\"kim\"}":{".":{},"f:age":{},"f:name":{}},"k:{\"name\":\"theirs\"}":{".":{},"f:name":{}}}}}}`,
			"/spec/lists", `{"lists":{"crew":[{"name":"lee"}]},"sails":{"main":"1","jib":"1","fore":"1"}}`,
		},
		"the element that is meant": {
			`{"f:spec":{"f:lists":{"f:crew":{"k:{\"name\":\"kim\"}":{".":{},"f:age":{}}}}}}`,
			"/spec/lists/crew/*", `{"lists":{"crew":[{"name":"lee"}]},"sails":{"main":"1","jib":"1","fore":"1"}}`,
		},
	} {
		c := &touched{live: live, theirs: test.theirs}
		got, err := json.Marshal(c.apply(t, manifest, test.pointer)["spec"])
		var is, want any
		if err != nil || json.Unmarshal(got, &is) != nil || json.Unmarshal([]byte(test.want), &want) != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(is, want) {
			t.Errorf("%s: sent %s, want %s", name, got, test.want)
		}
	}
}
