package views

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"fairlead.dev/platform/clusterview"
)

// message is an object that Kubernetes sends in Protobuf.
type message interface{ Marshal() ([]byte, error) }

func wire(t *testing.T, o message) []byte {
	t.Helper()
	b, err := o.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func waiting(reason string) corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}
}

func terminated(reason string, code, signal int32) corev1.ContainerState {
	return corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{Reason: reason, ExitCode: code, Signal: signal},
	}
}

func runs() corev1.ContainerState {
	return corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
}

// states makes the statuses of containers c0, c1 ...
func states(list ...corev1.ContainerState) (out []corev1.ContainerStatus) {
	for i, s := range list {
		out = append(out, corev1.ContainerStatus{Name: fmt.Sprint("c", i), State: s, Ready: s.Running != nil})
	}
	return out
}

func isTrue(names ...corev1.PodConditionType) (out []corev1.PodCondition) {
	for _, name := range names {
		out = append(out, corev1.PodCondition{Type: name, Status: corev1.ConditionTrue})
	}
	return out
}

func TestStateOfAPodIsThatOfKubectl(t *testing.T) {
	t.Parallel()
	always := corev1.ContainerRestartPolicyAlways
	started := true
	deleted := metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{Time: time.Unix(1, 0)}}
	for want, p := range map[string]corev1.Pod{
		"Running": {Status: corev1.PodStatus{Phase: "Running", ContainerStatuses: states(runs())}},
		"Evicted": {Status: corev1.PodStatus{Phase: "Failed", Reason: "Evicted"}},
		"SchedulingGated": {
			Status: corev1.PodStatus{
				Phase: "Pending", Conditions: []corev1.PodCondition{{Type: "PodScheduled", Reason: "SchedulingGated"}},
			},
		},
		"CrashLoopBackOff": {
			Status: corev1.PodStatus{Phase: "Running", ContainerStatuses: states(waiting("CrashLoopBackOff"), runs())},
		},
		"ImagePullBackOff": {
			Status: corev1.PodStatus{
				Phase: "Pending", ContainerStatuses: states(waiting("ImagePullBackOff"), waiting("ErrImagePull")),
			},
		},
		"OOMKilled": {
			Status: corev1.PodStatus{Phase: "Failed", ContainerStatuses: states(terminated("OOMKilled", 137, 0))},
		},
		"Signal:9": {
			Status: corev1.PodStatus{Phase: "Failed", ContainerStatuses: states(terminated("", 0, 9))},
		},
		"ExitCode:3": {
			Status: corev1.PodStatus{Phase: "Failed", ContainerStatuses: states(terminated("", 3, 0))},
		},
		"NotReady": {
			Status: corev1.PodStatus{
				Phase: "Running", ContainerStatuses: states(runs(), terminated("Completed", 0, 0)), Reason: "Completed",
			},
		},
		"Init:1/2": {
			Spec: corev1.PodSpec{InitContainers: make([]corev1.Container, 2)},
			Status: corev1.PodStatus{
				Phase:                 "Pending",
				InitContainerStatuses: states(terminated("Completed", 0, 0), waiting("PodInitializing")),
			},
		},
		"Init:Error": {
			Status: corev1.PodStatus{Phase: "Pending", InitContainerStatuses: states(terminated("Error", 1, 0))},
		},
		"Init:ErrImagePull": {
			Status: corev1.PodStatus{Phase: "Pending", InitContainerStatuses: states(waiting("ErrImagePull"))},
		},
		"Init:Signal:15": {
			Status: corev1.PodStatus{Phase: "Pending", InitContainerStatuses: states(terminated("", 1, 15))},
		},
		"Terminating": {ObjectMeta: deleted, Status: corev1.PodStatus{Phase: "Running"}},
		"Unknown":     {ObjectMeta: deleted, Status: corev1.PodStatus{Phase: "Running", Reason: "NodeLost"}},
		"Succeeded":   {ObjectMeta: deleted, Status: corev1.PodStatus{Phase: "Succeeded"}},
		"ContainerCreating": {
			Spec: corev1.PodSpec{InitContainers: []corev1.Container{{Name: "c0", RestartPolicy: &always}}},
			Status: corev1.PodStatus{
				Phase: "Pending", ContainerStatuses: states(waiting("ContainerCreating")),
				InitContainerStatuses: []corev1.ContainerStatus{{Name: "c0", State: runs(), Started: &started}},
			},
		},
	} {
		got, _, err := parsePod(wire(t, &p))
		if err != nil || got.reason != want {
			t.Errorf("got %q, %v; want %q", got.reason, err, want)
		}
	}
}

