package acceptance

import (
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	artifactv1 "fairlead.dev/gen/fairlead/artifact/v1"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/window"
)

// always is a deny window that is open at any time.
func always() *deliveryv1.SyncWindow {
	return &deliveryv1.SyncWindow{
		Name: "always", Action: deliveryv1.WindowAction_WINDOW_ACTION_DENY, Schedule: "0 0 * * *",
		Duration: durationpb.New(744 * time.Hour), Reason: "the sale",
	}
}

// inProjectShop has a service of project shop on edge-1, and a person that may deploy there and nothing more.
func inProjectShop(t *testing.T, r *running, windows ...*deliveryv1.SyncWindow) (admin, deployer api) {
	t.Helper()
	admin = r.admin(t)
	admin.putSource(t, "shop", "https://git.example.com/shop")
	admin.putCluster(t, "edge-1")
	projectShop(t, admin, windows...)
	if err := admin.tryService(t, serviceOf("web", "edge-1", "shop")); err != nil {
		t.Fatal(err)
	}
	role := &consolev1.Role{
		Metadata: meta("release"),
		Spec: &consolev1.RoleSpec{
			Rules: []*consolev1.RoleRule{{Verbs: []string{"view", "deploy"}, Kinds: []string{"Service", "Cluster"}}},
		},
	}
	admin.must(t, role)
	admin.let(t, "releasers", "release", &consolev1.GrantClusters{All: true})
	return admin, r.user(t, "bob", "releasers")
}

