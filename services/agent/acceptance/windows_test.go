package acceptance

import (
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/await"
	"fairlead.dev/platform/window"
)

// settings changes how a service is delivered, and returns its new digest.
func (h *testHub) settings(service string, change func(*deliveryv1.ServiceDelivery)) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	sent := proto.CloneOf(h.services[service])
	change(sent)
	seal(sent)
	h.services[service] = sent
	h.nudge()
	return sent.GetDigest()
}

// freeze puts a freeze on the project of a service; nil ends it.
func (h *testHub) freeze(service string, f *deliveryv1.Freeze) string {
	return h.settings(service, func(s *deliveryv1.ServiceDelivery) {
		s.WindowSets = nil
		if f != nil {
			s.WindowSets = []*deliveryv1.WindowSet{{Kind: "project", Name: "shop", Freeze: f}}
		}
	})
}

// askSync asks for a sync of a service.
func (h *testHub) askSync(service string, override bool) string {
	return h.settings(service, func(s *deliveryv1.ServiceDelivery) {
		if s.Sync == nil {
			s.Sync = &deliveryv1.SyncSpec{}
		}
		s.Sync.RequestTime, s.Sync.RequestOverride, s.Sync.RequestOverrides = timestamppb.Now(), override, nil
		for _, closing := range window.Judge(s.GetWindowSets(), time.Now()).By {
			if override {
				s.Sync.RequestOverrides = append(s.Sync.RequestOverrides, closing.ID())
			}
		}
	})
}

func TestAFreezeHoldsNewContentAndOutlastsARestartWithoutTheHub(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stop := w.start()
	name := w.service("hello")
	good := w.hub.push(t, name, w.namespace, map[string]string{
		"a.yaml": configMap("a", "1") + "---\n" + configMap("b", "1"),
	})
	w.hub.awaitPhase(t, name, good, healthy)
	on := w.hub.freeze(name, &deliveryv1.Freeze{Author: "user:ada", Reason: "the sale"})
	report := w.hub.awaitPhase(t, name, on, healthy)
	if report.GetAppliedDigest() != on ||
		!strings.Contains(report.GetMessage(), `Closed: the freeze of project "shop" by user:ada (the sale).`) {
		t.Errorf("nothing waits, and it says %v", report)
	}
	newer := w.hub.push(t, name, w.namespace, map[string]string{"a.yaml": configMap("a", "2")})
	report = w.hub.awaitPhase(t, name, newer, held)
	if !strings.Contains(report.GetMessage(), "the freeze of project") ||
		!strings.Contains(report.GetMessage(), "waits.") {
		t.Errorf("got %v", report)
	}
	// With the hub away the agent holds what it was told last, and undoes what others change.
	stop()
	w.hub.setDown(true)
	stop = w.start()
	w.kubectl("patch", "configmap", "b", "--type=merge", `-p={"data":{"x":"other"}}`)
	await.True(w.t, "drift is repaired", func() bool { return w.value("b") == "1" })
	w.mustData("a", "1")
	w.hub.setDown(false)
	// A sync waits, too. Only one that overrides the freeze is served, and only for what was there.
	asked := w.hub.askSync(name, false)
	w.hub.awaitPhase(t, name, asked, held)
	w.mustData("a", "1")
	asked = w.hub.askSync(name, true)
	w.hub.awaitPhase(t, name, asked, healthy)
	w.mustData("a", "2")
	later := w.hub.push(t, name, w.namespace, map[string]string{"a.yaml": configMap("a", "3")})
	w.hub.awaitPhase(t, name, later, held)
	stop() // nor does the agent forget that it served it
	w.start()
	off := w.hub.freeze(name, &deliveryv1.Freeze{Author: "user:ada", Drift: deliveryv1.WindowDrift_WINDOW_DRIFT_LEAVE})
	w.hub.awaitPhase(t, name, off, held)
	w.mustData("a", "2")
	off = w.hub.freeze(name, nil)
	w.hub.awaitPhase(t, name, off, healthy)
	w.mustData("a", "3")
}

