package object

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

const (
	// ServiceLabel marks an object with the Fairlead service that it belongs to.
	ServiceLabel = "fairlead.dev/service"
	// FieldManager is the agent's name in managedFields.
	FieldManager = "fairlead"
)

// Owner is the Fairlead service that an object of the cluster belongs to, "" if none. The label alone
// is no proof: controllers copy labels (from a Service to its EndpointSlices), and people do.
func Owner(meta metav1.Object) string {
	for _, entry := range meta.GetManagedFields() {
		if entry.Manager == FieldManager && entry.Operation == metav1.ManagedFieldsOperationApply {
			return meta.GetLabels()[ServiceLabel]
		}
	}
	return ""
}
