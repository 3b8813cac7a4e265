package acceptance

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
)

func newGlobal(name string, labels map[string]string) *consolev1.GlobalService {
	return &consolev1.GlobalService{Metadata: meta(name), Spec: &consolev1.GlobalServiceSpec{
		Clusters: &consolev1.ClusterSelector{Labels: labels},
		Template: &consolev1.ServiceSpec{Source: "shop", Path: "logs"},
	}}
}

func prod() map[string]string { return map[string]string{"env": "prod"} }

func (a api) putGlobal(t testing.TB, g *consolev1.GlobalService) *consolev1.GlobalService {
	t.Helper()
	var resp *consolev1.UpdateGlobalServiceResponse
	if err := answered(func() (err error) {
		resp, err = a.globals.UpdateGlobalService(t.Context(), &consolev1.UpdateGlobalServiceRequest{
			GlobalService: g, AllowMissing: true,
		})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return resp.GetGlobalService()
}

// served are the services with what they deliver.
func (a api) served(t testing.TB) string {
	t.Helper()
	var out []string
	for token := ""; ; {
		resp, err := a.services.ListServices(t.Context(), &consolev1.ListServicesRequest{
			PageSize: 1000, PageToken: token,
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range resp.GetServices() {
			out = append(out, s.GetMetadata().GetName()+":"+s.GetSpec().GetPath()+"@"+s.GetSpec().GetCluster()+
				s.GetSpec().GetRef())
		}
		if token = resp.GetNextPageToken(); token == "" {
			return strings.Join(out, " ")
		}
	}
}

func TestGlobalServiceFollowsLabels(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, admin api) {
		admin.must(t, newSource("shop"), newCluster("a", "env", "prod"), newCluster("b", "env", "test"),
			newCluster("c", "env", "prod"))
		g := newGlobal("logs", prod())
		g.Metadata.Labels = map[string]string{"team": "ops"}
		if got := admin.putGlobal(t, g); got.GetStatus().GetClusters() != 2 ||
			!proto.Equal(got.GetSpec(), g.GetSpec()) {
			t.Errorf("got %v", got)
		}
		if got := admin.served(t); got != "logs-a:logs@a logs-c:logs@c" {
			t.Error(got)
		}
		one, err := admin.services.GetService(t.Context(), &consolev1.GetServiceRequest{Name: "logs-a"})
		if l := one.GetService().GetMetadata().GetLabels(); err != nil || l["fairlead.dev/global"] != "logs" ||
			l["team"] != "ops" {
			t.Errorf("got %v, %v", one, err)
		}
		// Clusters that come, change, and go.
		admin.must(t, newCluster("d", "env", "prod"), newCluster("b", "env", "prod"), newCluster("a"))
		if got := admin.served(t); got != "logs-b:logs@b logs-c:logs@c logs-d:logs@d" {
			t.Error(got)
		}
		if _, err := admin.clusters.DeleteCluster(t.Context(), &consolev1.DeleteClusterRequest{Name: "d"}); err != nil {
			t.Error(err)
		}
		// A change by others is refused, and so is one of the label; how it is synced is the service's own.
		_, err = admin.services.DeleteService(t.Context(), &consolev1.DeleteServiceRequest{Name: "logs-b"})
		wantCode(t, err, connect.CodeFailedPrecondition, `service "logs-b" comes of global service "logs"`)
		s := newService("logs-b", "shop", "b")
		s.Metadata.Labels = map[string]string{"fairlead.dev/global": "logs", "team": "ops"}
		_, err = admin.services.UpdateService(t.Context(), &consolev1.UpdateServiceRequest{Service: s})
		wantCode(t, err, connect.CodeFailedPrecondition, "comes of global service")
		s.Spec.Path, s.Spec.Sync = "logs", &deliveryv1.SyncSpec{
			Mode: deliveryv1.SyncMode_SYNC_MODE_HOLD, Reason: "release",
		}
		if _, err := admin.services.UpdateService(t.Context(), &consolev1.UpdateServiceRequest{
			Service: s,
		}); err != nil {
			t.Fatal(err)
		}
		s.Metadata.Name = "mine"
		_, err = admin.services.UpdateService(t.Context(), &consolev1.UpdateServiceRequest{
			Service: s, AllowMissing: true,
		})
		wantCode(t, err, connect.CodeInvalidArgument, `metadata.labels["fairlead.dev/global"]: is the console's own`)
		// A new template reaches all, and leaves holds alone.
		g.Spec.Template.Path = "new"
		admin.putGlobal(t, g)
		if got := admin.served(t); got != "logs-b:new@b logs-c:new@c" {
			t.Error(got)
		}
		one, err = admin.services.GetService(t.Context(), &consolev1.GetServiceRequest{Name: "logs-b"})
		if err != nil || one.GetService().GetSpec().GetSync().GetReason() != "release" {
			t.Errorf("got %v, %v", one, err)
		}
		// Deleting it takes its services along, when somebody has seen that.
		_, err = admin.globals.DeleteGlobalService(t.Context(), &consolev1.DeleteGlobalServiceRequest{Name: "logs"})
		wantCode(t, err, connect.CodeFailedPrecondition, `global service "logs" has 2 services: confirm it`)
		wanted := detail[*consolev1.ConfirmationWanted](t, err)
		if len(wanted.GetConsequences()) != 2 {
			t.Errorf("got %v", wanted)
		}
		if _, err := admin.globals.DeleteGlobalService(t.Context(), &consolev1.DeleteGlobalServiceRequest{
			Name: "logs", Confirmation: wanted.GetConfirmation(),
		}); err != nil {
			t.Fatal(err)
		}
		if got := admin.served(t); got != "" {
			t.Error(got)
		}
	})
}

// A label that clusters and the selectors of global services change in one write leaves services where they are, and
// what is not chosen by both leaves.
func TestALabelThatIsRenamedInOneWriteKeepsServicesAndLevers(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, admin api) {
		relabelled := map[string]string{"environment": "production"}
		admin.must(t, newSource("shop"), newCluster("edge-1", "env", "prod"), newCluster("edge-2", "env", "prod"),
			newCluster("edge-3", "env", "prod"), newGlobal("logs", prod()))
		uid := admin.service(t, "logs-edge-1").GetMetadata().GetUid()
		if _, err := admin.levers.HoldService(t.Context(), &consolev1.HoldServiceRequest{
			Name: "logs-edge-1", Reason: "incident 7",
		}); err != nil {
			t.Fatal(err)
		}
		done, err := admin.apply(t, &consolev1.ApplyRequest{Resources: anyOf(
			newCluster("edge-1", "environment", "production"), newCluster("edge-2"), newCluster("edge-3"),
			newCluster("edge-4", "environment", "production"), newGlobal("logs", relabelled),
		)})
		const note = "more services leave than may at once: of global service \"logs\", 1 service is kept until " +
			"`fairlead confirm global logs`, 1 service created, 1 service deleted"
		if err != nil || done[4].GetNote() != note {
			t.Fatalf("%q, %v, want %q", done, err, note)
		}
		got := admin.service(t, "logs-edge-1")
		if got.GetMetadata().GetUid() != uid || got.GetLevers().GetMode().GetReason() != "incident 7" {
			t.Errorf("it was %s and held, and is %v", uid, got)
		}
		if got := admin.served(t); got != "logs-edge-1:logs@edge-1 logs-edge-3:logs@edge-3 logs-edge-4:logs@edge-4" {
			t.Error(got)
		}
	})
}