// Nothing tells the agent that a time has come but its own clock.
func TestAnAgentAppliesWhatWaitedWhenItsClockOpensTheWindow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name := w.service("hello")
	good := w.hub.push(t, name, w.namespace, map[string]string{"a.yaml": configMap("a", "1")})
	w.hub.awaitPhase(t, name, good, healthy)
	until := time.Now().Add(4 * time.Second)
	w.hub.freeze(name, &deliveryv1.Freeze{UntilTime: timestamppb.New(until)})
	newer := w.hub.push(t, name, w.namespace, map[string]string{"a.yaml": configMap("a", "2")})
	report := w.hub.awaitPhase(t, name, newer, healthy)
	if at := report.GetAppliedTime().AsTime(); at.Before(until.Truncate(time.Second)) {
		t.Errorf("applied at %s, frozen until %s", at, until)
	}
	w.mustData("a", "2")
}

func TestAWindowThatLeavesDriftIsClosedForRepairsToo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name := w.service("hello")
	good := w.hub.push(t, name, w.namespace, map[string]string{"a.yaml": configMap("a", "1")})
	w.hub.awaitPhase(t, name, good, healthy)
	shut := w.hub.settings(name, func(s *deliveryv1.ServiceDelivery) {
		s.WindowSets = []*deliveryv1.WindowSet{{Kind: "cluster", Name: "edge-1", Windows: []*deliveryv1.SyncWindow{{
			Action: deliveryv1.WindowAction_WINDOW_ACTION_DENY, Schedule: "0 0 * * *",
			Duration: durationpb.New(31 * 24 * time.Hour), Drift: deliveryv1.WindowDrift_WINDOW_DRIFT_LEAVE,
		}}}}
	})
	w.hub.awaitPhase(t, name, shut, healthy)
	w.kubectl("patch", "configmap", "a", "--type=merge", `-p={"data":{"x":"other"}}`)
	// A new revision waits, and the difference says that the drift is still there.
	newer := w.hub.push(t, name, w.namespace, map[string]string{"a.yaml": configMap("a", "2")})
	w.hub.awaitPhase(t, name, newer, held)
	w.hub.awaitDetail(t, name, func(d *deliveryv1.ServiceDetail) bool {
		return d.GetDigest() == newer && len(d.GetDiff().GetObjects()) == 1 &&
			d.GetDiff().GetObjects()[0].GetFields()[0].GetLive() == `"other"`
	})
	w.mustData("a", "other")
}

func TestInManualModeOnlyASyncApplies(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stop := w.start()
	name := w.service("hello")
	manually := func(s *deliveryv1.ServiceDelivery) {
		s.Sync, s.Manual = spec(deliveryv1.SyncMode_SYNC_MODE_HOLD, ""), true
	}
	good := w.hub.push(t, name, w.namespace, map[string]string{"a.yaml": configMap("a", "1")})
	w.hub.awaitPhase(t, name, good, healthy)
	w.hub.awaitPhase(t, name, w.hub.settings(name, manually), healthy)
	newer := w.hub.push(t, name, w.namespace, map[string]string{"a.yaml": configMap("a", "2")})
	report := w.hub.awaitPhase(t, name, newer, held)
	if !strings.Contains(report.GetMessage(), "In manual mode: new content waits for a sync.") {
		t.Errorf("it says %q", report.GetMessage())
	}
	w.kubectl("patch", "configmap", "a", "--type=merge", `-p={"data":{"x":"other"}}`)
	await.True(w.t, "drift is repaired", func() bool { return w.value("a") == "1" })
	w.hub.awaitPhase(t, name, w.hub.askSync(name, false), healthy)
	w.mustData("a", "2")
	newest := w.hub.push(t, name, w.namespace, map[string]string{"a.yaml": configMap("a", "3")})
	w.hub.awaitPhase(t, name, newest, held)
	stop()
	w.start()
	again := w.hub.settings(name, func(s *deliveryv1.ServiceDelivery) { s.Sync.Reason = "one at a time" })
	w.hub.awaitPhase(t, name, again, held)
	w.mustData("a", "2")
}

