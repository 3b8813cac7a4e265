package acceptance

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/await"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/longform"
)

// newAlert is one that finds something at once, and is over at once.
func newAlert(name, when string) *consolev1.Alert {
	return &consolev1.Alert{Metadata: meta(name), Spec: &consolev1.AlertSpec{
		Clusters: &consolev1.ClusterSelector{All: true}, When: when, Recover: durationpb.New(0),
	}}
}

func (a api) alert(t *testing.T, name string) *consolev1.AlertStatus {
	t.Helper()
	got, err := a.alerts.GetAlert(t.Context(), &consolev1.GetAlertRequest{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	return got.GetAlert().GetStatus()
}

// awaitAlert waits until an alert says something.
func (a api) awaitAlert(t *testing.T, name string, ok func(*consolev1.AlertStatus) bool) *consolev1.AlertStatus {
	t.Helper()
	for began := time.Now(); ; <-time.After(50 * time.Millisecond) {
		s := a.alert(t, name)
		if ok(s) {
			return s
		}
		if time.Since(began) > time.Minute {
			t.Fatalf("alert %s says %v", name, s)
		}
	}
}

func (a api) awaitFiring(t *testing.T, name string) *consolev1.AlertStatus {
	t.Helper()
	return a.awaitAlert(t, name, func(s *consolev1.AlertStatus) bool { return len(s.GetFiring()) > 0 })
}

// alertEvents are those of an alert, the oldest first.
func (a api) alertEvents(t *testing.T, name string) string {
	t.Helper()
	got, err := a.events.ListEvents(t.Context(), &consolev1.ListEventsRequest{Filter: "alert = " + name})
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range got.GetEvents() {
		out = append([]string{fmt.Sprintf("%s %q %d", e.GetType(), e.GetGroup(), e.GetCount())}, out...)
	}
	return strings.Join(out, ", ")
}

func TestAnAlertIsAnEventWhenItBeginsAndWhenItIsOver(t *testing.T) {
	overBoth(t, func(t *testing.T, r *running) {
		admin := r.admin(t)
		admin.must(t, newCluster("edge-1", "region", "eu"), newCluster("edge-2", "region", "eu"),
			newCluster("core-1", "region", "us"), newCluster("core-2", "region", "us"))
		sites := newAlert("sites", "name : edge OR name = core-1")
		sites.Spec.GroupBy, sites.Spec.MoreThan = "region", 1
		admin.must(t, sites, newAlert("gone", "name = core-1"), newAlert("figures", "pods.not_ready > 0"))
		s := admin.awaitFiring(t, "sites")
		if len(s.GetFiring()) != 1 || s.GetFiring()[0].GetGroup() != "eu" ||
			strings.Join(s.GetFiring()[0].GetClusters(), " ") != "edge-1 edge-2" {
			t.Errorf("found %v", s)
		}
		if s := admin.awaitAlert(t, "figures",
			func(s *consolev1.AlertStatus) bool { return s.GetLookTime() != nil }); s.GetUnknown() != 4 ||
			len(s.GetFiring()) != 0 {
			t.Errorf("without views: %v", s)
		}
		if _, err := admin.alerts.AcknowledgeAlert(t.Context(), &consolev1.AcknowledgeAlertRequest{
			Name: "sites", Reason: "the rack moves",
		}); err != nil {
			t.Fatal(err)
		}
		if ack := admin.alert(t, "sites").GetFiring()[0].GetAcknowledged(); ack.GetAuthor() != "user:ada" ||
			ack.GetReason() != "the rack moves" {
			t.Errorf("acknowledged: %v", ack)
		}
		_, err := admin.alerts.AcknowledgeAlert(t.Context(), &consolev1.AcknowledgeAlertRequest{
			Name: "figures", Reason: "x",
		})
		wantCode(t, err, connect.CodeFailedPrecondition, "fires nowhere")
		admin.awaitFiring(t, "gone")
		if _, err := admin.alerts.DeleteAlert(t.Context(), &consolev1.DeleteAlertRequest{Name: "gone"}); err != nil {
			t.Fatal(err)
		}
		sites.Spec.When = "name = none"
		admin.must(t, sites)
		admin.awaitAlert(t, "sites", func(s *consolev1.AlertStatus) bool { return len(s.GetFiring()) == 0 })
		const want = `alert.firing "eu" 2, alert.acknowledged "eu" 0, alert.resolved "eu" 0`
		if got := admin.alertEvents(t, "sites"); got != want {
			t.Errorf("told %s, want %s", got, want)
		}
		if got := admin.alertEvents(t, "gone"); got != `alert.firing "" 1, alert.resolved "" 0` {
			t.Errorf("of an alert that was deleted it told %s", got)
		}
	})
}

// The end of what the deleted alert found has the key of what the new one finds: told later, it would end that.
func TestAnAlertThatIsMadeAgainFiresAfterItsEnd(t *testing.T) {
	t.Parallel()
	admin := newHub(t, "").start(t).admin(t)
	admin.must(t, newCluster("edge-1"), newAlert("sites", "name : edge"))
	admin.awaitFiring(t, "sites")
	if _, err := admin.alerts.DeleteAlert(t.Context(), &consolev1.DeleteAlertRequest{Name: "sites"}); err != nil {
		t.Fatal(err)
	}
	admin.must(t, newAlert("sites", "name : edge"))
	admin.awaitFiring(t, "sites")
	const want = `alert.firing "" 1, alert.resolved "" 0, alert.firing "" 1`
	if got := admin.alertEvents(t, "sites"); got != want {
		t.Errorf("told %s, want %s", got, want)
	}
}

func TestASilencedAlertTellsNothing(t *testing.T) {
	t.Parallel()
	longform.Only(t, "rounds of alerts for seconds")
	r := newHub(t, "").start(t)
	admin := r.admin(t)
	admin.must(t, newCluster("edge-1"), newAlert("quiet", "name = none"))
	until := timestamppb.New(time.Now().Add(time.Hour))
	_, err := admin.alerts.SilenceAlert(t.Context(), &consolev1.SilenceAlertRequest{Name: "quiet", UntilTime: until})
	wantCode(t, err, connect.CodeInvalidArgument, "reason")
	_, err = admin.alerts.SilenceAlert(t.Context(), &consolev1.SilenceAlertRequest{
		Name: "quiet", Reason: "x", UntilTime: timestamppb.New(time.Now().Add(-time.Hour)),
	})
	wantCode(t, err, connect.CodeInvalidArgument, "is over")
	if _, err := admin.alerts.SilenceAlert(t.Context(), &consolev1.SilenceAlertRequest{
		Name: "quiet", Reason: "the sale", UntilTime: until,
	}); err != nil {
		t.Fatal(err)
	}
	admin.must(t, newAlert("quiet", "name = edge-1"))
	if s := admin.awaitFiring(t, "quiet"); s.GetSilence().GetReason() != "the sale" ||
		s.GetSilence().GetAuthor() != "user:ada" {
		t.Errorf("got %v", s)
	}
	if got := admin.alertEvents(t, "quiet"); got != `alert.silenced "" 0` {
		t.Errorf("told %s", got)
	}
	if _, err := admin.alerts.SilenceAlert(t.Context(), &consolev1.SilenceAlertRequest{Name: "quiet"}); err != nil {
		t.Fatal(err)
	}
	for began := time.Now(); !strings.Contains(admin.alertEvents(t, "quiet"),
		"alert.firing"); <-time.After(50 * time.Millisecond) {
		if time.Since(began) > time.Minute {
			t.Fatalf("told %s", admin.alertEvents(t, "quiet"))
		}
	}
}

// Names and numbers of clusters are for those alone who see the clusters.
func TestAlertsAreForThoseWhoSeeAllClusters(t *testing.T) {
	t.Parallel()
	r := newHub(t, "").start(t)
	admin := r.admin(t)
	admin.must(t, newCluster("edge-1"), newCluster("edge-2"), newAlert("found", "name : edge"),
		&consolev1.Role{
			Metadata: meta("alerts"),
			Spec: &consolev1.RoleSpec{
				Rules: []*consolev1.RoleRule{{Verbs: []string{"view"}, Kinds: []string{"Alert"}}},
			},
		})
	admin.let(t, "one", "viewer", &consolev1.GrantClusters{Names: []string{"edge-1"}})
	admin.let(t, "all", "viewer", &consolev1.GrantClusters{All: true})
	admin.let(t, "rules", "alerts", &consolev1.GrantClusters{All: true})
	admin.awaitFiring(t, "found")
	_, err := r.user(t, "olga", "one").alerts.GetAlert(t.Context(), &consolev1.GetAlertRequest{Name: "found"})
	wantCode(t, err, connect.CodeNotFound)
	if got := r.user(t, "olga", "one").alertEvents(t, "found"); got != "" {
		t.Errorf("a viewer of one cluster is told %s", got)
	}
	if s := r.user(t, "vera", "all").alert(t, "found"); s.GetFiring()[0].GetTotal() != 2 {
		t.Errorf("a viewer of all clusters sees %v", s)
	}
	if got := r.user(t, "vera", "all").alertEvents(t, "found"); got == "" {
		t.Error("a viewer of all clusters is told nothing")
	}
	if s := r.user(t, "rolf", "rules").alert(t, "found"); len(s.GetFiring()) != 0 ||
		s.GetPending()+s.GetUnknown() != 0 {
		t.Errorf("who sees no cluster sees %v", s)
	}
	if got := r.user(t, "rolf", "rules").alertEvents(t, "found"); got != "" {
		t.Errorf("who sees no cluster is told %s", got)
	}
	_, err = r.user(t, "vera", "all").alerts.AcknowledgeAlert(t.Context(), &consolev1.AcknowledgeAlertRequest{
		Name: "found", Reason: "x",
	})
	wantCode(t, err, connect.CodePermissionDenied, "deployer")
}

func TestAnAlertThatCanNotBeIsRefused(t *testing.T) {
	t.Parallel()
	r := newHub(t, "").start(t)
	admin := r.admin(t)
	admin.must(t, newViewSet("certs", &consolev1.ClusterSelector{All: true}))
	for when, want := range map[string]string{
		"pods.not_ready >": "spec.when", "nonsense.x > 0": "nonsense", "pods.not_ready = many": "spec.when",
		"pods.not_redy > 0":            `spec.when: there is no figure "pods.not_redy"; did you mean "pods.not_ready"?`,
		"set-certs.issuers.ours > 0":   `there is no figure "set-certs.issuers.ours"`,
		"name = a OR used.gigabit > 0": `there is no figure "used.gigabit"; known are: used.nodes, used.cpu, used.memory`,
	} {
		_, err := admin.alerts.UpdateAlert(t.Context(), &consolev1.UpdateAlertRequest{
			AllowMissing: true, Alert: newAlert("a", when),
		})
		wantCode(t, err, connect.CodeInvalidArgument, want)
	}
}

func TestAnAlertSaysThatItsViewSetIsNotThere(t *testing.T) {
	t.Parallel()
	r := newHub(t, "").start(t)
	admin := r.admin(t)
	admin.must(t, newAlert("a", "set-certs.total > 0"))
	if got := admin.alert(t, "a").GetProblem(); !strings.Contains(got, `there is no ViewSet "certs"`) {
		t.Errorf("without the ViewSet it says %q", got)
	}
	admin.must(t, newViewSet("certs", &consolev1.ClusterSelector{All: true}))
	if got := admin.alert(t, "a").GetProblem(); got != "" {
		t.Errorf("with the ViewSet it says %q", got)
	}
}

// Neither the refusal of an alert nor its status tells of figures of a ViewSet that the caller may not see, or that such
// a ViewSet is there.
func TestAnAlertTellsNothingOfAViewSetThatTheCallerMayNotSee(t *testing.T) {
	t.Parallel()
	r := newHub(t, "").start(t)
	admin := r.admin(t)
	admin.must(t, newViewSet("certs", &consolev1.ClusterSelector{All: true}), &consolev1.Role{
		Metadata: meta("alerts"),
		Spec: &consolev1.RoleSpec{
			Rules: []*consolev1.RoleRule{{Verbs: []string{"view", "edit"}, Kinds: []string{"Alert"}}},
		},
	})
	admin.let(t, "rules", "alerts", &consolev1.GrantClusters{All: true})
	rolf := r.user(t, "rolf", "rules")
	for name, when := range map[string]string{"hidden": "set-certs.issuers.ours > 0", "none": "set-later.total > 0"} {
		rolf.must(t, newAlert(name, when))
		if got := rolf.alert(t, name).GetProblem(); got != "" {
			t.Errorf("%s: told is %q", name, got)
		}
		if got := admin.alert(t, name).GetProblem(); got == "" {
			t.Errorf("%s: a person who sees all is told nothing", name)
		}
	}
}

// A ViewSet may lose a figure: the alert that asks for it says so, and can be changed but for what it asks.
func TestAnAlertWhoseFigureIsGoneCanBeChanged(t *testing.T) {
	t.Parallel()
	r := newHub(t, "").start(t)
	admin := r.admin(t)
	const gone = "set-certs.issuers.ours > 0"
	admin.must(t, newAlert("a", gone), newAlert("b", "pods.total > 0"))
	admin.must(t, newViewSet("certs", &consolev1.ClusterSelector{All: true}))
	if got := admin.alert(t, "a").GetProblem(); !strings.Contains(got, `there is no figure "set-certs.issuers.ours"`) {
		t.Errorf("it says %q", got)
	}
	changed := newAlert("a", gone)
	changed.Spec.Description = "who issues"
	admin.must(t, changed)
	_, err := admin.alerts.UpdateAlert(t.Context(), &consolev1.UpdateAlertRequest{Alert: newAlert("b", gone)})
	wantCode(t, err, connect.CodeInvalidArgument, "set-certs.issuers.ours")
}

// follows has the agent of a cluster say that it pushes views.
func (r *running) follows(t *testing.T, clusters ...string) {
	t.Helper()
	var seen []*consolev1.ClusterSeen
	for _, name := range clusters {
		seen = append(seen, &consolev1.ClusterSeen{Cluster: name, Time: timestamppb.Now(), Agent: &deliveryv1.AgentInfo{
			Version: "v1.0.0", Capabilities: []deliveryv1.AgentCapability{
				deliveryv1.AgentCapability_AGENT_CAPABILITY_VIEWS,
			},
		}})
	}
	if _, err := r.service(t, identity.ServiceDistributor).status.RecordSeen(t.Context(),
		&consolev1.RecordSeenRequest{Clusters: seen}); err != nil {
		t.Fatal(err)
	}
}

// Two consoles that share a database, the end of one, and its restart make one event of what views say, and one of its
// end. What is unknown changes nothing.
func TestAlertsFollowViewsOverConsoles(t *testing.T) {
	t.Parallel()
	h, to := newHub(t, postgres.Database(t)), newReceiver(t)
	one := h.withSinks(t)
	two := h.withSinks(t)
	admin := one.admin(t)
	admin.must(t, newCluster("edge-1"), newCluster("edge-2"))
	if err := admin.putSink(t, webhook("hook", to.URL)); err != nil {
		t.Fatal(err)
	}
	one.follows(t, "edge-1", "edge-2")
	d := one.service(t, identity.ServiceDistributor)
	d.push(t, "edge-1", whole(1, 1, podSection("a")))
	d.push(t, "edge-2", whole(1, 1, podSection()))
	admin.must(t, newAlert("pods", "pods.not_ready > 0"), newAlert("nodes", "nodes.pressure > 0"))
	s := admin.awaitAlert(t, "pods", func(s *consolev1.AlertStatus) bool { // a console may know one view before the other
		return len(s.GetFiring()) == 1 && s.GetUnknown() == 0
	})
	if got := strings.Join(s.GetFiring()[0].GetClusters(), " "); got != "edge-1" {
		t.Errorf("found %s", got)
	}
	// Nothing is known of nodes.
	admin.awaitAlert(t, "nodes",
		func(s *consolev1.AlertStatus) bool { return s.GetUnknown() == 2 && len(s.GetFiring()) == 0 })
	await.True(t, "the sink is told", func() bool { return len(to.got(t)) == 1 })
	// The section is not of now: what was found stays.
	d.push(t, "edge-1", whole(2, 1, &deliveryv1.ViewSection{
		Name: "pods", State: deliveryv1.SectionState_SECTION_STATE_STALE, Reason: "no answer",
	}))
	admin.awaitAlert(t, "pods", func(s *consolev1.AlertStatus) bool {
		return s.GetUnknown() == 1 && len(s.GetFiring()) == 1 && s.GetFiring()[0].GetUnknown() == 1 &&
			s.GetFiring()[0].GetUnknownSinceTime().AsTime().After(s.GetFiring()[0].GetSinceTime().AsTime())
	})
	one.stop()
	admin = two.admin(t)
	looked := admin.alert(t, "pods").GetLookTime().AsTime()
	admin.awaitAlert(t, "pods", func(s *consolev1.AlertStatus) bool {
		return s.GetLookTime().AsTime().After(looked) && len(s.GetFiring()) == 1 // the other console goes on
	})
	d = h.withSinks(t).service(t, identity.ServiceDistributor)
	d.push(t, "edge-1", whole(3, 1, podSection()))
	admin.awaitAlert(t, "pods", func(s *consolev1.AlertStatus) bool { return len(s.GetFiring()) == 0 })
	if got := admin.alertEvents(t, "pods"); got != `alert.firing "" 1, alert.resolved "" 0` {
		t.Errorf("recorded %s", got)
	}
	await.True(t, "the sink is told of the end", func() bool { return len(to.got(t)) == 2 })
}

// What a group did within half an hour is in the database: a console that restarts between two turns goes on to count
// them, and one that restarts while the group flaps tells nothing further of it.
func TestAConsoleThatRestartsKeepsThatAnAlertFlaps(t *testing.T) {
	t.Parallel()
	longform.Only(t, "rounds of alerts for half a minute")
	onBoth(t, func(t *testing.T, db string) {
		h := newHub(t, db)
		r := h.start(t)
		r.admin(t).must(t, newCluster("edge-1"), newAlert("pods", "pods.not_ready > 0"))
		r.follows(t, "edge-1")
		sequence, pods := uint64(0), podSection("a")
		turn := func() {
			t.Helper()
			sequence++
			r.service(t, identity.ServiceDistributor).push(t, "edge-1", whole(1, sequence, pods))
			if pods = podSection("a"); sequence%2 == 1 {
				pods = podSection()
			}
		}
		const flapped = `alert.firing "" 1, alert.resolved "" 0, alert.firing "" 1, alert.firing "" 0`
		for n, told := range []string{
			`alert.firing "" 1`, `alert.firing "" 1, alert.resolved "" 0`, `alert.firing "" 1, alert.resolved "" 0, alert.firing "" 1`, flapped,
		} {
			if n == 2 {
				r.stop()
				r = h.start(t)
			}
			turn()
			admin := r.admin(t)
			await.True(t, "it tells "+told, func() bool { return admin.alertEvents(t, "pods") == told })
		}
		r.stop()
		r = h.start(t)
		turn()
		admin := r.admin(t)
		s := admin.awaitAlert(t, "pods", func(s *consolev1.AlertStatus) bool {
			return len(s.GetFiring()) == 1 && s.GetFiring()[0].GetTotal() == 1
		})
		if got := admin.alertEvents(t, "pods"); got != flapped || s.GetFiring()[0].GetFlapsSinceTime() == nil {
			t.Errorf("told %s, of %v", got, s)
		}
	})
}

// A filter may name the reasons of warnings, and a part of it that decides alone is enough.
func TestAlertsKnowReasonsOfWarnings(t *testing.T) {
	t.Parallel()
	r := newHub(t, "").start(t)
	admin := r.admin(t)
	admin.must(t, newCluster("edge-1", "env", "prod"), newCluster("edge-2", "env", "prod"),
		newCluster("away", "env", "test"))
	r.follows(t, "edge-1", "edge-2")
	d := r.service(t, identity.ServiceDistributor)
	row := func(reason string, n int64) *deliveryv1.ViewRow {
		return &deliveryv1.ViewRow{Key: reason, Kind: "Pod", Reason: reason, Figures: map[string]int64{"hour": n}}
	}
	d.push(t, "edge-1", whole(1, 1, &deliveryv1.ViewSection{
		Name: "warnings", State: deliveryv1.SectionState_SECTION_STATE_WHOLE, Figures: map[string]int64{"hour": 9},
		Rows: []*deliveryv1.ViewRow{row("FailedMount", 4), row("BackOff", 5)},
	}))
	d.push(t, "edge-2", whole(1, 1, &deliveryv1.ViewSection{
		Name: "warnings", State: deliveryv1.SectionState_SECTION_STATE_WHOLE, Figures: map[string]int64{"hour": 0},
	}))
	const when = "labels.env = prod AND warnings.reason.FailedMount > 3"
	admin.must(t, newAlert("mounts", when))
	if s := admin.awaitFiring(t, "mounts"); strings.Join(s.GetFiring()[0].GetClusters(), " ") != "edge-1" ||
		s.GetUnknown() != 0 {
		t.Errorf("found %v", s)
	}
	page, err := admin.views.ListClusterViews(t.Context(), &consolev1.ListClusterViewsRequest{Filter: when})
	if err != nil || len(page.GetViews()) != 1 || page.GetViews()[0].GetFigures()["warnings.reason.FailedMount"] != 0 {
		t.Errorf("the list has %v, %v", page, err)
	}
}
