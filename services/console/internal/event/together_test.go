package event

import (
	"fmt"
	"strings"
	"testing"
	"time"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/filter"
	"fairlead.dev/services/console/internal/store"
)

func draftsOf(typ string, clusters, services int) (list []store.Event) {
	for c := range clusters {
		for s := range services {
			list = append(list, drafted(&consolev1.Event{
				Type: typ, Severity: info, Project: "shop", Cluster: fmt.Sprintf("edge-%d", c), Service: fmt.Sprintf("s%d-edge-%d", s, c), Commit: "0123456789abcdef", Digest: fmt.Sprintf("d%d", s),
				Count: 3, Message: "All 3 objects are healthy.",
			}, time.Unix(1e9, 0), "uid", fmt.Sprint(c), fmt.Sprint(s)))
		}
	}
	return list
}

func told(t *testing.T, list []store.Event) (out []Told) {
	t.Helper()
	for _, e := range list {
		one, err := Decode(e)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, one)
	}
	return out
}

func TestWhatHappensToManyServicesAtOnceIsOneEvent(t *testing.T) {
	t.Parallel()
	r := &Recorder{}
	all := append(draftsOf(ServiceHealthy, 4, 3), draftsOf(ServiceFailed, 4, 3)...)
	all = append(all, draftsOf(ServiceApplied, 1, 5)...)
	list := told(t, r.Gather(all))
	if len(list) != 1+12+5 {
		t.Fatalf("%d events", len(list))
	}
	e := list[0]
	if e.GetCount() != 12 || e.GetMessage() != "All objects of 12 services in 4 clusters are healthy." || e.GetCommit() != "0123456789abcdef" || e.GetDigest() != "" || e.GetService() != "" ||
		e.GetProject() != "shop" || len(e.GetMembers()) != 12 {
		t.Errorf("got %v", e.Event)
	}
	if again := r.Gather(draftsOf(ServiceHealthy, 4, 3)); again[0].ID != e.GetId() {
		t.Errorf("the same has another id: %s, %s", again[0].ID, e.GetId())
	}
	if got := list[1]; got.GetType() != ServiceFailed || got.GetService() != "s0-edge-0" {
		t.Errorf("what a person has to look at is told alone: %v", got.Event)
	}
}

func TestOfAnEventOfManyEachSeesItsOwn(t *testing.T) {
	t.Parallel()
	list := told(t, (&Recorder{}).Gather(draftsOf(ServiceHealthy, 4, 3)))
	for question, want := range map[string]string{
		"":                                     "12 services in 4 clusters",
		"type = service.healthy":               "12 services in 4 clusters",
		"type = service.failed":                "",
		"cluster = edge-2":                     "of 3 services are",
		"cluster = edge-2 OR cluster = edge-1": "6 services in 2 clusters",
		"service = s1-edge-2":                  "All 3 objects are healthy.",
		"service = s1-edge-2 AND count = 3":    "All 3 objects are healthy.",
		"service = nobody":                     "",
	} {
		expr, err := filter.Parse(question, Fields())
		if err != nil {
			t.Fatal(err)
		}
		got := fitting(list[0], expr, nil, time.Unix(2e9, 0))
		if want == "" && got != nil || want != "" && (got == nil || !strings.Contains(got.GetMessage(), want)) {
			t.Errorf("%q: %v, want %q", question, got, want)
		}
		if one := want == "All 3 objects are healthy."; one && (got.GetService() != "s1-edge-2" || got.GetDigest() != "d1" || got.GetCommit() != "0123456789abcdef" || got.GetCount() != 3 || got.GetProject() != "shop") {
			t.Errorf("%q: %v", question, got)
		}
	}
	sees := func(_ store.Kind, name, _, cluster string) bool { return cluster == "edge-3" && name != "s0-edge-3" }
	if got := fitting(list[0], nil, sees, time.Unix(2e9, 0)); got.GetCount() != 2 || len(got.GetMembers()) != 2 || got.GetCluster() != "edge-3" {
		t.Errorf("to a person who may see two: %v", got)
	}
	if got := fitting(list[0], nil, func(store.Kind, string, string, string) bool { return false }, time.Unix(2e9, 0)); got != nil {
		t.Errorf("to a person who may see nothing: %v", got)
	}
}

func TestMembersThatCannotBeReadAreShownToNobodyWhoMayNotSeeAll(t *testing.T) {
	t.Parallel()
	list := told(t, (&Recorder{}).Gather(draftsOf(ServiceHealthy, 4, 3)))
	list[0].members = []byte("damaged")
	if got := fitting(list[0], nil, func(store.Kind, string, string, string) bool { return true }, time.Unix(2e9, 0)); got != nil {
		t.Errorf("got %v", got)
	}
}

// An alert of a service is closed by the recovery of that service.
func TestARecoveryIsToldAlone(t *testing.T) {
	t.Parallel()
	r := &Recorder{Now: time.Now}
	var first, again []store.Event
	for i := range 2 * manyServices {
		var s catalog.Service
		s.Meta.Name, s.Spec.Cluster = fmt.Sprintf("s%d", i), "edge-1"
		healthy := catalog.Report{Phase: catalog.PhaseHealthy, Sequence: 2, ObjectsTotal: 3}
		first = append(first, r.ClusterSaid(s, nil, healthy)...)
		again = append(again, r.ClusterSaid(s, &catalog.Report{Phase: catalog.PhaseDegraded}, healthy)...)
	}
	if got := r.Gather(first); len(got) != 1 {
		t.Errorf("%d events of services that became healthy", len(got))
	}
	if got := r.Gather(again); len(got) != 2*manyServices {
		t.Errorf("%d events of services that recovered", len(got))
	}
}