// An asked-for sync is for what was there: content that can't be applied does not let the next one through.
func TestASyncThatFailedLetsNothingNewerThrough(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name := w.service("hello")
	good := w.hub.push(t, name, w.namespace, map[string]string{"a.yaml": configMap("a", "1")})
	w.hub.awaitPhase(t, name, good, healthy)
	w.hub.settings(name, func(s *deliveryv1.ServiceDelivery) {
		s.Sync, s.Manual = spec(deliveryv1.SyncMode_SYNC_MODE_HOLD, ""), true
	})
	w.hub.push(t, name, w.namespace, map[string]string{"a.yaml": "kind: ["})
	w.hub.awaitPhase(t, name, w.hub.askSync(name, false), failed)
	newer := w.hub.push(t, name, w.namespace, map[string]string{"a.yaml": configMap("a", "2")})
	w.hub.awaitPhase(t, name, newer, held)
	w.mustData("a", "1")
}

func TestASyncOfSingleObjectsAppliesThemAndNothingElse(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stop := w.start()
	name := w.service("hello")
	files := func(x string) map[string]string {
		return map[string]string{
			"a.yaml": configMap("a", x), "b.yaml": configMap("b", x), "new.yaml": configMap("n"+x, x),
		}
	}
	good := w.hub.push(t, name, w.namespace, files("1"))
	w.hub.awaitPhase(t, name, good, healthy)
	w.hub.settings(name, func(s *deliveryv1.ServiceDelivery) {
		s.Sync, s.Manual = spec(deliveryv1.SyncMode_SYNC_MODE_HOLD, ""), true
	})
	newer := w.hub.push(t, name, w.namespace, files("2"))
	w.hub.awaitPhase(t, name, newer, held)
	only := func(names ...string) string {
		return w.hub.settings(name, func(s *deliveryv1.ServiceDelivery) {
			s.Sync.RequestTime, s.Sync.RequestOnly = timestamppb.Now(), names
		})
	}
	report := w.hub.awaitPhase(t, name, only("ConfigMap/c"), held)
	if !strings.Contains(report.GetMessage(), "In manual mode") ||
		!strings.Contains(report.GetSyncProblem(), "ConfigMap/c, which is not among the 3 objects") {
		t.Errorf("it says %q and %q", report.GetMessage(), report.GetSyncProblem())
	}
	served := only("configmap/a", "ConfigMap/"+w.namespace+"/n2")
	if report = w.hub.awaitPhase(t, name, served, held); report.GetSyncProblem() != "" {
		t.Errorf("what was served has the problem %q", report.GetSyncProblem())
	}
	// The hub refuses to sync an object that is in neither list: one that was made is in the first before it leaves the
	// second.
	w.hub.awaitDetail(t, name,
		func(d *deliveryv1.ServiceDetail) bool { return d.GetDigest() == served && d.GetDiff() != nil })
	if made, left := w.hub.firstDetail(name, func(d *deliveryv1.ServiceDetail) bool {
		return slices.ContainsFunc(d.GetObjects().GetObjects(),
			func(o *deliveryv1.ManagedObject) bool { return o.GetName() == "n2" })
	}), w.hub.firstDetail(name,
		func(d *deliveryv1.ServiceDetail) bool { return d.GetDigest() == served && d.GetDiff() != nil }); made < 0 ||
		made > left {
		t.Errorf("the list with n2 came as number %d of the details, the difference without it as %d", made, left)
	}
	w.mustData("a", "2")
	w.mustData("n2", "2")
	w.mustData("b", "1")
	w.mustData("n1", "1")
	// Changes of others to each object go back to what was sent of it, also after a restart.
	stop()
	w.start()
	for object, want := range map[string]string{"a": "2", "b": "1", "n2": "2"} {
		w.kubectl("patch", "configmap", object, "--type=merge", `-p={"data":{"x":"other"}}`)
		await.True(w.t, object+" is repaired", func() bool { return w.value(object) == want })
	}
	w.hub.awaitPhase(t, name, only(), healthy)
	w.mustData("b", "2")
	w.mustBeGone("v1", "ConfigMap", w.namespace, "n1")
}

