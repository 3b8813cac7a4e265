package command

import (
	"testing"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
)

func TestDiffIsReadable(t *testing.T) {
	t.Parallel()
	got := diffText(&deliveryv1.Diff{
		Created: 1, Changed: 3, Removed: 1, Unchanged: 7, Objects: []*deliveryv1.ObjectDiff{
			{
				Kind: "Deployment", Namespace: "shop", Name: "web", Change: deliveryv1.Change_CHANGE_UPDATE,
				Fields: []*deliveryv1.FieldDiff{
					{Pointer: "/spec/replicas", Live: "1", Wanted: "3", Manager: "kubectl-edit"},
					{Pointer: "/spec/paused", Live: "true", Manager: "fairlead"},
					{Pointer: "/spec/x", Wanted: "\"a\x1b[1mb\""},
				},
			},
			{
				Kind: "Secret", Namespace: "shop", Name: "token", Change: deliveryv1.Change_CHANGE_UPDATE,
				Fields: []*deliveryv1.FieldDiff{{Pointer: "/data"}},
			},
			{
				Kind: "Job", Namespace: "shop", Name: "once", Change: deliveryv1.Change_CHANGE_RECREATE,
				Message: "spec.template: field is immutable",
			},
			{Kind: "Namespace", Name: "new", Change: deliveryv1.Change_CHANGE_CREATE},
			{
				Kind: "ConfigMap", Namespace: "shop", Name: "bad", Change: deliveryv1.Change_CHANGE_REFUSED,
				Message: "no.",
			},
			{Kind: "ConfigMap", Namespace: "shop", Name: "old", Change: deliveryv1.Change_CHANGE_REMOVE},
			{Kind: "Secret", Change: deliveryv1.Change_CHANGE_REMOVE, Message: "You may not read it."},
		},
	})
	want := `~ Deployment shop/web
    /spec/replicas: 1 -> 3  (set by kubectl-edit)
    /spec/paused: true -> (gone)
    /spec/x: -> "a[1mb"
~ Secret shop/token
    /data: changes (not shown)
-/+ Job shop/once: spec.template: field is immutable
+ Namespace new
! ConfigMap shop/bad: no.
- ConfigMap shop/old
- Secret: You may not read it.
1 created, 3 changed, 1 removed, 7 unchanged
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestTreeIsReadable(t *testing.T) {
	t.Parallel()
	s := &consolev1.Service{
		Metadata: &consolev1.Metadata{Name: "web"}, Spec: &consolev1.ServiceSpec{Cluster: "edge-1"},
		Status: &consolev1.ServiceStatus{State: consolev1.ServiceState_SERVICE_STATE_DEGRADED},
	}
	object := func(wave int32, kind, name, health, message string) *consolev1.ClusterObject {
		return &consolev1.ClusterObject{
			Object: &deliveryv1.ManagedObject{Kind: kind, Namespace: "shop", Name: name, Wave: wave},
			Report: &deliveryv1.ObjectReport{Health: health, Message: message},
		}
	}
	got := treeText(s, []*consolev1.ClusterObject{
		object(-1, "ConfigMap", "o'brien", "Healthy", ""), object(0, "Deployment", "web", "Degraded", "image is gone"),
		object(0, "Service", "web", "Healthy", ""),
	}, nil)
	want := `service web on cluster edge-1: Degraded
│   wave -1
├── ConfigMap shop/o'brien  Healthy
│   wave 0
├── Deployment shop/web  Degraded  image is gone
└── Service shop/web  Healthy
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

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
