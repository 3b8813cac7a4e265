package acceptance

import (
	"testing"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
)

// What one console remembers of services is not what counts: another one hears of them, too, and people write in
// between.
func TestWhatAConsoleRemembersOfReportsMayBeOld(t *testing.T) {
	t.Parallel()
	h := newHub(t, postgres.Database(t))
	a, b := h.start(t), h.start(t)
	admin := b.admin(t)
	admin.putSource(t, "shop", "https://git.example.com/shop")
	admin.putCluster(t, "edge-1")
	admin.putCluster(t, "edge-2")
	admin.putService(t, "web", "edge-1")
	at := func(r *running) syncing { return r.syncing(t, r.distributorToken(t)) }
	one, other := at(a), at(b)
	said := func(sequence uint64, phase deliveryv1.Phase) *deliveryv1.ServiceReport {
		return &deliveryv1.ServiceReport{
			Service: "web", Sequence: sequence, Phase: phase, Digest: "d", AppliedDigest: "d", ObjectsTotal: 1,
		}
	}
	kept := func(want uint64, phase deliveryv1.Phase) {
		t.Helper()
		resp, err := admin.services.GetService(t.Context(), &consolev1.GetServiceRequest{Name: "web"})
		got := resp.GetService().GetStatus().GetCluster().GetReport()
		if err != nil || got.GetSequence() != want || got.GetPhase() != phase {
			t.Fatalf("kept %v (%v), want %d %v", got, err, want, phase)
		}
	}
	const healthy, degraded = deliveryv1.Phase_PHASE_HEALTHY, deliveryv1.Phase_PHASE_DEGRADED
	one.report(t, "edge-1", said(1, healthy))
	other.report(t, "edge-1", said(5, degraded))
	one.report(t, "edge-1", said(3, healthy)) // late, and what this console remembers is older
	kept(5, degraded)
	one.report(t, "edge-1", said(6, healthy))
	kept(6, healthy)
	const want = "service.applied service.healthy service.degraded service.healthy"
	if got := types(listEvents(t, a.events(t, a.adminToken(t)), "service = web")); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}

	if _, err := admin.services.DeleteService(t.Context(), &consolev1.DeleteServiceRequest{Name: "web"}); err != nil {
		t.Fatal(err)
	}
	one.report(t, "edge-1", said(7, healthy)) // acknowledged: the service is gone
	admin.putService(t, "web", "edge-1")
	one.report(t, "edge-1", said(2, degraded)) // an agent that begins anew
	kept(2, degraded)

	admin.putService(t, "web", "edge-2") // to another cluster
	one.report(t, "edge-1", said(8, degraded))
	one.report(t, "edge-2", said(1, healthy))
	kept(1, healthy)
}

// The service is in no list any more: an event is all that tells of its removal.
func TestARemovalThatFailsIsAnEvent(t *testing.T) {
	t.Parallel()
	r := newHub(t, "").start(t)
	admin := r.admin(t)
	admin.putSource(t, "shop", "https://git.example.com/shop")
	admin.putCluster(t, "edge-1")
	admin.putCluster(t, "edge-2")
	admin.putService(t, "web", "edge-1")
	hub := r.syncing(t, r.distributorToken(t))
	said := func(cluster, service string, sequence uint64, phase deliveryv1.Phase, message string) {
		t.Helper()
		hub.report(t, cluster, &deliveryv1.ServiceReport{Service: service, Sequence: sequence, Phase: phase, Message: message})
	}
	remove := func() {
		t.Helper()
		if _, err := admin.services.DeleteService(t.Context(), &consolev1.DeleteServiceRequest{Name: "web"}); err != nil {
			t.Fatal(err)
		}
	}
	removals := func() []*consolev1.Event {
		t.Helper()
		return listEvents(t, r.events(t, r.adminToken(t)), `type = service.removal_failed OR type = service.pruned`)
	}
	const failed, removed = deliveryv1.Phase_PHASE_FAILED, deliveryv1.Phase_PHASE_REMOVED
	const why = "The service is not removed, since a hook for pre-delete failed."
	remove()
	hub.report(t, "edge-1", &deliveryv1.ServiceReport{ // the last apply failed, just before
		Service: "web", Sequence: 1, Phase: failed, Message: "The folder has no objects.", Digest: "d1",
	})
	said("edge-1", "web", 1, failed, why)
	said("edge-1", "web", 2, failed, why)
	said("edge-2", "web", 1, failed, why)           // it was never this cluster's
	said("edge-1", "nobody-had-it", 1, failed, why) // nor anybody's
	got := removals()
	if len(got) != 1 || got[0].GetService() != "web" || got[0].GetCluster() != "edge-1" || got[0].GetMessage() != why ||
		got[0].GetSeverity() != consolev1.Severity_SEVERITY_ERROR {
		t.Fatalf("got %v", got)
	}
	said("edge-1", "web", 3, removed, "")
	said("edge-1", "web", 4, removed, "")
	if got := types(removals()); got != "service.removal_failed service.pruned" {
		t.Errorf("it is gone at last: %s", got)
	}

	admin.putService(t, "web", "edge-1")
	remove()
	said("edge-1", "web", 5, removed, "") // as the deletion said
	if got := len(removals()); got != 2 {
		t.Errorf("%d events, and nothing failed the second time", got)
	}
	admin.putService(t, "web", "edge-1")
	admin.putService(t, "web", "edge-2")
	said("edge-1", "web", 6, failed, why)
	if got := types(removals()); got != "service.removal_failed service.pruned service.removal_failed" {
		t.Errorf("it moved: %s", got)
	}
}
