package acceptance

import (
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/await"
)

// onceJob is a plain Job that goes as soon as it is done.
func onceJob() string {
	return strings.ReplaceAll(job("once", ""), "suspend: true", "suspend: true, ttlSecondsAfterFinished: 0")
}

func (w *world) jobGoes() {
	w.t.Helper()
	w.end("once", "Complete")
	await.True(w.t, "the Job went by its ttl", func() bool {
		_, err := w.get("batch/v1", "Job", w.namespace, "once")
		return apierrors.IsNotFound(err)
	})
}

func toldDone(name string) func(*deliveryv1.ServiceReport) bool {
	return func(r *deliveryv1.ServiceReport) bool {
		return r.GetPhase() == healthy && strings.Contains(r.GetMessage(), name+"/once was complete at 20") &&
			strings.HasSuffix(r.GetMessage(), "and went by its ttlSecondsAfterFinished.")
	}
}

func TestAJobThatGoesWhenItIsDoneIsMadeOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stop := w.start()
	name := w.service("hello")
	files := map[string]string{"a.yaml": onceJob() + "---\n" + configMap("a", "1")}
	w.hub.push(t, name, w.namespace, files)
	w.jobGoes()
	w.hub.await(t, name, toldDone(w.namespace))
	// Neither drift of its neighbour, nor another revision, nor another agent with an empty disk makes it again.
	w.kubectl("patch", "configmap", "a", "--type=merge", `-p={"data":{"x":"2"}}`)
	await.True(w.t, "drift is put right beside it", func() bool { return w.value("a") == "1" })
	made := func() int { return w.api.patches("/jobs/once") }
	if made() != 1 {
		t.Errorf("it was made %d times", made())
	}
	w.secondPass(name, files)
	stop()
	if record := w.record(name); len(record.Entries) != 2 ||
		record.Entries[1].Ended.IsZero() && record.Entries[0].Ended.IsZero() {
		t.Errorf("the inventory does not know of it: %v", record.Entries)
	}
	w.loseDisk()
	w.forget()
	stop = w.start()
	files["README.md"] += "# One more\n"
	digest := w.hub.push(t, name, w.namespace, files)
	w.hub.await(t, name, func(r *deliveryv1.ServiceReport) bool {
		return r.GetAppliedDigest() == digest && toldDone(w.namespace)(r)
	})
	if made() != 0 {
		t.Errorf("the next agent made it again")
	}
	// Another manifest is another Job.
	files["a.yaml"] = strings.Replace(files["a.yaml"], "image: pause", "image: other", 1)
	digest = w.hub.push(t, name, w.namespace, files)
	w.jobGoes()
	w.hub.await(t, name, func(r *deliveryv1.ServiceReport) bool {
		return r.GetAppliedDigest() == digest && toldDone(w.namespace)(r)
	})
	if made() != 1 { // the Job was not there: nothing was rehearsed
		t.Errorf("it was made %d times", made())
	}
	stop()
}

func TestAJobThatGoesWhileNoAgentRunsIsNotMadeAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stop := w.start()
	name := w.service("hello")
	files := map[string]string{"a.yaml": onceJob()}
	digest := w.hub.push(t, name, w.namespace, files)
	w.hub.await(t, name, func(r *deliveryv1.ServiceReport) bool { return r.GetAppliedDigest() == digest })
	stop()
	w.jobGoes()
	w.forget()
	w.start()
	w.hub.await(t, name, toldDone(w.namespace))
	w.secondPass(name, files)
	if made := w.api.patches("/jobs/once"); made != 0 {
		t.Errorf("it was made again")
	}
}

// Events about a Job that went count more than that it went.
func TestAJobThatFailsAndGoesWhileNoAgentRunsIsMadeAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stop := w.start()
	name := w.service("hello")
	digest := w.hub.push(t, name, w.namespace, map[string]string{"a.yaml": onceJob()})
	w.hub.await(t, name, func(r *deliveryv1.ServiceReport) bool { return r.GetAppliedDigest() == digest })
	stop()
	before := w.found("batch/v1", "Job", "once")
	// As the controller of Jobs does, which is not asked to here.
	kubectl(w, fmt.Sprintf("apiVersion: v1\nkind: Event\nmetadata: {name: failed}\nreason: BackoffLimitExceeded\ntype: Warning\n"+
		"involvedObject: {apiVersion: batch/v1, kind: Job, name: once, namespace: %s, uid: %s}\n", w.namespace,
		before.GetUID()), "create", "-f", "-")
	w.end("once", "Failed")
	await.True(w.t, "the Job went by its ttl", func() bool {
		_, err := w.get("batch/v1", "Job", w.namespace, "once")
		return apierrors.IsNotFound(err)
	})
	w.start()
	w.awaitAnotherJob("once", before.GetUID())
	w.jobGoes()
	w.hub.await(t, name, toldDone(w.namespace))
}

func TestAJobThatSomebodyDeletesBeforeItIsDoneIsMadeAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name := w.service("hello")
	digest := w.hub.push(t, name, w.namespace, map[string]string{"a.yaml": onceJob()})
	w.hub.await(t, name, func(r *deliveryv1.ServiceReport) bool { return r.GetAppliedDigest() == digest })
	w.kubectl("delete", "job", "once", "--cascade=background")
	await.True(w.t, "it is made again", func() bool { return w.api.patches("/jobs/once") == 2 })
}
