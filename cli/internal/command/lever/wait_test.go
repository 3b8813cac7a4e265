package lever

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	artifactv1 "fairlead.dev/gen/fairlead/artifact/v1"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
)

// A hold that has just ended stands in the cluster's last report: nobody has to do anything then.
func TestWaitNeedsNobodyForAHoldThatIsOver(t *testing.T) {
	t.Parallel()
	changed := time.Now()
	held := func(mode deliveryv1.SyncMode, received time.Time, reported string, closed bool) *consolev1.Service {
		return &consolev1.Service{
			Metadata: &consolev1.Metadata{UpdateTime: timestamppb.New(changed)},
			Spec:     &consolev1.ServiceSpec{Sync: &deliveryv1.SyncSpec{Mode: mode}},
			Status: &consolev1.ServiceStatus{
				State: consolev1.ServiceState_SERVICE_STATE_HELD,
				Hub:   &consolev1.HubTruth{Digest: "now"},
				Cluster: &consolev1.ClusterTruth{
					ReceiveTime: timestamppb.New(received), Report: &deliveryv1.ServiceReport{Digest: reported},
				},
				Windows: &consolev1.WindowStatus{Closed: closed},
			},
		}
	}
	const auto, hold = deliveryv1.SyncMode_SYNC_MODE_AUTO, deliveryv1.SyncMode_SYNC_MODE_HOLD
	before, after := changed.Add(-time.Second), changed.Add(time.Second)
	for name, tt := range map[string]struct {
		service *consolev1.Service
		want    bool
	}{
		"a hold":                                {held(hold, before, "then", false), true},
		"resumed, and nothing heard since":      {held(auto, before, "now", false), false},
		"resumed, and the agent is not so far":  {held(auto, after, "then", false), false},
		"an annotation in the cluster holds it": {held(auto, after, "now", false), true},
		"a window is closed":                    {held(auto, before, "then", true), true},
	} {
		if got := needsPerson(tt.service); got != tt.want {
			t.Errorf("%s: a person is needed: %v, want %v", name, got, tt.want)
		}
	}
}

// The subject of a combination names a commit of each of its sources by its first letters.
func TestWaitTakesACommitOfAnyOfTheSources(t *testing.T) {
	t.Parallel()
	const subject = "chart 19.1.2 · values a1b2c3d4 · shop 00ff00ff"
	several := []*consolev1.ServiceSource{{Name: "values"}, {Name: "shop"}}
	for _, tc := range []struct {
		wanted  string
		sources []*consolev1.ServiceSource
		want    bool
	}{
		{"a1b2c3d4", several, true},
		{"a1b2c3d4e5f60718293a4b5c6d7e8f9001122334", several, true},
		{"A1B2C3D", several, true},
		{"00ff00ff", several, true},
		{"a1b2c3d5", several, false},
		{"a1b2c3d5e5f60718293a4b5c6d7e8f9001122334", several, false},
		{"1b2c3d4", several, false},
		{"a1b2c3d4", nil, false},
	} {
		s := &consolev1.Service{Spec: &consolev1.ServiceSpec{Sources: tc.sources}}
		if got := ofSource(s, &artifactv1.Revision{Subject: subject}, tc.wanted); got != tc.want {
			t.Errorf("%s, of %d sources: %t", tc.wanted, len(tc.sources), got)
		}
	}
}
