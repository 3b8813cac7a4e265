package acceptance

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/catalogyaml"
)

func anyOf(list ...proto.Message) []*consolev1.Resource {
	var out []*consolev1.Resource
	for _, m := range list {
		r, err := catalogyaml.Resource(m.(catalogyaml.Message))
		if err != nil {
			panic(err)
		}
		out = append(out, r)
	}
	return out
}

func newSource(name string) *consolev1.Source {
	return &consolev1.Source{
		Metadata: meta(name),
		Spec:     &consolev1.SourceSpec{Git: &consolev1.GitSource{Url: "https://git.example.com/" + name}},
	}
}

func newCluster(name string, labels ...string) *consolev1.Cluster {
	c := &consolev1.Cluster{Metadata: meta(name)}
	for i := 0; i+1 < len(labels); i += 2 {
		if c.Metadata.Labels == nil {
			c.Metadata.Labels = map[string]string{}
		}
		c.Metadata.Labels[labels[i]] = labels[i+1]
	}
	return c
}

func newService(name, source, cluster string) *consolev1.Service {
	return &consolev1.Service{Metadata: meta(name), Spec: &consolev1.ServiceSpec{Source: source, Cluster: cluster}}
}

func inProject(project string, s *consolev1.Service) *consolev1.Service {
	s.Spec.Project = project
	return s
}

func (a api) apply(t testing.TB, req *consolev1.ApplyRequest) ([]*consolev1.Applied, error) {
	t.Helper()
	resp, err := a.applies.Apply(t.Context(), req)
	return resp.GetResults(), err
}

// must is apply that is not refused; it returns kinds, names and outcomes.
func (a api) must(t testing.TB, list ...proto.Message) string {
	t.Helper()
	var got []*consolev1.Applied
	if err := answered(func() (err error) {
		got, err = a.apply(t, &consolev1.ApplyRequest{Resources: anyOf(list...)})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return outcomesOf(got)
}

func outcomesOf(list []*consolev1.Applied) string {
	var out []string
	for _, r := range list {
		kind := strings.ToLower(strings.TrimPrefix(r.GetKind().String(), "KIND_"))
		out = append(out, kind+"/"+r.GetName()+" "+
			strings.ToLower(strings.TrimPrefix(r.GetOutcome().String(), "APPLY_OUTCOME_")))
	}
	return strings.Join(out, ", ")
}

// detail finds a detail of an error.
func detail[M proto.Message](t testing.TB, err error) M {
	t.Helper()
	var none M
	refused, ok := errors.AsType[*connect.Error](err)
	if !ok {
		t.Fatalf("got %v", err)
	}
	for _, d := range refused.Details() {
		if m, err := d.Value(); err == nil {
			if m, ok := m.(M); ok {
				return m
			}
		}
	}
	t.Fatalf("%v has no %T", err, none)
	return none
}

func shopProject() *consolev1.Project {
	return &consolev1.Project{Metadata: meta("shop"), Spec: &consolev1.ProjectSpec{
		Description: "the shop", Sources: []string{"shop*"},
		Clusters: &consolev1.ClusterSelector{Labels: map[string]string{"env": "prod"}},
	}}
}

func TestProjectRefusesWhatItDoesNotAllow(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, admin api) {
		admin.must(t, newSource("shop"), newSource("shop-web"), newSource("other"), newCluster("prod", "env", "prod"),
			newCluster("test", "env", "test"), shopProject())
		admin.must(t, inProject("shop", newService("web", "shop-web", "prod")), newService("free", "other", "test"))
		for want, s := range map[string]*consolev1.Service{
			`service "bad": spec.source: project "shop" does not allow source "other"`: newService("bad", "other",
				"prod"),
			`service "bad": spec.cluster: project "shop" does not allow cluster "test"`: newService("bad", "shop",
				"test"),
		} {
			_, err := admin.services.UpdateService(t.Context(), &consolev1.UpdateServiceRequest{
				AllowMissing: true, Service: inProject("shop", s),
			})
			wantCode(t, err, connect.CodeFailedPrecondition, want)
		}
		_, err := admin.services.UpdateService(t.Context(), &consolev1.UpdateServiceRequest{
			AllowMissing: true, Service: inProject("none", newService("bad", "shop", "prod")),
		})
		wantCode(t, err, connect.CodeFailedPrecondition, `spec.project: project "none" does not exist`)
		_, err = admin.projects.DeleteProject(t.Context(), &consolev1.DeleteProjectRequest{Name: "shop"})
		wantCode(t, err, connect.CodeFailedPrecondition, `service "web"`)
		got, err := admin.projects.GetProject(t.Context(), &consolev1.GetProjectRequest{Name: "shop"})
		if err != nil || got.GetProject().GetStatus().GetServices() != 1 ||
			!proto.Equal(got.GetProject().GetSpec(), shopProject().GetSpec()) {
			t.Errorf("got %v, %v", got, err)
		}
		list, err := admin.projects.ListProjects(t.Context(), &consolev1.ListProjectsRequest{})
		if err != nil || len(list.GetProjects()) != 1 || list.GetProjects()[0].GetStatus().GetServices() != 1 {
			t.Errorf("got %v, %v", list, err)
		}
	})
}