func projectShop(t *testing.T, admin api, windows ...*deliveryv1.SyncWindow) {
	t.Helper()
	_, err := admin.projects.UpdateProject(t.Context(), &consolev1.UpdateProjectRequest{
		AllowMissing: true, Project: &consolev1.Project{
			Metadata: meta("shop"), Spec: &consolev1.ProjectSpec{
				Sources: []string{"*"}, Clusters: &consolev1.ClusterSelector{All: true}, Windows: windows,
			},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
}

func askSync(t *testing.T, who api, override bool, only ...string) (*consolev1.Service, error) {
	t.Helper()
	out, err := who.levers.RequestSync(t.Context(), &consolev1.RequestSyncRequest{
		Name: "web", Override: override, Only: only,
	})
	return out.GetService(), err
}

// refusedWith fails unless an error has this code and these words.
func refusedWith(t *testing.T, err error, code connect.Code, words ...string) {
	t.Helper()
	if connect.CodeOf(err) != code {
		t.Errorf("got %v, want %v", err, code)
		return
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%v does not say %q", err, word)
		}
	}
}

func TestAClosedWindowRefusesASyncAndIsOverriddenByRight(t *testing.T) {
	overBoth(t, func(t *testing.T, r *running) {
		admin, deployer := inProjectShop(t, r, always())
		if w := admin.service(t, "web").GetStatus().GetWindows(); !w.GetClosed() || w.GetManualSync() ||
			!strings.Contains(w.GetMessage(), `deny window "always" of project "shop" (the sale)`) {
			t.Errorf("windows: %v", w)
		}
		for _, who := range []api{admin, deployer} {
			_, err := askSync(t, who, false)
			refusedWith(t, err, connect.CodeFailedPrecondition, `deny window "always" of project "shop"`, "--override")
		}
		_, err := askSync(t, deployer, true)
		refusedWith(t, err, connect.CodePermissionDenied, "may not override", `deny window "always"`,
			`may not edit project "shop"`)
		asked, err := askSync(t, admin, true)
		id := window.Closing{Kind: "project", Name: "shop", Windows: []*deliveryv1.SyncWindow{always()}}.ID()
		if err != nil || !asked.GetSpec().GetSync().GetRequestOverride() ||
			!slices.Equal(asked.GetSpec().GetSync().GetRequestOverrides(), []string{id}) {
			t.Fatalf("%v, %v", asked.GetSpec().GetSync(), err)
		}
		named := always()
		named.Overriders = []string{"group:nobody", "user:bob"}
		projectShop(t, admin, named)
		if asked, err = askSync(t, deployer, true); err != nil || !asked.GetSpec().GetSync().GetRequestOverride() {
			t.Fatalf("%v, %v", asked.GetSpec().GetSync(), err)
		}
		if asked.GetLevers() != nil {
			t.Errorf("levers: %v", asked.GetLevers())
		}
		history, err := r.histories(t, r.adminToken(t)).ListRevisions(t.Context(),
			&consolev1.ListRevisionsRequest{Kind: consolev1.Kind_KIND_SERVICE, Name: "web"})
		if err != nil || history.GetRevisions()[0].GetAction() != "sync asked over closed windows" ||
			history.GetRevisions()[0].GetAuthor() != "user:bob" {
			t.Errorf("history: %v, %v", history.GetRevisions()[0], err)
		}
		let := always()
		let.ManualSync = true
		projectShop(t, admin, let)
		if w := admin.service(t, "web").GetStatus().GetWindows(); !w.GetClosed() || !w.GetManualSync() {
			t.Errorf("windows: %v", w)
		}
		if asked, err = askSync(t, deployer, false); err != nil || asked.GetSpec().GetSync().GetRequestOverride() {
			t.Errorf("a window that lets a sync through: %v, %v", asked.GetSpec().GetSync(), err)
		}
		projectShop(t, admin)
		if w := admin.service(t, "web").GetStatus().GetWindows(); w != nil {
			t.Errorf("without windows: %v", w)
		}
		if asked, err = askSync(t, deployer, true); err != nil || asked.GetSpec().GetSync().GetRequestOverride() {
			t.Errorf("nothing to override: %v, %v", asked.GetSpec().GetSync(), err)
		}
	})
}

// A catalog folder is of a project as well, and nothing of it is applied in a cluster.
func TestListsTellOfWindowsBesideACatalogFolderOfTheProject(t *testing.T) {
	overBoth(t, func(t *testing.T, r *running) {
		admin, _ := inProjectShop(t, r, always())
		admin.must(t, &consolev1.ServiceAccount{Metadata: meta("robot"), Spec: &consolev1.ServiceAccountSpec{}})
		folder := &consolev1.Service{
			Metadata: meta("zz-folder"),
			Spec: &consolev1.ServiceSpec{
				Source: "shop", Path: "zz", Catalog: true, ServiceAccount: "robot", Project: "shop",
			},
		}
		if err := admin.tryService(t, folder); err != nil {
			t.Fatal(err)
		}
		list, err := admin.services.ListServices(t.Context(), &consolev1.ListServicesRequest{})
		if err != nil || len(list.GetServices()) != 2 {
			t.Fatalf("%v, %v", list, err)
		}
		for _, s := range list.GetServices() {
			if closed := s.GetStatus().GetWindows().GetClosed(); closed == s.GetSpec().GetCatalog() {
				t.Errorf("%s: closed is %t", s.GetMetadata().GetName(), closed)
			}
		}
	})
}

func TestAFreezeEndsByAnOperatorsWordAndByNoFile(t *testing.T) {
	overBoth(t, func(t *testing.T, r *running) {
		admin, deployer := inProjectShop(t, r)
		freeze := &consolev1.FreezeRequest{Kind: "project", Name: "shop", Reason: "the sale"}
		_, err := deployer.levers.Freeze(t.Context(), freeze)
		refusedWith(t, err, connect.CodePermissionDenied, `may not edit project "shop"`)
		freeze.UntilTime = timestamppb.New(time.Now().Add(-time.Minute))
		_, err = admin.levers.Freeze(t.Context(), freeze)
		refusedWith(t, err, connect.CodeInvalidArgument, "is over")
		freeze.UntilTime = nil
		out, err := admin.levers.Freeze(t.Context(), freeze)
		if err != nil || out.GetFreeze().GetAuthor() != "user:ada" || out.GetFreeze().GetReason() != "the sale" {
			t.Fatalf("%v, %v", out, err)
		}
		projectShop(t, admin) // as CI does
		project, err := admin.projects.GetProject(t.Context(), &consolev1.GetProjectRequest{Name: "shop"})
		if err != nil || project.GetProject().GetFreeze().GetAuthor() != "user:ada" {
			t.Errorf("the freeze after a write of the project: %v, %v", project, err)
		}
		_, err = askSync(t, deployer, true)
		refusedWith(t, err, connect.CodePermissionDenied, `the freeze of project "shop" by user:ada (the sale)`)
		if _, err := admin.levers.Freeze(t.Context(), &consolev1.FreezeRequest{
			Kind: "cluster", Name: "edge-1", Reason: "moves", Drift: deliveryv1.WindowDrift_WINDOW_DRIFT_LEAVE,
		}); err != nil {
			t.Fatal(err)
		}
		if w := admin.service(t, "web").GetStatus().GetWindows(); !strings.Contains(w.GetMessage(),
			`the freeze of project "shop"`) || !strings.Contains(w.GetMessage(), `the freeze of cluster "edge-1"`) {
			t.Errorf("windows: %v", w)
		}
		admin.putCluster(t, "edge-1")
		for _, of := range []*consolev1.UnfreezeRequest{
			{Kind: "project", Name: "shop"}, {Kind: "cluster", Name: "edge-1"},
		} {
			_, err := deployer.levers.Unfreeze(t.Context(), of)
			refusedWith(t, err, connect.CodePermissionDenied, "may not edit")
			for _, was := range []bool{true, false} {
				if out, err := admin.levers.Unfreeze(t.Context(), of); err != nil || out.GetEnded() != was {
					t.Errorf("unfreeze %s: %v, %v", of.GetKind(), out, err)
				}
			}
		}
		if w := admin.service(t, "web").GetStatus().GetWindows(); w != nil {
			t.Errorf("windows: %v", w)
		}
	})
}

func TestWhatIsNoWindowIsRefusedByItsField(t *testing.T) {
	t.Parallel()
	admin := newHub(t, "").start(t).admin(t)
	admin.putSource(t, "shop", "https://git.example.com/shop")
	admin.putCluster(t, "edge-1")
	bad, twice := always(), []*deliveryv1.SyncWindow{always(), always()}
	bad.Schedule = "0 25 * * *"
	project := func(windows ...*deliveryv1.SyncWindow) error {
		_, err := admin.projects.UpdateProject(t.Context(), &consolev1.UpdateProjectRequest{
			AllowMissing: true,
			Project:      &consolev1.Project{Metadata: meta("shop"), Spec: &consolev1.ProjectSpec{Windows: windows}},
		})
		return err
	}
	refusedWith(t, project(always(), bad), connect.CodeInvalidArgument, "spec.windows[1]", `hour "25"`)
	refusedWith(t, project(twice...), connect.CodeInvalidArgument, "spec.windows[1].name")
	_, err := admin.clusters.UpdateCluster(t.Context(), &consolev1.UpdateClusterRequest{
		Cluster: &consolev1.Cluster{
			Metadata: meta("edge-1"), Spec: &consolev1.ClusterSpec{Windows: []*deliveryv1.SyncWindow{bad}},
		},
	})
	refusedWith(t, err, connect.CodeInvalidArgument, "spec.windows[0]")
	service := newService("web", "shop", "edge-1")
	service.Spec.Sync = &deliveryv1.SyncSpec{Windows: []*deliveryv1.SyncWindow{bad}}
	refusedWith(t, admin.tryService(t, service), connect.CodeInvalidArgument, "spec.sync.windows[0]")
}

// An agent that does not say that it holds windows is one of before there were any.
func TestAServiceSaysThatItsAgentCanNotHoldWindows(t *testing.T) {
	t.Parallel()
	r := newHub(t, "").start(t)
	admin, _ := inProjectShop(t, r, always())
	distributor := r.service(t, identity.ServiceDistributor)
	seen := func(behind time.Duration, can ...deliveryv1.AgentCapability) string {
		one := &consolev1.ClusterSeen{
			Cluster: "edge-1", Time: timestamppb.Now(), Agent: &deliveryv1.AgentInfo{Version: "v1", Capabilities: can},
		}
		if behind != 0 {
			one.ClockSkew = durationpb.New(behind)
		}
		if _, err := distributor.status.RecordSeen(t.Context(), &consolev1.RecordSeenRequest{
			Clusters: []*consolev1.ClusterSeen{one},
		}); err != nil {
			t.Fatal(err)
		}
		status := admin.service(t, "web").GetStatus()
		if !strings.HasSuffix(status.GetStateMessage(), status.GetWindows().GetFault()) {
			t.Errorf("the message %q lacks %q", status.GetStateMessage(), status.GetWindows().GetFault())
		}
		return status.GetWindows().GetFault()
	}
	if got := seen(0); !strings.Contains(got, "can't hold windows") {
		t.Errorf("an old agent: %q", got)
	}
	if got := seen(0, deliveryv1.AgentCapability_AGENT_CAPABILITY_WINDOWS); got != "" {
		t.Errorf("a new agent: %q", got)
	}
	if got := seen(3*time.Minute,
		deliveryv1.AgentCapability_AGENT_CAPABILITY_WINDOWS); !strings.Contains(got, "3 min behind the hub's") {
		t.Errorf("a slow clock: %q", got)
	}
	cluster, err := admin.clusters.GetCluster(t.Context(), &consolev1.GetClusterRequest{Name: "edge-1"})
	if err != nil || cluster.GetCluster().GetStatus().GetClockSkew().AsDuration() != 3*time.Minute ||
		!cluster.GetCluster().GetStatus().GetHoldsWindows() {
		t.Errorf("cluster: %v, %v", cluster, err)
	}
}

func TestARollbackKeepsTheWindowsOfNow(t *testing.T) {
	overBoth(t, func(t *testing.T, r *running) {
		p := newPast(t, r)
		with := func(names ...string) func(*consolev1.ServiceSpec) {
			return func(s *consolev1.ServiceSpec) {
				s.Sync = &deliveryv1.SyncSpec{}
				for _, name := range names {
					w := always()
					w.Name = name
					s.Sync.Windows = append(s.Sync.Windows, w)
				}
			}
		}
		has := func(when string, names ...string) {
			t.Helper()
			var got []string
			for _, w := range p.get(t).GetSync().GetWindows() {
				got = append(got, w.GetName())
			}
			if !slices.Equal(got, names) {
				t.Errorf("%s: the windows are %q, want %q", when, got, names)
			}
		}
		p.push(t, commitA)
		p.deliver(t, commitA, "d1", deliveryv1.Phase_PHASE_HEALTHY)
		p.file(t, with("sale"), false)
		p.push(t, commitB)
		p.deliver(t, commitB, "d2", deliveryv1.Phase_PHASE_FAILED)
		if _, err := p.history.RollbackService(t.Context(), &consolev1.RollbackServiceRequest{
			Service: "web", Keep: true,
		}); err != nil {
			t.Fatal(err)
		}
		has("rolled back to a spec without windows", "sale")
		p.file(t, with("sale", "nights"), false)
		has("a file has another window", "sale", "nights")
		p.file(t, nil, false)
		has("a file has none any more")
	})
}

func TestASyncOfAnObjectThatIsKnownNotToBeThereIsRefused(t *testing.T) {
	t.Parallel()
	p := newPast(t, newHub(t, "").start(t))
	distributor := p.syncing(t, p.distributorToken(t))
	detail := func(d *deliveryv1.ServiceDetail) {
		t.Helper()
		d.Service, d.ObservedTime = "web", timestamppb.Now()
		if _, err := distributor.objects.RecordDetails(t.Context(), &consolev1.RecordDetailsRequest{
			Cluster: "edge-1", Detail: d,
		}); err != nil {
			t.Fatal(err)
		}
	}
	p.push(t, commitA)
	p.deliver(t, commitA, "d1", deliveryv1.Phase_PHASE_HEALTHY)
	if _, err := askSync(t, p.admin, false, "Deployment/wbe"); err != nil {
		t.Errorf("nobody knows what the service has, and: %v", err)
	}
	p.deliver(t, commitA, "d2", deliveryv1.Phase_PHASE_HEALTHY)
	detail(&deliveryv1.ServiceDetail{
		Digest: "d2",
		Detail: &deliveryv1.ServiceDetail_Objects{Objects: &deliveryv1.ObjectList{Objects: []*deliveryv1.ManagedObject{
			{Group: "apps", Version: "v1", Kind: "Deployment", Namespace: "shop", Name: "web"},
		}}},
	})
	for _, name := range []string{"Deployment/wbe", "StatefulSet/web", "Deployment/other/web"} {
		_, err := askSync(t, p.admin, false, "Deployment/web", name)
		refusedWith(t, err, connect.CodeFailedPrecondition, "has no object "+name, "fairlead tree service web")
	}
	if _, err := askSync(t, p.admin, false, "deployment.apps/web", "Deployment/shop/web"); err != nil {
		t.Error(err)
	}
	// Waiting objects can be named, once the agent has told what they are.
	p.push(t, commitB)
	said := &consolev1.ServiceHub{
		Service: "web", Uid: p.uid,
		Hub: &consolev1.HubTruth{Digest: "d3", Revision: &artifactv1.Revision{Commit: commitB}},
	}
	p.record(t, &consolev1.RecordHubRequest{Services: []*consolev1.ServiceHub{said}})
	if _, err := askSync(t, p.admin, false, "ConfigMap/nwe"); err != nil {
		t.Errorf("nobody knows what waits, and: %v", err)
	}
	detail(&deliveryv1.ServiceDetail{Digest: "d3", Detail: &deliveryv1.ServiceDetail_Diff{Diff: &deliveryv1.Diff{
		Created: 1, Objects: []*deliveryv1.ObjectDiff{
			{Version: "v1", Kind: "ConfigMap", Namespace: "shop", Name: "new", Change: deliveryv1.Change_CHANGE_CREATE},
		},
	}}})
	if _, err := askSync(t, p.admin, false, "ConfigMap/new", "Deployment/web"); err != nil {
		t.Error(err)
	}
	_, err := askSync(t, p.admin, false, "ConfigMap/nwe")
	refusedWith(t, err, connect.CodeFailedPrecondition, "has no object ConfigMap/nwe")
	// The report that it is applied comes before the list of what the service has since: an object of it can be named
	// in between.
	p.deliver(t, commitB, "d4", deliveryv1.Phase_PHASE_HEALTHY)
	if _, err := askSync(t, p.admin, false, "ConfigMap/newer"); err != nil {
		t.Errorf("the list is of before, and: %v", err)
	}
	detail(&deliveryv1.ServiceDetail{
		Digest: "d4",
		Detail: &deliveryv1.ServiceDetail_Objects{Objects: &deliveryv1.ObjectList{Objects: []*deliveryv1.ManagedObject{
			{Version: "v1", Kind: "ConfigMap", Namespace: "shop", Name: "newer"},
		}}},
	})
	if _, err := askSync(t, p.admin, false, "ConfigMap/newer"); err != nil {
		t.Error(err)
	}
	_, err = askSync(t, p.admin, false, "ConfigMap/nwe")
	refusedWith(t, err, connect.CodeFailedPrecondition, "has no object ConfigMap/nwe")
}

func TestFreezesAreEventsAndOutlastAnUndoneDeletion(t *testing.T) {
	overBoth(t, func(t *testing.T, r *running) {
		admin := r.admin(t)
		admin.putCluster(t, "edge-1")
		projectShop(t, admin)
		for _, of := range []*consolev1.FreezeRequest{
			{Kind: "project", Name: "shop", Reason: "the sale"}, {Kind: "cluster", Name: "edge-1", Reason: "moves"},
		} {
			if _, err := admin.levers.Freeze(t.Context(), of); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := admin.levers.Unfreeze(t.Context(), &consolev1.UnfreezeRequest{
			Kind: "cluster", Name: "edge-1",
		}); err != nil {
			t.Fatal(err)
		}
		list := listEvents(t, r.events(t, r.adminToken(t)), "type : freeze.")
		var got []string
		for _, e := range list {
			got = append(got, e.GetType()+" "+e.GetProject()+e.GetCluster()+" by "+e.GetActor()+": "+e.GetMessage())
		}
		slices.Sort(got)
		want := []string{
			`freeze.released edge-1 by user:ada: Cluster "edge-1" is not frozen any more: what waits for nothing else is applied.`,
			`freeze.set edge-1 by user:ada: Cluster "edge-1" is frozen: moves. New content of its services waits until somebody unfreezes it.`,
			`freeze.set shop by user:ada: Project "shop" is frozen: the sale. New content of its services waits until somebody unfreezes it.`,
		}
		if !slices.Equal(got, want) {
			t.Errorf("events:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		if _, err := admin.projects.DeleteProject(t.Context(), &consolev1.DeleteProjectRequest{
			Name: "shop",
		}); err != nil {
			t.Fatal(err)
		}
		if _, err := r.histories(t, r.adminToken(t)).UndeleteResource(t.Context(),
			&consolev1.UndeleteResourceRequest{Kind: consolev1.Kind_KIND_PROJECT, Name: "shop"}); err != nil {
			t.Fatal(err)
		}
		project, err := admin.projects.GetProject(t.Context(), &consolev1.GetProjectRequest{Name: "shop"})
		if f := project.GetProject().GetFreeze(); err != nil || f.GetReason() != "the sale" ||
			f.GetAuthor() != "user:ada" {
			t.Errorf("after the undo: %v, %v", project, err)
		}
	})
}
