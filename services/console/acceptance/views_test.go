package acceptance

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/await"
	"fairlead.dev/platform/identity"
)

// push has a distributor hand on a push, and returns what the agent is told.
func (a api) push(t *testing.T, cluster string, push *deliveryv1.PushViewRequest) *deliveryv1.PushViewResponse {
	t.Helper()
	resp, err := a.status.RecordViews(t.Context(), &consolev1.RecordViewsRequest{
		Clusters: []*consolev1.ClusterPush{{Cluster: cluster, Push: push}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return resp.GetClusters()[0]
}

// podSection is one with pods that are not ready.
func podSection(pods ...string) *deliveryv1.ViewSection {
	s := &deliveryv1.ViewSection{
		Name: "pods", State: deliveryv1.SectionState_SECTION_STATE_WHOLE,
		Figures: map[string]int64{"total": 100, "not_ready": int64(len(pods))},
	}
	for _, name := range pods {
		s.Rows = append(s.Rows, &deliveryv1.ViewRow{
			Key: "shop/" + name, Kind: "Pod", Namespace: "shop", Name: name, Reason: "CrashLoopBackOff",
		})
	}
	return s
}

func whole(term, sequence uint64, sections ...*deliveryv1.ViewSection) *deliveryv1.PushViewRequest {
	return &deliveryv1.PushViewRequest{Term: term, Sequence: sequence, Sections: sections}
}

func (a api) view(t *testing.T, cluster string) *consolev1.ClusterView {
	t.Helper()
	resp, err := a.views.GetClusterView(t.Context(), &consolev1.GetClusterViewRequest{Cluster: cluster})
	if err != nil {
		t.Fatal(err)
	}
	return resp.GetView()
}

func (a api) podNames(t *testing.T, cluster string) (names []string) {
	t.Helper()
	for _, s := range a.view(t, cluster).GetSections() {
		if s.GetName() == "pods" {
			for _, r := range s.GetRows() {
				names = append(names, r.GetName())
			}
		}
	}
	slices.Sort(names)
	return names
}

// onBoth runs a test with both databases.
func onBoth(t *testing.T, test func(t *testing.T, db string)) {
	t.Helper()
	for name, db := range eitherDatabase(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, db)
		})
	}
}

func TestPushesAddUpToTheViewOfACluster(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, db string) {
		p := newPeople(t, db)
		d := p.service(t, identity.ServiceDistributor)
		if v := p.admin.view(t, "edge-1"); v.GetMissing() == "" || v.GetUpdateTime() != nil {
			t.Errorf("without a view: %v", v)
		}
		steps := []struct {
			push           *deliveryv1.PushViewRequest
			wanted         bool
			superseded     uint64
			pods           []string
			notReady, seen int64
		}{
			{push: &deliveryv1.PushViewRequest{Term: 5, Sequence: 1, Base: 9}, wanted: true}, // a change of nothing
			{push: whole(5, 2, podSection("a", "b")), pods: []string{"a", "b"}, notReady: 2},
			{push: &deliveryv1.PushViewRequest{Term: 5, Sequence: 3, Base: 2, Sections: []*deliveryv1.ViewSection{
				{
					Name: "pods", State: 1, Figures: map[string]int64{"not_ready": 3},
					Rows: podSection("c", "a").GetRows(), Removed: []string{"shop/b"},
				},
			}}, pods: []string{"a", "c"}, notReady: 3},
			// the push came before
			{push: &deliveryv1.PushViewRequest{Term: 5, Sequence: 3, Base: 2}, pods: []string{"a", "c"}, notReady: 3},
			// of a base that is not there
			{
				push: &deliveryv1.PushViewRequest{Term: 5, Sequence: 9, Base: 2}, wanted: true,
				pods: []string{"a", "c"}, notReady: 3,
			},
			{push: whole(4, 50), superseded: 5, pods: []string{"a", "c"}, notReady: 3}, // of an agent of before
			// An agent that begins and knows nothing of pods yet leaves what was known.
			{
				push: whole(6, 1, &deliveryv1.ViewSection{
					Name: "pods", State: deliveryv1.SectionState_SECTION_STATE_STALE, Reason: "no answer",
				}),
				pods: []string{"a", "c"}, notReady: 3,
			},
			{push: &deliveryv1.PushViewRequest{Term: 6, Sequence: 2, Base: 1, Sections: []*deliveryv1.ViewSection{
				{
					Name: "pods", State: 1, Figures: map[string]int64{"not_ready": 1}, Rows: podSection("d").GetRows(),
					AllRows: true,
				},
			}}, pods: []string{"d"}, notReady: 1},
			{push: whole(6, 3), pods: nil},
		}
		for i, step := range steps {
			answer := d.push(t, "edge-1", step.push)
			if answer.GetWholeWanted() != step.wanted || answer.GetSupersededBy() != step.superseded {
				t.Errorf("step %d: told %v", i, answer)
			}
			if got := p.admin.podNames(t, "edge-1"); !slices.Equal(got, step.pods) {
				t.Errorf("step %d: pods %v, want %v", i, got, step.pods)
			}
			if got := p.admin.view(t, "edge-1").GetFigures()["pods.not_ready"]; got != step.notReady {
				t.Errorf("step %d: %d are not ready, want %d", i, got, step.notReady)
			}
		}
		if answer := d.push(t, "gone", whole(1, 1, podSection("x"))); answer.GetWholeWanted() {
			t.Errorf("of a cluster that is gone: %v", answer)
		}
	})
}