// Beside a global service that stays as it is, the labels of clusters count.
func TestClustersAreRelabelledBesideAnUnchangedGlobalService(t *testing.T) {
	t.Parallel()
	admin := newHub(t, "").start(t).admin(t)
	admin.must(t, newSource("shop"), newCluster("a", "env", "prod"), newCluster("b"), newGlobal("logs", prod()))
	admin.must(t, newCluster("a"), newCluster("b", "env", "prod"), newGlobal("logs", prod()))
	if got := admin.served(t); got != "logs-b:logs@b" {
		t.Error(got)
	}
}

// A held-back service is not brought in line meanwhile: the template counts again once its cluster is chosen again.
func TestAHeldBackServiceThatIsChosenAgainGetsTheTemplate(t *testing.T) {
	t.Parallel()
	const orphan = deliveryv1.DeletePolicy_DELETE_POLICY_ORPHAN
	in := []proto.Message{newCluster("a", "env", "prod"), newCluster("b", "env", "prod")}
	for name, again := range map[string]func(admin api, g *consolev1.GlobalService){
		"by its cluster": func(admin api, _ *consolev1.GlobalService) { admin.must(t, in...) },
		"by the global service": func(admin api, g *consolev1.GlobalService) {
			g.Spec.Clusters = &consolev1.ClusterSelector{All: true}
			admin.putGlobal(t, g)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			admin := newHub(t, "").start(t).admin(t)
			g := newGlobal("logs", prod())
			g.Spec.MaxDeletions = 1
			admin.must(t, append([]proto.Message{newSource("shop"), g}, in...)...)
			admin.must(t, newCluster("a"), newCluster("b"))
			if got := admin.served(t); got != "logs-b:logs@b" {
				t.Fatal(got)
			}
			g.Spec.Template.Sync = &deliveryv1.SyncSpec{OnDelete: orphan}
			admin.putGlobal(t, g)
			again(admin, g)
			for _, service := range []string{"logs-a", "logs-b"} {
				if got := admin.service(t, service).GetSpec().GetSync().GetOnDelete(); got != orphan {
					t.Errorf("%s: onDelete is %v", service, got)
				}
			}
		})
	}
}