// The namespace of a service is bounded by the console; those of its objects by agents.
func TestProjectBoundsNamespaces(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, admin api) {
		project := shopProject()
		project.Spec.Namespaces, project.Spec.Kinds, project.Spec.DeniedKinds = []string{"shop", "shop-*"}, []string{
			"*", "ClusterRole.rbac.authorization.k8s.io",
		}, []string{"Secret"}
		admin.must(t, newSource("shop"), newCluster("prod", "env", "prod"), project)
		in := func(namespace string) *consolev1.Service {
			s := inProject("shop", newService("web", "shop", "prod"))
			s.Spec.Namespace = namespace
			return s
		}
		for _, namespace := range []string{"", "kube-system"} {
			_, err := admin.services.UpdateService(t.Context(), &consolev1.UpdateServiceRequest{
				AllowMissing: true, Service: in(namespace),
			})
			wantCode(t, err, connect.CodeFailedPrecondition,
				`spec.namespace: project "shop" does not allow namespace "`+cmp.Or(namespace, "default"))
		}
		admin.must(t, in("shop-eu"))
		got, err := admin.projects.GetProject(t.Context(), &consolev1.GetProjectRequest{Name: "shop"})
		if err != nil || !proto.Equal(got.GetProject().GetSpec(), project.GetSpec()) {
			t.Errorf("got %v, %v", got, err)
		}
		project.Spec.Namespaces = []string{"shop"}
		_, err = admin.projects.UpdateProject(t.Context(), &consolev1.UpdateProjectRequest{Project: project})
		wantCode(t, err, connect.CodeFailedPrecondition, `service "web" (namespace "shop-eu")`)
	})
}

// A person who names an account acts with its rights: a controller's of Kubernetes may be all.
func TestProjectBoundsTheAccountsOfItsServices(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, admin api) {
		project := shopProject()
		project.Spec.Namespaces = []string{"shop", "shop-*"}
		admin.must(t, newSource("shop"), newCluster("prod", "env", "prod"), project)
		as := func(account string) *consolev1.Service {
			s := inProject("shop", newService("web", "shop", "prod"))
			s.Spec.Namespace, s.Spec.Sync = "shop", &deliveryv1.SyncSpec{Impersonate: account}
			return s
		}
		refused := func(account string) {
			t.Helper()
			_, err := admin.services.UpdateService(t.Context(), &consolev1.UpdateServiceRequest{
				AllowMissing: true, Service: as(account),
			})
			wantCode(t, err, connect.CodeFailedPrecondition,
				`spec.sync.impersonate: project "shop" does not allow account "`+account+`"`)
		}
		refused("kube-system/clusterrole-aggregation-controller")
		refused("bank/deployer")
		admin.must(t, as("shop-eu/deployer"))
		project.Spec.Accounts = []string{"ci/*", "shop-eu/deployer"}
		admin.must(t, project)
		refused("shop/deployer")
		admin.must(t, as("ci/shop"))
		got, err := admin.projects.GetProject(t.Context(), &consolev1.GetProjectRequest{Name: "shop"})
		if err != nil || !proto.Equal(got.GetProject().GetSpec(), project.GetSpec()) {
			t.Errorf("got %v, %v", got, err)
		}
		project.Spec.Accounts = []string{"shop/*"}
		_, err = admin.projects.UpdateProject(t.Context(), &consolev1.UpdateProjectRequest{Project: project})
		wantCode(t, err, connect.CodeFailedPrecondition, `service "web" (account "ci/shop")`)
		project.Spec.Accounts, project.Spec.Namespaces, project.Spec.Kinds = nil, nil, []string{"*"}
		admin.must(t, as(""))
		admin.must(t, project)
		refused("kube-system/clusterrole-aggregation-controller")
	})
}