// large is a section of about so many KiB.
func large(kib int, name string) *deliveryv1.ViewSection {
	s := podSection()
	for i := range 2 * kib {
		s.Rows = append(s.Rows, &deliveryv1.ViewRow{Key: fmt.Sprintf("%s-%0500d", name, i)})
	}
	return s
}

// A view that is too large is refused alone: the views of other clusters that came in the same call are kept.
func TestAViewThatIsTooLargeIsRefusedAlone(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, db string) {
		p := newPeople(t, db)
		d := p.service(t, identity.ServiceDistributor)
		p.admin.must(t, newCluster("edge-9"))
		d.push(t, "edge-1", whole(6, 3, podSection("a")))
		resp, err := d.status.RecordViews(t.Context(), &consolev1.RecordViewsRequest{Clusters: []*consolev1.ClusterPush{
			{Cluster: "edge-1", Push: whole(7, 1, large(70, "x"))},
			{Cluster: "edge-9", Push: whole(7, 1, podSection("b"))},
		}})
		if err != nil {
			t.Fatal(err)
		}
		if got := resp.GetClusters()[0].GetRefused(); !strings.Contains(got, "bytes in 1 sections") {
			t.Errorf("the agent of the large view is told %q", got)
		}
		if resp.GetClusters()[1].GetRefused() != "" || !slices.Equal(p.admin.podNames(t, "edge-9"), []string{"b"}) {
			t.Errorf("the other view was not kept: %v", resp.GetClusters()[1])
		}
		if got := p.admin.podNames(t, "edge-1"); !slices.Equal(got, []string{"a"}) {
			t.Errorf("the view of before has pods %v", got)
		}
		// People are told since when, and why; what is shown is of before.
		p.admin.must(t, newCluster("edge-8"))
		d.push(t, "edge-8", whole(1, 1, large(70, "x")))
		p.follows(t, "edge-1", "edge-8")
		const refused = "the hub has refused all pushes of the agent since "
		kept := p.admin.view(t, "edge-1").GetUpdateTime().AsTime()
		await.True(t, "the view says that pushes are refused", func() bool {
			return strings.HasPrefix(p.admin.view(t, "edge-1").GetUnfollowed(), refused) &&
				strings.HasPrefix(p.admin.view(t, "edge-8").GetMissing(), refused)
		})
		why := p.admin.view(t, "edge-1").GetUnfollowed()
		d.push(t, "edge-1", whole(7, 2, large(80, "x")))
		if v := p.admin.view(t, "edge-1"); v.GetUnfollowed() != why || !strings.Contains(why, "bytes in 1 sections") ||
			!v.GetUpdateTime().AsTime().Equal(kept) || v.GetFigures()["pods.total"] != 100 {
			t.Errorf("of a cluster whose pushes are refused: %v, and %q before", v, why)
		}
		// The row of the view of before is of then, and it is said why. A cluster whose first push was refused has
		// none.
		rows, err := p.admin.views.ListViewRows(t.Context(), &consolev1.ListViewRowsRequest{Section: "pods", Filter: "name != edge-9"})
		if err != nil {
			t.Fatal(err)
		}
		gaps := map[string]string{}
		for _, g := range rows.GetGaps() {
			gaps[g.GetCluster()] = g.GetReason()
		}
		if got := rows.GetRows(); len(got) != 1 || got[0].GetCluster() != "edge-1" || !got[0].GetUnfollowedTime().AsTime().Equal(kept) {
			t.Errorf("rows of views that are refused since: %v", got)
		}
		if gaps["edge-1"] != why || !strings.HasPrefix(gaps["edge-8"], refused) {
			t.Errorf("what is said of them: %v", gaps)
		}
		// A change that makes a view too large: the whole one may be smaller.
		d.push(t, "edge-1", whole(8, 1, large(40, "x")))
		change := large(40, "y")
		if answer := d.push(t, "edge-1", &deliveryv1.PushViewRequest{
			Term: 8, Sequence: 2, Base: 1, Sections: []*deliveryv1.ViewSection{change},
		}); !answer.GetWholeWanted() || answer.GetRefused() != "" {
			t.Errorf("of a change that is too large: %v", answer)
		}
		d.push(t, "edge-1", whole(8, 3, podSection("c")))
		d.push(t, "edge-8", whole(1, 2, podSection("d")))
		for name, want := range map[string]string{"edge-1": "c", "edge-8": "d"} {
			if got := p.admin.podNames(t, name); !slices.Equal(got, []string{want}) {
				t.Errorf("after the whole view: pods %v of %s", got, name)
			}
			if v := p.admin.view(t, name); v.GetUnfollowed() != "" || v.GetMissing() != "" {
				t.Errorf("the refusal is not over: %v", v)
			}
		}
	})
}

