package acceptance

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"

	artifactv1 "fairlead.dev/gen/fairlead/artifact/v1"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/await"
	"fairlead.dev/platform/client"
	"fairlead.dev/platform/identity"
)

func (r *running) events(t testing.TB, token string) consolev1connect.EventServiceClient {
	t.Helper()
	return consolev1connect.NewEventServiceClient(newHTTPClient(t), r.url,
		append(client.Options(), client.WithToken(r.sending(token)))...)
}

// listEvents returns those that fit, the oldest first, page by page.
func listEvents(t testing.TB, c consolev1connect.EventServiceClient, filter string) (list []*consolev1.Event) {
	t.Helper()
	for token := ""; ; {
		resp, err := c.ListEvents(t.Context(), &consolev1.ListEventsRequest{
			Filter: filter, PageSize: 2, PageToken: token,
		})
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, resp.GetEvents()...)
		if token = resp.GetNextPageToken(); token == "" {
			slices.Reverse(list)
			return list
		}
	}
}

func types(list []*consolev1.Event) string {
	var out []string
	for _, e := range list {
		out = append(out, e.GetType())
	}
	return strings.Join(out, " ")
}

// Each transition is an event, and a report that is repeated, or that changes nothing, is none.
func TestEventsOncePerTransition(t *testing.T) {
	t.Parallel()
	bothDatabases(t, func(t *testing.T, r *running) {
		admin := r.admin(t)
		admin.putSource(t, "shop", "https://git.example.com/shop")
		admin.putCluster(t, "edge-1")
		admin.putLabelled(t, "web", "edge-1", nil)
		admin.join(t, "edge-1")
		events := r.events(t, r.adminToken(t))
		stream, err := events.WatchEvents(t.Context(), &consolev1.WatchEventsRequest{Filter: "service = web"})
		if err != nil || !stream.Receive() { // it stands
			t.Fatal(err, stream.Err())
		}
		fail(t, r, admin, "web", 1)
		fail(t, r, admin, "web", 1)
		distributor := r.service(t, identity.ServiceDistributor)
		said := &deliveryv1.ServiceReport{
			Service: "web", Sequence: 2, Phase: deliveryv1.Phase_PHASE_HEALTHY, Digest: "d1", AppliedDigest: "d1",
			Commit: commitA, AppliedCommit: commitA, ObjectsTotal: 3,
		}
		report(t, distributor, said)
		said.Sequence = 3
		report(t, distributor, said)
		said.Sequence, said.Repairs, said.Phase = 4, 2, deliveryv1.Phase_PHASE_DEGRADED
		said.Repaired = &deliveryv1.ObjectReport{
			Kind: "Deployment", Namespace: "shop", Name: "web", Rival: "hpa", Fields: []string{"/spec/replicas"},
		}
		report(t, distributor, said)
		// late
		report(t, distributor, &deliveryv1.ServiceReport{
			Service: "web", Sequence: 2, Phase: deliveryv1.Phase_PHASE_FAILED,
		})
		if _, err := admin.services.DeleteService(t.Context(), &consolev1.DeleteServiceRequest{
			Name: "web",
		}); err != nil {
			t.Fatal(err)
		}
		const want = "service.delivered service.failed service.applied service.healthy service.degraded service.drift_repaired service.deleted"
		list := listEvents(t, events, "service = web")
		if got := types(list); got != want {
			t.Fatalf("got  %s\nwant %s", got, want)
		}
		if last := list[len(list)-1]; last.GetActor() != "user:ada" || last.GetCluster() != "edge-1" {
			t.Errorf("deleted: %v", last)
		}
		if m := list[5].GetMessage(); list[5].GetCount() != 2 ||
			!strings.Contains(m, "Deployment shop/web, changed by hpa in /spec/replicas") {
			t.Errorf("repaired: %v", list[5])
		}
		if list[1].GetSeverity() != consolev1.Severity_SEVERITY_ERROR ||
			list[1].GetMessage() != "deploy.yaml:3: no such kind" {
			t.Errorf("failed: %v", list[1])
		}
		var watched []*consolev1.Event
		for len(watched) < len(list) && stream.Receive() {
			watched = append(watched, stream.Msg().GetEvents()...)
		}
		if got := types(watched); got != want {
			t.Errorf("watched %s: %v", got, stream.Err())
		}
		resume := stream.Msg().GetResumeToken()
		_ = stream.Close()
		admin.putLabelled(t, "web", "edge-1", nil)
		if _, err := admin.services.DeleteService(t.Context(), &consolev1.DeleteServiceRequest{
			Name: "web",
		}); err != nil {
			t.Fatal(err)
		}
		if stream, err = events.WatchEvents(t.Context(), &consolev1.WatchEventsRequest{
			Filter: "service = web", ResumeToken: resume,
		}); err != nil || !stream.Receive() {
			t.Fatal(err, stream.Err())
		}
		if got := types(stream.Msg().GetEvents()); got != "service.deleted" {
			t.Errorf("resumed with %s", got)
		}
		_ = stream.Close()

		// Events of the board come a moment later.
		await.NoError(t, "the index has caught up", func() error {
			if got := types(listEvents(t, events, "type : cluster")); got != "cluster.joined" {
				return fmt.Errorf("clusters: %s", got)
			}
			return nil
		})
		if got := types(listEvents(t, events, "source = shop")); got != "source.fetched" {
			t.Errorf("sources: %s", got)
		}
		if got := types(listEvents(t, events,
			"severity >= ERROR AND time > 1h")); got != "service.failed service.degraded" {
			t.Errorf("errors: %s", got)
		}
		_, err = events.ListEvents(t.Context(), &consolev1.ListEventsRequest{Filter: "sevrity = ERROR"})
		wantCode(t, err, connect.CodeInvalidArgument, `there is no field "sevrity"`)
	})
}

