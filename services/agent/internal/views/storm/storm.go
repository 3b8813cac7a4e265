// Package storm is an API server that has pods and Warning Events by the ten thousand, without a store behind it: it
// answers the requests of a view, and of client-go's informers, as Kubernetes does. It is for tests and the bench, for
// which a real API server is too small or too slow.
package storm

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

const (
	protobufType = "application/vnd.kubernetes.protobuf"
	// queue is how many events of a watch may wait for a slow reader; then the server waits.
	queue = 1024
)

// Server is the API server. Pods is how many pods there are when a watch begins.
type Server struct {
	pods int

	mu      sync.Mutex // guards what follows
	version int
	watches map[string][]*watch // by resource
	stands  chan struct{}       // closed and replaced when a watch stands
}

// watch is one that stands.
type watch struct {
	news chan []byte   // capacity queue
	gone chan struct{} // closed when the watch ends: nothing reads news then
}

// New returns a server with so many pods, all of them ready but every hundredth.
func New(pods int) *Server {
	return &Server{pods: pods, version: 1000, watches: map[string][]*watch{}, stands: make(chan struct{})}
}

// object is what Kubernetes sends in Protobuf.
type object interface{ Marshal() ([]byte, error) }

// frame is one event of a watch.
func frame(kind, of string, o object) []byte {
	raw := must(o.Marshal())
	unknown := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: of}, Raw: raw, ContentType: protobufType}
	event := metav1.WatchEvent{Type: kind, Object: runtime.RawExtension{Raw: append([]byte("k8s\x00"), must(unknown.Marshal())...)}}
	body := must(event.Marshal())
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}

