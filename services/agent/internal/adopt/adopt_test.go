package adopt

import (
	"encoding/json"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fairlead.dev/services/agent/internal/object"
)

func TestToolsAreNamed(t *testing.T) {
	t.Parallel()
	for want, meta := range map[string]*metav1.ObjectMeta{
		"": {
			Labels: map[string]string{"app.kubernetes.io/managed-by": "Helm", "app.kubernetes.io/instance": "web"},
		},
		"Helm release shop/web": {
			Labels: map[string]string{"app.kubernetes.io/managed-by": "Helm"},
			Annotations: map[string]string{
				"meta.helm.sh/release-name": "web", "meta.helm.sh/release-namespace": "shop",
			},
		},
		"Flux's Kustomization flux-system/apps": {
			Labels: map[string]string{
				"kustomize.toolkit.fluxcd.io/name": "apps", "kustomize.toolkit.fluxcd.io/namespace": "flux-system",
			},
		},
		"Flux's HelmRelease shop/web": {
			Labels: map[string]string{
				"app.kubernetes.io/managed-by": "Helm", "helm.toolkit.fluxcd.io/name": "web",
				"helm.toolkit.fluxcd.io/namespace": "shop",
			},
			Annotations: map[string]string{
				"meta.helm.sh/release-name": "web", "meta.helm.sh/release-namespace": "shop",
			},
		},
		"Argo CD's application web": {
			Annotations: map[string]string{"argocd.argoproj.io/tracking-id": "web:/ConfigMap:shop/a"},
		},
		"Argo CD's application shop": {
			Labels:        map[string]string{"app.kubernetes.io/instance": "shop"},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "argocd-controller"}},
		},
	} {
		if got := Tool(meta); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestMigrationJoinsFieldsOfTools(t *testing.T) {
	t.Parallel()
	entry := func(manager string, operation metav1.ManagedFieldsOperationType,
		sub, fields string,
	) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{
			Manager: manager, Operation: operation, Subresource: sub, APIVersion: "v1", FieldsType: "FieldsV1",
			FieldsV1: metav1.NewFieldsV1(fields),
		}
	}
	meta := &metav1.ObjectMeta{
		ResourceVersion: "7", Annotations: map[string]string{object.LastApplied: "{}"},
		ManagedFields: []metav1.ManagedFieldsEntry{
			entry("kubectl-client-side-apply", "Update", "", `{"f:data":{"f:a":{}}}`),
			entry("helm", "Apply", "", `{"f:data":{"f:b":{}}}`),
			entry("kubectl-edit", "Update", "", `{"f:data":{"f:c":{}}}`),
			entry("helm", "Update", "status", `{"f:status":{}}`),
		},
	}
	raw, err := Migration(meta)
	if err != nil {
		t.Fatal(err)
	}
	var patch []struct {
		Op, Path string
		Value    any
	}
	if err := json.Unmarshal(raw, &patch); err != nil {
		t.Fatal(err)
	}
	text := string(raw)
	if len(patch) != 3 || patch[0].Op != "test" || patch[0].Value != "7" || patch[2].Op != "remove" ||
		!strings.Contains(text, `"fieldsV1":{"f:data":{"f:a":{},"f:b":{}}}`) ||
		!strings.Contains(text, "kubectl-edit") || !strings.Contains(text, `"subresource":"status"`) {
		t.Errorf("got %s", raw)
	}
	meta.ManagedFields = meta.ManagedFields[2:]
	if raw, err := Migration(meta); raw != nil || err != nil {
		t.Errorf("nothing to move: %s %v", raw, err)
	}
}