func list(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{
		"cpu": resource.MustParse(cpu), "memory": resource.MustParse(memory), "nvidia.com/gpu": resource.MustParse("1"),
	}
}

func asks(name, cpu, memory string) corev1.Container {
	return corev1.Container{
		Name: name, Resources: corev1.ResourceRequirements{Requests: list(cpu, memory), Limits: list("9", "9Gi")},
	}
}

func sidecar(name, cpu, memory string) corev1.Container {
	always := corev1.ContainerRestartPolicyAlways
	c := asks(name, cpu, memory)
	c.RestartPolicy = &always
	return c
}

func TestRequestsOfAPodAreWhatTheSchedulerCounts(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		pod         corev1.Pod
		cpu, memory int64
	}{
		"containers add up": {
			corev1.Pod{
				Spec: corev1.PodSpec{Containers: []corev1.Container{asks("a", "100m", "1Mi"), asks("b", "1", "2Mi")}},
			},
			1100, 3 << 20,
		},
		"a large init container counts": {corev1.Pod{Spec: corev1.PodSpec{
			Containers:     []corev1.Container{asks("a", "100m", "4Mi")},
			InitContainers: []corev1.Container{asks("i", "2", "1Mi"), asks("j", "1", "1Mi")},
		}}, 2000, 4 << 20},
		"sidecars before an init container count with it": {corev1.Pod{Spec: corev1.PodSpec{
			Containers: []corev1.Container{asks("a", "100m", "1Mi")},
			InitContainers: []corev1.Container{
				sidecar("s", "200m", "1Mi"), asks("i", "1", "1Mi"), sidecar("u", "50m", "8Mi"),
			},
		}}, 1200, 10 << 20},
		"the pod's own requests replace those of containers": {corev1.Pod{Spec: corev1.PodSpec{
			Containers: []corev1.Container{asks("a", "100m", "1Mi")},
			Resources:  &corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("3")}},
			Overhead:   list("10m", "1Mi"),
		}}, 3010, 2 << 20},
		"a container that is made smaller counts as it is": {corev1.Pod{
			Spec: corev1.PodSpec{Containers: []corev1.Container{asks("a", "100m", "1Mi")}},
			Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
				Name: "a", Resources: &corev1.ResourceRequirements{Requests: list("500m", "1Mi")},
				AllocatedResources: list("400m", "2Mi"),
			}}},
		}, 500, 2 << 20},
		"a resize that is infeasible does not count": {corev1.Pod{
			Spec: corev1.PodSpec{Containers: []corev1.Container{asks("a", "64", "1Mi")}},
			Status: corev1.PodStatus{
				Conditions: []corev1.PodCondition{
					{Type: "PodResizePending", Reason: "Infeasible", Status: "True"},
				},
				ContainerStatuses: []corev1.ContainerStatus{{Name: "a", AllocatedResources: list("400m", "2Mi")}},
			},
		}, 400, 2 << 20},
	} {
		got, _, err := parsePod(wire(t, &test.pod))
		if err != nil || got.requests.cpu != test.cpu || got.requests.memory != test.memory {
			t.Errorf("%s: %+v, %v; want %d, %d", name, got.requests, err, test.cpu, test.memory)
		}
	}
}