func TestOverrideOfALaterRuleWins(t *testing.T) {
	t.Parallel()
	admin := newHub(t, "").start(t).admin(t)
	admin.must(t, newSource("shop"), newCluster("a", "env", "prod"), newCluster("b", "env", "prod", "zone", "x"))
	g := newGlobal("logs", prod())
	g.Spec.Overrides = []*consolev1.GlobalOverride{
		{Clusters: &consolev1.ClusterSelector{All: true}, Ref: "v1", Path: "all"},
		{Clusters: &consolev1.ClusterSelector{Labels: map[string]string{"zone": "x"}}, Path: "zone"},
		{Clusters: &consolev1.ClusterSelector{Names: []string{"nobody"}}, Path: "no"},
	}
	admin.putGlobal(t, g)
	if got := admin.served(t); got != "logs-a:all@av1 logs-b:zone@bv1" {
		t.Error(got)
	}
	for word, change := range map[string]func(*consolev1.GlobalServiceSpec){
		"spec.template.cluster":  func(s *consolev1.GlobalServiceSpec) { s.Template.Cluster = "a" },
		"spec.overrides[1].path": func(s *consolev1.GlobalServiceSpec) { s.Overrides[1].Path = "../x" },
		"spec.clusters.where": func(s *consolev1.GlobalServiceSpec) {
			s.Clusters = &consolev1.ClusterSelector{Where: "x = y"}
		},
	} {
		bad := proto.CloneOf(g)
		change(bad.GetSpec())
		_, err := admin.globals.UpdateGlobalService(t.Context(), &consolev1.UpdateGlobalServiceRequest{
			GlobalService: bad,
		})
		wantCode(t, err, connect.CodeInvalidArgument, word)
	}
}

func TestDetachLeavesTheService(t *testing.T) {
	t.Parallel()
	admin := newHub(t, "").start(t).admin(t)
	admin.must(t, newSource("shop"), newCluster("a", "env", "prod"), newCluster("b", "env", "prod"))
	g := newGlobal("logs", prod())
	g.Spec.OnLeave = consolev1.OnLeave_ON_LEAVE_DETACH
	admin.putGlobal(t, g)
	admin.must(t, newCluster("a"), newCluster("b"))
	if got := admin.served(t); got != "logs-a:logs@a logs-b:logs@b" {
		t.Error(got)
	}
	if _, err := admin.services.DeleteService(t.Context(), &consolev1.DeleteServiceRequest{
		Name: "logs-a",
	}); err != nil {
		t.Error(err)
	}
}

// The agents of a deleted cluster are let in no more: what a service of it applied stays, and the event says so.
func TestAServiceThatGoesWithItsClusterLeavesItsObjects(t *testing.T) {
	t.Parallel()
	r := newHub(t, "").start(t)
	admin := r.admin(t)
	admin.must(t, newSource("shop"), newCluster("a", "env", "prod"), newCluster("b", "env", "prod"))
	g := newGlobal("logs", prod())
	g.Spec.OnLeave = consolev1.OnLeave_ON_LEAVE_DETACH
	admin.putGlobal(t, g)
	if _, err := admin.clusters.DeleteCluster(t.Context(), &consolev1.DeleteClusterRequest{Name: "a"}); err != nil {
		t.Fatal(err)
	}
	admin.must(t, newCluster("b"))
	if _, err := admin.services.DeleteService(t.Context(), &consolev1.DeleteServiceRequest{Name: "logs-b"}); err != nil {
		t.Fatal(err)
	}
	told := map[string]string{}
	for _, e := range listEvents(t, r.events(t, r.adminToken(t)), "type = service.deleted") {
		told[e.GetService()] = e.GetMessage()
	}
	if want := "It was deleted with its cluster, whose agents are let in no more: its objects stay there."; told["logs-a"] != want {
		t.Errorf("of the deleted cluster: %q", told["logs-a"])
	}
	if want := "It was deleted; its objects go from the cluster."; told["logs-b"] != want {
		t.Errorf("of the other: %q", told["logs-b"])
	}
}