// What a distributor refused is said as what the console refuses, until the next push that is kept.
func TestPeopleSeeWhatADistributorRefuses(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, db string) {
		p := newPeople(t, db)
		d := p.service(t, identity.ServiceDistributor)
		d.push(t, "edge-1", whole(1, 1, podSection("a")))
		p.follows(t, "edge-1")
		const why = "a push of 200000 bytes: the most are 131072 bytes"
		resp, err := d.status.RecordViews(t.Context(), &consolev1.RecordViewsRequest{Clusters: []*consolev1.ClusterPush{{Cluster: "edge-1", Refused: why}}})
		if err != nil || resp.GetClusters()[0].GetRefused() != why {
			t.Fatal(resp, err)
		}
		await.True(t, "the view says why it is of before", func() bool { return strings.HasSuffix(p.admin.view(t, "edge-1").GetUnfollowed(), why) })
		if got := p.admin.podNames(t, "edge-1"); !slices.Equal(got, []string{"a"}) {
			t.Errorf("the view of before has pods %v", got)
		}
		d.push(t, "edge-1", whole(1, 3, podSection("b")))
		if v := p.admin.view(t, "edge-1"); v.GetUnfollowed() != "" {
			t.Errorf("after a push that was kept: %v", v)
		}
	})
}

// An agent that starts again and again, each time with others of its sections unread, makes no view that is refused:
// what stayed of before is withheld.
func TestRowsOfBeforeMakeNoViewTooLarge(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, db string) {
		p := newPeople(t, db)
		d := p.service(t, identity.ServiceDistributor)
		names := []string{"pods", "nodes", "warnings"}
		for start := range uint64(3) {
			var sections []*deliveryv1.ViewSection
			for n, name := range names {
				s := large(25, "x")
				if s.Name = name; n != int(start) {
					s = &deliveryv1.ViewSection{Name: name, State: deliveryv1.SectionState_SECTION_STATE_READING}
				}
				sections = append(sections, s)
			}
			if answer := d.push(t, "edge-1", whole(start+1, 1, sections...)); answer.GetRefused() != "" {
				t.Errorf("start %d: refused: %s", start, answer.GetRefused())
			}
		}
		for _, s := range p.admin.view(t, "edge-1").GetSections() {
			if n := int64(len(s.GetRows())) + s.GetWithheld(); n != 50 || s.GetFigures()["total"] != 100 {
				t.Errorf("section %s has %d rows and figures %v", s.GetName(), n, s.GetFigures())
			}
		}
	})
}

// Random pushes, some lost, some twice, some late, of several processes of an agent: the console has what the agent had
// when it was acknowledged last.
func TestRandomPushesConverge(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, db string) {
		seed := uint64(time.Now().UnixNano())
		t.Logf("seed %d", seed)
		random := rand.New(rand.NewPCG(seed, 0)) // a history can be run again
		p := newPeople(t, db)
		d := p.service(t, identity.ServiceDistributor)
		term, sequence, base := uint64(1), uint64(0), uint64(0)
		now, acked := map[string]bool{}, map[string]bool{}
		var sent []*deliveryv1.PushViewRequest
		for range 150 {
			for range random.IntN(4) {
				name := fmt.Sprint("pod-", random.IntN(20))
				now[name] = !now[name]
				if !now[name] {
					delete(now, name)
				}
			}
			if random.IntN(20) == 0 { // another process
				term, sequence, base = term+uint64(random.IntN(3)), 0, 0
			}
			sequence++
			push := &deliveryv1.PushViewRequest{Term: term, Sequence: sequence, Base: base}
			change := podSection(slices.Sorted(maps.Keys(now))...)
			if base != 0 {
				change.Rows = slices.DeleteFunc(change.GetRows(),
					func(r *deliveryv1.ViewRow) bool { return acked[r.GetName()] })
				for name := range acked {
					if !now[name] {
						change.Removed = append(change.Removed, "shop/"+name)
					}
				}
			}
			push.Sections = []*deliveryv1.ViewSection{change}
			if random.IntN(6) == 0 {
				continue // lost on the way
			}
			if len(sent) > 0 && random.IntN(6) == 0 {
				d.push(t, "edge-1", sent[random.IntN(len(sent))]) // a late one
			}
			answer := d.push(t, "edge-1", push)
			sent = append(sent, proto.CloneOf(push))
			switch {
			case answer.GetSupersededBy() != 0:
				term, sequence, base = answer.GetSupersededBy()+1, 0, 0
			case answer.GetWholeWanted():
				base = 0
			case random.IntN(6) == 0: // the answer is lost
			default:
				base, acked = sequence, maps.Clone(now)
			}
		}
		term++
		d.push(t, "edge-1", whole(term, 1, podSection(slices.Sorted(maps.Keys(now))...)))
		if got, want := p.admin.podNames(t, "edge-1"), slices.Sorted(maps.Keys(now)); !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

// A console that dies takes no view with it, and what one has taken in the others show.
func TestViewsOutliveTheConsoleThatTookThemIn(t *testing.T) {
	t.Parallel()
	h := newHub(t, postgres.Database(t))
	first := h.start(t)
	first.admin(t).must(t, newCluster("edge-1"))
	second := h.start(t)
	first.service(t, identity.ServiceDistributor).push(t, "edge-1", whole(1, 1, podSection("a")))
	await.True(t, "the other console shows it", func() bool { return len(second.admin(t).podNames(t, "edge-1")) == 1 })
	first.stop()
	change := &deliveryv1.PushViewRequest{
		Term: 1, Sequence: 2, Base: 1,
		Sections: []*deliveryv1.ViewSection{{Name: "pods", State: 1, Rows: podSection("b").GetRows()}},
	}
	if answer := second.service(t, identity.ServiceDistributor).push(t, "edge-1", change); answer.GetWholeWanted() {
		t.Error("the other console lacks the base")
	}
	if got := second.admin(t).podNames(t, "edge-1"); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("got %v", got)
	}
}

