package views

import (
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"fairlead.dev/platform/clusterview"
)

// restarted is a pod whose container restarted so often, the last time now.
func restarted(t *testing.T, uid string, restarts int32, at time.Time) []byte {
	t.Helper()
	status := corev1.ContainerStatus{Name: "c", RestartCount: restarts, State: runs()}
	if restarts > 0 {
		status.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{
			ExitCode: 1, Reason: "Error", FinishedAt: metav1.NewTime(at),
		}
	}
	return wire(t, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid), Name: uid, Namespace: "n"},
		Status: corev1.PodStatus{
			Phase: "Running", Conditions: isTrue("Ready"), ContainerStatuses: []corev1.ContainerStatus{status},
		},
	})
}

// podUID is that of a test's pod.
func podUID(i int) string { return fmt.Sprint("uid-", i) }

// left is how many objects of a sample are left: so few that all are read again.
const left = 24

// sampled is a view whose pods were a sample and have become few.
func sampled(t *testing.T, now *time.Time, restarts int32) *View {
	t.Helper()
	_, _, v := pushing(t, now)
	v.pods.most = 100
	for i := range 1000 {
		takes(t, v, podUID(i), restarts)
	}
	for i := left; i < 1000; i++ {
		if _, err := v.takePod(restarted(t, podUID(i), restarts, *now), true); err != nil {
			t.Fatal(err)
		}
	}
	if !v.pods.thin() {
		t.Fatalf("%d of %d pods are kept, one of %d", len(v.pods.rows), left, v.pods.keeps)
	}
	return v
}

// takes has a view read a pod.
func takes(t *testing.T, v *View, uid string, restarts int32) {
	t.Helper()
	if _, err := v.takePod(restarted(t, uid, restarts, v.Now()), false); err != nil {
		t.Fatal(err)
	}
}

// Half of the pods that are read again are not a half of the cluster: the figures are those of the sample until all
// came.
func TestFiguresAreOfTheSampleWhileItIsReadAgain(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	v := sampled(t, &now, 0)
	total, sample := figure(v, clusterview.Pods, "total"), podSample(t, v)
	k := v.kindOf("pods")
	k.begin()
	for i := range left {
		if got := figure(v, clusterview.Pods, "total"); got != total || podSample(t, v) != sample {
			t.Fatalf("after %d of %d pods the total is %d, one of %d, and was %d, one of %d", i, left, got,
				podSample(t, v), total, sample)
		}
		takes(t, v, podUID(i), 0)
	}
	k.begin() // the watch was cut meanwhile
	for i := range left {
		takes(t, v, podUID(i), 0)
	}
	k.complete()
	if got := figure(v, clusterview.Pods, "total"); got != left || podSample(t, v) != 1 {
		t.Errorf("in the end the total is %d, one of %d", got, podSample(t, v))
	}
}

// The pods of a sample stood for the others, whose restarts of the last hour are counted with it.
func TestRestartsAreCountedOnceWhenASampleBecomesFiner(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	v := sampled(t, &now, 1)
	hour := figure(v, clusterview.Restarts, "hour")
	k := v.kindOf("pods")
	k.begin()
	for i := range left {
		takes(t, v, podUID(i), 1)
	}
	k.complete()
	if got := figure(v, clusterview.Restarts, "hour"); got != hour {
		t.Errorf("%d restarts, and %d before", got, hour)
	}
	for i := range left {
		takes(t, v, podUID(i), 3)
	}
	takes(t, v, "new", 1)
	if got := figure(v, clusterview.Restarts, "hour"); got != hour+2*left+1 {
		t.Errorf("%d restarts after %d and %d more", got, hour, 2*left+1)
	}
}

// warningOf is an Event that came so often, from a time on until now.
func warningOf(t *testing.T, i int, count int32, first, last time.Time) []byte {
	t.Helper()
	return wire(t, &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{
			UID: types.UID(fmt.Sprint("event-", i)), Name: fmt.Sprint("event-", i), Namespace: "n",
		}, Type: "Warning", Reason: "BackOff",
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "n", Name: "p"}, Count: count,
		FirstTimestamp: metav1.NewTime(first), LastTimestamp: metav1.NewTime(last),
	})
}