// The names of two global services and of two clusters can make the same name of a service.
func TestADeletedClusterTakesNoServiceThatOnlyHasTheNameOfOneOfIts(t *testing.T) {
	t.Parallel()
	named := func(global, cluster string) *consolev1.GlobalService {
		g := newGlobal(global, nil)
		g.Spec.Clusters = &consolev1.ClusterSelector{Names: []string{cluster}}
		return g
	}
	both(t, func(t *testing.T, admin api) {
		admin.must(t, newSource("shop"), newCluster("eu1"), newCluster("prod-eu1"), newCluster("other"),
			named("web", "prod-eu1"), named("web-prod", "other"), named("logs", "eu1"))
		if _, err := admin.clusters.DeleteCluster(t.Context(), &consolev1.DeleteClusterRequest{Name: "eu1"}); err != nil {
			t.Fatal(err)
		}
		if got, want := admin.served(t), "web-prod-eu1:logs@prod-eu1 web-prod-other:logs@other"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

// Where one write deletes services and their cluster, and where the cluster has left before, nothing deletes objects.
func TestAServiceDeletedBesideItsClusterOrAfterItLeftLeavesItsObjects(t *testing.T) {
	t.Parallel()
	r := newHub(t, "").start(t)
	admin := r.admin(t)
	set := func(confirmation string, list ...proto.Message) error {
		_, err := admin.apply(t, &consolev1.ApplyRequest{
			Set: "fleet", Prune: true, Confirmation: confirmation, Resources: anyOf(list...),
		})
		return err
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	shop, b := newSource("shop"), newCluster("b")
	must(set("", shop, b, newCluster("a", "env", "prod"), newService("web", "shop", "a"), newGlobal("logs", prod())))
	confirmation := detail[*consolev1.ConfirmationWanted](t, set("", shop, b)).GetConfirmation()
	must(set(confirmation, shop, b))
	etl := newService("etl", "shop", "b")
	etl.Spec.Sync = &deliveryv1.SyncSpec{OnDelete: deliveryv1.DeletePolicy_DELETE_POLICY_ORPHAN}
	admin.must(t, newService("db", "shop", "b"), etl)
	_, err := admin.logins.LeaveCluster(t.Context(), &consolev1.LeaveClusterRequest{Cluster: "b"})
	must(err)
	for _, name := range []string{"db", "etl"} {
		_, err := admin.services.DeleteService(t.Context(), &consolev1.DeleteServiceRequest{Name: name})
		must(err)
	}
	told := map[string]string{}
	for _, e := range listEvents(t, r.events(t, r.adminToken(t)), "type = service.deleted") {
		told[e.GetService()] = e.GetMessage()
	}
	const beside = "It was deleted with its cluster, whose agents are let in no more: its objects stay there."
	for service, want := range map[string]string{
		"web": beside, "logs-a": beside,
		"db":  "It was deleted after its cluster had left: its objects stay there until an agent joins again.",
		"etl": "It was deleted after its cluster had left: its objects stay there, with its mark until an agent joins again.",
	} {
		if told[service] != want {
			t.Errorf("of %s: %q", service, told[service])
		}
	}
}

func TestADeletedGlobalServiceSaysWhoseObjectsStay(t *testing.T) {
	t.Parallel()
	admin := newHub(t, "").start(t).admin(t)
	admin.must(t, newSource("shop"), newCluster("a", "env", "prod"))
	g := newGlobal("logs", prod())
	g.Spec.Template.Sync = &deliveryv1.SyncSpec{OnDelete: deliveryv1.DeletePolicy_DELETE_POLICY_ORPHAN}
	admin.putGlobal(t, g)
	_, err := admin.globals.DeleteGlobalService(t.Context(), &consolev1.DeleteGlobalServiceRequest{Name: "logs"})
	const want = `service "logs-a" is deleted, and its objects stay in the cluster, without its mark`
	if got := detail[*consolev1.ConfirmationWanted](t, err).GetConsequences(); !slices.Equal(got, []string{want}) {
		t.Errorf("got %q", got)
	}
	g.Spec.Template.Sync = nil
	admin.putGlobal(t, g)
	if _, err := admin.logins.LeaveCluster(t.Context(), &consolev1.LeaveClusterRequest{Cluster: "a"}); err != nil {
		t.Fatal(err)
	}
	_, err = admin.globals.DeleteGlobalService(t.Context(), &consolev1.DeleteGlobalServiceRequest{Name: "logs"})
	const left = `service "logs-a" is deleted, and its objects stay in the cluster, which has left, until an agent joins again`
	if got := detail[*consolev1.ConfirmationWanted](t, err).GetConsequences(); !slices.Equal(got, []string{left}) {
		t.Errorf("got %q", got)
	}
}

func TestNameTakenIsAProblemNotAnOverwrite(t *testing.T) {
	t.Parallel()
	admin := newHub(t, "").start(t).admin(t)
	admin.must(t, newSource("shop"), newCluster("a", "env", "prod"), newService("logs-a", "shop", "a"))
	g := newGlobal("logs", prod())
	preview, err := admin.globals.PreviewGlobalService(t.Context(), &consolev1.PreviewGlobalServiceRequest{
		GlobalService: g,
	})
	if err != nil || !strings.Contains(preview.GetServices()[0].GetProblem(), `service "logs-a" exists already`) {
		t.Errorf("got %v, %v", preview, err)
	}
	_, err = admin.globals.UpdateGlobalService(t.Context(), &consolev1.UpdateGlobalServiceRequest{
		GlobalService: g, AllowMissing: true,
	})
	wantCode(t, err, connect.CodeFailedPrecondition, `service "logs-a" exists already`)
	// Names that would be too long are cut, and stay apart.
	long := strings.Repeat("l", 60)
	admin.must(t, newCluster("edge-1", "env", "prod"), newCluster("edge-2", "env", "prod"))
	admin.putGlobal(t, newGlobal(long, map[string]string{"env": "prod"}))
	if n := strings.Count(admin.served(t), strings.Repeat("l", 56)+"-"); n != 3 {
		t.Error(admin.served(t))
	}
}

func TestGlobalPreviewEqualsWhatIsWritten(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, admin api) {
		admin.must(t, newSource("shop"), newCluster("a", "env", "prod"), newCluster("b", "env", "prod"),
			newCluster("c", "env", "prod", "zone", "x"), newCluster("d"))
		g := newGlobal("logs", prod())
		admin.putGlobal(t, g)
		g.Spec.Clusters = &consolev1.ClusterSelector{Names: []string{"b", "c", "d"}}
		g.Spec.Overrides = []*consolev1.GlobalOverride{
			{Clusters: &consolev1.ClusterSelector{Labels: map[string]string{"zone": "x"}}, Path: "zone"},
		}
		before := admin.served(t)
		p, err := admin.globals.PreviewGlobalService(t.Context(), &consolev1.PreviewGlobalServiceRequest{
			GlobalService: g,
		})
		if err != nil || p.GetCreated() != 1 || p.GetUpdated() != 1 || p.GetUnchanged() != 1 || p.GetDeleted() != 1 ||
			p.GetHeldBack() {
			t.Fatalf("got %v, %v", p, err)
		}
		if admin.served(t) != before {
			t.Error("a preview has written")
		}
		for _, s := range p.GetServices() {
			if s.GetName() == "logs-c" && !strings.Contains(s.GetDiff(), "\n+  path: zone\n") {
				t.Error(s.GetDiff())
			}
		}
		dry, err := admin.apply(t, &consolev1.ApplyRequest{DryRun: true, Resources: anyOf(g)})
		if err != nil || dry[0].GetNote() != "1 service created, 1 service updated, 1 service deleted" {
			t.Errorf("got %v, %v", dry, err)
		}
		admin.putGlobal(t, g)
		if got := admin.served(t); got != "logs-b:logs@b logs-c:zone@c logs-d:logs@d" {
			t.Error(got)
		}
	})
}

// As many services go as maxDeletions says, also where that is more than a tenth of them.
func TestGuardLetsGoWhatItIsTold(t *testing.T) {
	t.Parallel()
	admin := newHub(t, "").start(t).admin(t)
	const clusters, most = 10, 4
	with, without := []proto.Message{newSource("shop")}, []proto.Message(nil)
	for i := range clusters {
		name := fmt.Sprintf("c%d", i)
		with, without = append(with, newCluster(name, "env", "prod")), append(without, newCluster(name))
	}
	admin.must(t, with...)
	g := newGlobal("logs", prod())
	g.Spec.MaxDeletions = most
	admin.putGlobal(t, g)
	held := func() int32 {
		t.Helper()
		got, err := admin.globals.GetGlobalService(t.Context(), &consolev1.GetGlobalServiceRequest{Name: "logs"})
		if err != nil {
			t.Fatal(err)
		}
		return got.GetGlobalService().GetStatus().GetHeldBackTotal()
	}
	admin.must(t, without[:most]...)
	if n := held(); n != 0 {
		t.Errorf("of %d that may go %d are held back", most, n)
	}
	admin.must(t, without[most:]...)
	if n := held(); n != clusters-most {
		t.Errorf("%d are held back, want %d", n, clusters-most)
	}
}

// The guard holds back since it kept the first of what it keeps now, also for a console that starts later.
func TestGuardSaysSinceWhenItHoldsBack(t *testing.T) {
	t.Parallel()
	for name, db := range eitherDatabase(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHub(t, db)
			r := h.start(t)
			admin := r.admin(t)
			in, out := func(name string) proto.Message { return newCluster(name, "env", "prod") }, func(name string) proto.Message { return newCluster(name) }
			admin.must(t, newSource("shop"), in("a"), in("b"), in("c"), in("d"))
			g := newGlobal("logs", prod())
			g.Spec.MaxDeletions = 1
			admin.putGlobal(t, g)
			since := func() (at time.Time, held string) {
				t.Helper()
				got, err := admin.globals.GetGlobalService(t.Context(), &consolev1.GetGlobalServiceRequest{Name: "logs"})
				if err != nil {
					t.Fatal(err)
				}
				status := got.GetGlobalService().GetStatus()
				if at := status.GetHeldBackSince(); at != nil {
					return at.AsTime(), strings.Join(status.GetHeldBack(), " ")
				}
				return time.Time{}, strings.Join(status.GetHeldBack(), " ")
			}
			want := func(what string, since, want time.Time, held, wantHeld string) {
				t.Helper()
				if !since.Equal(want) || held != wantHeld {
					t.Errorf("%s: %q since %v, want %q since %v", what, held, since, wantHeld, want)
				}
			}
			admin.must(t, out("a")) // may go
			at, held := since()
			want("within what may go", at, time.Time{}, held, "")
			begin := time.Now().Truncate(time.Microsecond)
			admin.must(t, out("b"))
			end := time.Now()
			first, held := since()
			if first.Before(begin) || first.After(end) || held != "logs-b" {
				t.Fatalf("%q since %v, want logs-b since %v to %v", held, first, begin, end)
			}
			admin.must(t, out("c"))
			at, held = since()
			want("one more", at, first, held, "logs-b logs-c")
			r.stop()
			admin = h.start(t).admin(t)
			at, held = since()
			want("after a restart", at, first, held, "logs-b logs-c")
			admin.must(t, in("b"))
			second, held := since()
			if !second.After(first) || held != "logs-c" {
				t.Errorf("the first is chosen again: %q since %v, want logs-c since later than %v", held, second, first)
			}
			admin.must(t, in("c"))
			at, held = since()
			want("all are chosen again", at, time.Time{}, held, "")
			admin.must(t, out("b"))
			if at, held = since(); !at.After(second) || held != "logs-b" {
				t.Errorf("the first leaves again: %q since %v, want logs-b since later than %v", held, at, second)
			}
		})
	}
}

