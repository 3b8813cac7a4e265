package acceptance

import (
	"strings"
	"testing"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
)

// A service that has anything its project does not allow is refused, all of it, and told where; what was applied stays.
func TestObjectsOutsideOfTheProjectAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name := w.service("bounded")
	good := map[string]string{"a.yaml": configMap("a", "1")}
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, good), healthy)
	bounds := func() *deliveryv1.ObjectRules {
		return &deliveryv1.ObjectRules{
			Project: "shop", Namespaces: []string{w.namespace, w.namespace + "-*"},
			DeniedKinds: []string{"*.networking.k8s.io"},
		}
	}
	w.hub.awaitPhase(t, name, w.hub.bound(name, bounds()), healthy)
	role := "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: " + name + "}\nrules: []\n"
	for _, test := range []struct{ file, want string }{
		{
			"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, namespace: kube-system}\n",
			"does not allow namespace kube-system",
		},
		{
			"apiVersion: v1\nkind: Namespace\nmetadata: {name: other}\n",
			"does not allow kind Namespace, which is not in a namespace",
		},
		{
			role,
			"does not allow kind ClusterRole.rbac.authorization.k8s.io, which is not in a namespace (spec.kinds has to name it without *)",
		},
		{
			"apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: x}\nspec: {defaultBackend: {service: {name: x, port: {number: 80}}}}\n",
			"does not allow kind Ingress.networking.k8s.io",
		},
	} {
		bad := w.hub.push(t, name, w.namespace, map[string]string{
			"a.yaml": configMap("a", "2"), "b.yaml": configMap("b", "2") + "---\n" + test.file,
		})
		report := w.hub.awaitPhase(t, name, bad, failed)
		for _, want := range []string{
			"apps/hello/b.yaml, document 2, line ", `project "shop" ` + test.want, "the previous state stays applied",
		} {
			if !strings.Contains(report.GetMessage(), want) {
				t.Errorf("got %s\nwant %s", report.GetMessage(), want)
			}
		}
		w.mustData("a", "1")
		w.mustBeGone("v1", "ConfigMap", w.namespace, "b")
	}
	w.mustBeGone("rbac.authorization.k8s.io/v1", "ClusterRole", "", name)

	// Kinds that are written out are allowed; the last push has an Ingress, which is not any more.
	rules := bounds()
	rules.DeniedKinds, rules.Kinds = nil, []string{"ConfigMap", "*.networking.k8s.io"}
	w.hub.awaitPhase(t, name, w.hub.bound(name, rules), healthy)
	w.mustData("a", "2")
	rules = bounds()
	rules.Kinds = []string{"Config*", "ClusterRole.rbac.authorization.k8s.io"}
	w.hub.push(t, name, w.namespace, map[string]string{"a.yaml": configMap("a", "3"), "b.yaml": role})
	w.hub.awaitPhase(t, name, w.hub.bound(name, rules), healthy)
	w.mustData("a", "3")

	// A project that becomes narrower removes nothing.
	rules = bounds()
	rules.Kinds = []string{"Secret"}
	report := w.hub.awaitPhase(t, name, w.hub.bound(name, rules), failed)
	if !strings.Contains(report.GetMessage(),
		`ConfigMap `+w.namespace+`/a: project "shop" does not allow kind ConfigMap`) {
		t.Errorf("got %s", report.GetMessage())
	}
	w.mustData("a", "3")
}

// The API server refuses the CRD, and the binding would be applied with the agent's rights.
func TestCRDOfAServiceDoesNotMakeAKindOfTheClusterNamespaced(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name := w.service("bounded")
	rules := &deliveryv1.ObjectRules{
		Project: "shop", Namespaces: []string{w.namespace},
		Kinds: []string{"*", "CustomResourceDefinition.apiextensions.k8s.io"},
	}
	w.hub.push(t, name, w.namespace, map[string]string{"a.yaml": configMap("a", "1")})
	w.hub.awaitPhase(t, name, w.hub.bound(name, rules), healthy)
	bad := w.hub.push(t, name, w.namespace, map[string]string{
		"crd.yaml": "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: x.rbac.authorization.k8s.io, annotations: {helm.sh/hook: pre-delete}}\n" +
			"spec: {group: rbac.authorization.k8s.io, scope: Namespaced, names: {kind: ClusterRoleBinding, plural: x}, versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]}\n",
		"binding.yaml": "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: " +
			name + ", namespace: " + w.namespace + "}\n" +
			"roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}\nsubjects: [{kind: ServiceAccount, name: default, namespace: " + w.namespace + "}]\n",
	})
	report := w.hub.await(t, name, func(r *deliveryv1.ServiceReport) bool {
		return r.GetDigest() == bad && (r.GetPhase() == failed || r.GetPhase() == healthy)
	})
	if want := "does not allow kind ClusterRoleBinding.rbac.authorization.k8s.io, which is not in a namespace"; !strings.Contains(report.GetMessage(), want) {
		t.Errorf("got %s\nwant %s", report.GetMessage(), want)
	}
	w.mustBeGone("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "", name)
}
