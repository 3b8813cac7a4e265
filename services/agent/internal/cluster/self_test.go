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
		"ServiceAccount/runs": true, "Secret/pull": true, "ConfigMap/mounted": true, "Secret/projected": true, "Secret/first": true, "ConfigMap/all": true,
		"Secret/all": false, "ConfigMap/free": false,
	} {
		kind, name, _ := strings.Cut(text, "/")
		ref := object.Ref{Key: object.Key{Kind: kind, Namespace: "shop", Name: name}, Version: "v1"}
		if err := s.Delete(t.Context(), ref, "1"); apierrors.IsBadRequest(err) != spared {
			t.Errorf("%s: %v", text, err)
		}
	}
}