// As of restarts: Events that the sample did not hold were counted by those that it held.
func TestWarningsAreCountedOnceWhenASampleBecomesFiner(t *testing.T) {
	t.Parallel()
	began := time.Unix(1_700_000_000, 0)
	now := began
	_, _, v := pushing(t, &now)
	v.events.most = 100
	take := func(i int, count int32, first time.Time, gone bool) {
		t.Helper()
		if _, err := v.takeWarning(warningOf(t, i, count, first, now), gone); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 1000 {
		take(i, 5, began, false)
	}
	sample := v.events.sample
	now = now.Add(time.Minute)
	for i := left; i < 1000; i++ {
		take(i, 5, began, true)
	}
	if v.events.sample >= sample {
		t.Fatalf("one of %d, as before", v.events.sample)
	}
	hour := figure(v, clusterview.Warnings, "hour")
	for i := range left { // a cut watch brings them again
		if _, err := v.takeWarning(warningOf(t, i, 5, began, began), false); err != nil {
			t.Fatal(err)
		}
	}
	if got := figure(v, clusterview.Warnings, "hour"); got != hour {
		t.Errorf("%d warnings, and %d before", got, hour)
	}
	now = now.Add(time.Minute)
	more := int64(0)
	for i := range left {
		if v.events.holds(fmt.Sprint("event-", i)) {
			more++
		}
		take(i, 6, began, false)
	}
	if more = v.events.times(more); figure(v, clusterview.Warnings, "hour") != hour+more {
		t.Errorf("%d warnings after %d and %d more", figure(v, clusterview.Warnings, "hour"), hour, more)
	}
	v.kindOf("events").begin() // reads all Events again, if they are few
	for i := range left {
		take(i, 6, began, false)
	}
	v.kindOf("events").complete()
	if got := figure(v, clusterview.Warnings, "hour"); got != hour+more || v.events.sample != 1 {
		t.Errorf("%d warnings after all were read again, one of %d; %d before", got, v.events.sample, hour+more)
	}
}

// setOf is a ReplicaSet of a service with so many replicas.
func setOf(t *testing.T, uid string, desired, pods int32) []byte {
	t.Helper()
	return wire(t, &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{
			UID: types.UID(uid), Name: uid, Namespace: "n", Labels: map[string]string{"fairlead.dev/service": "shop"},
		},
		Spec:   appsv1.ReplicaSetSpec{Replicas: &desired},
		Status: appsv1.ReplicaSetStatus{Replicas: pods, ReadyReplicas: pods},
	})
}

// Each Deployment has ten ReplicaSets of earlier revisions, without pods: those that have pods keep their place.
func TestPodsKeepTheirServiceBesideManyEmptyReplicaSets(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	_, _, v := pushing(t, &now)
	v.workloads["ReplicaSet"].most = 100
	set := func(uid string, desired, pods int32) {
		t.Helper()
		if _, err := v.takeWorkload("ReplicaSet", setOf(t, uid, desired, pods), false); err != nil {
			t.Fatal(err)
		}
	}
	pod := func(uid, owner string, gone bool) {
		t.Helper()
		controls := true
		if _, err := v.takePod(wire(t, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				UID: types.UID(uid), Name: uid, Namespace: "n",
				OwnerReferences: []metav1.OwnerReference{
					{Kind: "ReplicaSet", Name: owner, UID: types.UID(owner), Controller: &controls},
				},
			},
			Status: corev1.PodStatus{Phase: "Running", Conditions: isTrue("Ready")},
		}), gone); err != nil {
			t.Fatal(err)
		}
	}
	want := func(when string, pods int64) {
		t.Helper()
		s := sectionOf(t, v, clusterview.Services)
		if len(s.GetRows()) != 1 || s.GetRows()[0].GetFigures()["pods"] != pods || s.GetSample() != 1 {
			t.Errorf("%s: want %d pods, got %v", when, pods, s)
		}
	}
	for i := range 60 {
		name := fmt.Sprint("app-", i)
		set(name, 1, 1)
		pod("pod-of-"+name, name, false)
		for revision := range 10 {
			set(fmt.Sprint(name, "-", revision), 0, 0)
		}
	}
	want("beside those of earlier revisions", 60)
	for i := range 60 { // each rolls out, and then each but ten loses its old pod
		old, name := fmt.Sprint("app-", i), fmt.Sprint("next-", i)
		set(old, 0, 0)
		if i >= 10 {
			pod("pod-of-"+old, old, true)
		}
		set(name, 1, 1)
		pod("pod-of-"+name, name, false)
	}
	want("while old pods end", 70)
}

// Where only some ReplicaSets are known, so are only the services of some pods: the section says it.
func TestServicesSayThatTheirWorkloadsAreASample(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	_, _, v := pushing(t, &now)
	sets := v.workloads["ReplicaSet"]
	sets.most = 10
	for i := range 40 {
		if _, err := v.takeWorkload("ReplicaSet", setOf(t, fmt.Sprint("app-", i), 2, 1), false); err != nil {
			t.Fatal(err)
		}
	}
	s := sectionOf(t, v, clusterview.Services)
	if s.GetSample() != sets.sample || sets.sample == 1 || len(s.GetRows()) != 1 ||
		s.GetRows()[0].GetFigures()["workloads_not_well"] != sets.times(int64(len(sets.rows))) {
		t.Errorf("of one of %d ReplicaSets: got %v", sets.sample, s)
	}
}
