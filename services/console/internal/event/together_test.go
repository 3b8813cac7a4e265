package event

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/services/console/internal/query"
	"fairlead.dev/services/console/internal/state"
	"fairlead.dev/services/console/internal/store"
)

func draftsOf(typ string, clusters, services int) (list []store.Event) {
	for c := range clusters {
		for s := range services {
			list = append(list, drafted(&consolev1.Event{
				Type: typ, Severity: info, Project: "shop", Cluster: fmt.Sprintf("edge-%d", c),
				Service: fmt.Sprintf("s%d-edge-%d", s, c), Commit: "0123456789abcdef", Digest: fmt.Sprintf("d%d", s),
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
	if e.GetCount() != 12 || e.GetMessage() != "All objects of 12 services in 4 clusters are healthy." ||
		e.GetCommit() != "0123456789abcdef" || e.GetDigest() != "" || e.GetService() != "" ||
		e.GetProject() != "shop" || len(e.named().GetMembers()) != 12 {
		t.Errorf("got %v", e.Event)
	}
	if again := r.Gather(draftsOf(ServiceHealthy, 4, 3)); again[0].ID != e.GetId() {
		t.Errorf("the same has another id: %s, %s", again[0].ID, e.GetId())
	}
	if got := list[1]; got.GetType() != ServiceFailed || got.GetService() != "s0-edge-0" {
		t.Errorf("what a person has to look at is told alone: %v", got.Event)
	}
}

func TestAnEventOfManyNamesTheFirstTwenty(t *testing.T) {
	t.Parallel()
	for services, want := range map[int]int{6: 6, 20: 20, 21: 20, 300: 20} {
		rows := (&Recorder{}).Gather(draftsOf(ServiceApplied, services, 1))
		if bytes.Contains(rows[0].Event, []byte("s0-edge-0")) {
			t.Errorf("names are kept twice: %s", rows[0].Event)
		}
		list := told(t, rows)
		shown, _ := fitting(list[0], nil, nil, time.Unix(2e9, 0))
		all, _ := fitting(list[0], nil, func(store.Kind, string, string, string) bool { return true }, time.Unix(2e9, 0))
		if len(list) != 1 || int(shown.GetCount()) != services || len(shown.GetMembers()) != want || !proto.Equal(shown, all) {
			t.Errorf("of %d services there are %d events, of %d, of which %d are named, and %d to a person who may see them",
				services, len(list), shown.GetCount(), len(shown.GetMembers()), len(all.GetMembers()))
		}
		if len(list[0].GetMembers()) > 0 {
			t.Error("an event that all followers share was changed")
		}
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
		expr, err := query.Parse(question, Fields())
		if err != nil {
			t.Fatal(err)
		}
		got, _ := fitting(list[0], expr, nil, time.Unix(2e9, 0))
		if want == "" && got != nil || want != "" && (got == nil || !strings.Contains(got.GetMessage(), want)) {
			t.Errorf("%q: %v, want %q", question, got, want)
		}
		if one := want == "All 3 objects are healthy."; one &&
			(got.GetService() != "s1-edge-2" || got.GetDigest() != "d1" || got.GetCommit() != "0123456789abcdef" ||
				got.GetCount() != 3 || got.GetProject() != "shop") {
			t.Errorf("%q: %v", question, got)
		}
	}
	sees := func(_ store.Kind, name, _, cluster string) bool { return cluster == "edge-3" && name != "s0-edge-3" }
	if got, _ := fitting(list[0], nil, sees, time.Unix(2e9, 0)); got.GetCount() != 2 || len(got.GetMembers()) != 2 ||
		got.GetCluster() != "edge-3" {
		t.Errorf("to a person who may see two: %v", got)
	}
	if got, _ := fitting(list[0], nil, func(store.Kind, string, string, string) bool { return false },
		time.Unix(2e9, 0)); got != nil {
		t.Errorf("to a person who may see nothing: %v", got)
	}
}

func TestMembersThatCannotBeReadAreShownToNobodyWhoMayNotSeeAll(t *testing.T) {
	t.Parallel()
	list := told(t, (&Recorder{}).Gather(draftsOf(ServiceHealthy, 4, 3)))
	list[0].members = []byte("damaged")
	if got, _ := fitting(list[0], nil, func(store.Kind, string, string, string) bool { return true },
		time.Unix(2e9, 0)); got != nil {
		t.Errorf("got %v", got)
	}
}

// Beside this console one of before there were such events may run: it judges by the fields of the event alone, and
// shows one of a cluster to a person who sees the cluster.
func TestAnEventOfManyIsNoneOfItsClusterToAnEarlierConsole(t *testing.T) {
	t.Parallel()
	list := (&Recorder{}).Gather(draftsOf(ServiceHealthy, 1, 12))
	if len(list) != 1 {
		t.Fatalf("%d events", len(list))
	}
	earlier := list[0]
	earlier.Members, earlier.Cluster = nil, ""
	sees := func(kind store.Kind, _, _, _ string) bool { return kind == store.KindCluster }
	if got, _ := fitting(told(t, []store.Event{earlier})[0], nil, sees, time.Unix(2e9, 0)); got != nil {
		t.Errorf("shown to a person who sees only the cluster: %v", got)
	}
	now := told(t, list)[0]
	if now.GetCluster() != "edge-0" {
		t.Errorf("the cluster is lost: %v", now.Event)
	}
	for service, want := range map[string]bool{"s3-edge-0": true, "other": false} {
		sees := func(_ store.Kind, name, _, cluster string) bool { return name == service && cluster == "edge-0" }
		if got, _ := fitting(now, nil, sees, time.Unix(2e9, 0)); (got != nil) != want {
			t.Errorf("%s: %v", service, got)
		}
	}
}

// A person who sees one service does not learn how many others there are.
func TestTheIDOfOneServicesEventDoesNotTellOfOthers(t *testing.T) {
	t.Parallel()
	whole := told(t, (&Recorder{}).Gather(draftsOf(ServiceHealthy, 4, 3)))[0]
	ids := map[string]bool{}
	for _, one := range whole.Each(func(*consolev1.Event) bool { return true }) {
		if strings.HasPrefix(one.GetId(), whole.GetId()) || ids[one.GetId()] {
			t.Errorf("%s has the id %s in %s", one.GetService(), one.GetId(), whole.GetId())
		}
		ids[one.GetId()] = true
	}
	if len(ids) != 12 {
		t.Errorf("%d ids", len(ids))
	}
}

// A page that has to look at each service of each event ends after so many, and the next one goes on there.
func TestAPageLooksAtSoManyServices(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, url string) {
		l, s := openLog(t, url)
		r := &Recorder{}
		const services, groups = 1000, 2*maxLooked/1000 + 7
		for g := range groups {
			drafts := draftsOf(ServiceHealthy, 1, services)
			for i := range drafts {
				d := drafts[i].Draft.(draft)
				d.event.Time, d.parts = timestamppb.Now(), append(d.parts, fmt.Sprint(g))
				drafts[i].Draft = d
			}
			if err := s.AddEvents(t.Context(), r.Gather(drafts)...); err != nil {
				t.Fatal(err)
			}
		}
		pages, found := 0, 0
		for token := ""; ; {
			page, err := l.List(t.Context(), "service = s7-edge-0", maxPageSize, token)
			if err != nil {
				t.Fatal(err)
			}
			if pages++; len(page.Events) > maxLooked/services+1 {
				t.Errorf("a page of %d events", len(page.Events))
			}
			found += len(page.Events)
			if token = page.Next; token == "" {
				break
			}
		}
		if pages < 3 || found != groups {
			t.Errorf("%d of %d events on %d pages", found, groups, pages)
		}
	})
}

// An alert of a service is closed by the recovery of that service.
func TestARecoveryIsToldAlone(t *testing.T) {
	t.Parallel()
	r := &Recorder{Now: time.Now}
	var first, again []store.Event
	for i := range 2 * manyServices {
		var s state.Service
		s.Meta.Name, s.Spec.Cluster = fmt.Sprintf("s%d", i), "edge-1"
		healthy := state.Report{Phase: state.PhaseHealthy, Sequence: 2, ObjectsTotal: 3}
		first = append(first, r.ClusterSaid(s, nil, healthy)...)
		again = append(again, r.ClusterSaid(s, &state.Report{Phase: state.PhaseDegraded}, healthy)...)
	}
	if got := r.Gather(first); len(got) != 1 {
		t.Errorf("%d events of services that became healthy", len(got))
	}
	if got := r.Gather(again); len(got) != 2*manyServices {
		t.Errorf("%d events of services that recovered", len(got))
	}
}