func TestProjectChangeNamesWhatItWouldBreak(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, admin api) {
		list := []proto.Message{newSource("shop"), newCluster("prod", "env", "prod"), shopProject()}
		for _, name := range []string{"a", "b", "c", "d"} {
			list = append(list, inProject("shop", newService(name, "shop", "prod")))
		}
		admin.must(t, list...)
		narrow := shopProject()
		narrow.Spec.Sources = []string{"shop-*"}
		_, err := admin.projects.UpdateProject(t.Context(), &consolev1.UpdateProjectRequest{Project: narrow})
		wantCode(t, err, connect.CodeFailedPrecondition,
			`service "a" (source "shop"), service "b" (source "shop"), service "c" (source "shop") and 1 more`)
		wide := shopProject()
		wide.Spec.Sources = []string{"*"}
		if _, err := admin.projects.UpdateProject(t.Context(), &consolev1.UpdateProjectRequest{
			Project: wide,
		}); err != nil {
			t.Error(err)
		}
		for word, change := range map[string]func(*consolev1.ProjectSpec){
			"spec.sources[0]":     func(s *consolev1.ProjectSpec) { s.Sources = []string{"Shop!"} },
			"spec.namespaces[1]":  func(s *consolev1.ProjectSpec) { s.Namespaces = []string{"shop", "Shop"} },
			"spec.kinds[0]":       func(s *consolev1.ProjectSpec) { s.Kinds = []string{"apps/Deployment"} },
			"spec.deniedKinds[0]": func(s *consolev1.ProjectSpec) { s.DeniedKinds = []string{"Secret."} },
			"spec.accounts[0]":    func(s *consolev1.ProjectSpec) { s.Accounts = []string{"deployer"} },
			"spec.clusters.where": func(s *consolev1.ProjectSpec) {
				s.Clusters = &consolev1.ClusterSelector{Where: "name = a"}
			},
			"spec.config": func(s *consolev1.ProjectSpec) {
				s.Config = settings{"a": {Value: &consolev1.ConfigSetting_Json{Json: "1"}}}
			},
		} {
			p := shopProject()
			change(p.GetSpec())
			_, err := admin.projects.UpdateProject(t.Context(), &consolev1.UpdateProjectRequest{Project: p})
			wantCode(t, err, connect.CodeInvalidArgument, word)
		}
	})
}