// Of a view that was lost the agent is asked for the whole.
func TestALostViewIsWanted(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, db string) {
		p := newPeople(t, db)
		d := p.service(t, identity.ServiceDistributor)
		p.admin.view(t, "edge-1") // the console knows its clusters, and has read the views
		d.push(t, "edge-1", whole(3, 7, podSection("a")))
		seen := func(term, sequence uint64) []string {
			t.Helper()
			resp, err := d.status.RecordSeen(t.Context(), &consolev1.RecordSeenRequest{
				Clusters: []*consolev1.ClusterSeen{{
					Cluster: "edge-1", Time: timestamppb.Now(),
					View: &deliveryv1.ViewState{Term: term, Sequence: sequence},
				}},
			})
			if err != nil {
				t.Fatal(err)
			}
			return resp.GetViewsWanted()
		}
		for _, has := range [][2]uint64{{3, 7}, {3, 6}, {2, 99}} {
			if got := seen(has[0], has[1]); len(got) > 0 {
				t.Errorf("%v is wanted again: %v", has, got)
			}
		}
		for _, lost := range [][2]uint64{{3, 8}, {4, 1}} {
			if got := seen(lost[0], lost[1]); !slices.Equal(got, []string{"edge-1"}) {
				t.Errorf("%v is lost and not wanted: %v", lost, got)
			}
		}
	})
}

