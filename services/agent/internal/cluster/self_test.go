package cluster

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"fairlead.dev/services/agent/internal/object"
)

// Hooks are deleted, too, before they run again: not what the agent's own pod names, however it does.
func TestWhatThePodNamesIsNotDeleted(t *testing.T) {
	t.Parallel()
	const pod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"agent","namespace":"shop"},"spec":{"serviceAccountName":"runs",
		"imagePullSecrets":[{"name":"pull"}],"volumes":[{"name":"v","configMap":{"name":"mounted"}},{"name":"p","projected":{"sources":[{"secret":{"name":"projected"}}]}}],
		"initContainers":[{"name":"i","env":[{"name":"A","value":"x"},{"name":"B","valueFrom":{"secretKeyRef":{"name":"first","key":"k"}}}]}],
		"containers":[{"name":"c","envFrom":[{"configMapRef":{"name":"all"}}]}]}}`
	s := &Self{Namespace: "shop", Pod: "agent", Cluster: edge(t, map[string]string{
		"/api/v1": `{"kind":"APIResourceList","resources":[{"name":"pods","namespaced":true,"kind":"Pod"},{"name":"secrets","namespaced":true,"kind":"Secret"},` +
			`{"name":"configmaps","namespaced":true,"kind":"ConfigMap"},{"name":"serviceaccounts","namespaced":true,"kind":"ServiceAccount"}]}`,
		"/api/v1/namespaces/shop/pods/agent": pod,
	})}
	for text, spared := range map[string]bool{
		"ServiceAccount/runs": true, "Secret/pull": true, "ConfigMap/mounted": true, "Secret/projected": true,
		"Secret/first": true, "ConfigMap/all": true,
		"Secret/all": false, "ConfigMap/free": false,
	} {
		kind, name, _ := strings.Cut(text, "/")
		ref := object.Ref{Key: object.Key{Kind: kind, Namespace: "shop", Name: name}, Version: "v1"}
		if err := s.Delete(t.Context(), ref, "1"); apierrors.IsBadRequest(err) != spared {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// The account has rights by its name as a user and by its groups, too; and many roles that go are one look at the
// bindings.
func TestRolesOfTheAgentAreSparedWhoeverTheyAreBoundTo(t *testing.T) {
	t.Parallel()
	binding := func(kind, role, subject string) string {
		return `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"` + kind + `","metadata":{"name":"b-` + role +
			`","namespace":"shop"},"roleRef":{"kind":"` + role + `","name":"r"},"subjects":[` + subject + `]}`
	}
	const group = "/apis/rbac.authorization.k8s.io/v1"
	for subject, spared := range map[string]bool{
		`{"kind":"ServiceAccount","name":"runs","namespace":"shop"}`:  true,
		`{"kind":"ServiceAccount","name":"runs","namespace":"other"}`: false,
		`{"kind":"User","name":"system:serviceaccount:shop:runs"}`:    true,
		`{"kind":"User","name":"somebody"}`:                           false,
		`{"kind":"Group","name":"system:serviceaccounts"}`:            true,
		`{"kind":"Group","name":"system:serviceaccounts:shop"}`:       true,
		`{"kind":"Group","name":"system:serviceaccounts:other"}`:      false,
		`{"kind":"Group","name":"system:authenticated"}`:              true,
	} {
		lists := 0
		api := map[string]string{
			"/api/v1":                            `{"kind":"APIResourceList","resources":[{"name":"pods","namespaced":true,"kind":"Pod"}]}`,
			"/api/v1/namespaces/shop/pods/agent": `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"agent","namespace":"shop"},"spec":{"serviceAccountName":"runs"}}`,
			group:                                `{"kind":"APIResourceList","resources":[{"name":"roles","namespaced":true,"kind":"Role"},{"name":"clusterroles","kind":"ClusterRole"},{"name":"rolebindings","namespaced":true,"kind":"RoleBinding"},{"name":"clusterrolebindings","kind":"ClusterRoleBinding"}]}`,
			group + "/rolebindings":              `{"kind":"RoleBindingList","apiVersion":"rbac.authorization.k8s.io/v1","items":[` + binding("RoleBinding", "Role", subject) + `]}`,
			group + "/clusterrolebindings":       `{"kind":"ClusterRoleBindingList","apiVersion":"rbac.authorization.k8s.io/v1","items":[` + binding("ClusterRoleBinding", "ClusterRole", subject) + `]}`,
			group + "/namespaces/shop/rolebindings/one": binding("RoleBinding", "Role", subject),
		}
		s := &Self{Namespace: "shop", Pod: "agent", Cluster: edgeSeen(t, api, func(path string) {
			if strings.HasSuffix(path, "bindings") {
				lists++
			}
		})}
		for _, key := range []object.Key{
			{Kind: "Role", Namespace: "shop", Name: "r"},
			{Kind: "ClusterRole", Name: "r"},
			{Kind: "RoleBinding", Namespace: "shop", Name: "one"},
		} {
			key.Group = rbacGroup
			if err := s.spare(t.Context(), object.Ref{Key: key, Version: "v1"}); apierrors.IsBadRequest(err) != spared {
				t.Errorf("%s, bound to %s: %v", key, subject, err)
			}
		}
		other := object.Ref{
			Key: object.Key{Group: rbacGroup, Kind: "Role", Namespace: "other", Name: "r"}, Version: "v1",
		}
		if err := s.spare(t.Context(), other); err != nil {
			t.Errorf("a role of the same name elsewhere: %v", err)
		}
		if lists != 2 {
			t.Errorf("bindings were listed %d times", lists)
		}
	}
}