func TestApplyIsAllOrNothing(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, admin api) {
		// In any order: it is written in the order of dependence, and answered in that of the request.
		all := []proto.Message{newService("web", "shop", "edge"), newCluster("edge"), newSource("shop")}
		if got := admin.must(t, all...); got != "service/web created, cluster/edge created, source/shop created" {
			t.Error(got)
		}
		if got := admin.must(t, all...); got != "service/web unchanged, cluster/edge unchanged, source/shop unchanged" {
			t.Error(got)
		}
		bad := newSource("bad")
		bad.Spec.Git.Url = "ftp://x"
		stale := newCluster("edge")
		stale.Metadata.Etag = "old"
		fresh := newSource("shop")
		fresh.Metadata.Etag = "new"
		good := newCluster("good")
		_, err := admin.apply(t, &consolev1.ApplyRequest{
			Resources: anyOf(good, bad, newService("one", "nowhere",
				"edge"), newService("two", "bad", "good"), stale, fresh),
		})
		var told []string
		for _, p := range detail[*consolev1.ApplyProblems](t, err).GetProblems() {
			told = append(told, fmt.Sprintf("%d %s %s %s: %s", p.GetIndex(), p.GetKind(), p.GetName(), p.GetField(),
				p.GetMessage()))
		}
		text := strings.Join(told, "\n")
		for _, want := range []string{
			"1 KIND_SOURCE bad spec.git.url: spec.git.url: ",
			`2 KIND_SERVICE one spec.source: service "one": spec.source: source "nowhere" does not exist`,
			`4 KIND_CLUSTER edge metadata.etag: cluster "edge": metadata.etag: it was changed in the meantime`,
			`5 KIND_SOURCE shop : source "shop" exists already`,
		} {
			if !strings.Contains(text, want) {
				t.Errorf("%q is not in\n%s", want, text)
			}
		}
		if len(told) != 4 {
			t.Errorf("told\n%s", text) // nothing of service two: it is well, but for what it names
		}
		_, err = admin.clusters.GetCluster(t.Context(), &consolev1.GetClusterRequest{Name: "good"})
		wantCode(t, err, connect.CodeNotFound)
		_, err = admin.apply(t, &consolev1.ApplyRequest{Resources: anyOf(good, good)})
		wantCode(t, err, connect.CodeInvalidArgument, "twice")
	})
}

func TestDryRunWritesNothingAndSaysAll(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, admin api) {
		key := func(data map[string]string) *consolev1.Secret {
			return &consolev1.Secret{Metadata: meta("key"), Data: data}
		}
		admin.must(t, newSource("shop"), newCluster("edge"), newService("web", "shop", "edge"),
			key(map[string]string{"token": "hunter2", "user": "git"}))
		next := newService("web", "shop", "edge")
		next.Spec.Ref = "next"
		got, err := admin.apply(t, &consolev1.ApplyRequest{
			DryRun: true,
			Resources: anyOf(next, newCluster("edge-2"), newSource("shop"),
				key(map[string]string{"token": "hunter3", "user": "git"})),
		})
		if err != nil || outcomesOf(got) != "service/web updated, cluster/edge-2 created, source/shop unchanged, secret/key updated" {
			t.Fatalf("got %s, %v", outcomesOf(got), err)
		}
		if d := got[0].GetDiff(); !strings.Contains(d, "\n+  ref: next\n") ||
			!strings.Contains(d, "\n   source: shop\n") {
			t.Error(d)
		}
		if d := got[1].GetDiff(); !strings.Contains(d, "\n+  name: edge-2\n") {
			t.Error(d)
		}
		if got[2].GetDiff() != "" {
			t.Error(got[2].GetDiff())
		}
		if d := got[3].GetDiff(); strings.Contains(d, "hunter") || !strings.Contains(d, "+  token: '*** (changed)'") ||
			!strings.Contains(d, "   user: '***'") {
			t.Error(d)
		}
		_, err = admin.clusters.GetCluster(t.Context(), &consolev1.GetClusterRequest{Name: "edge-2"})
		wantCode(t, err, connect.CodeNotFound)
		service, err := admin.services.GetService(t.Context(), &consolev1.GetServiceRequest{Name: "web"})
		if err != nil || service.GetService().GetSpec().GetRef() != "" ||
			service.GetService().GetMetadata().GetRevision() != 1 {
			t.Errorf("got %v, %v", service, err)
		}
	})
}

