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