// A person who may see one cluster is told only what happens there.
func TestEventsShowNothingForeign(t *testing.T) {
	t.Parallel()
	r := newHub(t, "").start(t)
	admin := r.admin(t)
	admin.putSource(t, "shop", "https://git.example.com/shop")
	for cluster, service := range map[string]string{"edge-1": "mine", "edge-2": "foreign"} {
		admin.putCluster(t, cluster)
		admin.putLabelled(t, service, cluster, nil)
		if _, err := admin.services.DeleteService(t.Context(), &consolev1.DeleteServiceRequest{
			Name: service,
		}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := admin.grants.UpdateGrant(t.Context(), &consolev1.UpdateGrantRequest{
		AllowMissing: true, Grant: &consolev1.Grant{
			Metadata: meta("bob"), Spec: &consolev1.GrantSpec{
				Subjects: []*consolev1.GrantSubject{{Subject: &consolev1.GrantSubject_User{User: "bob"}}},
				Role:     "viewer", Clusters: &consolev1.GrantClusters{Names: []string{"edge-1"}},
			},
		},
	}); err != nil {
		t.Fatal(err)
	}
	events := r.events(t, r.sign(t, identity.Identity{Kind: identity.KindUser, Name: "bob"}))
	list := listEvents(t, events, "")
	if len(list) != 1 || list[0].GetService() != "mine" {
		t.Errorf("list: %v", list)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stream, err := events.WatchEvents(ctx, &consolev1.WatchEventsRequest{ResumeToken: "0"})
	if err != nil || !stream.Receive() {
		t.Fatal(err, stream.Err())
	}
	if got := stream.Msg().GetEvents(); len(got) != 1 || got[0].GetService() != "mine" {
		t.Errorf("watch: %v", got)
	}
}

// After a database was restored, who goes on from a place that it has not reached again would hear nothing of what
// comes until then.
func TestEventsOfAnotherHistoryAreNotResumed(t *testing.T) {
	overBoth(t, func(t *testing.T, r *running) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		stream, err := r.events(t,
			r.adminToken(t)).WatchEvents(ctx, &consolev1.WatchEventsRequest{ResumeToken: "1000000"})
		if err != nil || stream.Receive() {
			t.Fatal(err, stream.Msg())
		}
		wantCode(t, stream.Err(), connect.CodeOutOfRange)
	})
}

// Other values are told by the names of their entries, once for each service that gets them.
func TestEventsOfConfiguration(t *testing.T) {
	overBoth(t, func(t *testing.T, r *running) {
		admin := r.admin(t)
		admin.must(t, newSource("shop"), newCluster("edge-1"), newSecret("pw", "password", "planted-1"),
			newSet("base", settings{"level": textOf("info"), "pw": refTo("pw", "password")}),
			configured(newService("web", "shop", "edge-1"), []string{"base"}, settings{"own": textOf("x")}),
			newService("other", "shop", "edge-1"))
		events := r.events(t, r.adminToken(t))
		tell := func(want string) (last *consolev1.Event) {
			t.Helper()
			list := listEvents(t, events, "type : config.")
			if got := types(list); got != want {
				t.Fatalf("got %s, want %s", got, want)
			}
			return append(list, nil)[max(len(list)-1, 0)]
		}
		tell("")
		admin.must(t, newSecret("pw", "password", "planted-2"))
		if e := tell("config.changed"); e.GetService() != "web" || e.GetCluster() != "edge-1" ||
			e.GetActor() != "user:ada" || e.GetCount() != 1 ||
			e.GetMessage() != "Its configuration is another one: pw." {
			t.Errorf("got %v", e)
		}
		admin.must(t, newSet("base", settings{"level": textOf("info"), "pw": refTo("pw", "gone")}))
		if e := tell("config.changed config.failing"); e.GetSeverity() != consolev1.Severity_SEVERITY_ERROR ||
			!strings.Contains(e.GetMessage(), `"pw"`) {
			t.Errorf("got %v", e)
		}
		admin.must(t, newSet("base", settings{
			"level": textOf("debug"), "new": textOf("x"), "pw": refTo("pw", "password"),
		}))
		if e := tell("config.changed config.failing config.recovered config.changed"); e.GetMessage() != "Its configuration is another one: level, new." {
			t.Errorf("got %v", e)
		}
		if strings.Contains(fmt.Sprint(listEvents(t, events, "")), "planted") {
			t.Error("an event tells a value")
		}
	})
}

// A service that moves ends the alerts of the cluster that it leaves, and a configuration that goes on failing opens one
// of its new cluster.
func TestAServiceThatMovesAlarmsOfItsConfigurationThere(t *testing.T) {
	t.Parallel()
	r := newHub(t, "").start(t)
	admin := r.admin(t)
	base := func(key string) *consolev1.ConfigSet { return newSet("base", settings{"pw": refTo("pw", key)}) }
	web := func(cluster string) *consolev1.Service {
		return configured(newService("web", "shop", cluster), []string{"base"}, settings{"own": textOf("x")})
	}
	admin.must(t, newSource("shop"), newCluster("edge-1"), newCluster("edge-2"), newSecret("pw", "password", "planted"),
		base("password"), web("edge-1"))
	admin.must(t, base("gone"))
	admin.must(t, web("edge-2"))
	admin.must(t, base("password"))
	admin.must(t, web("edge-1"))
	var got []string
	for _, e := range listEvents(t, r.events(t, r.adminToken(t)), "type = service.moved OR type : config.") {
		if e.GetType() != "config.changed" {
			got = append(got, e.GetType()+" "+e.GetCluster())
		}
	}
	want := []string{
		"config.failing edge-1", "service.moved edge-1", "config.failing edge-2", "config.recovered edge-2",
		"service.moved edge-2",
	}
	if !slices.Equal(got, want) {
		t.Errorf("told %q, want %q", got, want)
	}
}

func TestRollbackIsAnEvent(t *testing.T) {
	t.Parallel()
	p := newPast(t, newHub(t, "").start(t))
	p.push(t, commitA)
	p.deliver(t, commitA, "d1", deliveryv1.Phase_PHASE_HEALTHY)
	p.push(t, commitB)
	p.deliver(t, commitB, "d2", deliveryv1.Phase_PHASE_FAILED)
	if _, err := p.history.RollbackService(t.Context(), &consolev1.RollbackServiceRequest{
		Service: "web", Reason: "it burns",
	}); err != nil {
		t.Fatal(err)
	}
	list := listEvents(t, p.events(t, p.adminToken(t)), "type = service.rolled_back OR type : pin.")
	if got := types(list); got != "service.rolled_back pin.set" && got != "pin.set service.rolled_back" {
		t.Fatalf("got %s", got)
	}
	for _, e := range list {
		if e.GetType() == "service.rolled_back" &&
			(e.GetService() != "web" || e.GetCommit() != commitA || e.GetDigest() != "d1" ||
				e.GetActor() != "user:ada" || !strings.HasSuffix(e.GetMessage(), "its deployment 1: it burns.")) {
			t.Errorf("got %v", e)
		}
	}
}

func TestGuardOfAGlobalServiceTripsOnceUntilItIsConfirmed(t *testing.T) {
	overBoth(t, func(t *testing.T, r *running) {
		admin := r.admin(t)
		admin.must(t, newSource("shop"), newCluster("a", "env", "prod"), newCluster("b", "env", "prod"),
			newCluster("c", "env", "prod"), newCluster("d", "env", "prod"))
		admin.putProject(t, "shop")
		g := newGlobal("logs", prod())
		g.Spec.Template.Project = "shop"
		admin.putGlobal(t, g)
		all := r.events(t, r.adminToken(t))
		tell := func(want string) []*consolev1.Event {
			t.Helper()
			list := listEvents(t, all, "globalservice = logs AND type : guard.") // services of it go, too
			if got := types(list); got != want {
				t.Fatalf("got %s, want %s", got, want)
			}
			return list
		}
		admin.must(t, newCluster("a")) // the one that may go
		tell("")
		admin.must(t, newCluster("b"))
		if e := tell("guard.tripped")[0]; e.GetCount() != 1 || e.GetProject() != "shop" ||
			e.GetActor() != "user:ada" || !strings.Contains(e.GetMessage(), "fairlead confirm global logs") {
			t.Errorf("got %v", e)
		}
		admin.must(t, newCluster("c"))
		tell("guard.tripped")
		preview, err := admin.globals.PreviewGlobalService(t.Context(), &consolev1.PreviewGlobalServiceRequest{
			GlobalService: g,
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := admin.globals.ConfirmGlobalService(t.Context(), &consolev1.ConfirmGlobalServiceRequest{
			Name: "logs", Confirmation: preview.GetConfirmation(),
		}); err != nil {
			t.Fatal(err)
		}
		if e := tell("guard.tripped guard.confirmed")[1]; e.GetCount() != 2 {
			t.Errorf("got %v", e)
		}
		admin.must(t, newCluster("d"))
		tell("guard.tripped guard.confirmed guard.tripped")
		// A person who sees the global service is told, and nobody else.
		admin.putProject(t, "bank")
		for project, want := range map[string]string{
			"shop": "guard.tripped guard.confirmed guard.tripped", "bank": "",
		} {
			admin.let(t, project, "viewer", everywhere(), project)
			who := identity.Identity{Kind: identity.KindUser, Name: "kim-" + project, Groups: []string{project}}
			if got := types(listEvents(t, r.events(t, r.sign(t, who)), "type : guard.")); got != want {
				t.Errorf("who sees project %s is told %q", project, got)
			}
		}
	})
}

// What a problem of the hub began ends when the hub can deliver again: the cluster has nothing to report then.
func TestAServiceIsHealthyAgainAfterAProblemOfTheHub(t *testing.T) {
	t.Parallel()
	bothDatabases(t, func(t *testing.T, r *running) {
		p := newPast(t, r)
		events := p.events(t, p.adminToken(t))
		p.push(t, commitA)
		p.handOver(t, commitA, "d1")
		p.says(t, "d1", deliveryv1.Phase_PHASE_HEALTHY, "")
		hub := func(problem *consolev1.Problem) {
			t.Helper()
			p.record(t, &consolev1.RecordHubRequest{Services: []*consolev1.ServiceHub{{
				Service: p.service, Uid: p.uid, SourceUid: p.source.GetMetadata().GetUid(), Ref: "HEAD",
				Hub: &consolev1.HubTruth{
					Digest: "d1", Revision: &artifactv1.Revision{Commit: commitA}, Problem: problem,
				},
			}}})
		}
		hub(&consolev1.Problem{Message: "no room"})
		hub(nil)
		const want = "service.delivered service.applied service.healthy service.failed service.recovered service.healthy"
		list := listEvents(t, events, "service = web")
		if got := types(list); got != want {
			t.Fatalf("got  %s\nwant %s", got, want)
		}
		if m := list[5].GetMessage(); m != "All 3 objects are healthy." {
			t.Errorf("%v", list[5])
		}
		p.says(t, "d1", deliveryv1.Phase_PHASE_DEGRADED, "1 of 3")
		hub(&consolev1.Problem{Message: "no room"})
		hub(nil)
		if got := types(listEvents(t, events, "service = web")); got != want+
			" service.degraded service.failed service.recovered" {
			t.Errorf("of a service that is degraded: %s", got)
		}
	})
}
