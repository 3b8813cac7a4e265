// Package health says how objects are: by their status, as kstatus reads it but for a few kinds, or by the rules of
// their service. The package is given the objects; it asks for nothing but the classes of claims, and keeps nothing.
package health

import (
	"context"
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
	result, err := status.Compute(withoutUpdated(obj))
	if err != nil {
		// kstatus can't read the status, as with a condition of an odd type. Not a word about health then.
		h.State, h.Message = Progressing, fmt.Sprintf("its status can't be read: %v", err)
		return h
	}
	switch result.Status {
	case status.CurrentStatus:
		h.State, h.Message = judgeCurrent(obj)
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

// Claims knows what a PersistentVolumeClaim does not say itself; *cluster.Cluster does.
type Claims interface {
	// AwaitsPod tells a claim that gets its volume when the first pod that uses it is scheduled.
	AwaitsPod(ctx context.Context, claim *unstructured.Unstructured) bool
}

// With is Of, with what claims knows: a claim that waits for its first pod is as it should be.
func With(ctx context.Context, claims Claims, obj *unstructured.Unstructured, rule *Rule) Health {
	h := Of(obj, rule)
	if rule == nil && h.State == Progressing && IsClaim(obj.GroupVersionKind().GroupKind()) &&
		obj.GetDeletionTimestamp() == nil && claims.AwaitsPod(ctx, obj) {
		h.State, h.Message = Healthy, ""
	}
	return h
}

// IsClaim tells the kind PersistentVolumeClaim.
func IsClaim(kind schema.GroupKind) bool {
	return kind == schema.GroupKind{Kind: "PersistentVolumeClaim"}
}

// judgeCurrent is the state of an object that kstatus takes for healthy. kstatus does so of a Job that runs, of a Pod
// that failed, of a StatefulSet whose pods people delete themselves (OnDelete), however few are ready, and of an
// APIService whose server does not answer.
func judgeCurrent(obj *unstructured.Unstructured) (State, string) {
	switch obj.GroupVersionKind().GroupKind() {
	case schema.GroupKind{Group: "batch", Kind: "Job"}:
		if !object.ConditionOf(obj, "Complete").IsTrue() {
			return Progressing, "it has not ended yet"
		}
	case schema.GroupKind{Kind: "Pod"}:
		if phase, _, _ := unstructured.NestedString(obj.Object, "status", "phase"); phase == "Failed" {
			message, _, _ := unstructured.NestedString(obj.Object, "status", "message")
			return Degraded, orElse(message, "it has failed")
		}
	case schema.GroupKind{Group: "apps", Kind: "StatefulSet"}:
		replicas, isSet, _ := unstructured.NestedInt64(obj.Object, "spec", "replicas")
		if !isSet {
			replicas = 1
		}
		if ready, _, _ := unstructured.NestedInt64(obj.Object, "status", "readyReplicas"); ready < replicas {
			return Progressing, fmt.Sprintf("Ready: %d/%d", ready, replicas)
		}
	case schema.GroupKind{Group: "apiregistration.k8s.io", Kind: "APIService"}:
		if available := object.ConditionOf(obj, "Available"); !available.IsTrue() {
			return Progressing, orElse(available.Message, "it is not available yet")
		}
	}
	return Healthy, ""
}

// withoutUpdated is the object without a count of updated pods that is too low, where people delete the pods of a
// DaemonSet themselves (OnDelete): kstatus waits for them for as long as nobody does.
func withoutUpdated(obj *unstructured.Unstructured) *unstructured.Unstructured {
	if obj.GroupVersionKind().GroupKind() != (schema.GroupKind{Group: "apps", Kind: "DaemonSet"}) {
		return obj
	}
	strategy, _, _ := unstructured.NestedString(obj.Object, "spec", "updateStrategy", "type")
	scheduled, isScheduled, _ := unstructured.NestedInt64(obj.Object, "status", "desiredNumberScheduled")
	if strategy != "OnDelete" || !isScheduled {
		return obj
	}
	obj = obj.DeepCopy()
	_ = unstructured.SetNestedField(obj.Object, scheduled, "status", "updatedNumberScheduled") // its status is a map
	return obj
}

// replicaFailure is why the pods of a Deployment can't be made, such as a quota: kstatus counts them only, until the
// deadline is over.
func replicaFailure(obj *unstructured.Unstructured) string {
	if obj.GroupVersionKind().GroupKind() != (schema.GroupKind{Group: "apps", Kind: "Deployment"}) {
		return ""
	}
	failure := object.ConditionOf(obj, "ReplicaFailure")
	if !failure.IsTrue() {
		return ""
	}
	return failure.Message
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
