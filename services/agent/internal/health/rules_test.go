package health_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/services/agent/internal/health"
)

func read(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{}
	if err := obj.UnmarshalJSON([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return obj
}

func TestHealthRules(t *testing.T) {
	t.Parallel()
	field := func(path string, values ...string) []*deliveryv1.FieldTest {
		return []*deliveryv1.FieldTest{{Path: path, Values: values}}
	}
	tests := []struct {
		name, fields string
		rule         *deliveryv1.HealthRule
		state        health.State
		message      string
	}{
		{
			"a value", `"status":{"phase":"Ready"}`,
			&deliveryv1.HealthRule{Healthy: field(".status.phase", "Done", "Ready")}, health.Healthy, "",
		},
		{
			"another value", `"status":{"phase":"Busy"}`,
			&deliveryv1.HealthRule{Healthy: field(".status.phase", "Ready")}, health.Progressing,
			"it is not healthy yet, by the service's health rule",
		},
		{
			"no status", `"spec":{}`, &deliveryv1.HealthRule{Healthy: field(".status.phase", "Ready")},
			health.Progressing, "it is not healthy yet, by the service's health rule",
		},
		{
			"there is a field", `"status":{"url":"x"}`, &deliveryv1.HealthRule{Healthy: field(".status.url")},
			health.Healthy, "",
		},
		{
			"a number", `"status":{"ready":3}`, &deliveryv1.HealthRule{Healthy: field(".status.ready", "3")},
			health.Healthy, "",
		},
		{
			"a condition",
			`"status":{"conditions":[{"type":"Synced","status":"False"},{"type":"Ready","status":"True"}]}`,
			&deliveryv1.HealthRule{Healthy: field(`.status.conditions[?(@.type=="Ready")].status`, "True")},
			health.Healthy, "",
		},
		{
			"failed, with a message", `"status":{"phase":"Broken","why":"no disk"}`,
			&deliveryv1.HealthRule{
				Healthy: field(".status.phase", "Ready"), Failed: field(".status.phase", "Broken"),
				Message: ".status.why",
			}, health.Degraded, "no disk",
		},
		{
			"failed wins", `"status":{"phase":"Ready","error":"late"}`,
			&deliveryv1.HealthRule{Healthy: field(".status.phase", "Ready"), Failed: field(".status.error")},
			health.Degraded, "it has failed, by the service's health rule",
		},
		{
			"not all", `"status":{"a":"1"}`,
			&deliveryv1.HealthRule{Healthy: append(field(".status.a"), field(".status.b")...)}, health.Progressing,
			"it is not healthy yet, by the service's health rule",
		},
		{
			"no JSONPath", `"status":{}`, &deliveryv1.HealthRule{Healthy: field(".status[")}, health.Progressing,
			"can't be used: .status[ is no JSONPath",
		},
		{
			"on its way out", `"status":{"phase":"Ready"}`,
			&deliveryv1.HealthRule{Healthy: field(".status.phase", "Ready")}, health.Progressing, "it is being deleted",
		},
	}
	kind := schema.GroupKind{Group: "harbour.dev", Kind: "Boat"}
	for _, test := range tests {
		test.rule.Group, test.rule.Kind = kind.Group, kind.Kind
		deleted := ""
		if test.name == "on its way out" {
			deleted = `,"deletionTimestamp":"2026-01-01T00:00:00Z"`
		}
		obj := read(t, `{"apiVersion":"harbour.dev/v1","kind":"Boat","metadata":{"name":"a"`+deleted+`},`+
			test.fields+`}`)
		h := health.Of(obj, health.Find(health.Compile([]*deliveryv1.HealthRule{test.rule}), kind))
		if h.State != test.state || !strings.Contains(h.Message, test.message) {
			t.Errorf("%s: %s %q, want %s %q", test.name, h.State, h.Message, test.state, test.message)
		}
	}
}

// Without a rule kstatus says it.
func TestHealthByStatus(t *testing.T) {
	t.Parallel()
	deployment := func(spec, status string) *unstructured.Unstructured {
		return read(t, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a","generation":2},"spec":`+
			spec+`,"status":`+status+`}`)
	}
	const daemons = `{"observedGeneration":1,"desiredNumberScheduled":2,"currentNumberScheduled":2,` +
		`"updatedNumberScheduled":1,"numberAvailable":2`
	of := func(version, kind, status string) *unstructured.Unstructured {
		return read(t, `{"apiVersion":"`+version+`","kind":"`+kind+`","metadata":{"name":"a","generation":1},`+
			`"spec":{"updateStrategy":{"type":"OnDelete"}},"status":`+status+`}`)
	}
	tests := []struct {
		name  string
		obj   *unstructured.Unstructured
		state health.State
	}{
		{"old news", deployment(`{"replicas":0}`, `{"observedGeneration":1}`), health.Progressing},
		{
			"settled",
			deployment(`{"replicas":0}`,
				`{"observedGeneration":2,"conditions":[{"type":"Available","status":"True"}]}`),
			health.Healthy,
		},
		{
			"out of time",
			deployment(`{"replicas":1}`,
				`{"observedGeneration":2,"conditions":[{"type":"Progressing","status":"False","reason":"ProgressDeadlineExceeded"}]}`),
			health.Degraded,
		},
		{
			"a status that can't be read",
			read(t, `{"apiVersion":"x/v1","kind":"X","metadata":{"name":"a"},"status":{"conditions":"none"}}`),
			health.Progressing,
		},
		{"no status", read(t, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}`), health.Healthy},
		{"a Job that runs", of("batch/v1", "Job", `{"startTime":"2026-01-01T00:00:00Z","active":1}`), health.Progressing},
		{
			"a Job that is complete",
			of("batch/v1", "Job", `{"startTime":"2026-01-01T00:00:00Z","conditions":[{"type":"Complete","status":"True"}]}`),
			health.Healthy,
		},
		{"a Pod that failed", of("v1", "Pod", `{"phase":"Failed"}`), health.Degraded},
		{"a Pod that succeeded", of("v1", "Pod", `{"phase":"Succeeded"}`), health.Healthy},
		{
			"a StatefulSet whose pods people delete, not ready", of("apps/v1", "StatefulSet", `{"replicas":1}`),
			health.Progressing,
		},
		{
			"a StatefulSet whose pods people delete, ready",
			of("apps/v1", "StatefulSet", `{"replicas":1,"readyReplicas":1}`), health.Healthy,
		},
		{
			"a DaemonSet whose pods people delete, with one of an earlier revision",
			of("apps/v1", "DaemonSet", daemons+`,"numberReady":2}`),
			health.Healthy,
		},
		{
			"a DaemonSet whose pods people delete, not ready",
			of("apps/v1", "DaemonSet", daemons+`,"numberReady":1}`),
			health.Progressing,
		},
		{
			"an API whose server is away",
			of("apiregistration.k8s.io/v1", "APIService", `{"conditions":[{"type":"Available","status":"False"}]}`),
			health.Progressing,
		},
		{
			"an API whose server is there",
			of("apiregistration.k8s.io/v1", "APIService", `{"conditions":[{"type":"Available","status":"True"}]}`),
			health.Healthy,
		},
	}
	stuck := health.Of(deployment(`{"replicas":2}`,
		`{"observedGeneration":2,"replicas":0,"conditions":[{"type":"Available","status":"False"},{"type":"ReplicaFailure","status":"True","message":"exceeded quota"}]}`), nil)
	if want := "Replicas: 0/2; its pods can't be made: exceeded quota"; stuck.State != health.Progressing ||
		stuck.Message != want {
		t.Errorf("pods that can't be made: %s %q, want %q", stuck.State, stuck.Message, want)
	}
	for _, test := range tests {
		if h := health.Of(test.obj, nil); h.State != test.state || (h.State == health.Healthy) != (h.Message == "") {
			t.Errorf("%s: %s %q, want %s", test.name, h.State, h.Message, test.state)
		}
	}
}
