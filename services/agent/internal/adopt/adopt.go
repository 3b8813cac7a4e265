// Package adopt tells who keeps an object that is in the cluster already, and makes the fields that tools wrote
// the agent's: otherwise what leaves Git later would stay, because a tool that is gone still stands as its owner.
package adopt

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"fairlead.dev/services/agent/internal/object"
)

// Tool names the tool that keeps an object, in words; "" if there is none.
func Tool(meta metav1.Object) string {
	labels, annotations := meta.GetLabels(), meta.GetAnnotations()
	if release := annotations["meta.helm.sh/release-name"]; release != "" && labels["app.kubernetes.io/managed-by"] == "Helm" {
		if labels["helm.toolkit.fluxcd.io/name"] == "" {
			return fmt.Sprintf("Helm release %s/%s", annotations["meta.helm.sh/release-namespace"], release)
		}
	}
	for _, kind := range []string{"kustomize", "helm"} {
		prefix := kind + ".toolkit.fluxcd.io/"
		if name := labels[prefix+"name"]; name != "" {
			return fmt.Sprintf("Flux's %s %s/%s", map[string]string{
				"kustomize": "Kustomization",
				"helm":      "HelmRelease",
			}[kind], labels[prefix+"namespace"], name)
		}
	}
	if id := annotations["argocd.argoproj.io/tracking-id"]; id != "" {
		application, _, _ := strings.Cut(id, ":")
		return "Argo CD's application " + application
	}
	if instance := labels["argocd.argoproj.io/instance"]; instance != "" {
		return "Argo CD's application " + instance
	}
	instance := labels["app.kubernetes.io/instance"]
	if instance != "" && slices.ContainsFunc(meta.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool { return e.Manager == "argocd-controller" }) {
		return "Argo CD's application " + instance
	}
	return ""
}

// moves tells whether fields of an entry become the agent's.
func moves(entry metav1.ManagedFieldsEntry) bool {
	if entry.Subresource != "" || entry.FieldsV1 == nil {
		return false
	}
	switch entry.Manager {
	case "kubectl":
		return entry.Operation == metav1.ManagedFieldsOperationApply // its updates are people's: kubectl edit, scale
	case "kubectl-client-side-apply", "helm", "kustomize-controller", "helm-controller", "argocd-controller":
		return true
	}
	return false
}

// Migration is the JSON patch that makes the fields of tools the agent's; nil if there are none. The patch holds for
// this version of the object only.
func Migration(meta metav1.Object) ([]byte, error) {
	entries := meta.GetManagedFields()
	if !slices.ContainsFunc(entries, moves) {
		return nil, nil
	}
	ours := metav1.ManagedFieldsEntry{Manager: object.FieldManager, Operation: metav1.ManagedFieldsOperationApply, FieldsType: "FieldsV1"}
	fields := &fieldpath.Set{}
	var others []metav1.ManagedFieldsEntry
	for _, entry := range entries {
		mine := entry.Manager == object.FieldManager && entry.Operation == metav1.ManagedFieldsOperationApply && entry.Subresource == ""
		if !mine && !moves(entry) {
			others = append(others, entry)
			continue
		}
		if entry.FieldsV1 == nil {
			continue
		}
		var part fieldpath.Set
		if err := part.FromJSON(bytes.NewReader(entry.FieldsV1.GetRawBytes())); err != nil {
			return nil, fmt.Errorf("read the fields of %s: %w", entry.Manager, err)
		}
		fields = fields.Union(&part)
		ours.APIVersion, ours.Time = entry.APIVersion, entry.Time
	}
	raw, err := fields.ToJSON()
	if err != nil {
		return nil, fmt.Errorf("write managed fields: %w", err)
	}
	ours.FieldsV1 = metav1.NewFieldsV1(string(raw))
	patch := []operation{
		{"test", "/metadata/resourceVersion", meta.GetResourceVersion()},
		{"replace", "/metadata/managedFields", append(others, ours)},
	}
	if _, ok := meta.GetAnnotations()[object.LastApplied]; ok {
		patch = append(patch, operation{Op: "remove", Path: "/metadata/annotations/" + strings.ReplaceAll(object.LastApplied, "/", "~1")})
	}
	return json.Marshal(patch)
}

// Release is the JSON patch that gives up a field of the agent's, which stays in the object as it is and belongs to
// nobody then, and the managed fields after it; no patch if the agent does not have the field. The patch holds for this
// version of the object only.
func Release(meta metav1.Object, field ...string) (patch []byte, after []metav1.ManagedFieldsEntry, err error) {
	parts := make([]any, len(field))
	for i, name := range field {
		parts[i] = name
	}
	path, err := fieldpath.MakePath(parts...)
	if err != nil {
		return nil, nil, fmt.Errorf("name the field %v: %w", field, err)
	}
	entries := meta.GetManagedFields()
	for i, entry := range entries {
		if entry.Manager != object.FieldManager || entry.Operation != metav1.ManagedFieldsOperationApply || entry.Subresource != "" || entry.FieldsV1 == nil {
			continue
		}
		var fields fieldpath.Set
		if err := fields.FromJSON(bytes.NewReader(entry.FieldsV1.GetRawBytes())); err != nil {
			return nil, nil, fmt.Errorf("read the fields of %s: %w", entry.Manager, err)
		}
		if !fields.Has(path) {
			return nil, entries, nil
		}
		raw, err := fields.Difference(fieldpath.NewSet(path)).ToJSON()
		if err != nil {
			return nil, nil, fmt.Errorf("write managed fields: %w", err)
		}
		patch, err = json.Marshal([]operation{
			{Op: "test", Path: "/metadata/resourceVersion", Value: meta.GetResourceVersion()},
			{Op: "replace", Path: fmt.Sprintf("/metadata/managedFields/%d/fieldsV1", i), Value: json.RawMessage(raw)},
		})
		after = slices.Clone(entries)
		after[i].FieldsV1 = metav1.NewFieldsV1(string(raw))
		return patch, after, err
	}
	return nil, entries, nil
}

// operation of a JSON patch.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}