// A person who writes a cluster learns of the services that are kept there, but no name of a global service that the
// person may not see.
func TestWhoSeesNoGlobalServiceLearnsNoneByItsGuard(t *testing.T) {
	t.Parallel()
	r := newHub(t, "").start(t)
	admin := r.admin(t)
	admin.must(t, newSource("shop"), newCluster("a", "env", "prod"), newCluster("b", "env", "prod"))
	admin.putGlobal(t, newGlobal("logs", prod()))
	admin.let(t, "edges", "admin", &consolev1.GrantClusters{Names: []string{"a", "b"}})
	done, err := r.user(t, "ada", "edges").apply(t, &consolev1.ApplyRequest{
		Resources: anyOf(newCluster("a"), newCluster("b")),
	})
	if err != nil {
		t.Fatal(err)
	}
	notes := done[0].GetNote() + done[1].GetNote()
	if !strings.Contains(notes, "of a global service that you may not see, 1 service is kept") || strings.Contains(notes, "logs") {
		t.Errorf("told %q", notes)
	}
}

func TestGuardHoldsBackAMassDeletion(t *testing.T) {
	t.Parallel()
	for name, oneByOne := range map[string]bool{"one by one": true, "at once": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			both(t, func(t *testing.T, admin api) {
				const clusters = 60
				with, without := []proto.Message{newSource("shop")}, []proto.Message(nil)
				for i := range clusters {
					with, without = append(with,
						newCluster(fmt.Sprintf("c%03d", i), "env", "prod")), append(without,
						newCluster(fmt.Sprintf("c%03d", i)))
				}
				admin.must(t, with...)
				g := newGlobal("logs", prod())
				admin.putGlobal(t, g)
				if oneByOne {
					for _, c := range without {
						admin.must(t, c)
					}
				} else {
					done, err := admin.apply(t, &consolev1.ApplyRequest{Resources: anyOf(without...)})
					said := 0
					for _, r := range done {
						if strings.Contains(r.GetNote(), `"logs", 1 service is kept until `+"`fairlead confirm global logs`") {
							said++
						}
					}
					if err != nil || said != clusters-clusters/10 {
						t.Errorf("%d clusters say that their service stays, %v", said, err)
					}
				}
				got, err := admin.globals.GetGlobalService(t.Context(), &consolev1.GetGlobalServiceRequest{
					Name: "logs",
				})
				if status := got.GetGlobalService().GetStatus(); err != nil ||
					status.GetHeldBackTotal() != clusters-clusters/10 || status.GetClusters() != 0 {
					t.Fatalf("got %v, %v", status, err)
				}
				// A change that is held back stays so, whatever else is written.
				g.Metadata.Labels = map[string]string{"news": "yes"}
				admin.putGlobal(t, g)
				p, err := admin.globals.PreviewGlobalService(t.Context(),
					&consolev1.PreviewGlobalServiceRequest{GlobalService: g})
				if err != nil || !p.GetHeldBack() || p.GetUnchanged() != clusters-clusters/10 {
					t.Fatalf("got %v, %v", p, err)
				}
				// A person lets it go: what it was told of, and nothing else.
				_, err = admin.globals.ConfirmGlobalService(t.Context(), &consolev1.ConfirmGlobalServiceRequest{
					Name: "logs", Confirmation: "x",
				})
				wantCode(t, err, connect.CodeFailedPrecondition, "preview again")
				admin.must(t, with[clusters])
				_, err = admin.globals.ConfirmGlobalService(t.Context(), &consolev1.ConfirmGlobalServiceRequest{
					Name: "logs", Confirmation: p.GetConfirmation(),
				})
				wantCode(t, err, connect.CodeFailedPrecondition, "preview again")
				if p, err = admin.globals.PreviewGlobalService(t.Context(),
					&consolev1.PreviewGlobalServiceRequest{GlobalService: g}); err != nil {
					t.Fatal(err)
				}
				if err := answered(func() error {
					_, err := admin.globals.ConfirmGlobalService(t.Context(),
						&consolev1.ConfirmGlobalServiceRequest{Name: "logs", Confirmation: p.GetConfirmation()})
					return err
				}); err != nil {
					t.Fatal(err)
				}
				if got := admin.served(t); got != fmt.Sprintf("logs-c%03d:logs@c%03d", clusters-1, clusters-1) {
					t.Error(got)
				}
				_, err = admin.globals.ConfirmGlobalService(t.Context(), &consolev1.ConfirmGlobalServiceRequest{
					Name: "logs", Confirmation: p.GetConfirmation(),
				})
				wantCode(t, err, connect.CodeFailedPrecondition, "nothing is held back")
			})
		})
	}
}