// Pods that ended take nothing of a node, nor do they wait for one.
func TestPodsThatEndedTakeNothing(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	_, _, v := pushing(t, &now)
	for i, phase := range []corev1.PodPhase{
		corev1.PodRunning, corev1.PodPending, corev1.PodSucceeded,
		corev1.PodFailed,
	} {
		for j, node := range []string{"", "node-1"} {
			if _, err := v.takePod(wire(t, &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{
					Name: string(phase) + node, Namespace: "n",
					UID: types.UID(string(phase) + node),
				},
				Spec: corev1.PodSpec{
					NodeName:   node,
					Containers: []corev1.Container{asks("a", fmt.Sprint(1+i*2+j), "1Mi")},
				},
				Status: corev1.PodStatus{Phase: phase},
			}), false); err != nil {
				t.Fatal(err)
			}
		}
	}
	want := map[string]int64{
		"cpu": 2000 + 4000, "memory": 2 << 20, "pods": 2, "waiting_cpu": 1000 + 3000, "waiting_memory": 2 << 20,
		"waiting_pods": 2,
	}
	sections, _ := v.Sections()
	for _, s := range sections {
		if s.GetName() == clusterview.Requests && !maps.Equal(s.GetFigures(), want) {
			t.Errorf("requests are %v, want %v", s.GetFigures(), want)
		}
	}
}

// ErrImagePull and ImagePullBackOff take turns: an image is one row of the pods that wait for it, whichever each of
// them says now.
func TestAnImageThatCanNotBePulledIsOneRow(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	_, _, v := pushing(t, &now)
	for i, reason := range []string{"ErrImagePull", "ImagePullBackOff", "ImagePullBackOff", "InvalidImageName"} {
		if _, err := v.takePod(wire(t, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("p", i), Namespace: "n", UID: types.UID(fmt.Sprint("p", i))},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c0", Image: "app:1"}}},
			Status:     corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: states(waiting(reason))},
		}), false); err != nil {
			t.Fatal(err)
		}
	}
	sections, _ := v.Sections()
	for _, s := range sections {
		if s.GetName() != clusterview.Pulls {
			continue
		}
		var rows []string
		for _, r := range s.GetRows() {
			rows = append(rows, r.GetReason())
		}
		slices.Sort(rows)
		if !slices.Equal(rows, []string{"ImagePullBackOff", "InvalidImageName"}) || s.GetFigures()["pods"] != 4 {
			t.Errorf("rows are %v, figures %v", rows, s.GetFigures())
		}
	}
}

func TestWhetherAPodIsReady(t *testing.T) {
	t.Parallel()
	deleted := metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{Time: time.Unix(1, 0)}}
	for name, test := range map[string]struct {
		pod  corev1.Pod
		want bool // not ready
	}{
		"without a condition": {corev1.Pod{Status: corev1.PodStatus{Phase: "Pending"}}, true},
		"ready": {
			corev1.Pod{Status: corev1.PodStatus{Phase: "Running", Conditions: isTrue("Ready")}}, false,
		},
		"done":    {corev1.Pod{Status: corev1.PodStatus{Phase: "Succeeded"}}, false},
		"deleted": {corev1.Pod{ObjectMeta: deleted, Status: corev1.PodStatus{Phase: "Running"}}, false},
		"another is true only": {
			corev1.Pod{Status: corev1.PodStatus{Phase: "Running", Conditions: isTrue("Initialized")}}, true,
		},
	} {
		if got, _, err := parsePod(wire(t, &test.pod)); err != nil || got.notReady != test.want {
			t.Errorf("%s: %t, %v", name, got.notReady, err)
		}
	}
}

