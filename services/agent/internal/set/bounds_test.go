package set_test

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/services/agent/internal/kubeyaml"
	"fairlead.dev/services/agent/internal/set"
)

// An object counts where it will be: its namespace may come from the service, and its scope from a CRD of the set.
func TestBoundsOfAProject(t *testing.T) {
	t.Parallel()
	config := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
	elsewhere := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: kube-system}\n"
	systems := strings.Replace(elsewhere, "kube-system", "fairlead-system", 1)
	namespace := "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop-eu}\n"
	job := "apiVersion: batch/v1\nkind: Job\nmetadata: {name: a}\n"
	boats := "apiVersion: sea.dev/v1\nkind: Boat\nmetadata: {name: a}\n---\napiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: boats.sea.dev}\n" +
		"spec: {group: sea.dev, scope: Cluster, names: {kind: Boat}}\n"
	role := func(scope, rest string) string {
		return "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: a, namespace: shop}\n---\napiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n" +
			"metadata: {name: a.rbac.authorization.k8s.io}\nspec: {group: rbac.authorization.k8s.io, scope: " + scope +
			", names: {kind: ClusterRoleBinding}}\n" + rest
	}
	const crd = "CustomResourceDefinition.apiextensions.k8s.io"
	for _, test := range []struct {
		name  string
		rules *deliveryv1.ObjectRules
		text  string
		want  string
	}{
		{"nothing is bounded", nil, elsewhere + "---\n" + namespace, ""},
		{"the service's namespace", &deliveryv1.ObjectRules{Namespaces: []string{"shop"}}, config, ""},
		{
			"another service's namespace", &deliveryv1.ObjectRules{Namespaces: []string{"bank"}}, config,
			"does not allow namespace shop",
		},
		{
			"a foreign namespace", &deliveryv1.ObjectRules{Namespaces: []string{"shop*"}},
			config + "---\n" + elsewhere, "apps/a.yaml, document 2, line 5: ConfigMap kube-system/a: ",
		},
		{"any namespace, some kinds", &deliveryv1.ObjectRules{Kinds: []string{"ConfigMap"}}, elsewhere, ""},
		{"a kind of a group", &deliveryv1.ObjectRules{Kinds: []string{"*.batch"}}, job, ""},
		{"another kind", &deliveryv1.ObjectRules{Kinds: []string{"Job"}}, job, "does not allow kind Job.batch"},
		{
			"a denied kind", &deliveryv1.ObjectRules{Kinds: []string{"*"}, DeniedKinds: []string{"Job.*"}}, job,
			"does not allow kind Job.batch",
		},
		{
			"a kind in no namespace", &deliveryv1.ObjectRules{Kinds: []string{"*"}}, namespace,
			"does not allow kind Namespace, which is not in a namespace",
		},
		{
			"one that is written out",
			&deliveryv1.ObjectRules{Kinds: []string{"Namespace"}, Namespaces: []string{"shop-*"}}, namespace, "",
		},
		{
			"another Namespace", &deliveryv1.ObjectRules{Kinds: []string{"Namespace"}, Namespaces: []string{"shop"}},
			namespace, "does not allow namespace shop-eu",
		},
		{
			"a scope of its own", &deliveryv1.ObjectRules{Kinds: []string{"*", crd}}, boats,
			"does not allow kind Boat.sea.dev, which is not in a namespace",
		},
		{
			"which is written out",
			&deliveryv1.ObjectRules{Kinds: []string{"Boat.sea.dev", crd}, Namespaces: []string{"shop"}}, boats, "",
		},
		{
			"the agent's namespace, with kinds alone", &deliveryv1.ObjectRules{Kinds: []string{"ConfigMap"}}, systems,
			"does not allow namespace fairlead-system, where the agent is",
		},
		{
			"the agent's namespace, with denied kinds alone", &deliveryv1.ObjectRules{DeniedKinds: []string{"Job.*"}},
			systems, "does not allow namespace fairlead-system",
		},
		{
			"the agent's namespace, by a pattern", &deliveryv1.ObjectRules{Namespaces: []string{"*"}}, systems,
			"(spec.namespaces has to name it without *)",
		},
		{
			"the agent's namespace, written out", &deliveryv1.ObjectRules{Namespaces: []string{"fairlead-system"}},
			systems, "",
		},
		{
			"the agent's Namespace", &deliveryv1.ObjectRules{Kinds: []string{"Namespace"}},
			strings.Replace(namespace, "shop-eu", "fairlead-system", 1), "does not allow namespace fairlead-system",
		},
		{
			"a CRD that calls a kind of the cluster its own", &deliveryv1.ObjectRules{Kinds: []string{"*", crd}},
			role("Namespaced", ""),
			"does not allow kind ClusterRoleBinding.rbac.authorization.k8s.io, which is not in a namespace",
		},
		{
			"one that comes as a hook", &deliveryv1.ObjectRules{Kinds: []string{"*", crd}},
			strings.Replace(role("Namespaced", ""), "metadata: {",
				"metadata: {annotations: {helm.sh/hook: pre-install}, ", 1),
			"which is not in a namespace",
		},
	} {
		store, _ := openStore(t)
		b, err := store.Create(set.Target{
			Service: "shop", ID: id("1"), Namespace: "shop", Scopes: known(), Rules: test.rules,
		})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Discard()
		reader := kubeyaml.NewReader(func(obj *unstructured.Unstructured, at kubeyaml.Position) error {
			return b.Add(t.Context(), obj, at)
		}, nil)
		reader.Read("apps/a.yaml", []byte(test.text))
		if err := reader.Err(); err != nil {
			t.Fatal(err)
		}
		s, err := b.Commit(t.Context())
		if err == nil {
			err = s.Close()
		}
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q", test.name, err, test.want)
		}
	}
}

// A check reports the first mistakes one by one, and counts the others.
func TestMistakesOfACheckAreBounded(t *testing.T) {
	t.Parallel()
	store, _ := openStore(t)
	b, err := store.Create(set.Target{
		Service: "shop", ID: id("1"), Namespace: "shop", Scopes: known(),
		Rules: &deliveryv1.ObjectRules{Namespaces: []string{"bank"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Discard()
	reader := kubeyaml.NewReader(func(obj *unstructured.Unstructured, at kubeyaml.Position) error {
		return b.Add(t.Context(), obj, at)
	}, nil)
	for i := range 12 {
		reader.Read("a.yaml", fmt.Appendf(nil, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a-%d}\n", i))
	}
	_, err = b.Commit(t.Context())
	if err == nil || strings.Count(err.Error(), "does not allow") != 5 ||
		!strings.HasSuffix(err.Error(), "and 7 more mistakes") {
		t.Errorf("got %v", err)
	}
}
