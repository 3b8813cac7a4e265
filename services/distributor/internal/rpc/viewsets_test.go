package rpc_test

import (
	"testing"
	"time"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/services/distributor/internal/plan"
	"fairlead.dev/services/distributor/internal/rpc"
)

// viewed is a catalog with a ViewSet for clusters with a label, at a revision.
func viewed(u *plan.Update, revision int64, labels map[string]string, kind string) {
	u.AgentConfigs(nil)
	u.ViewSets([]*consolev1.ViewSet{{
		Metadata: &consolev1.Metadata{Name: "certificates"},
		Spec: &consolev1.ViewSetSpec{
			Clusters: &consolev1.ClusterSelector{Labels: map[string]string{"site": "edge"}},
			Of:       &deliveryv1.ViewSetOf{Group: "cert-manager.io", Kind: kind},
		},
	}})
	u.Labels("edge-1", labels)
	u.At(revision, revision)
}

func TestSetsOfAViewAreSentOnce(t *testing.T) {
	t.Parallel()
	with := deps(t)
	d := rpc.NewDelivery(with)
	const able = deliveryv1.AgentCapability_AGENT_CAPABILITY_VIEW_SETS
	ask := func(revision int64, digest string, config *deliveryv1.AgentConfigState, can ...deliveryv1.AgentCapability) *deliveryv1.ViewSetDelivery {
		t.Helper()
		resp, err := d.Sync(asAgent(t.Context()), &deliveryv1.SyncRequest{
			Agent: &deliveryv1.AgentInfo{Version: "v1", Capabilities: can}, Revision: revision, ViewSets: digest,
			AgentConfig: config,
		})
		if err != nil {
			t.Fatal(err)
		}
		return resp.GetViewSets()
	}
	nudged := func(revision int64, site, kind string) bool {
		change := with.Plan.Update(time.Now(), func(u *plan.Update) { viewed(u, revision, map[string]string{"site": site}, kind) })
		_, ok := change.Clusters["edge-1"]
		return ok
	}
	with.Plan.Update(time.Now(), func(u *plan.Update) { u.Current() })
	nudged(5, "core", "Certificate")
	if got := ask(5, "", nil, able); got != nil {
		t.Errorf("a cluster that nothing chooses gets %v", got)
	}
	if !nudged(6, "edge", "Certificate") {
		t.Error("an agent whose cluster has other labels is not nudged")
	}
	sent := ask(6, "", nil, able)
	if len(sent.GetSets()) != 1 || sent.GetDigest() == "" ||
		sent.GetSets()[0].GetContent().GetOf().GetKind() != "Certificate" {
		t.Fatalf("sent %v", sent)
	}
	if got := ask(6, "", nil); got != nil {
		t.Errorf("an agent that keeps no sets gets %v", got)
	}
	if got := ask(7, "", nil, able); got != nil {
		t.Errorf("an agent that has seen a later catalog gets %v", got)
	}
	if got := ask(6, "", &deliveryv1.AgentConfigState{StandsBy: true}, able); got != nil {
		t.Errorf("an agent that stands by gets %v", got)
	}
	if got := ask(6, sent.GetDigest(), nil, able); got != nil {
		t.Errorf("an agent that has them gets %v", got)
	}
	if nudged(7, "edge", "Certificate") {
		t.Error("nudged for nothing")
	}
	if !nudged(8, "edge", "Issuer") || ask(8, sent.GetDigest(), nil, able).GetDigest() == sent.GetDigest() {
		t.Error("a set that says something else is not sent")
	}
	with.Plan.Update(time.Now(), func(u *plan.Update) { u.ViewSets(nil); u.At(9, 9) })
	if got := ask(9, sent.GetDigest(), nil, able); got == nil || got.GetDigest() != "" || len(got.GetSets()) != 0 {
		t.Errorf("after its removal the agent gets %v", got)
	}
}
