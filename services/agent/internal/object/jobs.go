package object

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// IsJob tells the kind of objects that may go by themselves when they are done.
func IsJob(kind schema.GroupKind) bool { return kind == schema.GroupKind{Group: "batch", Kind: "Job"} }

// IsJobFailure tells the reasons of the event by which the controller of Jobs says that a Job has failed for good.
func IsJobFailure(reason any) bool {
	switch reason {
	case "BackoffLimitExceeded", "DeadlineExceeded", "PodFailurePolicy", "FailedIndexes", "MaxFailedIndexesExceeded":
		return true
	}
	return false
}

// Expiry tells whether an object goes by itself once it is done (a Job with ttlSecondsAfterFinished), and when it was
// complete; the zero time: it is not.
func Expiry(obj *unstructured.Unstructured) (expires bool, ended time.Time) {
	if !IsJob(obj.GroupVersionKind().GroupKind()) {
		return false, time.Time{}
	}
	if ttl, ok, _ := unstructured.NestedFieldNoCopy(obj.Object, "spec", "ttlSecondsAfterFinished"); !ok || ttl == nil {
		return false, time.Time{}
	}
	if !ConditionOf(obj, "Complete").IsTrue() {
		return true, time.Time{}
	}
	text, _, _ := unstructured.NestedString(obj.Object, "status", "completionTime")
	ended, err := time.Parse(time.RFC3339, text)
	if err != nil {
		ended = time.Now().UTC().Truncate(time.Second)
	}
	return true, ended
}
