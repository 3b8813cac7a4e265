package catalog

import (
	"fmt"
	"reflect"
	"testing"
	"time"
	"unique"

	"fairlead.dev/services/console/internal/store"
)

func TestWhatIsHeardOfAReportIsWhatEventsComeOf(t *testing.T) {
	t.Parallel()
	none := unique.Make("")
	h := &heard{
		uid: "u", cluster: unique.Make("edge-1"), project: unique.Make("shop"), clusterUID: unique.Make("c"),
		sequence: store.NoReport, phase: none, digest: none, applied: none,
	}
	if r := h.report(); r != nil {
		t.Errorf("there is no report, and it is %+v", r)
	}
	at := time.Date(2026, 11, 20, 12, 0, 0, 123456789, time.UTC)
	for _, want := range []Report{
		{Sequence: 1, Phase: PhaseProgressing},
		{
			Sequence: 2, Phase: PhaseHealthy, Digest: "d", AppliedDigest: "d", AppliedTime: at,
			ObservedTime: at.Add(time.Second),
		},
		{
			Sequence: 3, Phase: PhaseDegraded, Digest: "e", AppliedDigest: "d", Message: "words",
			Guard: &Guard{ID: "g"}, Repairs: 7,
		},
		{Sequence: 4, Phase: PhaseHealthy, Digest: "e", AppliedDigest: "e"},
	} {
		h = h.after(&want)
		if got := h.report(); !reflect.DeepEqual(*got, want) {
			t.Errorf("got %+v, want %+v", *got, want)
		}
	}
	want := Service{Meta: Meta{Name: "web", UID: "u"}, Spec: ServiceSpec{Cluster: "edge-1", Project: "shop"}}
	if s := h.service("web"); !reflect.DeepEqual(s, want) {
		t.Errorf("the service is %+v", s)
	}
}

func TestTheMemoryOfServicesIsBounded(t *testing.T) {
	t.Parallel()
	m := memory{most: 3}
	for n := range 10 {
		m.keep(map[string]*heard{fmt.Sprint(n): {}}, nil)
	}
	known := map[string]*heard{"9": nil}
	if m.recall(known); len(m.services) != 3 || known["9"] == nil {
		t.Errorf("%d are known, and the last is %v", len(m.services), known["9"])
	}
	m.keep(nil, map[string]bool{"9": true})
	if m.recall(known); known["9"] != nil {
		t.Error("it is not forgotten")
	}
}