// A freeze that is put on after the request was overridden by nobody.
func TestAnOverrideLetsNothingThroughAFreezeOfLater(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name := w.service("hello")
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, map[string]string{"a.yaml": configMap("a", "1")}),
		healthy)
	w.hub.freeze(name, &deliveryv1.Freeze{Author: "user:ada", SinceTime: timestamppb.Now()})
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, map[string]string{"a.yaml": configMap("a", "2")}), held)
	w.hub.setDown(true) // the agent hears of both at once
	w.hub.askSync(name, true)
	both := w.hub.settings(name, func(s *deliveryv1.ServiceDelivery) {
		s.WindowSets = append(s.WindowSets, &deliveryv1.WindowSet{
			Kind: "cluster", Name: "edge-1",
			Freeze: &deliveryv1.Freeze{Author: "user:bob", SinceTime: timestamppb.Now()},
		})
	})
	w.hub.setDown(false)
	report := w.hub.awaitPhase(t, name, both, held)
	if !strings.Contains(report.GetMessage(), `the freeze of cluster "edge-1" by user:bob`) {
		t.Errorf("it says %q", report.GetMessage())
	}
	w.mustData("a", "1")
	// Without it the override holds, for it was asked for within the hour.
	again := w.hub.settings(name, func(s *deliveryv1.ServiceDelivery) { s.WindowSets = s.WindowSets[:1] })
	w.hub.awaitPhase(t, name, again, healthy)
	w.mustData("a", "2")
}

// The content that a request is about is in the cluster: another agent, or one whose disk was lost, does not take the
// request for one of what waits by then.
func TestAnOldRequestIsNotServedByAnAgentThatLostItsDisk(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stop := w.start()
	name := w.service("hello")
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, map[string]string{"a.yaml": configMap("a", "1")}),
		healthy)
	w.hub.awaitPhase(t, name, w.hub.settings(name, func(s *deliveryv1.ServiceDelivery) {
		s.Sync, s.Manual = spec(deliveryv1.SyncMode_SYNC_MODE_HOLD, ""), true
	}), healthy)
	w.hub.awaitPhase(t, name, w.hub.askSync(name, false), healthy) // of which there is nothing to apply
	stop()
	newer := w.hub.push(t, name, w.namespace, map[string]string{"a.yaml": configMap("a", "2")})
	w.emptyDisk()
	w.start()
	w.hub.awaitPhase(t, name, newer, held)
	w.mustData("a", "1")
	w.hub.awaitPhase(t, name, w.hub.askSync(name, false), healthy)
	w.mustData("a", "2")
}

// A service that applies by itself has nothing to do with a name that was mistyped.
func TestASyncOfAnObjectThatThereIsNotLeavesAnOpenServiceHealthy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name := w.service("hello")
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, map[string]string{"a.yaml": configMap("a", "1")}),
		healthy)
	asked := w.hub.settings(name, func(s *deliveryv1.ServiceDelivery) {
		s.Sync = &deliveryv1.SyncSpec{RequestTime: timestamppb.Now(), RequestOnly: []string{"ConfigMap/b"}}
	})
	report := w.hub.awaitPhase(t, name, asked, healthy)
	if !strings.Contains(report.GetSyncProblem(), "ConfigMap/b, which is not among the 1 object ") ||
		!strings.Contains(report.GetMessage(), report.GetSyncProblem()) {
		t.Errorf("it says %q, and of the sync %q", report.GetMessage(), report.GetSyncProblem())
	}
	newer := w.hub.push(t, name, w.namespace, map[string]string{"a.yaml": configMap("a", "2")})
	w.hub.awaitPhase(t, name, newer, healthy)
	w.mustData("a", "2")
}

