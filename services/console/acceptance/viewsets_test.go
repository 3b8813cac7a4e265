package acceptance

import (
	"fmt"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/identity"
)

func newViewSet(name string, clusters *consolev1.ClusterSelector) *consolev1.ViewSet {
	return &consolev1.ViewSet{Metadata: meta(name), Spec: &consolev1.ViewSetSpec{
		Clusters: clusters, Of: &deliveryv1.ViewSetOf{Group: "cert-manager.io", Kind: "Certificate"},
		Counts:     []*deliveryv1.ViewCount{{Name: "issuer", Path: ".spec.issuerRef.name"}},
		Conditions: []string{"Ready"},
		Columns:    []*deliveryv1.ViewColumn{{Name: "expires", Path: ".status.notAfter", Type: "date"}},
		Rows:       &deliveryv1.ViewSetRows{Most: proto.Int32(50), NotTrue: []string{"Ready"}},
	}}
}

// setSection is what an agent says of a set.
func setSection(name string, state deliveryv1.SectionState, reason string, figures map[string]int64,
	rows ...*deliveryv1.ViewRow,
) *deliveryv1.ViewSection {
	return &deliveryv1.ViewSection{Name: "set-" + name, State: state, Reason: reason, Figures: figures, Rows: rows}
}

func TestASetSaysHowFarViewsHaveIt(t *testing.T) {
	t.Parallel()
	r := newHub(t, "").start(t)
	admin := r.admin(t)
	set := newViewSet("certificates", labelled("site", "edge"))
	admin.must(t, newCluster("edge-1", "site", "edge"), newCluster("edge-2", "site", "edge"),
		newCluster("edge-3", "site", "edge"), newCluster("edge-4", "site", "edge"), newCluster("core-1"), set)
	for _, name := range []string{"edge-1", "edge-2"} {
		r.configured(t, name, nil, deliveryv1.AgentCapability_AGENT_CAPABILITY_VIEWS,
			deliveryv1.AgentCapability_AGENT_CAPABILITY_VIEW_SETS)
	}
	r.configured(t, "edge-3", nil, deliveryv1.AgentCapability_AGENT_CAPABILITY_VIEWS)
	d := r.service(t, identity.ServiceDistributor)
	const isWhole, isDenied = deliveryv1.SectionState_SECTION_STATE_WHOLE, deliveryv1.SectionState_SECTION_STATE_DENIED
	d.push(t, "edge-1", whole(1, 1, setSection("certificates", isWhole, "",
		map[string]int64{"total": 3, "Ready.false": 1, "issuer.letsencrypt-prod": 2},
		&deliveryv1.ViewRow{
			Key: "shop/web", Kind: "Certificate", Namespace: "shop", Name: "web",
			Cells: []string{"2027-01-01T00:00:00Z"},
		})))
	d.push(t, "edge-2", whole(1, 1, setSection("certificates", isDenied, "may not list", nil)))
	d.push(t, "edge-3", whole(1, 1, podSection()))
	got, err := admin.viewSets.GetViewSet(t.Context(), &consolev1.GetViewSetRequest{Name: "certificates"})
	if err != nil {
		t.Fatal(err)
	}
	if !proto.Equal(got.GetViewSet().GetSpec(), set.GetSpec()) {
		t.Errorf("got %v", got.GetViewSet().GetSpec())
	}
	is := got.GetViewSet().GetStatus()
	var troubles []string
	for _, one := range is.GetTroubles() {
		troubles = append(troubles, one.GetCluster()+": "+one.GetReason())
	}
	const want = "edge-2: may not list; edge-3: the agent (v1.0.0) keeps no ViewSets: update it, or let it (viewSets of its chart); " +
		"edge-4: no agent was heard of: `fairlead cluster join` brings one into the cluster"
	if is.GetClusters() != 4 || is.GetWhole() != 1 || is.GetTroublesTotal() != 3 ||
		strings.Join(troubles, "; ") != want {
		t.Errorf("got %v", is)
	}
	// The cluster has no such kind: nothing is wrong, and it is said.
	d.push(t, "edge-2", whole(1, 2, setSection("certificates", isWhole,
		"the cluster has no Certificate of cert-manager.io", nil)))
	// Figures are for filters, rows for readers of the cluster's Kubernetes API.
	views, err := admin.views.ListClusterViews(t.Context(), &consolev1.ListClusterViewsRequest{
		Filter: "set-certificates.Ready.false > 0 AND set-certificates.issuer.letsencrypt-prod = 2",
	})
	if err != nil || len(views.GetViews()) != 1 || views.GetViews()[0].GetCluster() != "edge-1" {
		t.Errorf("got %v, %v", views, err)
	}
	rows := func(a api) string {
		resp, err := a.views.ListViewRows(t.Context(), &consolev1.ListViewRowsRequest{Section: "set-certificates"})
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, row := range resp.GetRows() {
			out = append(out, row.GetCluster()+" "+row.GetRow().GetName()+" "+
				strings.Join(row.GetRow().GetCells(), ","))
		}
		for _, gap := range resp.GetGaps() {
			out = append(out, gap.GetCluster()+": "+gap.GetReason())
		}
		return strings.Join(out, "; ")
	}
	// What is missing is said of the clusters that the set chooses: core-1 is none of them, and has no agent.
	const shown = "edge-1 web 2027-01-01T00:00:00Z; edge-2: the cluster has no Certificate of cert-manager.io; " +
		"edge-3: the agent (v1.0.0) keeps no ViewSets: update it, or let it (viewSets of its chart); " +
		"edge-4: no agent was heard of: `fairlead cluster join` brings one into the cluster"
	if got := rows(admin); got != shown {
		t.Errorf("got %s", got)
	}
	// Alerts ask for its figures, too.
	admin.must(t, newAlert("certificates", "set-certificates.Ready.false > 0"))
	// A person who may look at a project's services may see the cluster, and not read its Kubernetes API.
	team := grantFor("team", "viewer", "vera")
	team.Spec.Projects, team.Spec.Clusters = []string{"team"}, &consolev1.GrantClusters{Names: []string{"edge-1"}}
	admin.must(t, &consolev1.Project{Metadata: meta("team"), Spec: &consolev1.ProjectSpec{}}, team)
	if got := rows(r.user(t, "vera")); got != "edge-1: you may not read the Kubernetes API of the cluster" {
		t.Errorf("a viewer of a project is shown %q", got)
	}
}

