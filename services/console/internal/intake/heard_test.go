package intake

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"fairlead.dev/services/console/internal/state"
)

func TestWhatIsHeardOfAReportIsWhatEventsComeOf(t *testing.T) {
	t.Parallel()
	digest := "sha256:" + strings.Repeat("0f", 32)
	h := unheard(state.Unreported{UID: "u", Cluster: "edge-1", ClusterUID: "c", Project: "shop", Revision: 1})
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

// A guard is of the service until a report ends it: an attempt in between does not come to it.
func TestAGuardIsHeardOfUntilItEnds(t *testing.T) {
	t.Parallel()
	h := unheard(state.Unreported{UID: "u"})
	for _, c := range []struct {
		report state.Report
		guard  string
	}{
		{state.Report{Sequence: 1, Phase: state.PhaseWaiting, Guard: &state.Guard{ID: "a"}}, "a"},
		{state.Report{Sequence: 2, Phase: state.PhaseApplying}, "a"},
		{state.Report{Sequence: 3, Phase: state.PhaseHeld}, "a"},
		{state.Report{Sequence: 4, Phase: state.PhaseWaiting, Guard: &state.Guard{ID: "b"}}, "b"},
		{state.Report{Sequence: 5, Phase: state.PhaseHealthy}, ""},
	} {
		h = h.after(&c.report)
		got := ""
		if g := h.report().Guard; g != nil {
			got = g.ID
		}
		if got != c.guard {
			t.Errorf("after report %d the guard is %q, want %q", c.report.Sequence, got, c.guard)
		}
	}
}