// A definition that another service has, and could not make yet, is left to it by a sync of single objects, too.
func TestASyncOfSingleObjectsLeavesDefinitionsToTheirService(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	owner, name, group := w.service("owner"), w.service("other"), w.namespace+".net"
	w.hub.awaitPhase(t, owner, w.hub.push(t, owner, w.namespace, map[string]string{
		"a.yaml": strings.Replace(crd(group), "plural: rafts", "plural: boats", 1),
	}), failed)
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, map[string]string{
		"a.yaml": crd(group), "b.yaml": configMap("b", "1"),
	}), healthy)
	asked := w.hub.askOnly(name, "CustomResourceDefinition/rafts."+group)
	report := w.hub.awaitPhase(t, name, asked, healthy)
	if want := fmt.Sprintf("belongs to service %q", owner); !strings.Contains(report.GetSyncProblem(), want) {
		t.Errorf("got %q, want %q", report.GetSyncProblem(), want)
	}
	w.mustBeGone("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "rafts."+group)
}

// askOnly asks for a sync of single objects.
func (h *testHub) askOnly(service string, names ...string) string {
	return h.settings(service, func(s *deliveryv1.ServiceDelivery) {
		if s.Sync == nil {
			s.Sync = &deliveryv1.SyncSpec{}
		}
		s.Sync.RequestTime, s.Sync.RequestOnly = timestamppb.Now(), names
	})
}

// refuse answers the first requests to apply an object, as many as most, with 403, as an admission webhook does.
func (w *world) refuse(configMap string, most int64) {
	var refused atomic.Int64
	w.api.set(func(r *http.Request) int {
		if r.Method != http.MethodPatch || !strings.HasSuffix(r.URL.Path, w.namespace+"/configmaps/"+configMap) ||
			r.URL.Query().Has("dryRun") || refused.Add(1) > most {
			return 0
		}
		return http.StatusForbidden
	})
}

func TestARefusedSyncOfSingleObjectsIsForgottenWithItsContent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name := w.service("hello")
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, map[string]string{"a.yaml": configMap("a", "1")}),
		healthy)
	w.hub.awaitPhase(t, name, w.hub.settings(name, func(s *deliveryv1.ServiceDelivery) {
		s.Sync, s.Manual = spec(deliveryv1.SyncMode_SYNC_MODE_HOLD, ""), true
	}), healthy)
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, map[string]string{"a.yaml": configMap("a", "2")}), held)
	w.refuse("a", math.MaxInt64)
	asked := w.hub.askOnly(name, "ConfigMap/a")
	w.hub.await(t, name, func(r *deliveryv1.ServiceReport) bool {
		return r.GetDigest() == asked && r.GetSyncProblem() != ""
	})
	fix := w.hub.push(t, name, w.namespace, map[string]string{"a.yaml": configMap("a", "3")})
	if report := w.hub.awaitPhase(t, name, fix,
		held); !strings.HasPrefix(report.GetSyncProblem(), "Other content came") {
		t.Errorf("of the fix, for which nobody asked, it says %q", report.GetSyncProblem())
	}
}

// Of an object whose namespace is new only a sync of all brings both.
func TestASyncOfSingleObjectsThatASyncOfAllServesHasNoProblem(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name := w.service("hello")
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, map[string]string{"a.yaml": configMap("a", "1")}),
		healthy)
	w.refuse("a", 1)
	asked := w.hub.askOnly(name, "ConfigMap/a")
	if report := w.hub.awaitPhase(t, name, asked, healthy); report.GetSyncProblem() != "" ||
		w.api.patches("/configmaps/a") < 2 {
		t.Errorf("after %d requests to apply it the problem is %q", w.api.patches("/configmaps/a"),
			report.GetSyncProblem())
	}
}