func TestAWriteSaysWhoseViewsHaveASet(t *testing.T) {
	t.Parallel()
	r := newHub(t, "").start(t)
	admin := r.admin(t)
	admin.must(t, newCluster("edge-1", "site", "edge"), newCluster("edge-2", "site", "edge"),
		newCluster("core-1", "site", "core"))
	note := func(m proto.Message) string {
		t.Helper()
		got, err := admin.apply(t, &consolev1.ApplyRequest{Resources: anyOf(m)})
		if err != nil {
			t.Fatal(err)
		}
		return got[0].GetNote()
	}
	set := newViewSet("certificates", labelled("site", "edge"))
	other := newViewSet("certificates", &consolev1.ClusterSelector{Names: []string{"edge-2", "core-1"}})
	other.Spec.Conditions = nil
	for _, tc := range []struct {
		set  *consolev1.ViewSet
		want string
	}{
		{set, "adds to the views of 2 clusters: edge-1, edge-2"},
		{other, "adds to the views of 1 cluster: core-1; changes the views of 1 cluster: edge-2; takes from the views of 1 cluster: edge-1"},
		{newViewSet("nowhere", labelled("site", "moon")), "changes the view of no cluster"},
	} {
		if got := note(tc.set); got != tc.want {
			t.Errorf("got %q, want %q", got, tc.want)
		}
	}
}

func TestMoreSetsThanAViewTakesAreRefused(t *testing.T) {
	t.Parallel()
	admin := newHub(t, "").start(t).admin(t)
	admin.must(t, newCluster("edge-1", "site", "edge"), newCluster("core-1", "site", "core"))
	for i := range 7 {
		admin.must(t, newViewSet(fmt.Sprintf("set-%d", i), &consolev1.ClusterSelector{All: true}))
	}
	admin.must(t, newViewSet("eighth", labelled("site", "edge")), newViewSet("core", labelled("site", "core")))
	refused := func(m proto.Message) {
		t.Helper()
		_, err := admin.apply(t, &consolev1.ApplyRequest{Resources: anyOf(m)})
		if connect.CodeOf(err) != connect.CodeFailedPrecondition ||
			!strings.Contains(err.Error(), `cluster "edge-1" has 9 ViewSets`) ||
			!strings.Contains(err.Error(), "set-0, set-1") || !strings.Contains(err.Error(), "eighth") {
			t.Errorf("got %v", err)
		}
	}
	refused(newViewSet("ninth", &consolev1.ClusterSelector{Names: []string{"edge-1"}}))
	admin.must(t, newViewSet("ninth", labelled("tier", "gold")))
	refused(newCluster("edge-1", "site", "edge", "tier", "gold")) // by its labels
}

