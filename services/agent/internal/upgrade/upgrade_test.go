package upgrade

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"fairlead.dev/services/agent/internal/cluster"
	"fairlead.dev/services/agent/internal/object"
)

func statefulSet(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{}
	if err := obj.UnmarshalJSON([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return obj
}

const running = `{"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "fairlead-agent", "namespace": "fairlead-system"}, "spec": {"template": {"spec": {
"serviceAccountName": "fairlead-agent", "imagePullSecrets": [{"name": "registry"}], "securityContext": {"runAsNonRoot": true}, "volumes": [{"name": "data", "emptyDir": {}}],
"containers": [{"name": "sidecar", "image": "other"}, {"name": "agent", "image": "agent:1", "args": ["--join-token-file=/run/$(POD_NAME)"], "securityContext": {"readOnlyRootFilesystem": true},
"livenessProbe": {"httpGet": {"port": 1}}, "volumeMounts": [{"name": "data", "mountPath": "/data"}]}]}}}}`

// The watcher runs the release that runs already, with its rights and what a restricted namespace wants, and needs
// nothing else of it.
func TestWatcherIsOfTheReleaseThatRuns(t *testing.T) {
	t.Parallel()
	live := statefulSet(t, running)
	job, err := watcherJob(watcherRef(object.RefOf(live), "0123456789abcdef"), live, "0123456789abcdef", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	pod, _, _ := unstructured.NestedMap(job.Object, "spec", "template", "spec")
	container := pod["containers"].([]any)[0].(map[string]any) //nolint:forcetypeassert // made above
	if container["image"] != "agent:1" || toText(container["securityContext"]) != `{"readOnlyRootFilesystem":true}` {
		t.Errorf("the watcher's container is %v", container)
	}
	if pod["serviceAccountName"] != "fairlead-agent" || !strings.Contains(toText(pod["imagePullSecrets"]), "registry") || pod["securityContext"] == nil {
		t.Errorf("the watcher's pod lacks the account, the pull secret or the security context: %v", pod)
	}
	if pod["volumes"] != nil || container["volumeMounts"] != nil || container["livenessProbe"] != nil {
		t.Errorf("the watcher has volumes or probes of the agent: %v", pod)
	}
	if text := toText(container["env"]); !strings.Contains(text, "/run/$$(POD_NAME)") {
		t.Errorf("Kubernetes would fill in variables of the template of before: %s", text)
	}
	if job.GetName() != "fairlead-agent-upgrade-0123456789ab" {
		t.Errorf("the Job is called %s", job.GetName())
	}
}

func toText(value any) string {
	data, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// A workload is ready only when its controller has seen the template, and each of its pods is of it and ready.
func TestReadyMeansAllPodsOfTheTemplate(t *testing.T) {
	t.Parallel()
	for status, want := range map[string]bool{
		`{"observedGeneration": 2, "replicas": 2, "updatedReplicas": 2, "readyReplicas": 2}`: true,
		`{"observedGeneration": 1, "replicas": 2, "updatedReplicas": 2, "readyReplicas": 2}`: false,
		`{"observedGeneration": 2, "replicas": 2, "updatedReplicas": 1, "readyReplicas": 2}`: false,
		`{"observedGeneration": 2, "replicas": 2, "updatedReplicas": 2, "readyReplicas": 1}`: false,
		`{"observedGeneration": 2, "replicas": 3, "updatedReplicas": 2, "readyReplicas": 2}`: false,
	} {
		live := statefulSet(t, `{"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"generation": 2}, "spec": {"replicas": 2}, "status": `+status+`}`)
		if have := ready(live); have != want {
			t.Errorf("%s: ready %t, want %t", status, have, want)
		}
	}
}

// A release may be replaced because it crashes: its pods are no reason to go back to it.
func TestPodsOfTheReleaseOfBeforeDoNotCount(t *testing.T) {
	t.Parallel()
	const pod = `{"metadata": {"name": "fairlead-agent-%d", "namespace": "fairlead-system",
"creationTimestamp": "2026-11-28T%s:00Z"},
"status": {"containerStatuses": [{"name": "agent", "restartCount": %d, "state": {"waiting": {"reason": "%s"}}}]}}`
	pods := fmt.Sprintf(pod, 0, "10:00", 9, "CrashLoopBackOff") + "," +
		fmt.Sprintf(pod, 1, "12:01", 1, "ContainerCreating")
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/api/v1":
			_, _ = fmt.Fprint(w, `{"kind": "APIResourceList",
"resources": [{"name": "pods", "namespaced": true, "kind": "Pod"}]}`)
		case "/api/v1/namespaces/fairlead-system/pods":
			_, _ = fmt.Fprint(w, `{"apiVersion": "v1", "kind": "PodList", "items": [`+pods+`]}`)
		default:
			http.NotFound(w, r)
		}
	}))
	defer api.Close()
	c, err := cluster.New(&rest.Config{Host: api.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	live := statefulSet(t, running)
	watcher := Watcher{Cluster: c, Workload: object.RefOf(live)}
	text, restarts, err := watcher.lookAtPods(t.Context(), live, time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC))
	if err != nil || restarts != 1 || !strings.HasPrefix(text, "pod fairlead-agent-1,") {
		t.Errorf("started again %d times: %s (%v)", restarts, text, err)
	}
}