func TestPreviewOfAGlobalServiceShowsOnlyWhatTheCallerSees(t *testing.T) {
	overBoth(t, func(t *testing.T, r *running) {
		admin := r.admin(t)
		admin.must(t, newSource("shop"), newCluster("a", "env", "prod"), newCluster("b", "env", "prod"))
		admin.putProject(t, "bank")
		admin.putProject(t, "toys")
		foreign := newGlobal("logs", prod())
		foreign.Spec.Template.Project, foreign.Spec.Template.Path = "bank", "hidden"
		admin.putGlobal(t, foreign)
		admin.let(t, "toymakers", "viewer", &consolev1.GrantClusters{Names: []string{"a"}}, "toys")
		admin.let(t, "tellers", "viewer", &consolev1.GrantClusters{Names: []string{"a"}}, "bank")
		ask := func(group, name, project string) *consolev1.PreviewGlobalServiceResponse {
			g := newGlobal(name, prod())
			g.Spec.Template.Project, g.Spec.Template.Path = project, "x"
			p, err := r.user(t, "bob", group).globals.PreviewGlobalService(t.Context(),
				&consolev1.PreviewGlobalServiceRequest{GlobalService: g})
			if err != nil {
				t.Fatal(err)
			}
			return p
		}
		taken, free := ask("toymakers", "logs", "toys"), ask("toymakers", "none", "toys")
		if got, want := strings.ReplaceAll(taken.String(), "logs", "none"), free.String(); got != want {
			t.Errorf("a foreign name is previewed as %s, and a free one as %s", got, want)
		}
		if text := taken.String() + free.String(); strings.Contains(text, "hidden") || strings.Contains(text, `"b"`) {
			t.Errorf("shown: %s", text)
		}
		if p := ask("tellers", "logs", "bank"); p.GetUpdated() != 1 || len(p.GetServices()) != 1 ||
			p.GetServices()[0].GetCluster() != "a" {
			t.Errorf("the project's own preview is %v", p)
		}
		got, err := r.user(t, "bob", "tellers").globals.GetGlobalService(t.Context(),
			&consolev1.GetGlobalServiceRequest{Name: "logs"})
		if err != nil || got.GetGlobalService().GetStatus().GetClusters() != 1 {
			t.Errorf("got %v, %v", got, err)
		}
	})
}