func TestASyncOfSingleObjectsThatIsNotLetThroughSaysWhy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name := w.service("hello")
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, map[string]string{"a.yaml": configMap("a", "1")}),
		healthy)
	w.hub.freeze(name, &deliveryv1.Freeze{Author: "user:ada"})
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, map[string]string{"a.yaml": configMap("a", "2")}), held)
	report := w.hub.awaitPhase(t, name, w.hub.askOnly(name, "ConfigMap/a"), held)
	const why = `the freeze of project "shop" by user:ada`
	if !strings.Contains(report.GetSyncProblem(), why) || strings.Count(report.GetMessage(), why) != 1 {
		t.Errorf("it says %q, and of the sync %q", report.GetMessage(), report.GetSyncProblem())
	}
	w.mustData("a", "1")
	// In manual mode it is not the mode that keeps it back.
	manual := w.hub.settings(name,
		func(s *deliveryv1.ServiceDelivery) { s.Sync.Mode, s.Manual = deliveryv1.SyncMode_SYNC_MODE_HOLD, true })
	report = w.hub.awaitPhase(t, name, manual, held)
	if !strings.Contains(report.GetSyncProblem(), why) || !strings.Contains(report.GetMessage(), "In manual mode") ||
		!strings.Contains(report.GetMessage(), why) {
		t.Errorf("in manual mode it says %q, and of the sync %q", report.GetMessage(), report.GetSyncProblem())
	}
	// With the freeze over it is served, and the mode keeps back the rest.
	report = w.hub.awaitPhase(t, name, w.hub.freeze(name, nil), held)
	if report.GetSyncProblem() != "" {
		t.Errorf("what was served has the problem %q", report.GetSyncProblem())
	}
	w.mustData("a", "2")
}

// A sync is about the content that the hub had then. Content that is pushed before it is served takes its place, and
// the sync says so for as long as nothing serves it.
func TestASyncOfSingleObjectsThatAPushOvertakesSaysSo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name := w.service("hello")
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, map[string]string{"a.yaml": configMap("a", "1")}),
		healthy)
	w.hub.freeze(name, &deliveryv1.Freeze{Author: "user:ada"})
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, map[string]string{"a.yaml": configMap("a", "2")}), held)
	w.hub.awaitPhase(t, name, w.hub.askOnly(name, "ConfigMap/a"), held)
	report := w.hub.awaitPhase(t, name,
		w.hub.push(t, name, w.namespace, map[string]string{"a.yaml": configMap("a", "3")}), held)
	if !strings.Contains(report.GetSyncProblem(), "Other content came") {
		t.Errorf("of the sync it says %q", report.GetSyncProblem())
	}
	w.mustData("a", "1")
	report = w.hub.awaitPhase(t, name, w.hub.freeze(name, nil), healthy)
	if report.GetSyncProblem() != "" {
		t.Errorf("all is applied, and of the sync it says %q", report.GetSyncProblem())
	}
}

// An agent of before wrote no request down, so of an old one only its time tells that it was served.
func TestARequestFromBeforeTheLastApplyIsNotServedByAnAgentWithAnEmptyDisk(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stop := w.start()
	name := w.service("hello")
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, map[string]string{"a.yaml": configMap("a", "1")}),
		healthy)
	stop()
	w.hub.push(t, name, w.namespace, map[string]string{"a.yaml": configMap("a", "2")})
	newer := w.hub.settings(name, func(s *deliveryv1.ServiceDelivery) {
		s.Sync, s.Manual = spec(deliveryv1.SyncMode_SYNC_MODE_HOLD, ""), true
		s.Sync.RequestTime = timestamppb.New(time.Now().Add(-time.Hour))
	})
	w.emptyDisk()
	w.start()
	w.hub.awaitPhase(t, name, newer, held)
	w.mustData("a", "1")
	w.hub.awaitPhase(t, name, w.hub.askSync(name, false), healthy)
	w.mustData("a", "2")
}
