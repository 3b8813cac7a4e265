package intake

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"fairlead.dev/services/console/internal/state"
)

func TestWhatIsHeardOfAReportIsWhatEventsComeOf(t *testing.T) {
	t.Parallel()
	digest := "sha256:" + strings.Repeat("0f", 32)
	h := unheard("u", &state.ServiceSpec{Cluster: "edge-1", Project: "shop"}, "c", 1)
	if r := h.report(); r != nil {
		t.Errorf("there is no report, and it is %+v", r)
	}
	at := time.Date(2026, 11, 20, 12, 0, 0, 123456789, time.UTC)
	for _, want := range []state.Report{
		{Sequence: 1, Phase: state.PhaseProgressing},
		{
			Sequence: 2, Phase: state.PhaseHealthy, Digest: "d", AppliedDigest: "d", AppliedTime: at,
			ObservedTime: at.Add(time.Second),
		},
		{
			Sequence: 3, Phase: state.PhaseDegraded, Digest: "e", AppliedDigest: "d", Message: "words",
			Guard: &state.Guard{ID: "g"}, Repairs: 7,
		},
		{Sequence: 4, Phase: state.PhaseHealthy, Digest: "e", AppliedDigest: "e"},
		{Sequence: 5, Phase: state.PhaseProgressing, Digest: digest, AppliedDigest: "e"},
		{Sequence: 6, Phase: state.PhaseHealthy, Digest: digest, AppliedDigest: digest},
		{Sequence: 7, Phase: state.PhaseHealthy, Digest: strings.ToUpper(digest), AppliedDigest: digest + "0"},
	} {
		before := h.report()
		if got, other := h.replaces(&want), before != nil && before.AppliedDigest != "" && before.AppliedDigest != want.AppliedDigest; got != other {
			t.Errorf("report %d has another digest applied than the one before: %v, want %v", want.Sequence, got, other)
		}
		h = h.after(&want)
		if got := h.report(); !reflect.DeepEqual(*got, want) {
			t.Errorf("got %+v, want %+v", *got, want)
		}
	}
	want := state.Service{Meta: state.Meta{Name: "web", UID: "u"}, Spec: state.ServiceSpec{Cluster: "edge-1", Project: "shop"}}
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

// A service that is met is no news to a console that has heard reports of it.
func TestWhatIsHeardStays(t *testing.T) {
	t.Parallel()
	m := memory{most: 3}
	is := unheard("u", &state.ServiceSpec{Cluster: "edge-1"}, "c", 1).after(&state.Report{Sequence: 7})
	m.keep(map[string]*heard{"web": is}, nil)
	m.meet(map[string]*heard{"web": unheard("u", &state.ServiceSpec{Cluster: "edge-1"}, "c", 1), "api": unheard("v", &state.ServiceSpec{}, "c", 1)})
	known := map[string]*heard{"web": nil, "api": nil}
	if m.recall(known); known["web"] != is || known["api"] == nil {
		t.Errorf("known are %v", known)
	}
}

func TestAClusterThatIsMadeAnewIsFound(t *testing.T) {
	t.Parallel()
	m := memory{most: 3}
	m.placed(map[string]string{"edge-1": "old", "edge-2": ""})
	m.placed(map[string]string{"edge-1": "new"})
	uids := map[string]string{"edge-1": "", "edge-2": ""}
	if others := m.place(uids); uids["edge-1"] != "new" || !slices.Equal(others, []string{"edge-2"}) {
		t.Errorf("known are %v, and not %v", uids, others)
	}
}
