package trial

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/services/agent/internal/object"
)

// Prepare changes the object of a test as the spec says, and as its annotation does. The error is a mistake in the
// object.
func Prepare(obj *unstructured.Unstructured, spec *deliveryv1.TestSpec) error {
	var at []string
	switch obj.GroupVersionKind().GroupKind() {
	case schema.GroupKind{Kind: "Pod"}:
		at = []string{"spec"}
	case schema.GroupKind{Group: "batch", Kind: "Job"}:
		at = []string{"spec", "template", "spec"}
	default:
		return nil
	}
	pod, found, err := unstructured.NestedMap(obj.Object, at...)
	if err != nil || !found {
		return nil //nolint:nilerr // the API server says what is wrong
	}
	if account := spec.GetServiceAccount(); account != "" {
		pod["serviceAccountName"] = account
		delete(pod, "serviceAccount")
	}
	if file, ok := obj.GetAnnotations()[object.TestReportAnnotation]; ok {
		if !strings.HasPrefix(file, "/") || strings.HasSuffix(file, "/") {
			return fmt.Errorf("annotation %s: %q must be the path of a file, such as /reports/junit.xml",
				object.TestReportAnnotation, file)
		}
		containers, _ := pod["containers"].([]any)
		for _, one := range containers {
			if container, ok := one.(map[string]any); ok {
				container["terminationMessagePath"] = file
			}
		}
	}
	return unstructured.SetNestedMap(obj.Object, pod, at...)
}
