package lever

import (
	"testing"

	artifactv1 "fairlead.dev/gen/fairlead/artifact/v1"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
)

func TestWaitIsOverWhenTheClusterIsThrough(t *testing.T) {
	t.Parallel()
	service := func(revision int64, hub, commit, reported string, phase deliveryv1.Phase,
		sync *deliveryv1.SyncSpec,
	) *consolev1.Service {
		return &consolev1.Service{
			Metadata: &consolev1.Metadata{Revision: revision}, Spec: &consolev1.ServiceSpec{Sync: sync},
			Status: &consolev1.ServiceStatus{
				Git: &consolev1.GitTruth{},
				Hub: &consolev1.HubTruth{Digest: hub},
				Cluster: &consolev1.ClusterTruth{
					Report: &deliveryv1.ServiceReport{Digest: reported, Commit: commit, Phase: phase},
				},
			},
		}
	}
	const healthy, applying, held = deliveryv1.Phase_PHASE_HEALTHY, deliveryv1.Phase_PHASE_APPLYING, deliveryv1.Phase_PHASE_HELD
	hold := &deliveryv1.SyncSpec{Mode: deliveryv1.SyncMode_SYNC_MODE_HOLD}
	before, asked := service(1, "a", "", "a", healthy, nil), service(2, "a", "", "a", healthy, hold)
	pending := service(2, "b", "", "b", healthy, hold)
	pending.Status.State = consolev1.ServiceState_SERVICE_STATE_PENDING
	for name, c := range map[string]struct {
		now  *consolev1.Service
		want bool
	}{
		"the hub asks for the ref":    {pending, false},
		"the hub has not noticed":     {service(2, "a", "", "a", healthy, hold), false},
		"the cluster has not noticed": {service(2, "b", "", "a", healthy, hold), false},
		"on its way":                  {service(2, "b", "", "b", applying, hold), false},
		"held":                        {service(2, "b", "", "b", held, hold), true},
		"nothing waits":               {service(2, "b", "", "b", healthy, hold), true},
	} {
		if isDone(before, asked, c.now) != c.want {
			t.Errorf("%s: not %v", name, c.want)
		}
	}
	if !isDone(before, service(1, "a", "", "a", healthy, nil), before) {
		t.Error("nothing was changed, and it waits")
	}
}

// The end of a lever is the hub's: the agent gets nothing new when only that is another one.
func TestWaitIsOverWhenTheClusterGetsNothingNew(t *testing.T) {
	t.Parallel()
	const commit = "2222222222222222222222222222222222222222"
	service := func(revision int64, phase deliveryv1.Phase, spec *consolev1.ServiceSpec) *consolev1.Service {
		return &consolev1.Service{
			Metadata: &consolev1.Metadata{Revision: revision}, Spec: spec,
			Status: &consolev1.ServiceStatus{
				Hub:     &consolev1.HubTruth{Digest: "a", Revision: &artifactv1.Revision{Commit: commit}},
				Cluster: &consolev1.ClusterTruth{Report: &deliveryv1.ServiceReport{Digest: "a", Phase: phase}},
			},
		}
	}
	const healthy, held = deliveryv1.Phase_PHASE_HEALTHY, deliveryv1.Phase_PHASE_HELD
	hold := func(reason string) *consolev1.ServiceSpec {
		return &consolev1.ServiceSpec{Sync: &deliveryv1.SyncSpec{Mode: deliveryv1.SyncMode_SYNC_MODE_HOLD, Reason: reason}}
	}
	pin := func(after string) *consolev1.ServiceSpec {
		return &consolev1.ServiceSpec{Sync: &deliveryv1.SyncSpec{Pin: commit}, UnpinAfter: after}
	}
	none := &consolev1.ServiceSpec{}
	auto := &consolev1.ServiceSpec{Sync: &deliveryv1.SyncSpec{Mode: deliveryv1.SyncMode_SYNC_MODE_AUTO}}
	folder := func(path string) *consolev1.ServiceSpec {
		return &consolev1.ServiceSpec{Path: path, Sync: &deliveryv1.SyncSpec{Pin: commit}}
	}
	for name, c := range map[string]struct {
		phase         deliveryv1.Phase
		before, asked *consolev1.ServiceSpec
		want          bool
	}{
		"a hold with another end":                    {held, hold("incident"), hold("incident"), true},
		"a hold with another reason":                 {held, hold("incident"), hold("the sale"), false},
		"a pin until the ref moves on":               {healthy, pin(""), pin(commit), true},
		"a rollback to another folder of the commit": {healthy, folder("a"), folder("b"), false},
		"the default mode by its name":               {healthy, none, auto, true},
	} {
		asked := service(2, c.phase, c.asked)
		if isDone(service(1, c.phase, c.before), asked, asked) != c.want {
			t.Errorf("%s: not %v", name, c.want)
		}
	}
}

// The lever that was asked for came about, or the command fails.
func TestWaitFailsWhenNothingWasApplied(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		asked deliveryv1.SyncMode
		phase deliveryv1.Phase
		fails bool
	}{
		{deliveryv1.SyncMode_SYNC_MODE_UNSPECIFIED, deliveryv1.Phase_PHASE_HEALTHY, false},
		{deliveryv1.SyncMode_SYNC_MODE_UNSPECIFIED, deliveryv1.Phase_PHASE_HELD, true}, // as by a person in the cluster
		{deliveryv1.SyncMode_SYNC_MODE_AUTO, deliveryv1.Phase_PHASE_WAITING, true},
		{deliveryv1.SyncMode_SYNC_MODE_AUTO, deliveryv1.Phase_PHASE_DIFFERS, true},
		{deliveryv1.SyncMode_SYNC_MODE_HOLD, deliveryv1.Phase_PHASE_HELD, false},
		{deliveryv1.SyncMode_SYNC_MODE_DRY_RUN, deliveryv1.Phase_PHASE_DIFFERS, false},
		{deliveryv1.SyncMode_SYNC_MODE_MANUAL, deliveryv1.Phase_PHASE_HELD, false}, // without a sync
	} {
		asked := &consolev1.Service{Spec: &consolev1.ServiceSpec{Sync: &deliveryv1.SyncSpec{Mode: c.asked}}}
		now := &consolev1.Service{
			Status: &consolev1.ServiceStatus{
				Cluster: &consolev1.ClusterTruth{Report: &deliveryv1.ServiceReport{Phase: c.phase}},
			},
		}
		if err := cameAbout(asked, asked, now); (err != nil) != c.fails {
			t.Errorf("asked for %v, and it is %v: %v", c.asked, c.phase, err)
		}
	}
}