func must(b []byte, err error) []byte {
	if err != nil {
		panic(err) // objects of this package can be encoded
	}
	return b
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(r.URL.Path, "/")
	resource := parts[len(parts)-1]
	switch {
	case r.URL.Path == "/api", r.URL.Path == "/apis":
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"kind":"APIGroupDiscoveryList","items":[]}`)) // the client may have gone
	case r.URL.Query().Get("watch") == "":
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)) // as above
	default:
		s.watch(r.Context(), w, resource, r.URL.Query().Get("sendInitialEvents") == "true")
	}
}

// watch sends all objects, then what changes, until the client goes.
func (s *Server) watch(ctx context.Context, w http.ResponseWriter, resource string, all bool) {
	w.Header().Set("Content-Type", protobufType+";stream=watch")
	this := &watch{make(chan []byte, queue), make(chan struct{})}
	if all && resource == "pods" {
		for i := range s.pods {
			if _, err := w.Write(frame("ADDED", "Pod", s.pod(i, 0))); err != nil {
				return
			}
		}
	}
	s.mu.Lock()
	s.watches[resource] = append(s.watches[resource], this)
	version := s.version
	close(s.stands)
	s.stands = make(chan struct{})
	s.mu.Unlock()
	defer s.leave(resource, this)
	if all {
		end := metav1.ObjectMeta{ResourceVersion: fmt.Sprint(version), Annotations: map[string]string{"k8s.io/initial-events-end": "true"}}
		if _, err := w.Write(frame("BOOKMARK", "Pod", &corev1.Pod{ObjectMeta: end})); err != nil { // of all kinds the metadata is field 1
			return
		}
	}
	flush := http.NewResponseController(w)
	for {
		if flush.Flush() != nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case b := <-this.news:
			if _, err := w.Write(b); err != nil {
				return
			}
			for range len(this.news) {
				if _, err := w.Write(<-this.news); err != nil {
					return
				}
			}
		}
	}
}

func (s *Server) leave(resource string, this *watch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watches[resource] = slices.DeleteFunc(s.watches[resource], func(one *watch) bool { return one == this })
	close(this.gone)
}

// Stands waits until so many watches of a resource stand.
func (s *Server) Stands(ctx context.Context, resource string, n int) error {
	for {
		s.mu.Lock()
		stands, next := len(s.watches[resource]), s.stands
		s.mu.Unlock()
		if stands >= n {
			return nil
		}
		select {
		case <-next:
		case <-ctx.Done():
			return fmt.Errorf("%d watches of %s stand: %w", stands, resource, ctx.Err())
		}
	}
}

// send gives an event to all watches of a resource, and waits for slow ones.
func (s *Server) send(ctx context.Context, resource string, b []byte) {
	s.mu.Lock()
	watches := slices.Clone(s.watches[resource])
	s.mu.Unlock()
	for _, one := range watches {
		select {
		case one.news <- b:
		case <-one.gone:
		case <-ctx.Done():
			return
		}
	}
}

func (s *Server) next() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	return fmt.Sprint(s.version)
}

// Restart has a pod's container restart: restarts is how often it did in all.
func (s *Server) Restart(ctx context.Context, i int, restarts int32) {
	s.send(ctx, "pods", frame("MODIFIED", "Pod", s.pod(i, restarts)))
}

// Remove deletes a pod.
func (s *Server) Remove(ctx context.Context, i int) {
	s.send(ctx, "pods", frame("DELETED", "Pod", s.pod(i, 0)))
}

// SetPods is how many pods a watch begins with from now on.
func (s *Server) SetPods(n int) { s.pods = n }

// Warn makes an Event about a pod, or, with a name that was used before, counts it up.
func (s *Server) Warn(ctx context.Context, name string, i int, count int32, at time.Time) {
	when := metav1.NewTime(at)
	s.send(ctx, "events", frame("ADDED", "Event", &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: name, Namespace: "storm", UID: types.UID(name), ResourceVersion: s.next(), ManagedFields: managed()},
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "storm", Name: podName(i)},
		Type:           corev1.EventTypeWarning, Reason: "FailedMount", Message: "MountVolume.SetUp failed for volume \"data\": it is not there",
		Count: count, FirstTimestamp: when, LastTimestamp: when,
	}))
}

func podName(i int) string { return fmt.Sprintf("app-%d-7d4b9c6f5-x2x8z", i) }

// managed is what every object carries of its managers.
func managed() []metav1.ManagedFieldsEntry {
	fields := `{"f:metadata":{"f:labels":{".":{},"f:app":{},"f:pod-template-hash":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"c\"}":{".":{},"f:env":{},"f:image":{},"f:resources":{},"f:volumeMounts":{}}},"f:serviceAccountName":{},"f:volumes":{}}}`
	return []metav1.ManagedFieldsEntry{
		{Manager: "kube-controller-manager", Operation: "Update", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields)},
		{Manager: "kubelet", Operation: "Update", Subresource: "status", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields)},
	}
}

// pod is as large as pods are: about 3 KiB.
func (s *Server) pod(i int, restarts int32) *corev1.Pod {
	requests := corev1.ResourceList{"cpu": resource.MustParse("100m"), "memory": resource.MustParse("64Mi")}
	controls, begun := true, metav1.NewTime(time.Now().Add(-time.Hour))
	env := make([]corev1.EnvVar, 12)
	for n := range env {
		env[n] = corev1.EnvVar{Name: fmt.Sprint("SETTING_", n), Value: "a value that is about as long as values are"}
	}
	ready := corev1.ConditionTrue
	if i%100 == 0 {
		ready = corev1.ConditionFalse
	}
	status := corev1.ContainerStatus{
		Name: "c", Image: "registry.example/app:1",
		ImageID: "registry.example/app@sha256:0123456789abcdef", Ready: ready == corev1.ConditionTrue, RestartCount: restarts,
	}
	status.State.Running = &corev1.ContainerStateRunning{StartedAt: begun}
	if restarts > 0 {
		status.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error", FinishedAt: metav1.Now()}
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: podName(i), Namespace: "storm", UID: types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", i)),
			ResourceVersion: s.next(), CreationTimestamp: begun,
			Labels:      map[string]string{"app": fmt.Sprint("app-", i), "pod-template-hash": "7d4b9c6f5", "app.kubernetes.io/managed-by": "fairlead"},
			Annotations: map[string]string{"checksum/config": strings.Repeat("0123456789abcdef", 4)},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "apps/v1", Kind: "ReplicaSet",
				Name: fmt.Sprintf("app-%d-7d4b9c6f5", i/10), UID: types.UID(fmt.Sprintf("10000000-0000-4000-8000-%012d", i/10)), Controller: &controls,
			}},
			ManagedFields: managed(),
		},
		Spec: corev1.PodSpec{
			NodeName: fmt.Sprint("node-", i%500), ServiceAccountName: "default",
			Containers: []corev1.Container{{
				Name: "c", Image: "registry.example/app:1", Env: env,
				Resources: corev1.ResourceRequirements{Requests: requests, Limits: requests},
			}},
			Volumes: []corev1.Volume{{Name: "kube-api-access"}, {Name: "config"}},
		},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, HostIP: "10.0.0.1", PodIP: "10.1.0.1", StartTime: &begun, ContainerStatuses: []corev1.ContainerStatus{status},
			Conditions: []corev1.PodCondition{
				{Type: "Initialized", Status: "True"},
				{Type: "Ready", Status: ready, LastTransitionTime: begun},
				{Type: "PodScheduled", Status: "True"},
			},
		},
	}
}
