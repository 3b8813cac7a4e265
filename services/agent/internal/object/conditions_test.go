package object

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestConditionsAreReadFromOddStatus(t *testing.T) {
	t.Parallel()
	ready := map[string]any{"type": "Ready", "status": "True", "reason": "Up", "message": "it runs"}
	for name, test := range map[string]struct {
		status any
		want   Condition
	}{
		"no status":            {nil, Condition{}},
		"status is text":       {"fine", Condition{}},
		"conditions are a map": {map[string]any{"conditions": map[string]any{"Ready": "True"}}, Condition{}},
		"one of its type":      {map[string]any{"conditions": []any{ready}}, Condition{"Ready", "True", "Up", "it runs"}},
		"among others": {
			map[string]any{"conditions": []any{nil, "Ready", map[string]any{"status": "True"}, ready}},
			Condition{"Ready", "True", "Up", "it runs"},
		},
		"fields are no text": {
			map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": true, "message": int64(1)}}},
			Condition{Type: "Ready"},
		},
		"the first of two counts": {
			map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": "False"}, ready}},
			Condition{Type: "Ready", Status: "False"},
		},
	} {
		obj := &unstructured.Unstructured{Object: map[string]any{"status": test.status}}
		if got := ConditionOf(obj, "Ready"); got != test.want {
			t.Errorf("%s: got %+v, want %+v", name, got, test.want)
		}
	}
	if ConditionOf(&unstructured.Unstructured{}, "Ready").IsTrue() {
		t.Error("an object without fields is ready")
	}
}
