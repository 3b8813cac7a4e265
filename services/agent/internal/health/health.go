// Package health says how objects are: by their status, as kstatus reads it, or by the rules of their service. The
// package is given the objects; it asks nobody and keeps nothing.
package health

import (
	"fmt"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"fairlead.dev/services/agent/internal/object"
)

// State is how an object is.
type State string

// The states, as they stand in reports.
const (
	Healthy     State = "Healthy"
	Progressing State = "Progressing"
	Degraded    State = "Degraded"
	Missing     State = "Missing"
	// Unknown: the cluster could not be asked. Never shown as healthy.
	Unknown State = "Unknown"
)

// Health is the state of one object, and what it says itself.
type Health struct {
	Ref     object.Ref
	State   State
	Message string
}

// Of reads the health of an object: by the rule, or without one by kstatus.
func Of(obj *unstructured.Unstructured, rule *Rule) Health {
	h := Health{Ref: object.RefOf(obj)}
	if obj.GetDeletionTimestamp() != nil {
		h.State, h.Message = Progressing, Leaving
		return h
	}
	if rule != nil {
		h.State, h.Message = rule.of(obj)
		return h
	}
	result, err := status.Compute(obj)
	if err != nil {
		// kstatus can't read the status, as with a condition of an odd type. Not a word about health then.
		h.State, h.Message = Progressing, fmt.Sprintf("its status can't be read: %v", err)
		return h
	}
	switch result.Status {
	case status.CurrentStatus:
		h.State = Healthy
	case status.FailedStatus:
		h.State, h.Message = Degraded, orElse(result.Message, "it has failed")
	default: // InProgress, Unknown
		h.State, h.Message = Progressing, orElse(result.Message, "it is on its way")
	}
	if why := replicaFailure(obj); why != "" && h.State != Healthy {
		h.Message = orElse(h.Message+"; its pods can't be made: "+why, "")
	}
	return h
}

// replicaFailure is why the pods of a Deployment can't be made, such as a quota: kstatus counts them only, until the
// deadline is over.
func replicaFailure(obj *unstructured.Unstructured) string {
	if obj.GroupVersionKind().GroupKind() != (schema.GroupKind{Group: "apps", Kind: "Deployment"}) {
		return ""
	}
	conditions, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
	for _, one := range conditions {
		if condition, _ := one.(map[string]any); condition["type"] == "ReplicaFailure" && condition["status"] == "True" {
			message, _ := condition["message"].(string)
			return message
		}
	}
	return ""
}

// Leaving is said of an object that was deleted and is still there.
const Leaving = "it is being deleted"

// OfMeta is the health of an object of which nothing else can be read.
func OfMeta(meta metav1.Object) Health {
	if meta.GetDeletionTimestamp() != nil {
		return Health{State: Progressing, Message: Leaving}
	}
	return Health{State: Healthy}
}