func TestConditionsOfANodeHaveAPolarity(t *testing.T) {
	t.Parallel()
	n := corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "u"}, Spec: corev1.NodeSpec{Unschedulable: true},
		Status: corev1.NodeStatus{
			Capacity: list("4", "8Gi"), Allocatable: list("3500m", "7Gi"),
			NodeInfo: corev1.NodeSystemInfo{KubeletVersion: "v1.36.3"},
			Conditions: []corev1.NodeCondition{
				{Type: "Ready", Status: "True"},
				{Type: "MemoryPressure", Status: "True"},
				{Type: "DiskPressure", Status: "False"},
				{Type: "GPUReady", Status: "False"},
				{Type: "KernelDeadlock", Status: "True"},
			},
		},
	}
	got, m, err := parseNode(wire(t, &n))
	want := node{
		name: "n", version: "v1.36.3", ready: true, cordoned: true, bad: []string{"GPUReady", "MemoryPressure"},
		capacity:    amounts{cpu: 4000, memory: 8 << 30, hasCPU: true, hasMemory: true},
		allocatable: amounts{cpu: 3500, memory: 7 << 30, hasCPU: true, hasMemory: true},
	}
	if err != nil || m.uid != "u" || !sameNode(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestSkewOfAKubelet(t *testing.T) {
	t.Parallel()
	for versions, want := range map[[2]string]bool{
		{"v1.36.3", "v1.36.0"}: false, {"v1.37.0", "v1.36.3"}: true, {"v1.33.1", "v1.36.3"}: false,
		{"v1.32.9", "v1.36.3"}: true,
		{"v1.32.9", ""}:        false, {"", "v1.36.3"}: false, {"v1.32+", "v1.36.3"}: true,
	} {
		if got := isSkewed(versions[0], versions[1]); got != want {
			t.Errorf("%v: %t", versions, got)
		}
	}
}

func TestWorkloadsAreWellWhenTheirReplicasAre(t *testing.T) {
	t.Parallel()
	three := int32(3)
	at := metav1.ObjectMeta{Name: "w", Namespace: "n", Generation: 2}
	for name, test := range map[string]struct {
		kind  string
		o     message
		of    string
		well  bool
		other bool
	}{
		"a deployment": {
			"Deployment",
			&appsv1.Deployment{
				ObjectMeta: at, Spec: appsv1.DeploymentSpec{Replicas: &three},
				Status: appsv1.DeploymentStatus{ObservedGeneration: 2, ReadyReplicas: 3, UpdatedReplicas: 3},
			},
			"3/3", true, false,
		},
		"one that rolls": {
			"Deployment",
			&appsv1.Deployment{
				ObjectMeta: at, Spec: appsv1.DeploymentSpec{Replicas: &three},
				Status: appsv1.DeploymentStatus{ObservedGeneration: 2, ReadyReplicas: 3, UpdatedReplicas: 1},
			},
			"3/3", false, false,
		},
		"one that nobody looked at": {
			"Deployment",
			&appsv1.Deployment{
				ObjectMeta: at, Spec: appsv1.DeploymentSpec{Replicas: &three},
				Status: appsv1.DeploymentStatus{ObservedGeneration: 1, ReadyReplicas: 3, UpdatedReplicas: 3},
			},
			"3/3", false, false,
		},
		"an absent number is 1": {
			"StatefulSet",
			&appsv1.StatefulSet{ObjectMeta: at, Status: appsv1.StatefulSetStatus{ObservedGeneration: 2}}, "0/1", false,
			false,
		},
		"a daemon set": {
			"DaemonSet",
			&appsv1.DaemonSet{
				ObjectMeta: at,
				Status: appsv1.DaemonSetStatus{
					ObservedGeneration: 2, DesiredNumberScheduled: 2, NumberReady: 2, UpdatedNumberScheduled: 2,
				},
			},
			"2/2", true, false,
		},
		"a replica set without replicas": {
			"ReplicaSet",
			&appsv1.ReplicaSet{
				ObjectMeta: at, Spec: appsv1.ReplicaSetSpec{Replicas: new(int32)},
				Status: appsv1.ReplicaSetStatus{ObservedGeneration: 2},
			},
			"0/0", true, true,
		},
	} {
		got, _, err := parseWorkload(test.kind, wire(t, test.o))
		if err != nil || got.of() != test.of || got.well != test.well || got.hidden != test.other {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

func TestStatusOfAJobIsThatOfKubectl(t *testing.T) {
	t.Parallel()
	for want, conditions := range map[string][]batchv1.JobCondition{
		"Running": nil, "Complete": {{Type: "Complete", Status: "True"}, {Type: "SuccessCriteriaMet", Status: "True"}},
		"Failed":    {{Type: "FailureTarget", Status: "True"}, {Type: "Failed", Status: "True"}},
		"Suspended": {{Type: "Suspended", Status: "True"}}, "FailureTarget": {{Type: "FailureTarget", Status: "True"}},
	} {
		got, _, err := parseJob(wire(t, &batchv1.Job{Status: batchv1.JobStatus{Conditions: conditions}}))
		if err != nil || got.status != want {
			t.Errorf("got %q, %v; want %q", got.status, err, want)
		}
	}
}

func TestWarningsOfOneOwnerAreOneGroup(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"web-7d4b9c6f5-x2x8z": "web", "db-0": "db-0", "logs-x2x8z": "logs", "alone": "alone", "a-bcdfg": "a",
		"web-abcde": "web-abcde",
	} {
		if got := ownerOf("Pod", name); got != want {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestTimesAndCountOfAWarning(t *testing.T) {
	t.Parallel()
	at := func(s int64) metav1.Time { return metav1.Unix(s, 0) }
	e := corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: "e", Namespace: "n", UID: "u", CreationTimestamp: at(50)}, Type: "Warning",
		Reason: "FailedMount", Message: "mount failed\nfor good",
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "n", Name: "web-7d4b9c6f5-x2x8z"}, Count: 3,
		FirstTimestamp: at(100), LastTimestamp: at(200),
		Series: &corev1.EventSeries{Count: 7, LastObservedTime: metav1.NewMicroTime(time.Unix(300, 5000))},
	}
	w, m, err := parseWarning(wire(t, &e))
	if err != nil || m.uid != "u" ||
		w != (warning{
			group: group{"FailedMount", "Pod", "n", "web"}, text: "mount failed for good", count: 7, first: 100,
			last: 300,
		}) {
		t.Errorf("got %+v, %v", w, err)
	}
	e.FirstTimestamp, e.LastTimestamp, e.Series, e.Count, e.EventTime = metav1.Time{}, metav1.Time{}, nil, 0, metav1.NewMicroTime(time.Unix(70, 0))
	if w, _, err = parseWarning(wire(t, &e)); err != nil || w.count != 1 || w.first != 70 || w.last != 70 {
		t.Errorf("of the new API: %+v, %v", w, err)
	}
	e.Type = "Normal"
	if w, _, _ = parseWarning(wire(t, &e)); w.count != 0 {
		t.Error("an event that is no warning counts")
	}
}

func TestTextsPassWithoutSecrets(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"pull https://ada:hunter2@registry.example/x failed": "pull https://registry.example/x failed",
		"started with DB_PASSWORD=hunter2 and more":          "started with DB_PASSWORD=(hidden) and more",
		`{"token": "abc", "n": 1}`:                           `{"token": "(hidden)", "n": 1}`,
		"Authorization: Bearer abc.def":                      "Authorization: (hidden)",
		"a\x1b[31mb\nc":                                      "a [31mb c",
		"Back-off restarting failed container":               "Back-off restarting failed container",
	} {
		if got := clean(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
	long := clean(string(make([]byte, 300)) + "äöü")
	if len(long) > maxText {
		t.Errorf("%d bytes", len(long))
	}
	if got := string(cut([]byte("aä"), 2)); got != "a" {
		t.Errorf("cut within a character: %q", got)
	}
}

// Kubernetes bounds no texts such as the object of an Event, the owner of a pod and the image of a container: a record
// of them is small all the same.
func TestRecordsOfLargeObjectsAreSmall(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("large-", 1<<18)
	w, _, err := parseWarning(wire(t, &corev1.Event{
		Type: "Warning", Reason: large, Message: large,
		InvolvedObject: corev1.ObjectReference{Kind: large, Namespace: large, Name: large},
	}))
	if size := len(w.text) + len(w.group.reason) + len(w.group.kind) + len(w.group.namespace) +
		len(w.group.owner); err != nil || size > 1024 {
		t.Errorf("of an Event: %d bytes, %v", size, err)
	}
	controls := true
	p, _, err := parsePod(wire(t, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "p",
			OwnerReferences: []metav1.OwnerReference{
				{UID: types.UID(large), Kind: large, Name: large, Controller: &controls},
			},
		},
		Spec: corev1.PodSpec{NodeName: large, Containers: []corev1.Container{{Name: "c0", Image: large}}},
		Status: corev1.PodStatus{
			Phase: corev1.PodPhase(large),
			ContainerStatuses: append(states(waiting("ErrImagePull")), corev1.ContainerStatus{
				Name: "c1", Image: large + "1", State: waiting("InvalidImageName"),
			}),
		},
	}))
	size := len(p.owner) + len(p.node) + len(p.phase) + len(p.reason)
	for _, of := range p.pulls {
		size += len(of.image) + len(of.reason)
	}
	if err != nil || len(p.pulls) == 0 || size > 2048 {
		t.Errorf("of a pod: %d bytes, %d images, %v", size, len(p.pulls), err)
	}
	c, _, err := parseClaim(wire(t, &corev1.PersistentVolumeClaim{
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.PersistentVolumeClaimPhase(large)},
	}))
	if err != nil || len(c.phase) > 128 {
		t.Errorf("of a claim: %d bytes, %v", len(c.phase), err)
	}
}

// The password of a URL is cut off before the URL is cut.
func TestAnImageHasNoPassword(t *testing.T) {
	t.Parallel()
	p, _, err := parsePod(wire(t, &corev1.Pod{
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{
				{Name: "c0", Image: "https://ada:" + strings.Repeat("hunter2", 100) + "@registry.example/app:1"},
			},
		},
		Status: corev1.PodStatus{ContainerStatuses: states(waiting("InvalidImageName"))},
	}))
	if err != nil || len(p.pulls) != 1 || p.pulls[0].image != "https://registry.example/app:1" {
		t.Errorf("got %q, %v", p.pulls, err)
	}
}