func TestTheRefusalToDeleteAGlobalServiceNamesOnlyWhatTheCallerSees(t *testing.T) {
	overBoth(t, func(t *testing.T, r *running) {
		admin := r.admin(t)
		admin.must(t, newSource("shop"), newCluster("a", "env", "prod"), newCluster("b", "env", "prod"),
			newCluster("c", "env", "prod"))
		admin.putProject(t, "bank")
		if _, err := admin.roles.UpdateRole(t.Context(), &consolev1.UpdateRoleRequest{
			AllowMissing: true, Role: &consolev1.Role{Metadata: meta("globals"), Spec: &consolev1.RoleSpec{
				Rules: []*consolev1.RoleRule{{Verbs: []string{"*"}, Kinds: []string{"GlobalService"}}},
			}},
		}); err != nil {
			t.Fatal(err)
		}
		admin.let(t, "planners", "globals", &consolev1.GrantClusters{All: true}, "bank")
		admin.let(t, "tellers", "operator", &consolev1.GrantClusters{Names: []string{"a"}}, "bank")
		bob := r.user(t, "bob", "planners", "tellers")
		for _, c := range []struct {
			leave consolev1.OnLeave
			want  []string
		}{
			{consolev1.OnLeave_ON_LEAVE_DELETE, []string{
				"2 services that you may not see are deleted", `service "logs-a" is deleted, and its objects with it`,
			}},
			{consolev1.OnLeave_ON_LEAVE_DETACH, []string{
				"2 services that you may not see are kept", `service "logs-a" stays, on its own`,
			}},
		} {
			g := newGlobal("logs", prod())
			g.Spec.Template.Project, g.Spec.OnLeave = "bank", c.leave
			admin.putGlobal(t, g)
			_, err := bob.globals.DeleteGlobalService(t.Context(), &consolev1.DeleteGlobalServiceRequest{Name: "logs"})
			wantCode(t, err, connect.CodeFailedPrecondition, `global service "logs" has 3 services: confirm it`)
			wanted := detail[*consolev1.ConfirmationWanted](t, err)
			if got := wanted.GetConsequences(); !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
			_, err = bob.globals.DeleteGlobalService(t.Context(),
				&consolev1.DeleteGlobalServiceRequest{Name: "logs", Confirmation: wanted.GetConfirmation()})
			if err != nil {
				t.Error(err)
			}
		}
	})
}