func TestASetThatCanNotBeIsRefused(t *testing.T) {
	t.Parallel()
	admin := newHub(t, "").start(t).admin(t)
	for what, tc := range map[string]struct {
		change func(*consolev1.ViewSet)
		want   string
	}{
		"name":      {func(s *consolev1.ViewSet) { s.Metadata.Name = strings.Repeat("a", 28) }, "the most are 27"},
		"where":     {func(s *consolev1.ViewSet) { s.Spec.Clusters = &consolev1.ClusterSelector{Where: "name = a"} }, "spec.clusters.where"},
		"nowhere":   {func(s *consolev1.ViewSet) { s.Spec.Clusters = &consolev1.ClusterSelector{} }, "must have one of"},
		"kind":      {func(s *consolev1.ViewSet) { s.Spec.Of.Kind = "certificate" }, "kind"},
		"secrets":   {func(s *consolev1.ViewSet) { s.Spec.Of = &deliveryv1.ViewSetOf{Kind: "Secret"} }, "no view shows Secrets"},
		"maps":      {func(s *consolev1.ViewSet) { s.Spec.Of = &deliveryv1.ViewSetOf{Kind: "ConfigMap"} }, "no view shows Secrets and ConfigMaps"},
		"path":      {func(s *consolev1.ViewSet) { s.Spec.Counts[0].Path = ".spec..name" }, "spec.counts: issuer: .spec..name: column 6"},
		"data":      {func(s *consolev1.ViewSet) { s.Spec.Columns[0].Path = "['data'].x" }, "spec.columns: expires: no view shows ['data'].x"},
		"notes":     {func(s *consolev1.ViewSet) { s.Spec.Columns[0].Path = ".metadata.annotations.a" }, "no view shows"},
		"twice":     {func(s *consolev1.ViewSet) { s.Spec.Counts = append(s.Spec.Counts, s.GetSpec().GetCounts()[0]) }, "stands there twice"},
		"condition": {func(s *consolev1.ViewSet) { s.Spec.Counts[0].Name, s.Spec.Conditions = "ready", []string{"ready"} }, "name of a condition"},
		"type":      {func(s *consolev1.ViewSet) { s.Spec.Columns[0].Type = "time" }, "type"},
		"rows":      {func(s *consolev1.ViewSet) { s.Spec.Rows.Most = proto.Int32(101) }, "most"},
	} {
		set := newViewSet("a", &consolev1.ClusterSelector{All: true})
		tc.change(set)
		_, err := admin.viewSets.UpdateViewSet(t.Context(),
			&consolev1.UpdateViewSetRequest{AllowMissing: true, ViewSet: set})
		if connect.CodeOf(err) != connect.CodeInvalidArgument || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want %s", what, err, tc.want)
		}
	}
}

func TestHubServicesFollowSets(t *testing.T) {
	t.Parallel()
	r := newHub(t, "").start(t)
	admin := r.admin(t)
	set := newViewSet("certificates", &consolev1.ClusterSelector{All: true})
	admin.must(t, set)
	distributor := r.as(t, r.distributorToken(t))
	stream, err := distributor.catalog.Watch(t.Context(), &consolev1.WatchRequest{
		Kinds: []consolev1.Kind{consolev1.Kind_KIND_VIEW_SET},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	for stream.Receive() {
		changes := stream.Msg().GetChanges().GetChanges()
		if len(changes) == 0 {
			continue
		}
		if got := changes[0].GetViewSet(); got.GetMetadata().GetName() != "certificates" ||
			!proto.Equal(got.GetSpec(), set.GetSpec()) {
			t.Errorf("told of %v", got)
		}
		return
	}
	t.Fatal("told of nothing:", stream.Err())
}