func TestPruneNeedsConfirmation(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, admin api) {
		set := func(confirmation string, list ...proto.Message) ([]*consolev1.Applied, error) {
			return admin.apply(t, &consolev1.ApplyRequest{
				Set: "fleet", Prune: true, Confirmation: confirmation, Resources: anyOf(list...),
			})
		}
		_, err := admin.apply(t, &consolev1.ApplyRequest{Prune: true})
		wantCode(t, err, connect.CodeInvalidArgument, "set")
		admin.must(t, newCluster("alone"))
		a, b, c := newCluster("a"), newCluster("b"), newCluster("c")
		if _, err := set("", newSource("shop"), a, b, c, newService("web", "shop", "a")); err != nil {
			t.Fatal(err)
		}
		// One may go, with what it is needed for in the right order.
		got, err := set("", newSource("shop"), a, b, newService("web", "shop", "a"))
		if err != nil || !strings.HasSuffix(outcomesOf(got), "cluster/c deleted") {
			t.Fatalf("got %s, %v", outcomesOf(got), err)
		}
		_, err = set("", b)
		wantCode(t, err, connect.CodeFailedPrecondition,
			`set "fleet": 3 of its 4 resources would be deleted: confirm it`)
		wanted := detail[*consolev1.ConfirmationWanted](t, err)
		if got := strings.Join(wanted.GetConsequences(),
			", "); got != `cluster "a" is deleted, service "web" is deleted, source "shop" is deleted` {
			t.Error(got)
		}
		dry, err := admin.apply(t, &consolev1.ApplyRequest{
			Set: "fleet", Prune: true, DryRun: true, Resources: anyOf(b),
		})
		if err != nil || len(dry) != 4 {
			t.Errorf("got %v, %v", dry, err)
		}
		// The confirmation is for this state only.
		a.Metadata.Labels = map[string]string{"fairlead.dev/set": "fleet", "news": "yes"}
		admin.must(t, a)
		_, err = set(wanted.GetConfirmation(), b)
		again := detail[*consolev1.ConfirmationWanted](t, err)
		_, err = set(again.GetConfirmation()+"x", b)
		wantCode(t, err, connect.CodeFailedPrecondition, "confirm it")
		got, err = set(again.GetConfirmation(), b)
		if err != nil || outcomesOf(got) != "cluster/b unchanged, cluster/a deleted, service/web deleted, source/shop deleted" {
			t.Fatalf("got %s, %v", outcomesOf(got), err)
		}
		if _, err := admin.clusters.GetCluster(t.Context(), &consolev1.GetClusterRequest{Name: "alone"}); err != nil {
			t.Error(err)
		}
	})
}

// TestSourcesThatNameOthersComeAndGoWithThem in one request, in any order of their names.
func TestSourcesThatNameOthersComeAndGoWithThem(t *testing.T) {
	overBoth(t, func(t *testing.T, r *running) {
		admin := r.admin(t)
		charts := newSource("charts")
		charts.Spec = &consolev1.SourceSpec{Helm: &consolev1.HelmSource{Url: "https://charts.example.com"}}
		first, last := newSource("a"), newSource("z")
		first.Spec.Git.ChartSources, last.Spec.Git.ChartSources = []string{"charts"}, []string{"charts"}
		_, err := admin.apply(t, &consolev1.ApplyRequest{Resources: anyOf(first)})
		wantCode(t, err, connect.CodeFailedPrecondition,
			`source "a": spec.git.chartSources[0]: source "charts" does not exist`)
		set := func(confirmation string, list ...proto.Message) (string, error) {
			got, err := admin.apply(t, &consolev1.ApplyRequest{
				Set: "fleet", Prune: true, Confirmation: confirmation,
				Resources: anyOf(list...),
			})
			return outcomesOf(got), err
		}
		if got, err := set("", first, charts, last); err != nil ||
			got != "source/a created, source/charts created, source/z created" {
			t.Fatalf("%s, %v", got, err)
		}
		_, err = admin.sources.DeleteSource(t.Context(), &consolev1.DeleteSourceRequest{Name: "charts"})
		wantCode(t, err, connect.CodeFailedPrecondition, `source "charts" is still named by source "a", source "z"`)
		own := newSource("own")
		own.Spec.Git.ChartSources = []string{"own"}
		_, err = admin.apply(t, &consolev1.ApplyRequest{Resources: anyOf(own)})
		wantCode(t, err, connect.CodeInvalidArgument, "spec.git.chartSources", "Name one with helm")

		_, err = set("", newCluster("b"))
		got, err := set(detail[*consolev1.ConfirmationWanted](t, err).GetConfirmation(), newCluster("b"))
		if err != nil || !strings.Contains(got, "source/a deleted, source/charts deleted, source/z deleted") {
			t.Fatalf("%s, %v", got, err)
		}
	})
}