func TestViewsAreForThoseWhoMaySeeTheCluster(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, db string) {
		p := newPeople(t, db)
		d := p.service(t, identity.ServiceDistributor)
		p.admin.putSource(t, "shop", "https://git.example.com/shop")
		p.admin.putService(t, "web", "edge-1")
		p.admin.putService(t, "elsewhere", "edge-2")
		services := &deliveryv1.ViewSection{
			Name: "services", State: 1, Figures: map[string]int64{"total": 2}, Rows: []*deliveryv1.ViewRow{
				{Key: "web", Name: "web", Service: "web", Figures: map[string]int64{"pods": 3}},
				// of another cluster: a lie
				{Key: "elsewhere", Name: "elsewhere", Service: "elsewhere", Figures: map[string]int64{"pods": 3}},
			},
		}
		for _, cluster := range []string{"edge-1", "edge-2"} {
			d.push(t, cluster, whole(1, 1, podSection("secret-"+cluster), services))
		}
		list := func(a api) *consolev1.ListClusterViewsResponse {
			t.Helper()
			resp, err := a.views.ListClusterViews(t.Context(), &consolev1.ListClusterViewsRequest{
				Filter: "pods.not_ready > 0", OrderBy: "pods.total desc",
			})
			if err != nil {
				t.Fatal(err)
			}
			return resp
		}
		rows := func(a api, section string) *consolev1.ListViewRowsResponse {
			t.Helper()
			resp, err := a.views.ListViewRows(t.Context(), &consolev1.ListViewRowsRequest{Section: section})
			if err != nil {
				t.Fatal(err)
			}
			return resp
		}
		if got := list(p.admin); got.GetTotalSize() != 2 || got.GetSums()[0].GetFigures()["pods.total"] != 200 {
			t.Errorf("an administrator sees %v", got)
		}
		if got := list(p.bob); got.GetTotalSize() != 1 || got.GetViews()[0].GetCluster() != "edge-1" ||
			got.GetSums()[0].GetFigures()["pods.total"] != 100 || got.GetSums()[0].GetClusters() != 1 {
			t.Errorf("a viewer of edge-1 sees %v", got)
		}
		if got := rows(p.bob, "pods"); got.GetTotalSize() != 1 ||
			got.GetRows()[0].GetRow().GetName() != "secret-edge-1" {
			t.Errorf("a viewer of edge-1 sees %v", got)
		}
		if got := rows(p.admin, "services"); got.GetTotalSize() != 2 || got.GetRows()[0].GetRow().GetName() != "web" ||
			got.GetRows()[1].GetRow().GetName() != "elsewhere" {
			t.Errorf("services that are not of the cluster are shown: %v", got)
		}
		if got := list(p.eve); got.GetTotalSize() != 0 || len(got.GetSums()) > 0 {
			t.Errorf("somebody without a grant sees %v", got)
		}
		if got := rows(p.eve, "pods"); got.GetTotalSize() != 0 || len(got.GetGaps()) > 0 {
			t.Errorf("somebody without a grant sees %v", got)
		}
		_, err := p.eve.views.GetClusterView(t.Context(), &consolev1.GetClusterViewRequest{Cluster: "edge-1"})
		wantCode(t, err, connect.CodeNotFound, "that you may see")
		// A person who may look at a project's services may see the cluster, and not read its Kubernetes API.
		team := grantFor("team", "viewer", "eve")
		team.Spec.Projects = []string{"team"}
		p.admin.must(t, &consolev1.Project{Metadata: meta("team"), Spec: &consolev1.ProjectSpec{}}, team)
		await.True(t, "the grant counts", func() bool { return list(p.eve).GetTotalSize() == 1 })
		if got := p.eve.view(t, "edge-1"); !got.GetRowsHidden() || got.GetFigures()["pods.not_ready"] != 1 ||
			len(p.eve.podNames(t, "edge-1")) > 0 {
			t.Errorf("with a grant for a project: %v", got)
		}
		if got := rows(p.eve, "pods"); got.GetTotalSize() != 0 || len(got.GetGaps()) != 1 ||
			got.GetGaps()[0].GetWithheld() != 1 {
			t.Errorf("with a grant for a project: %v", got)
		}
	})
}

// A person who may not read a cluster's Kubernetes API sees the rows of the services that they may view, and of nothing
// else.
func TestRowsOfOwnServicesAreSeen(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, db string) {
		p := newPeople(t, db)
		p.admin.putSource(t, "shop", "https://git.example.com/shop")
		p.admin.putProject(t, "team")
		team := grantFor("team", "viewer", "eve")
		team.Spec.Projects = []string{"team"}
		p.admin.must(t, serviceOf("hers", "edge-1", "team"), serviceOf("hers-elsewhere", "edge-2", "team"),
			newService("web", "shop", "edge-1"), team)
		services := &deliveryv1.ViewSection{Name: "services", State: 1, Figures: map[string]int64{"total": 3}}
		for _, name := range []string{"hers", "hers-elsewhere", "web"} {
			services.Rows = append(services.Rows, &deliveryv1.ViewRow{
				Key: name, Name: name, Service: name,
				Figures: map[string]int64{"pods": 3},
			})
		}
		p.service(t, identity.ServiceDistributor).push(t, "edge-1", whole(1, 1, podSection("secret"), services))
		shown := func(a api) (listed, viewed string) {
			t.Helper()
			rows, err := a.views.ListViewRows(t.Context(), &consolev1.ListViewRowsRequest{Section: "services"})
			if err != nil {
				t.Fatal(err)
			}
			view, err := a.views.GetClusterView(t.Context(), &consolev1.GetClusterViewRequest{Cluster: "edge-1"})
			if err != nil {
				return "", err.Error()
			}
			for _, row := range rows.GetRows() {
				listed += row.GetRow().GetName() + " "
			}
			for _, section := range view.GetView().GetSections() {
				for _, row := range section.GetRows() {
					viewed += section.GetName() + "/" + row.GetName() + " "
				}
			}
			return listed, viewed
		}
		await.True(t, "the grant counts", func() bool { listed, _ := shown(p.eve); return listed != "" })
		if listed, viewed := shown(p.eve); listed != "hers " || viewed != "services/hers " {
			t.Errorf("with a grant for a project she sees %q, in the view %q", listed, viewed)
		}
		if listed, viewed := shown(p.bob); listed != "hers web " ||
			!strings.Contains(viewed, "services/hers services/web ") || !strings.Contains(viewed, "pods/secret") {
			t.Errorf("a viewer of the cluster sees %q, in the view %q", listed, viewed)
		}
	})
}