func TestAnHourIsCountedInSteps(t *testing.T) {
	t.Parallel()
	var h hour
	const now = int64(1_000_000_200)
	h.add(now, now-30, 2)
	h.add(now, now-3000, 3)
	h.add(now, now-4000, 100) // longer ago than an hour
	h.add(now, now+500, 1)    // of a clock that is ahead
	if got := h.sum(now); got != 6 {
		t.Errorf("got %d", got)
	}
	if got := h.sum(now + 1200); got != 3 {
		t.Errorf("20 minutes later: %d", got)
	}
	if got := h.sum(now + 100_000); got != 0 {
		t.Errorf("a day later: %d", got)
	}
}

func TestATableAboveItsBoundIsASample(t *testing.T) {
	t.Parallel()
	table := newTable(100, func(a, b int) bool { return a == b })
	for i := range 3000 {
		table.put(fmt.Sprint("uid-", i), i)
	}
	n := int64(0)
	for range table.all() {
		n++
	}
	if n > 100 || table.sample < 32 || table.times(n) < 1000 || table.times(n) > 9000 {
		t.Errorf("%d records, one of %d", n, table.sample)
	}
	table.begin()
	if table.complete(); table.sample != 1 {
		t.Errorf("an empty table is a sample, one of %d", table.sample)
	}
}

func FuzzDecoders(f *testing.F) {
	pod := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "u", Labels: map[string]string{"fairlead.dev/service": "s"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{asks("a", "1", "1Gi")}},
	}
	b, err := pod.Marshal()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(_ *testing.T, b []byte) {
		_, _, _ = parsePod(b)
		_, _, _ = parseNode(b)
		_, _, _ = parseWorkload("Deployment", b)
		_, _, _ = parseJob(b)
		_, _, _ = parseCronJob(b)
		_, _, _ = parseClaim(b)
		_, _, _ = parseWarning(b)
		_, _ = parseEvent(b)
		_, _ = parsePage(append(magic, b...))
		_ = parseStatus(b)
	})
}
