package object_test

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"fairlead.dev/services/agent/internal/object"
)

func parse(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{}
	if err := obj.UnmarshalJSON([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return obj
}

func TestContentIsWhatAnObjectSays(t *testing.T) {
	t.Parallel()
	base := `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a","namespace":"n","labels":{"x":"1"}},"spec":{"replicas":1,"list":[1,2]}}`
	want := object.Content(parse(t, base))
	same := []string{
		`{"kind":"Deployment","apiVersion":"apps/v1beta1","spec":{"list":[1,2],"replicas":1},"metadata":{"labels":{"x":"1"},"name":"a","namespace":"n"}}`,
		`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a","namespace":"n","labels":{"x":"1"},"uid":"u","resourceVersion":"7","generation":3,"managedFields":[{"manager":"x"}]},"spec":{"replicas":1,"list":[1,2]},"status":{"replicas":9}}`,
		`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a","namespace":"n","labels":{"x":"1"}},"spec":{"replicas":1.0,"list":[1,2]}}`,
	}
	for _, text := range same {
		if object.Content(parse(t, text)) != want {
			t.Errorf("another sum for %s", text)
		}
	}
	others := []string{
		`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a","namespace":"n","labels":{"x":"2"}},"spec":{"replicas":1,"list":[1,2]}}`,
		`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a","namespace":"n","labels":{"x":"1"},"annotations":{"a":"b"}},"spec":{"replicas":1,"list":[1,2]}}`,
		`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a","namespace":"n","labels":{"x":"1"}},"spec":{"replicas":1,"list":[2,1]}}`,
		`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a","namespace":"n","labels":{"x":"1"}},"spec":{"replicas":"1","list":[1,2]}}`,
		`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a","namespace":"n","labels":{"x":"1"}},"spec":{"replicas":1,"list":[1,2]},"data":{}}`,
	}
	for _, text := range others {
		if object.Content(parse(t, text)) == want {
			t.Errorf("the same sum for %s", text)
		}
	}
}

// FuzzContent: what comes out of any decoding and encoding has the sum it had before, and what differs as JSON does
// not.
func FuzzContent(f *testing.F) {
	f.Add([]byte(`{"spec":{"a":[1,2.5,"x",null,true]}}`), []byte(`{"spec":{"a":[1,2.5,"x",null,false]}}`))
	f.Add([]byte(`{"data":{"a":"b","c":"d"}}`), []byte(`{"data":{"a":"bc","":"d"}}`))
	f.Fuzz(func(t *testing.T, one, two []byte) {
		var a, b map[string]any
		if json.Unmarshal(one, &a) != nil || json.Unmarshal(two, &b) != nil {
			t.Skip()
		}
		a, b = map[string]any{"spec": a}, map[string]any{"spec": b}
		left, right := object.Content(&unstructured.Unstructured{
			Object: a,
		}), object.Content(&unstructured.Unstructured{Object: b})
		first, err := json.Marshal(a)
		if err != nil {
			t.Fatal(err)
		}
		second, err := json.Marshal(b)
		if err != nil {
			t.Fatal(err)
		}
		if (string(first) == string(second)) != (left == right) {
			t.Errorf("%s and %s: sums %x and %x", first, second, left, right)
		}
		var again map[string]any
		if err := json.Unmarshal(first, &again); err != nil {
			t.Fatal(err)
		}
		if object.Content(&unstructured.Unstructured{Object: again}) != left {
			t.Errorf("%s: another sum after a round trip", first)
		}
	})
}

func managed(manager string, operation metav1.ManagedFieldsOperationType, second int,
	fields string,
) metav1.ManagedFieldsEntry {
	at := metav1.NewTime(time.Date(2026, 1, 1, 0, 0, second, 0, time.UTC))
	return metav1.ManagedFieldsEntry{
		Manager: manager, Operation: operation, Time: &at, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields),
	}
}

func TestOwnedChangesWithOurFieldsOnly(t *testing.T) {
	t.Parallel()
	apply, update := metav1.ManagedFieldsOperationApply, metav1.ManagedFieldsOperationUpdate
	meta := func(entries ...metav1.ManagedFieldsEntry) *metav1.PartialObjectMetadata {
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{ManagedFields: entries}}
	}
	ours := managed("fairlead", apply, 1, `{"f:spec":{"f:a":{},"f:b":{}}}`)
	want := object.Owned(meta(ours))
	if want == 0 || object.Owned(meta(managed("kubectl", apply, 1, `{}`))) != 0 {
		t.Error("only our applies count")
	}
	if object.Owned(meta(managed("x", update, 5, `{"f:spec":{"f:c":{}}}`),
		managed("fairlead", apply, 1, `{"f:spec":{"f:b":{},"f:a":{}}}`))) != want {
		t.Error("a foreign field, or the order of the text, made a difference")
	}
	if object.Owned(meta(managed("fairlead", apply, 1, `{"f:spec":{"f:a":{}}}`))) == want {
		t.Error("a field that was taken from us made none")
	}
	if object.Owned(meta(managed("fairlead", apply, 2, `{"f:spec":{"f:a":{},"f:b":{}}}`))) == want {
		t.Error("a write under our name made none")
	}
	// The same by the two ways that objects come.
	obj := &unstructured.Unstructured{Object: map[string]any{}}
	obj.SetManagedFields([]metav1.ManagedFieldsEntry{ours})
	if object.Owned(obj) != want {
		t.Error("the dynamic client's object has another sum")
	}
}

func TestRivalsAreNamed(t *testing.T) {
	t.Parallel()
	apply, update := metav1.ManagedFieldsOperationApply, metav1.ManagedFieldsOperationUpdate
	manifest := parse(t, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a","labels":{"x/y":"1"}},"spec":{"replicas":2,"template":{"spec":{"containers":[{"name":"c","image":"i","ports":[{"containerPort":80}]}]}}}}`).Object
	whole := `{"f:metadata":{"f:labels":{"f:x/y":{}}},"f:spec":{"f:replicas":{},"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"c\"}":{".":{},"f:image":{},"f:name":{},"f:ports":{"k:{\"containerPort\":80,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{}}}}}}}}}`
	tests := []struct {
		name, ours, theirs string
		manager            string
		pointers           []string
	}{
		{"nothing", whole, `{"f:spec":{"f:paused":{}}}`, "", nil},
		{
			"a scalar", `{"f:metadata":{"f:labels":{"f:x/y":{}}},"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"c\"}":{".":{},"f:image":{},"f:name":{},"f:ports":{}}}}}}}`,
			`{"f:spec":{"f:replicas":{}}}`, "hpa",
			[]string{"/spec/replicas"},
		},
		{
			"in a list", `{"f:metadata":{"f:labels":{"f:x/y":{}}},"f:spec":{"f:replicas":{},"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"c\"}":{".":{},"f:name":{},"f:ports":{}}}}}}}`,
			`{"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"c\"}":{"f:image":{}}}}}}}`, "hpa",
			[]string{"/spec/template/spec/containers/0/image"},
		},
		{
			"gone", `{"f:metadata":{},"f:spec":{"f:template":{}}}`, `{"f:spec":{"f:paused":{}}}`, "hpa",
			[]string{"/spec/replicas"},
		},
	}
	for _, test := range tests {
		obj := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{
			managed("fairlead", apply, 1, test.ours), managed("hpa", update, 2, test.theirs),
		}}}
		manager, pointers := object.Rivals(obj, manifest)
		if manager != test.manager || !slices.Equal(pointers, test.pointers) {
			t.Errorf("%s: got %s %v, want %s %v", test.name, manager, pointers, test.manager, test.pointers)
		}
	}
}