func TestViewsAreListedByFigures(t *testing.T) {
	t.Parallel()
	r := newHub(t, "").start(t)
	admin, d := r.admin(t), r.service(t, identity.ServiceDistributor)
	for i := range 5 {
		c := newCluster(fmt.Sprint("edge-", i))
		c.Metadata.Labels = map[string]string{"env": []string{"prod", "test"}[i%2]}
		admin.must(t, c)
		if i < 4 {
			d.push(t, c.GetMetadata().GetName(), whole(1, 1, podSection(make([]string, i)...)))
		}
	}
	var names []string
	req := &consolev1.ListClusterViewsRequest{
		PageSize: 2, OrderBy: "pods.not_ready desc, name desc", GroupBy: []string{"env"},
	}
	for {
		page, err := admin.views.ListClusterViews(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range page.GetViews() {
			names = append(names, v.GetCluster())
		}
		if s := page.GetSums(); len(s) != 2 || s[0].GetValues()[0] != "prod" || s[0].GetClusters() != 3 ||
			s[0].GetViewed() != 2 || s[0].GetFigures()["pods.not_ready"] != 2 ||
			s[1].GetFigures()["pods.not_ready"] != 4 {
			t.Errorf("sums %v", s)
		}
		if req.PageToken = page.GetNextPageToken(); req.GetPageToken() == "" {
			break
		}
	}
	if want := []string{"edge-3", "edge-2", "edge-1", "edge-0", "edge-4"}; !slices.Equal(names, want) {
		t.Errorf("got %v, want %v", names, want)
	}
	for filter, want := range map[string]int32{
		"labels.env = prod AND pods.not_ready >= 2": 1, "pods.not_ready = 0": 1, "pods.not_ready != 0": 4,
		"name = edge-4": 1,
	} {
		page, err := admin.views.ListClusterViews(t.Context(), &consolev1.ListClusterViewsRequest{Filter: filter})
		if err != nil || page.GetTotalSize() != want {
			t.Errorf("%s: %v, %v", filter, page, err)
		}
	}
	_, err := admin.views.ListClusterViews(t.Context(), &consolev1.ListClusterViewsRequest{Filter: "pods.nonsense > 1"})
	wantCode(t, err, connect.CodeInvalidArgument, "pods.not_ready")
}

// An agent that may not list nodes does not know what they can give: its requests are no part of a share.
func TestSumsCompareWhatTheSameClustersKnow(t *testing.T) {
	t.Parallel()
	r := newHub(t, "").start(t)
	admin, d := r.admin(t), r.service(t, identity.ServiceDistributor)
	section := func(name string, figures map[string]int64) *deliveryv1.ViewSection {
		return &deliveryv1.ViewSection{Name: name, State: deliveryv1.SectionState_SECTION_STATE_WHOLE, Figures: figures}
	}
	requests := section("requests", map[string]int64{"cpu": 3000, "memory": 300})
	nodes := section("nodes", map[string]int64{"cpu_allocatable": 4000, "memory_allocatable": 400})
	for name, sections := range map[string][]*deliveryv1.ViewSection{
		"all": {requests, nodes}, "least": {requests}, "no-pods": {nodes},
		"liar": {section("shares", map[string]int64{"cpu_requested": 7, "other": 7})},
	} {
		admin.must(t, newCluster(name))
		d.push(t, name, whole(1, 1, sections...))
	}
	page, err := admin.views.ListClusterViews(t.Context(), &consolev1.ListClusterViewsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]int64{
		"requests.cpu": 6000, "requests.memory": 600, "nodes.cpu_allocatable": 8000, "nodes.memory_allocatable": 800,
		"shares.cpu_requested": 3000, "shares.cpu_allocatable": 4000, "shares.memory_requested": 300,
		"shares.memory_allocatable": 400,
	}
	if got := page.GetSums()[0].GetFigures(); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// An agent that was rolled back to a version without views is connected, and nothing says that its last view is of now.
func TestAViewThatIsPushedNoMoreIsNotOfNow(t *testing.T) {
	t.Parallel()
	p := newPeople(t, "")
	d := p.service(t, identity.ServiceDistributor)
	seen := func(version string, can ...deliveryv1.AgentCapability) {
		t.Helper()
		_, err := d.status.RecordSeen(t.Context(), &consolev1.RecordSeenRequest{Clusters: []*consolev1.ClusterSeen{{
			Cluster: "edge-1", Time: timestamppb.Now(),
			Agent: &deliveryv1.AgentInfo{Version: version, Capabilities: can},
		}}})
		if err != nil {
			t.Fatal(err)
		}
	}
	unfollowed := func() (why string, away int32) {
		page, err := p.admin.views.ListClusterViews(t.Context(), &consolev1.ListClusterViewsRequest{
			Filter: "name = edge-1",
		})
		if err != nil {
			t.Fatal(err)
		}
		return page.GetViews()[0].GetUnfollowed(), page.GetSums()[0].GetAway()
	}
	seen("v2", deliveryv1.AgentCapability_AGENT_CAPABILITY_VIEWS)
	d.push(t, "edge-1", whole(1, 1, podSection("a")))
	await.True(t, "the cluster is followed", func() bool {
		why, away := unfollowed()
		return why == "" && away == 0 && p.admin.view(t, "edge-1").GetConnected()
	})
	seen("v1")
	await.True(t, "the list says that no views are pushed", func() bool {
		why, away := unfollowed()
		return strings.Contains(why, "the agent (v1) pushes no views") && away == 1
	})
	v := p.admin.view(t, "edge-1")
	if v.GetMissing() != "" || !strings.Contains(v.GetUnfollowed(), "update it") ||
		v.GetFigures()["pods.total"] != 100 {
		t.Errorf("the last view: %v", v)
	}
}

// Figures of a sample are estimates, and lists say so.
func TestFiguresOfASampleSaySo(t *testing.T) {
	t.Parallel()
	r := newHub(t, "").start(t)
	admin, d := r.admin(t), r.service(t, identity.ServiceDistributor)
	for name, sample := range map[string]uint32{"large": 4, "small": 1} {
		admin.must(t, newCluster(name))
		pods := podSection("a")
		pods.Sample = sample
		pods.Figures["sampled"] = 0 // the hub says it, not the agent
		d.push(t, name, whole(1, 1, pods))
	}
	page, err := admin.views.ListClusterViews(t.Context(), &consolev1.ListClusterViewsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range page.GetViews() {
		if n, ok := v.GetFigures()["pods.sampled"]; ok != (v.GetCluster() == "large") || ok && n != 1 {
			t.Errorf("%s: pods.sampled %d, %v", v.GetCluster(), n, ok)
		}
	}
	if n := page.GetSums()[0].GetFigures()["pods.sampled"]; n != 1 {
		t.Errorf("%d of the clusters of a sum are samples, want 1", n)
	}
	page, err = admin.views.ListClusterViews(t.Context(), &consolev1.ListClusterViewsRequest{
		Filter: "pods.sampled = 1",
	})
	if err != nil || page.GetTotalSize() != 1 {
		t.Errorf("filtered: %v, %v", page, err)
	}
}

func TestViewsAreWatched(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, db string) {
		p := newPeople(t, db)
		d := p.service(t, identity.ServiceDistributor)
		d.push(t, "edge-1", whole(1, 1, podSection("a")))
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		stream, err := p.bob.views.WatchClusterViews(ctx, &consolev1.WatchClusterViewsRequest{
			Filter: "pods.not_ready > 0",
		})
		if err != nil {
			t.Fatal(err)
		}
		defer stream.Close()
		next := func(fits func(*consolev1.WatchClusterViewsResponse) bool) {
			t.Helper()
			for stream.Receive() {
				for _, v := range stream.Msg().GetViews() {
					if v.GetCluster() != "edge-1" {
						t.Errorf("a cluster that the caller may not see is told: %v", v)
					}
				}
				if fits(stream.Msg()) {
					return
				}
			}
			t.Fatal(stream.Err())
		}
		is := func(notReady int64) func(*consolev1.WatchClusterViewsResponse) bool {
			return func(m *consolev1.WatchClusterViewsResponse) bool {
				return len(m.GetViews()) == 1 && m.GetViews()[0].GetFigures()["pods.not_ready"] == notReady
			}
		}
		next(is(1))
		d.push(t, "edge-2", whole(1, 1, podSection("a")))
		d.push(t, "edge-1", whole(1, 2, podSection("a", "b")))
		next(is(2))
		d.push(t, "edge-1", whole(1, 3, podSection()))
		next(func(m *consolev1.WatchClusterViewsResponse) bool {
			return slices.Equal(m.GetRemoved(), []string{"edge-1"})
		})
	})
}

// An agent chooses the names of its figures: they take nothing away from the filters of others.
func TestFiguresOfAnAgentHideNoLabels(t *testing.T) {
	t.Parallel()
	r := newHub(t, "").start(t)
	admin, d := r.admin(t), r.service(t, identity.ServiceDistributor)
	c := newCluster("edge-1")
	c.Metadata.Labels = map[string]string{"env": "prod"}
	admin.must(t, c, newCluster("edge-2"))
	d.push(t, "edge-2", whole(1, 1, &deliveryv1.ViewSection{
		Name: "labels", State: 1, Figures: map[string]int64{"env": 1},
	}))
	page, err := admin.views.ListClusterViews(t.Context(), &consolev1.ListClusterViewsRequest{
		Filter: "labels.env = prod", OrderBy: "labels.env",
	})
	if err != nil || page.GetTotalSize() != 1 || page.GetViews()[0].GetCluster() != "edge-1" {
		t.Errorf("got %v, %v", page, err)
	}
}

// A filter can name the figures of the views that its caller sees, and its errors name those that all agents have.
func TestFiguresAreKnownToThoseWhoSeeTheirView(t *testing.T) {
	t.Parallel()
	p := newPeople(t, "")
	p.service(t, identity.ServiceDistributor).push(t, "edge-1",
		whole(1, 1, &deliveryv1.ViewSection{Name: "codename", State: 1, Figures: map[string]int64{"falcon": 3}}))
	list := func(a api, filter, order string) (int32, error) {
		page, err := a.views.ListClusterViews(t.Context(), &consolev1.ListClusterViewsRequest{
			Filter: filter, OrderBy: order,
		})
		return page.GetTotalSize(), err
	}
	if n, err := list(p.bob, "codename.falcon = 3", "codename.falcon desc"); err != nil || n != 1 {
		t.Errorf("a viewer of the cluster: %d, %v", n, err)
	}
	for name, question := range map[string][2]string{
		"filter of a typo": {"pods.nonsense > 1", ""}, "order of a typo": {"", "pods.nonsense"},
		"filter of the name": {"codename.falcon > 1", ""}, "order of the name": {"", "codename.falcon"},
	} {
		_, err := list(p.eve, question[0], question[1])
		wantCode(t, err, connect.CodeInvalidArgument, "pods.not_ready")
		if _, known, _ := strings.Cut(err.Error(), "there are "); strings.Contains(known, "falcon") {
			t.Errorf("%s: a stranger is told %v", name, err)
		}
	}
	_, err := p.eve.views.ListViewRows(t.Context(), &consolev1.ListViewRowsRequest{
		Section: "pods", Filter: "codename.falcon > 1",
	})
	wantCode(t, err, connect.CodeInvalidArgument, "there is no field")
}

// The stream of a page carries views: a push is told, and so is that a cluster went. Of a cluster that the caller does
// not see nothing is told.
func TestQueriesFollowViews(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, db string) {
		p := newPeople(t, db)
		d := p.service(t, identity.ServiceDistributor)
		d.push(t, "edge-1", whole(1, 1, podSection("a")))
		d.push(t, "edge-2", whole(1, 1, podSection("b", "c")))
		of := func(name, cluster string) *consolev1.Query {
			return &consolev1.Query{
				Name: name, Query: &consolev1.Query_View{View: &consolev1.GetClusterViewRequest{Cluster: cluster}},
			}
		}
		all := &consolev1.Query{
			Name: "all",
			Query: &consolev1.Query_Views{
				Views: &consolev1.ListClusterViewsRequest{OrderBy: "pods.not_ready desc", PageSize: 1},
			},
		}
		wrong := &consolev1.Query{
			Name:  "wrong",
			Query: &consolev1.Query_Views{Views: &consolev1.ListClusterViewsRequest{Filter: "pods.nope > 1"}},
		}
		admin := p.query(t, p.adminToken(t), of("one", "edge-1"), all, wrong)
		rows := func(q *queried) (names []string) {
			for _, s := range q.view.GetSections() {
				for _, r := range s.GetRows() {
					names = append(names, r.GetName())
				}
			}
			return names
		}
		admin.until("the view", func() bool { return slices.Equal(rows(admin), []string{"a"}) })
		admin.until("the sums", func() bool { return notReadyIn(admin.views) == 3 })
		admin.until("a problem",
			func() bool { return strings.Contains(admin.problems["wrong"], `there is no field "pods.nope"`) })
		if views := admin.views.GetViews(); len(views) != 1 || views[0].GetCluster() != "edge-2" {
			t.Errorf("the worst cluster: %v", views)
		}
		d.push(t, "edge-1", whole(1, 2, podSection("a", "b", "c")))
		admin.until("the pushed view", func() bool { return len(rows(admin)) == 3 })
		admin.until("the worst cluster", func() bool {
			return admin.views.GetViews()[0].GetCluster() == "edge-1" && notReadyIn(admin.views) == 5
		})

		bob := p.query(t, p.sign(t, identity.Identity{Kind: identity.KindUser, Name: "bob"}), of("hidden", "edge-2"),
			of("seen", "edge-1"), all)
		bob.until("a problem", func() bool {
			return strings.Contains(bob.problems["hidden"], `not_found: there is no cluster "edge-2"`)
		})
		bob.until("the view that he may see", func() bool { return len(rows(bob)) == 3 })
		bob.until("sums of it alone",
			func() bool { return notReadyIn(bob.views) == 3 && bob.views.GetTotalSize() == 1 })
		other := p.query(t, p.adminToken(t), of("other", "edge-2"))
		other.until("its view", func() bool { return len(rows(other)) == 2 })
		if _, err := p.admin.clusters.DeleteCluster(t.Context(), &consolev1.DeleteClusterRequest{
			Name: "edge-2",
		}); err != nil {
			t.Fatal(err)
		}
		other.until("that the cluster is gone",
			func() bool { return strings.Contains(other.problems["other"], "not_found") })
		admin.until("sums without it", func() bool { return notReadyIn(admin.views) == 3 })
	})
}

// notReadyIn adds up the pods that are not ready.
func notReadyIn(list *consolev1.ListClusterViewsResponse) (sum int64) {
	for _, s := range list.GetSums() {
		sum += s.GetFigures()["pods.not_ready"]
	}
	return sum
}
