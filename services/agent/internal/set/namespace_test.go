package set_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/services/agent/internal/kubeyaml"
	"fairlead.dev/services/agent/internal/object"
	"fairlead.dev/services/agent/internal/set"
)

func TestNamespaceOfTheServiceIsAddedOnce(t *testing.T) {
	t.Parallel()
	const own = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n"
	for name, test := range map[string]struct {
		text   string
		wanted *deliveryv1.CreateNamespace
		flags  object.Flags
		at     string
	}{
		"made once":       {"", &deliveryv1.CreateNamespace{}, object.MakeOnce, "spec.sync.createNamespace"},
		"of the service":  {"", &deliveryv1.CreateNamespace{Own: true}, 0, "spec.sync.createNamespace"},
		"among the files": {own, &deliveryv1.CreateNamespace{}, 0, "apps/a.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, _ := openStore(t)
			b, err := store.Create(set.Target{Service: "shop", ID: id(name), Namespace: "shop", Scopes: known()})
			if err != nil {
				t.Fatal(err)
			}
			defer b.Discard()
			reader := kubeyaml.NewReader(func(obj *unstructured.Unstructured, at kubeyaml.Position) error {
				return b.Add(t.Context(), obj, at)
			}, nil)
			reader.Read("apps/a.yaml", []byte(test.text))
			if err := b.AddNamespace(t.Context(), test.wanted); err != nil {
				t.Fatal(err)
			}
			made, err := b.Commit(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = made.Close() }()
			items, err := made.Items()
			if err != nil || len(items) != 1 {
				t.Fatal(items, err)
			}
			if got := items[0]; got.Name != "shop" || got.Namespace != "" || got.Flags != test.flags ||
				got.Position.File != test.at {
				t.Errorf("got %+v", got)
			}
		})
	}
}
