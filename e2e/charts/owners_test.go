package charts_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
)

// ownedChart brings a definition in its crds/ folder, and an object of that kind.
func ownedChart(name, version string) map[string]string {
	return map[string]string{
		"Chart.yaml": "apiVersion: v2\nname: " + name + "\nversion: 0.1.0\n",
		"crds/boats.yaml": `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: boats.c31owners.example.com, annotations: {of: ` + name + version + `}}
spec:
  group: c31owners.example.com
  scope: Namespaced
  names: {kind: Boat, plural: boats, singular: boat, listKind: BoatList}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {sail: {type: string}}}}}}}]
`,
		"templates/all.yaml": "apiVersion: c31owners.example.com/v1\nkind: Boat\nmetadata: {name: all}\nspec: {sail: red}\n",
	}
}

// Case 31 with two charts that bring one definition, as Bitnami's and others' do: the first has it, the second leaves
// it to the first and says so, and takes it over when the first goes; the objects of the kind stay.
func TestADefinitionOfTwoCharts(t *testing.T) {
	t.Parallel()
	cases, err := readCases()
	if err != nil {
		t.Fatal(err)
	}
	h, ctx := start(t, cases), t.Context()
	r := &run{T: t, harness: h}
	const first, second = "c31owner-first", "c31owner-second"
	definition := func(want string) func(context.Context) error {
		return func(ctx context.Context) error {
			found, err := h.dynamic.Resource(schema.GroupVersionResource{
				Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
			}).Get(ctx, "boats.c31owners.example.com", metav1.GetOptions{})
			if err != nil {
				return err
			}
			if is := found.GetLabels()["fairlead.dev/service"] + " " + found.GetAnnotations()["of"]; is != want {
				return fmt.Errorf("it is of %q, want %q", is, want)
			}
			return nil
		}
	}
	boat := func(namespace string) *unstructured.Unstructured {
		t.Helper()
		found, err := h.dynamic.Resource(schema.GroupVersionResource{
			Group: "c31owners.example.com", Version: "v1", Resource: "boats",
		}).Namespace(namespace).Get(ctx, "all", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	deliver := func(name, version string) {
		t.Helper()
		commit, err := h.world.Push(ctx, name, ownedChart(name, version))
		if err == nil {
			err = h.world.ServeSpec(ctx, name, &consolev1.ServiceSpec{Path: name})
		}
		if err == nil {
			err = h.world.Settled(ctx, name, commit)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{first, second} {
		if err := h.world.Kube.Namespace(ctx, name); err != nil {
			t.Fatal(err)
		}
		deliver(name, "")
	}
	r.await(ctx, "the first chart has the definition", definition(first+" "+first))
	r.await(ctx, "the second service says whose it is", func(ctx context.Context) error {
		svc, err := h.world.Service(ctx, second)
		if err == nil && !strings.Contains(words(svc), first) {
			err = fmt.Errorf("it says %q", words(svc))
		}
		return err
	})
	// An upgrade of the one updates it, one of the other does not.
	deliver(second, "-2")
	deliver(first, "-2")
	r.await(ctx, "the first chart updates the definition", definition(first+" "+first+"-2"))
	kept := boat(second).GetUID()
	if err := h.world.Remove(ctx, first); err != nil {
		t.Fatal(err)
	}
	r.await(ctx, "the second chart takes the definition over", definition(second+" "+second+"-2"))
	if now := boat(second).GetUID(); now != kept {
		t.Errorf("the object of the second service was made anew: %s, was %s", now, kept)
	}
	deliver(second, "-3")
	r.await(ctx, "the second chart updates the definition", definition(second+" "+second+"-3"))
	if err := h.world.Remove(ctx, second); err != nil {
		t.Fatal(err)
	}
	r.await(ctx, "the definition goes with the last of them", func(ctx context.Context) error {
		if err := definition("")(ctx); !apierrors.IsNotFound(err) {
			return errors.Join(err, errors.New("it is there"))
		}
		return nil
	})
}
