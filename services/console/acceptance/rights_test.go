package acceptance

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/server"
	"fairlead.dev/platform/telemetry"
	"fairlead.dev/services/console"
)

// user returns the API for a person, who needs no account.
func (r *running) user(t testing.TB, name string, groups ...string) api {
	t.Helper()
	return r.as(t, r.sign(t, identity.Identity{Kind: identity.KindUser, Name: name, Groups: groups}))
}

// let writes a grant for a group of the grant's name.
func (a api) let(t testing.TB, group, role string, clusters *consolev1.GrantClusters, projects ...string) {
	t.Helper()
	_, err := a.grants.UpdateGrant(t.Context(), &consolev1.UpdateGrantRequest{
		AllowMissing: true, Grant: &consolev1.Grant{
			Metadata: meta(group), Spec: &consolev1.GrantSpec{
				Subjects: []*consolev1.GrantSubject{{Subject: &consolev1.GrantSubject_Group{Group: group}}},
				Role:     role, Clusters: clusters, Projects: projects,
			},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (a api) putProject(t testing.TB, name string) {
	t.Helper()
	_, err := a.projects.UpdateProject(t.Context(), &consolev1.UpdateProjectRequest{
		AllowMissing: true, Project: &consolev1.Project{
			Metadata: meta(name), Spec: &consolev1.ProjectSpec{
				Sources: []string{"*"}, Clusters: &consolev1.ClusterSelector{All: true},
			},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
}

func serviceOf(name, cluster, project string) *consolev1.Service {
	return &consolev1.Service{
		Metadata: meta(name), Spec: &consolev1.ServiceSpec{Source: "shop", Cluster: cluster, Project: project},
	}
}

func (a api) tryService(t testing.TB, s *consolev1.Service) error {
	t.Helper()
	_, err := a.services.UpdateService(t.Context(), &consolev1.UpdateServiceRequest{AllowMissing: true, Service: s})
	return err
}

func named[R interface{ GetMetadata() *consolev1.Metadata }](list []R) string {
	var names []string
	for _, r := range list {
		names = append(names, r.GetMetadata().GetName())
	}
	return strings.Join(names, " ")
}

// overBoth runs a test over either database.
func overBoth(t *testing.T, test func(*testing.T, *running)) {
	t.Helper()
	t.Parallel()
	for name, db := range eitherDatabase(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newHub(t, db).start(t))
		})
	}
}

func TestListsShowNothingForeign(t *testing.T) {
	overBoth(t, func(t *testing.T, r *running) {
		admin := r.admin(t)
		admin.putSource(t, "shop", "https://git.example.com/shop.git")
		for _, name := range []string{"edge-1", "edge-2"} {
			admin.putCluster(t, name)
		}
		admin.putProject(t, "bank")
		if _, err := admin.secrets.UpdateSecret(t.Context(), &consolev1.UpdateSecretRequest{
			AllowMissing: true, Secret: &consolev1.Secret{Metadata: meta("git"), Data: map[string]string{"token": "x"}},
		}); err != nil {
			t.Fatal(err)
		}
		for _, s := range []*consolev1.Service{
			serviceOf("a", "edge-1", ""), serviceOf("b", "edge-2", ""), serviceOf("c", "edge-2", "bank"),
			serviceOf("d", "edge-1", "bank"),
		} {
			if err := admin.tryService(t, s); err != nil {
				t.Fatal(err)
			}
		}
		admin.let(t, "one", "viewer", &consolev1.GrantClusters{Names: []string{"edge-1"}})
		admin.let(t, "bankers", "operator", &consolev1.GrantClusters{All: true}, "bank")
		admin.let(t, "ops", "admin", &consolev1.GrantClusters{All: true})
		for group, want := range map[string]string{
			"nobody":  " |  |  |  | ",
			"one":     "shop | edge-1 | a d |  | one",
			"bankers": "shop | edge-1 edge-2 | c d |  | bankers",
			"ops":     "shop | edge-1 edge-2 | a b c d | git | ops",
		} {
			user := r.user(t, "bob", group)
			sources, err1 := user.sources.ListSources(t.Context(), &consolev1.ListSourcesRequest{})
			clusters, err2 := user.clusters.ListClusters(t.Context(), &consolev1.ListClustersRequest{})
			var services []*consolev1.Service
			for token := ""; ; {
				page, err := user.services.ListServices(t.Context(), &consolev1.ListServicesRequest{
					PageSize: 1, PageToken: token,
				})
				if err != nil {
					t.Fatal(err)
				}
				services = append(services, page.GetServices()...)
				if token = page.GetNextPageToken(); token == "" {
					break
				}
			}
			secrets, err3 := user.secrets.ListSecrets(t.Context(), &consolev1.ListSecretsRequest{})
			grants, err4 := user.grants.ListGrants(t.Context(), &consolev1.ListGrantsRequest{})
			for _, err := range []error{err1, err2, err3, err4} {
				if err != nil {
					t.Fatal(err)
				}
			}
			got := strings.Join([]string{
				named(sources.GetSources()), named(clusters.GetClusters()), named(services),
				named(secrets.GetSecrets()), named(grants.GetGrants()),
			}, " | ")
			if got != want {
				t.Errorf("%s sees %s, want %s", group, got, want)
			}
		}
		one := r.user(t, "bob", "one")
		_, err := one.services.GetService(t.Context(), &consolev1.GetServiceRequest{Name: "b"})
		wantCode(t, err, connect.CodeNotFound, `user "bob" may not view service "b": `,
			`grant "one" is for other projects or clusters`)
		_, err = one.secrets.GetSecret(t.Context(), &consolev1.GetSecretRequest{Name: "git"})
		wantCode(t, err, connect.CodeNotFound, "needs a grant with role admin")
		// That nothing would change tells nobody what a value is.
		for _, guess := range []string{"x", "y"} {
			_, err = one.secrets.UpdateSecret(t.Context(), &consolev1.UpdateSecretRequest{
				Secret: &consolev1.Secret{Metadata: meta("git"), Data: map[string]string{"token": guess}},
			})
			wantCode(t, err, connect.CodeNotFound, "may not view secret")
		}
		_, err = one.grants.GetGrant(t.Context(), &consolev1.GetGrantRequest{Name: "ops"})
		wantCode(t, err, connect.CodeNotFound, "ops")
		_, err = one.objects.GetServiceDiff(t.Context(), &consolev1.GetServiceDiffRequest{Name: "c"})
		wantCode(t, err, connect.CodeNotFound, `service "c"`)
		_, err = one.objects.GetServiceNotes(t.Context(), &consolev1.GetServiceNotesRequest{Name: "c"})
		wantCode(t, err, connect.CodeNotFound, `service "c"`)
		if _, err := one.audit.ListAuditEvents(t.Context(),
			&consolev1.ListAuditEventsRequest{}); connect.CodeOf(err) != connect.CodePermissionDenied {
			t.Errorf("the audit trail: %v", err)
		}
		// A right that was taken away is gone at once for lists.
		if _, err := admin.grants.DeleteGrant(t.Context(), &consolev1.DeleteGrantRequest{Name: "one"}); err != nil {
			t.Fatal(err)
		}
		if list, err := one.services.ListServices(t.Context(), &consolev1.ListServicesRequest{}); err != nil ||
			len(list.GetServices()) != 0 {
			t.Errorf("sees %v, %v", list, err)
		}
	})
}

// A role that may deploy and not edit pulls levers. The value of a secret setting is none.
func TestDeployersWriteNoSecretSettings(t *testing.T) {
	overBoth(t, func(t *testing.T, r *running) {
		admin := r.admin(t)
		web := func(own string) *consolev1.Service {
			return configured(newService("web", "shop", "edge-1"), nil, settings{"own": secretOf(own)})
		}
		admin.must(t, newSource("shop"), newCluster("edge-1"), web("hunter2"), &consolev1.Role{
			Metadata: meta("release"),
			Spec:     &consolev1.RoleSpec{Rules: []*consolev1.RoleRule{{Verbs: []string{"view", "deploy"}, Kinds: []string{"Service"}}}},
		})
		admin.let(t, "releasers", "release", &consolev1.GrantClusters{All: true})
		wantCode(t, r.user(t, "rae", "releasers").tryService(t, web("planted")), connect.CodePermissionDenied, `may not edit service "web"`)
		if got := admin.current(t, r.service(t, identity.ServiceDistributor), "web")["own"]; got != "hunter2" {
			t.Errorf("the service has %q", got)
		}
	})
}

func TestRefusalNamesTheRule(t *testing.T) {
	overBoth(t, func(t *testing.T, r *running) {
		admin := r.admin(t)
		admin.putSource(t, "shop", "https://git.example.com/shop.git")
		admin.putCluster(t, "edge-1")
		admin.putService(t, "web", "edge-1")
		admin.let(t, "readers", "viewer", &consolev1.GrantClusters{All: true})
		admin.let(t, "devs", "deployer", &consolev1.GrantClusters{Names: []string{"edge-1"}})
		_, err := admin.roles.UpdateRole(t.Context(), &consolev1.UpdateRoleRequest{
			AllowMissing: true, Role: &consolev1.Role{
				Metadata: meta("release"),
				Spec: &consolev1.RoleSpec{
					Rules: []*consolev1.RoleRule{{Verbs: []string{"view", "deploy"}, Kinds: []string{"Service"}}},
				},
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		admin.let(t, "releasers", "release", &consolev1.GrantClusters{All: true})

		web := serviceOf("web", "edge-1", "")
		wantCode(t, r.user(t, "eve").tryService(t, web), connect.CodePermissionDenied,
			`user "eve" may not edit service "web" (cluster "edge-1")`, "no grant is for this user")
		reader := r.user(t, "rob", "readers")
		wantCode(t, reader.tryService(t, web), connect.CodePermissionDenied,
			`grant "readers" gives role viewer, which does not include it`, "role deployer")
		_, err = reader.levers.HoldService(t.Context(), &consolev1.HoldServiceRequest{Name: "web", Reason: "look"})
		wantCode(t, err, connect.CodePermissionDenied, `may not deploy service "web"`)
		dev := r.user(t, "dan", "devs")
		if err := dev.tryService(t, web); err != nil {
			t.Errorf("deployer: %v", err)
		}
		_, err = dev.services.DeleteService(t.Context(), &consolev1.DeleteServiceRequest{Name: "web"})
		wantCode(t, err, connect.CodePermissionDenied, `may not delete service "web"`, "role operator")
		_, err = dev.clusters.DeleteCluster(t.Context(), &consolev1.DeleteClusterRequest{Name: "edge-1"})
		if connect.CodeOf(err) != connect.CodePermissionDenied &&
			connect.CodeOf(err) != connect.CodeFailedPrecondition {
			t.Errorf("delete a cluster: %v", err)
		}
		// A role of one's own that may deploy and not edit: levers, and nothing else.
		releaser := r.user(t, "rae", "releasers")
		if _, err := releaser.levers.HoldService(t.Context(), &consolev1.HoldServiceRequest{
			Name: "web", Reason: "look", Mode: deliveryv1.SyncMode_SYNC_MODE_HOLD,
		}); err != nil {
			t.Errorf("hold: %v", err)
		}
		web.Spec.Path = "elsewhere"
		wantCode(t, releaser.tryService(t, web), connect.CodePermissionDenied,
			`gives role release, which does not include it`)
		// A grant counts at once.
		admin.let(t, "late", "deployer", &consolev1.GrantClusters{All: true})
		if err := r.user(t, "lea", "late").tryService(t, web); err != nil {
			t.Errorf("right after the grant: %v", err)
		}

		for what, in := range map[string]*consolev1.Role{
			"always there": {Metadata: meta("viewer"), Spec: &consolev1.RoleSpec{}},
			"unknown kind": {
				Metadata: meta("x"),
				Spec: &consolev1.RoleSpec{
					Rules: []*consolev1.RoleRule{{Verbs: []string{"view"}, Kinds: []string{"Pod"}}},
				},
			},
			"rights itself": {
				Metadata: meta("x"),
				Spec: &consolev1.RoleSpec{
					Rules: []*consolev1.RoleRule{{Verbs: []string{"edit"}, Kinds: []string{"Grant"}}},
				},
			},
		} {
			if _, err := admin.roles.UpdateRole(t.Context(), &consolev1.UpdateRoleRequest{
				AllowMissing: true, Role: in,
			}); connect.CodeOf(err) != connect.CodeInvalidArgument {
				t.Errorf("%s: %v", what, err)
			}
		}
		if _, err := admin.roles.DeleteRole(t.Context(), &consolev1.DeleteRoleRequest{
			Name: "release",
		}); connect.CodeOf(err) != connect.CodeFailedPrecondition {
			t.Errorf("a role that a grant names was deleted: %v", err)
		}
		var roles []*consolev1.Role
		for token := ""; ; {
			page, err := admin.roles.ListRoles(t.Context(), &consolev1.ListRolesRequest{PageSize: 2, PageToken: token})
			if err != nil || len(page.GetRoles()) > 2 {
				t.Fatal(page, err)
			}
			roles = append(roles, page.GetRoles()...)
			if token = page.GetNextPageToken(); token == "" {
				break
			}
		}
		if got := named(roles); got != "viewer deployer operator admin release" {
			t.Errorf("roles %s", got)
		}
	})
}

// What `fairlead get roles -o yaml` says can be applied as it is.
func TestRolesThatAreAlwaysThereAreAppliedAsTheyAre(t *testing.T) {
	t.Parallel()
	admin := newHub(t, "").start(t).admin(t)
	own := &consolev1.Role{Metadata: meta("release"), Spec: &consolev1.RoleSpec{
		Rules: []*consolev1.RoleRule{{Verbs: []string{"deploy"}, Kinds: []string{"Service"}}},
	}}
	admin.must(t, own)
	listed, err := admin.roles.ListRoles(t.Context(), &consolev1.ListRolesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	roles := append([]*consolev1.Role{{Metadata: meta("fresh"), Spec: own.GetSpec()}}, listed.GetRoles()...)
	var all []*consolev1.Resource
	for _, role := range roles {
		all = append(all, anyOf(role)...)
	}
	got, err := admin.apply(t, &consolev1.ApplyRequest{Resources: all})
	if err != nil {
		t.Fatal(err)
	}
	for i, role := range roles {
		want := consolev1.ApplyOutcome_APPLY_OUTCOME_UNCHANGED
		if i == 0 {
			want = consolev1.ApplyOutcome_APPLY_OUTCOME_CREATED
		}
		is := got[i]
		if is.GetName() != role.GetMetadata().GetName() || is.GetKind() != consolev1.Kind_KIND_ROLE || is.GetOutcome() != want {
			t.Errorf("result %d of role %s: %v", i, role.GetMetadata().GetName(), is)
		}
	}
	viewer := roles[1]
	if _, err := admin.roles.UpdateRole(t.Context(), &consolev1.UpdateRoleRequest{Role: viewer}); err != nil {
		t.Error(err)
	}
	viewer.Spec.Rules[0].Verbs = append(viewer.Spec.Rules[0].Verbs, "edit")
	_, err = admin.apply(t, &consolev1.ApplyRequest{Resources: anyOf(viewer)})
	wantCode(t, err, connect.CodeInvalidArgument, `role "viewer" is always there and can't be changed: choose another name`)

	// A fault is told of its own resource, whatever stands before it.
	_, err = admin.apply(t, &consolev1.ApplyRequest{Resources: anyOf(
		roles[2], roles[0], roles[3], newService("wrong", "nowhere", "nowhere"),
	)})
	told := detail[*consolev1.ApplyProblems](t, err).GetProblems()
	if len(told) != 2 || told[0].GetIndex() != 3 || told[1].GetIndex() != 3 || told[0].GetName() != "wrong" {
		t.Errorf("the problems are %v", told)
	}
}

func TestMovingBetweenProjectsNeedsBoth(t *testing.T) {
	overBoth(t, func(t *testing.T, r *running) {
		admin := r.admin(t)
		admin.putSource(t, "shop", "https://git.example.com/shop.git")
		admin.putCluster(t, "edge-1")
		admin.putCluster(t, "edge-2")
		admin.putProject(t, "shop")
		admin.putProject(t, "bank")
		all, edge1 := &consolev1.GrantClusters{All: true}, &consolev1.GrantClusters{Names: []string{"edge-1"}}
		admin.let(t, "shop", "deployer", all, "shop")
		admin.let(t, "bank", "deployer", edge1, "bank")
		shop, two := r.user(t, "bob", "shop"), r.user(t, "kim", "shop", "bank")
		if err := shop.tryService(t, serviceOf("web", "edge-1", "shop")); err != nil {
			t.Fatal(err)
		}
		wantCode(t, shop.tryService(t, serviceOf("web", "edge-1", "bank")), connect.CodePermissionDenied,
			`project "bank"`)
		wantCode(t, shop.tryService(t, serviceOf("web", "edge-1", "")), connect.CodePermissionDenied,
			"other projects or clusters")
		bank := r.user(t, "eve", "bank")
		wantCode(t, bank.tryService(t, serviceOf("web", "edge-1", "bank")), connect.CodePermissionDenied,
			"the name is taken by one that you may not see")
		wantCode(t, two.tryService(t, serviceOf("web", "edge-2", "bank")), connect.CodePermissionDenied,
			`project "bank", cluster "edge-2"`)
		if err := two.tryService(t, serviceOf("web", "edge-1", "bank")); err != nil {
			t.Errorf("with both: %v", err)
		}
	})
}

func TestNobodyIsToldWhatWouldGoButWhoMayDeleteIt(t *testing.T) {
	overBoth(t, func(t *testing.T, r *running) {
		admin := r.admin(t)
		admin.putProject(t, "shop")
		admin.must(t, newSource("shop"), newCluster("a", "env", "prod"), newCluster("b", "env", "prod"))
		admin.putGlobal(t, newGlobal("logs", prod()))
		if _, err := admin.apply(t, &consolev1.ApplyRequest{
			Set: "fleet", Resources: anyOf(newService("web", "shop", "a"), newService("api", "shop", "b")),
		}); err != nil {
			t.Fatal(err)
		}
		admin.let(t, "shop", "operator", &consolev1.GrantClusters{Names: []string{"a"}}, "shop")
		for _, group := range []string{"none", "shop"} {
			user := r.user(t, "eve", group)
			_, err := user.apply(t, &consolev1.ApplyRequest{Set: "fleet", Prune: true})
			wantCode(t, err, connect.CodePermissionDenied, "you may not see")
			_, err = user.globals.DeleteGlobalService(t.Context(), &consolev1.DeleteGlobalServiceRequest{Name: "logs"})
			wantCode(t, err, connect.CodeNotFound, "does not exist as far as you may see")
		}
	})
}

func TestASecretGoesToNoHostThatAStrangerChose(t *testing.T) {
	overBoth(t, func(t *testing.T, r *running) {
		admin := r.admin(t)
		if _, err := admin.secrets.UpdateSecret(t.Context(), &consolev1.UpdateSecretRequest{
			AllowMissing: true, Secret: &consolev1.Secret{Metadata: meta("git"), Data: map[string]string{"token": "x"}},
		}); err != nil {
			t.Fatal(err)
		}
		source := func(url, secret, interval string) *consolev1.Source {
			s := newSource("shop")
			s.Spec.Git.Url, s.Spec.Git.Secret = url, secret
			if interval != "" {
				s.Metadata.Labels = map[string]string{"news": interval}
			}
			return s
		}
		const at = "https://git.example.com/shop.git"
		admin.must(t, source(at, "git", ""))
		if _, err := admin.roles.UpdateRole(t.Context(), &consolev1.UpdateRoleRequest{
			AllowMissing: true, Role: &consolev1.Role{
				Metadata: meta("sources"),
				Spec: &consolev1.RoleSpec{
					Rules: []*consolev1.RoleRule{{Verbs: []string{"*"}, Kinds: []string{"*"}}},
				},
			},
		}); err != nil {
			t.Fatal(err)
		}
		admin.let(t, "sources", "sources", &consolev1.GrantClusters{All: true})
		user := r.user(t, "eve", "sources")
		user.must(t, source(at, "git", "yes"))
		for _, url := range []string{"https://evil.example.com/shop.git", at + "/"} {
			_, err := user.apply(t, &consolev1.ApplyRequest{Resources: anyOf(source(url, "git", ""))})
			wantCode(t, err, connect.CodePermissionDenied, `may not view secret "git"`)
		}
		user.must(t, source("https://evil.example.com/shop.git", "", ""))
		hooked := source(at, "", "")
		hooked.Spec.Git.WebhookSecret = "git"
		_, hook := user.apply(t, &consolev1.ApplyRequest{Resources: anyOf(hooked)})
		wantCode(t, hook, connect.CodePermissionDenied, `may not view secret "git"`)
		_, err := user.apply(t, &consolev1.ApplyRequest{Resources: anyOf(source(at, "git", ""))})
		wantCode(t, err, connect.CodePermissionDenied, `may not view secret "git"`)
	})
}

// TestOnlyAdministratorsUseTheHubsOwnIdentity at a cloud, and say where it goes.
func TestOnlyAdministratorsUseTheHubsOwnIdentity(t *testing.T) {
	overBoth(t, func(t *testing.T, r *running) {
		admin := r.admin(t)
		source := func(bucket string, auth consolev1.CloudAuth, label string) *consolev1.Source {
			s := newSource("shop")
			s.Metadata.Labels = map[string]string{"news": label}
			s.Spec = &consolev1.SourceSpec{
				Bucket: &consolev1.BucketSource{Endpoint: "s3.amazonaws.com", BucketName: bucket, Auth: auth},
			}
			return s
		}
		const aws = consolev1.CloudAuth_CLOUD_AUTH_AWS
		if _, err := admin.roles.UpdateRole(t.Context(), &consolev1.UpdateRoleRequest{
			AllowMissing: true, Role: &consolev1.Role{
				Metadata: meta("sources"),
				Spec: &consolev1.RoleSpec{
					Rules: []*consolev1.RoleRule{{Verbs: []string{"*"}, Kinds: []string{"*"}}},
				},
			},
		}); err != nil {
			t.Fatal(err)
		}
		admin.let(t, "sources", "sources", &consolev1.GrantClusters{All: true})
		user := r.user(t, "eve", "sources")
		user.must(t, source("manifests", 0, "a"))
		_, err := user.apply(t, &consolev1.ApplyRequest{Resources: anyOf(source("manifests", aws, "a"))})
		wantCode(t, err, connect.CodePermissionDenied, "only administrators may set it")
		admin.must(t, source("manifests", aws, "a"))
		user.must(t, source("manifests", aws, "b"))
		_, err = user.apply(t, &consolev1.ApplyRequest{Resources: anyOf(source("payroll", aws, "b"))})
		wantCode(t, err, connect.CodePermissionDenied, "only administrators may set it")
		proxied := source("manifests", aws, "b")
		proxied.Spec.Bucket.Proxy = "http://proxy.example.com:3128"
		_, err = user.apply(t, &consolev1.ApplyRequest{Resources: anyOf(proxied)})
		wantCode(t, err, connect.CodePermissionDenied, "only administrators may set it")
		admin.must(t, newSecret("authority", "ca.crt", "eve's"))
		other := source("manifests", aws, "b")
		other.Spec.Bucket.Secret = "authority"
		_, err = user.apply(t, &consolev1.ApplyRequest{Resources: anyOf(other)})
		wantCode(t, err, connect.CodePermissionDenied, "only administrators may set it")
	})
}

func TestCheckAccessSaysWhatWritesSay(t *testing.T) {
	t.Parallel()
	r := newHub(t, "").start(t)
	admin := r.admin(t)
	admin.putSource(t, "shop", "https://git.example.com/shop.git")
	admin.putCluster(t, "edge-1")
	admin.putService(t, "web", "edge-1")
	admin.let(t, "devs", "deployer", &consolev1.GrantClusters{Names: []string{"edge-1"}})
	dev := r.user(t, "dan", "devs")
	for _, tc := range []struct {
		in      *consolev1.CheckAccessRequest
		allowed bool
		reason  string
	}{
		{
			&consolev1.CheckAccessRequest{Verb: "edit", Kind: "Service", Name: "web"}, true,
			`grant "devs" (role deployer)`,
		},
		{&consolev1.CheckAccessRequest{Verb: "delete", Kind: "Service", Name: "web"}, false, "role operator"},
		{&consolev1.CheckAccessRequest{Verb: "edit", Kind: "Service", Cluster: "edge-1"}, true, `grant "devs"`},
		{
			&consolev1.CheckAccessRequest{Verb: "edit", Kind: "Service", Cluster: "edge-2"}, false,
			"other projects or clusters",
		},
		{&consolev1.CheckAccessRequest{Verb: "write", Cluster: "edge-1"}, true, `grant "devs"`},
		{&consolev1.CheckAccessRequest{Verb: "exec", Cluster: "edge-1"}, false, "no more than role deployer"},
	} {
		got, err := dev.access.CheckAccess(t.Context(), tc.in)
		if err != nil || got.GetAllowed() != tc.allowed || !strings.Contains(got.GetReason(), tc.reason) {
			t.Errorf("%v: %v, %v", tc.in, got, err)
		}
	}
	other := &consolev1.CheckAccessRequest{
		Verb: "edit", Kind: "Service", Name: "web", Subject: "user:dan", Groups: []string{"devs"},
	}
	if _, err := dev.access.CheckAccess(t.Context(), &consolev1.CheckAccessRequest{
		Verb: "edit", Kind: "Service", Subject: "user:eve",
	}); connect.CodeOf(err) != connect.CodePermissionDenied {
		t.Errorf("asked for somebody else: %v", err)
	}
	if got, err := admin.access.CheckAccess(t.Context(), other); err != nil || !got.GetAllowed() {
		t.Errorf("administrator asks: %v, %v", got, err)
	}
	for _, bad := range []*consolev1.CheckAccessRequest{
		{Verb: "eat", Kind: "Service"}, {Verb: "view", Kind: "Pod"}, {Verb: "read"}, {Verb: "view", Cluster: "edge-1"},
	} {
		if _, err := dev.access.CheckAccess(t.Context(), bad); connect.CodeOf(err) != connect.CodeInvalidArgument {
			t.Errorf("%v: %v", bad, err)
		}
	}
	caller, err := dev.access.GetCaller(t.Context(), &consolev1.GetCallerRequest{})
	if err != nil || caller.GetSubject() != "user:dan" || caller.GetAdministrator() ||
		named(caller.GetGrants()) != "devs" {
		t.Errorf("got %v, %v", caller, err)
	}
}

func TestAPITokenLimits(t *testing.T) {
	overBoth(t, func(t *testing.T, r *running) {
		admin := r.admin(t)
		admin.putSource(t, "shop", "https://git.example.com/shop.git")
		admin.putCluster(t, "edge-1")
		admin.putProject(t, "shop")
		if _, err := admin.accounts.UpdateServiceAccount(t.Context(), &consolev1.UpdateServiceAccountRequest{
			AllowMissing: true, ServiceAccount: &consolev1.ServiceAccount{Metadata: meta("ci")},
		}); err != nil {
			t.Fatal(err)
		}
		_, err := admin.grants.UpdateGrant(t.Context(), &consolev1.UpdateGrantRequest{
			AllowMissing: true, Grant: &consolev1.Grant{
				Metadata: meta("ci"), Spec: &consolev1.GrantSpec{
					Subjects: []*consolev1.GrantSubject{
						{Subject: &consolev1.GrantSubject_ServiceAccount{ServiceAccount: "ci"}},
					}, Role: "operator", Clusters: &consolev1.GrantClusters{All: true},
				},
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		create := func(a api, account string, limits *consolev1.TokenLimits) *consolev1.CreateTokenResponse {
			t.Helper()
			out, err := a.tokens.CreateToken(t.Context(), &consolev1.CreateTokenRequest{
				ServiceAccount: account, Limits: limits, Description: "pipeline", Lifetime: durationpb.New(time.Hour),
			})
			if err != nil {
				t.Fatal(err)
			}
			return out
		}
		ci := create(admin, "ci", &consolev1.TokenLimits{Role: "deployer", Projects: []string{"shop"}})
		if !strings.HasPrefix(ci.GetToken(), "fairlead_"+ci.GetInfo().GetId()+"_") ||
			ci.GetInfo().GetSubject() != "serviceaccount:ci" {
			t.Errorf("got %v", ci)
		}
		exchanged, err := r.as(t, "").tokens.ExchangeToken(t.Context(), &consolev1.ExchangeTokenRequest{
			Token: ci.GetToken(),
		})
		if err != nil {
			t.Fatal(err)
		}
		for what, token := range map[string]string{"as it is": ci.GetToken(), "exchanged": exchanged.GetToken()} {
			a := r.as(t, token)
			if err := a.tryService(t, serviceOf("web", "edge-1", "shop")); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			wantCode(t, a.tryService(t, serviceOf("other", "edge-1", "")), connect.CodePermissionDenied,
				"limited to projects shop")
			_, err := a.services.DeleteService(t.Context(), &consolev1.DeleteServiceRequest{Name: "web"})
			wantCode(t, err, connect.CodePermissionDenied, `limited to role "deployer"`)
			if _, err := a.tokens.CreateToken(t.Context(),
				&consolev1.CreateTokenRequest{}); connect.CodeOf(err) != connect.CodePermissionDenied {
				t.Errorf("%s: it made another one: %v", what, err)
			}
			if _, err := a.identity.RotateSigningKey(t.Context(),
				&consolev1.RotateSigningKeyRequest{}); connect.CodeOf(err) != connect.CodePermissionDenied {
				t.Errorf("%s: it does what administrators do: %v", what, err)
			}
		}
		// An administrator's token with limits is no administrator's.
		limited := r.as(t, create(admin, "", &consolev1.TokenLimits{Role: "admin"}).GetToken())
		if _, err := limited.identity.CreateUserToken(t.Context(), &consolev1.CreateUserTokenRequest{
			User: "eve",
		}); connect.CodeOf(err) != connect.CodePermissionDenied {
			t.Errorf("limited: %v", err)
		}
		whole := create(admin, "", nil)
		if _, err := r.as(t, whole.GetToken()).identity.CreateUserToken(t.Context(),
			&consolev1.CreateUserTokenRequest{User: "eve"}); connect.CodeOf(err) != connect.CodePermissionDenied {
			t.Errorf("a token made a token: %v", err)
		}
		if _, err := r.as(t, whole.GetToken()).grants.DeleteGrant(t.Context(), &consolev1.DeleteGrantRequest{
			Name: "nowhere",
		}); connect.CodeOf(err) != connect.CodeNotFound {
			t.Errorf("an administrator's whole token: %v", err)
		}
		list, err := admin.tokens.ListTokens(t.Context(), &consolev1.ListTokensRequest{Subject: "serviceaccount:ci"})
		if err != nil || len(list.GetTokens()) != 1 || list.GetTokens()[0].GetLimits().GetRole() != "deployer" ||
			list.GetTokens()[0].GetLastUseTime() == nil {
			t.Errorf("listed %v, %v", list, err)
		}
		bob := r.user(t, "bob")
		if _, err := bob.tokens.RevokeToken(t.Context(), &consolev1.RevokeTokenRequest{
			Id: ci.GetInfo().GetId(),
		}); connect.CodeOf(err) != connect.CodeNotFound {
			t.Errorf("somebody else revokes: %v", err)
		}
		if _, err := admin.tokens.RevokeToken(t.Context(), &consolev1.RevokeTokenRequest{
			Id: ci.GetInfo().GetId(),
		}); err != nil {
			t.Fatal(err)
		}
		for what, token := range map[string]string{
			"as it is": ci.GetToken(), "exchanged": exchanged.GetToken(),
			"made up": ci.GetToken()[:len(ci.GetToken())-1] + "x",
		} {
			if err := r.as(t, token).tryService(t,
				serviceOf("web", "edge-1", "shop")); connect.CodeOf(err) != connect.CodeUnauthenticated {
				t.Errorf("%s: after its revocation: %v", what, err)
			}
		}
		// With the account its tokens go.
		second := create(admin, "ci", nil)
		exchanged, err = r.as(t, "").tokens.ExchangeToken(t.Context(), &consolev1.ExchangeTokenRequest{
			Token: second.GetToken(),
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := admin.accounts.UpdateServiceAccount(t.Context(), &consolev1.UpdateServiceAccountRequest{
			ServiceAccount: &consolev1.ServiceAccount{
				Metadata: meta("ci"), Spec: &consolev1.ServiceAccountSpec{Disabled: true},
			},
		}); err != nil {
			t.Fatal(err)
		}
		for what, token := range map[string]string{"as it is": second.GetToken(), "exchanged": exchanged.GetToken()} {
			if err := r.as(t, token).tryService(t,
				serviceOf("web", "edge-1", "shop")); connect.CodeOf(err) != connect.CodeUnauthenticated {
				t.Errorf("%s: with its account disabled: %v", what, err)
			}
		}
		if strings.Contains(r.logs.String(), second.GetToken()) {
			t.Error("the log tells a token")
		}
	})
}

func TestLoginLinkWorksOnce(t *testing.T) {
	overBoth(t, func(t *testing.T, r *running) {
		admin := r.admin(t)
		made, err := admin.logins.CreateLoginLink(t.Context(), &consolev1.CreateLoginLinkRequest{
			User: "kim", Groups: []string{"dev"},
		})
		if err != nil || !strings.HasPrefix(made.GetLink(), r.url+"/v1/login/once#fairlead-login-") {
			t.Fatal(made, err)
		}
		got, err := r.as(t, "").logins.ExchangeLoginLink(t.Context(), &consolev1.ExchangeLoginLinkRequest{
			Link: made.GetLink(),
		})
		if err != nil || got.GetUser() != "kim" {
			t.Fatal(got, err)
		}
		caller, err := r.as(t, got.GetToken().GetToken()).access.GetCaller(t.Context(), &consolev1.GetCallerRequest{})
		if err != nil || caller.GetSubject() != "user:kim" || !slices.Equal(caller.GetGroups(), []string{"dev"}) {
			t.Errorf("got %v, %v", caller, err)
		}
		for what, link := range map[string]string{
			"again": made.GetLink(), "made up": "fairlead-login-00000000000000000000",
		} {
			if _, err := r.as(t, "").logins.ExchangeLoginLink(t.Context(), &consolev1.ExchangeLoginLinkRequest{
				Link: link,
			}); connect.CodeOf(err) != connect.CodeUnauthenticated {
				t.Errorf("%s: %v", what, err)
			}
		}
		if _, err := r.user(t, "eve").logins.CreateLoginLink(t.Context(), &consolev1.CreateLoginLinkRequest{
			User: "eve", Groups: []string{identity.AdminsGroup},
		}); connect.CodeOf(err) != connect.CodePermissionDenied {
			t.Errorf("who is no administrator made a link: %v", err)
		}
		if _, err := admin.logins.CreateLoginLink(t.Context(), &consolev1.CreateLoginLinkRequest{
			User: "serviceaccount:ci",
		}); connect.CodeOf(err) != connect.CodeInvalidArgument {
			t.Errorf("a person named as a service account: %v", err)
		}
		code := made.GetLink()[strings.IndexByte(made.GetLink(), '#')+1:]
		if strings.Contains(r.logs.String(), code) {
			t.Error("the log tells the code")
		}
	})
}

// No process has bound the port before: the link of the first start is one all the same.
func TestFirstStartTellsALinkThatLogsIn(t *testing.T) {
	t.Parallel()
	h := newHub(t, "")
	out, told := io.Pipe()
	log := slog.New(slog.NewTextHandler(h.logs, nil))
	cfg := console.Config{Server: server.Config{Listen: "127.0.0.1:0"}, DataDir: h.dir, DatabaseURL: h.db}
	service, err := console.New(cfg, console.Deps{Log: log, Telemetry: telemetry.Discard(), Stderr: told})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		err := service.Run(ctx)
		told.CloseWithError(err)
		done <- err
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("console ended: %v", err)
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	link := strings.TrimSpace(strings.TrimPrefix(line, "Log in once, within 10 minutes: "))
	url, _, found := strings.Cut(link, "/v1/login/once#")
	if !found || url != service.URL() || !strings.HasPrefix(url, "http://127.0.0.1:") {
		t.Fatalf("got %q from the console at %s", line, service.URL())
	}
	r := &running{hub: h, url: url}
	got, err := r.as(t, "").logins.ExchangeLoginLink(t.Context(), &consolev1.ExchangeLoginLinkRequest{Link: link})
	if err != nil || got.GetUser() != "admin" {
		t.Fatal(got, err)
	}
	// A login is a trace of its own. The console's own work is no trace, and the trail does not name one that is not
	// there.
	events, err := r.as(t, got.GetToken().GetToken()).audit.ListAuditEvents(t.Context(),
		&consolev1.ListAuditEventsRequest{Filter: &consolev1.AuditFilter{Action: "login.link"}})
	if err != nil || len(events.GetEvents()) != 2 {
		t.Fatal(events, err)
	}
	for _, e := range events.GetEvents() {
		if want := map[string]int{"login.link": 32}[e.GetAction()]; len(e.GetTraceId()) != want {
			t.Errorf("%s: trace id %q", e.GetAction(), e.GetTraceId())
		}
	}
}

func TestAgentLeaves(t *testing.T) {
	overBoth(t, func(t *testing.T, r *running) {
		admin := r.admin(t)
		admin.putCluster(t, "edge-1")
		admin.putCluster(t, "edge-2")
		token := admin.join(t, "edge-1")
		agent := r.as(t, token)
		if _, err := agent.logins.LeaveCluster(t.Context(), &consolev1.LeaveClusterRequest{
			Cluster: "edge-2",
		}); connect.CodeOf(err) != connect.CodePermissionDenied {
			t.Errorf("an agent leaves for another cluster: %v", err)
		}
		unused, err := admin.identity.CreateJoinToken(t.Context(), &consolev1.CreateJoinTokenRequest{Cluster: "edge-1"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := agent.logins.LeaveCluster(t.Context(), &consolev1.LeaveClusterRequest{}); err != nil {
			t.Fatal(err)
		}
		if _, err := admin.identity.JoinCluster(t.Context(),
			joining(unused.GetJoinToken())); connect.CodeOf(err) != connect.CodeUnauthenticated {
			t.Errorf("a join token from before: %v", err)
		}
		if _, err := agent.identity.RenewToken(t.Context(),
			renewing(token)); connect.CodeOf(err) != connect.CodeUnauthenticated {
			t.Errorf("its token is good: %v", err)
		}
		left, err := admin.clusters.GetCluster(t.Context(), &consolev1.GetClusterRequest{Name: "edge-1"})
		if err != nil || left.GetCluster().GetStatus().GetLeaveTime() == nil ||
			left.GetCluster().GetStatus().GetConnected() {
			t.Errorf("got %v, %v", left, err)
		}
		if _, err := r.user(t, "eve").logins.LeaveCluster(t.Context(), &consolev1.LeaveClusterRequest{
			Cluster: "edge-2",
		}); connect.CodeOf(err) != connect.CodePermissionDenied {
			t.Errorf("anybody takes a cluster away: %v", err)
		}
		if _, err := admin.logins.LeaveCluster(t.Context(), &consolev1.LeaveClusterRequest{
			Cluster: "nowhere",
		}); connect.CodeOf(err) != connect.CodeNotFound {
			t.Errorf("a cluster that does not exist: %v", err)
		}
		admin.join(t, "edge-1")
		back, err := admin.clusters.GetCluster(t.Context(), &consolev1.GetClusterRequest{Name: "edge-1"})
		if err != nil || back.GetCluster().GetStatus().GetLeaveTime() != nil {
			t.Errorf("joined again: %v, %v", back, err)
		}
	})
}

// trail returns the events of an action about a name, the oldest first.
func (a api) trail(t testing.TB, action, name string) []*consolev1.AuditEvent {
	t.Helper()
	list, err := a.audit.ListAuditEvents(t.Context(), &consolev1.ListAuditEventsRequest{
		PageSize: 1000, Filter: &consolev1.AuditFilter{Action: action},
	})
	if err != nil {
		t.Fatal(err)
	}
	var out []*consolev1.AuditEvent
	for _, e := range slices.Backward(list.GetEvents()) {
		if e.GetName() == name {
			out = append(out, e)
		}
	}
	return out
}

func TestAuditOfEveryWrite(t *testing.T) {
	overBoth(t, func(t *testing.T, r *running) {
		admin := r.admin(t)
		admin.putSource(t, "shop", "https://git.example.com/shop.git")
		admin.putCluster(t, "edge-1")
		admin.putService(t, "web", "edge-1")
		admin.putService(t, "web", "edge-1") // changes nothing
		if _, err := admin.levers.HoldService(t.Context(), &consolev1.HoldServiceRequest{
			Name: "web", Reason: "look at it",
		}); err != nil {
			t.Fatal(err)
		}
		wantCode(t, r.user(t, "eve").tryService(t, serviceOf("web", "edge-1", "")), connect.CodePermissionDenied)
		if _, err := admin.services.DeleteService(t.Context(), &consolev1.DeleteServiceRequest{
			Name: "web",
		}); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range admin.trail(t, "catalog", "web") {
			got = append(got, fmt.Sprintf("%s %s at %s by %s from %t", e.GetAction(), e.GetResource(), e.GetCluster(),
				e.GetActor().GetName(), e.GetRemote() != ""))
			if !json.Valid([]byte(e.GetBefore()+e.GetAfter())) && e.GetAction() != "catalog.update" ||
				e.GetRecorder() != "service:console" {
				t.Errorf("event %v", e)
			}
		}
		want := []string{
			"catalog.create service at edge-1 by ada from true", "catalog.update service at edge-1 by ada from true",
			"catalog.delete service at edge-1 by ada from true",
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		if held := admin.trail(t, "catalog.update", "web")[0]; strings.Contains(held.GetBefore(), "look at it") ||
			!strings.Contains(held.GetAfter(), "look at it") || held.GetVerb() != "held" {
			t.Errorf("%q, before %s, after %s", held.GetVerb(), held.GetBefore(), held.GetAfter())
		}

		put := func(data map[string]string) {
			t.Helper()
			if _, err := admin.secrets.UpdateSecret(t.Context(), &consolev1.UpdateSecretRequest{
				AllowMissing: true, Secret: &consolev1.Secret{Metadata: meta("git"), Data: data},
			}); err != nil {
				t.Fatal(err)
			}
		}
		put(map[string]string{"user": "planted-1", "token": "planted-2"})
		put(map[string]string{"user": "", "token": "planted-3"})
		events := admin.trail(t, "catalog", "git")
		if len(events) != 2 || events[1].GetBefore() != `{"data":{"token":"***","user":"***"}}` ||
			events[1].GetAfter() != `{"data":{"token":"*** (changed)","user":"***"}}` {
			t.Errorf("got %v", events)
		}
		all, err := admin.audit.ListAuditEvents(t.Context(), &consolev1.ListAuditEventsRequest{PageSize: 1000})
		if err != nil || strings.Contains(all.String(), "planted") {
			t.Errorf("the trail tells a secret: %v", err)
		}

		// Calls that are about no resource leave an event, too.
		if _, err := admin.identity.RevokeTokens(t.Context(), &consolev1.RevokeTokensRequest{
			Which: &consolev1.RevokeTokensRequest_Subject{Subject: "user:bob"},
		}); err != nil {
			t.Fatal(err)
		}
		if _, err := admin.logins.CreateLoginLink(t.Context(), &consolev1.CreateLoginLinkRequest{
			User: "kim",
		}); err != nil {
			t.Fatal(err)
		}
		token, err := admin.tokens.CreateToken(t.Context(), &consolev1.CreateTokenRequest{})
		if err != nil {
			t.Fatal(err)
		}
		lent, err := admin.identity.CreateUserToken(t.Context(), &consolev1.CreateUserTokenRequest{User: "kim"})
		if err != nil {
			t.Fatal(err)
		}
		key, err := admin.identity.RotateSigningKey(t.Context(), &consolev1.RotateSigningKeyRequest{})
		if err != nil {
			t.Fatal(err)
		}
		admin.join(t, "edge-1")
		for _, e := range []struct{ action, name, actor string }{
			{"token.revoke", "", "ada"},
			{"login.link.create", "kim", "ada"},
			{"token.create", token.GetInfo().GetId(), "ada"},
			{"token.create", lent.GetToken().GetId(), "ada"},
			{"key.rotate", key.GetKeyId(), "ada"},
			{"join-token.create", "edge-1", "ada"},
			{"cluster.join", "edge-1", "edge-1"},
		} {
			if got := admin.trail(t, e.action, e.name); len(got) != 1 || got[0].GetActor().GetName() != e.actor ||
				len(got[0].GetTraceId()) != 32 {
				t.Errorf("%s: %v", e.action, got)
			}
		}
		// No other service tells what the catalog was.
		forged := auditEvent(1, "ada", "catalog.update")
		forged.Name, forged.Before, forged.After = "forged", "{}", "{}"
		record(t, r.service(t, identity.ServiceTunnel), forged)
		if got := admin.trail(t, "catalog.update",
			"forged"); len(got) != 1 || got[0].GetBefore() != "" || got[0].GetAfter() != "" ||
			got[0].GetRecorder() != "service:tunnel" {
			t.Errorf("got %v", got)
		}
	})
}

// A user's API tokens go with all that is revoked of the user, however long they live.
func TestRevokingASubjectRevokesItsAPITokens(t *testing.T) {
	t.Parallel()
	r := newHub(t, "").start(t)
	admin := r.admin(t)
	token, err := r.user(t, "bob").tokens.CreateToken(t.Context(), &consolev1.CreateTokenRequest{})
	if err != nil {
		t.Fatal(err)
	}
	bob := r.as(t, token.GetToken())
	call := func(ctx context.Context) error {
		_, err := bob.access.GetCaller(ctx, &consolev1.GetCallerRequest{})
		return err
	}
	if err := call(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.identity.RevokeTokens(t.Context(), &consolev1.RevokeTokensRequest{
		Which: &consolev1.RevokeTokensRequest_Subject{Subject: "user:bob"},
	}); err != nil {
		t.Fatal(err)
	}
	if err := call(t.Context()); connect.CodeOf(err) != connect.CodeUnauthenticated {
		t.Errorf("it outlives its owner: %v", err)
	}
}

func TestWhoNamesAResourceIsToldToWhoSeesThem(t *testing.T) {
	overBoth(t, func(t *testing.T, r *running) {
		admin := r.admin(t)
		admin.putSource(t, "shop", "https://git.example.com/shop.git")
		admin.putCluster(t, "edge-1")
		admin.putProject(t, "bank")
		for _, s := range []*consolev1.Service{serviceOf("hidden", "edge-1", ""), serviceOf("open", "edge-1", "bank")} {
			if err := admin.tryService(t, s); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := admin.roles.UpdateRole(t.Context(), &consolev1.UpdateRoleRequest{
			AllowMissing: true, Role: &consolev1.Role{
				Metadata: meta("janitor"),
				Spec: &consolev1.RoleSpec{
					Rules: []*consolev1.RoleRule{
						{Kinds: []string{"Source"}, Verbs: []string{"view", "edit", "delete"}},
					},
				},
			},
		}); err != nil {
			t.Fatal(err)
		}
		admin.let(t, "janitors", "janitor", &consolev1.GrantClusters{All: true})
		admin.let(t, "bankers", "viewer", &consolev1.GrantClusters{All: true}, "bank")
		for want, user := range map[string]api{
			`named by resources that you may not see:`:                 r.user(t, "bob", "janitors"),
			`named by service "open" and others that you may not see:`: r.user(t, "eve", "janitors", "bankers"),
			`named by service "hidden", service "open":`:               admin,
		} {
			_, err := user.sources.DeleteSource(t.Context(), &consolev1.DeleteSourceRequest{Name: "shop"})
			if connect.CodeOf(err) != connect.CodeFailedPrecondition || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %s", err, want)
			}
		}
	})
}

func TestCountsAreOfTheServicesThatTheCallerSees(t *testing.T) {
	overBoth(t, func(t *testing.T, r *running) {
		admin := r.admin(t)
		base := newSet("base", nil)
		base.Spec.Project = "bank"
		admin.putProject(t, "bank")
		admin.must(t, newSource("shop"), newCluster("edge-1"), newCluster("edge-2"), base)
		for i, at := range []string{"edge-1", "edge-2", "edge-2"} {
			s := inProject("bank", newService("s"+strconv.Itoa(i), "shop", at))
			admin.must(t, configured(s, []string{"base"}, nil))
		}
		admin.let(t, "all", "viewer", &consolev1.GrantClusters{All: true})
		admin.let(t, "bankers", "viewer", &consolev1.GrantClusters{All: true}, "bank")
		admin.let(t, "one", "viewer", &consolev1.GrantClusters{Names: []string{"edge-1"}}, "bank")
		admin.let(t, "two", "viewer", &consolev1.GrantClusters{Names: []string{"edge-2"}}, "bank")
		for want, user := range map[int32]map[string]api{
			3: {"admin": admin, "all": r.user(t, "bob", "all"), "bankers": r.user(t, "bob", "bankers")},
			2: {"two": r.user(t, "bob", "two")},
			1: {"one": r.user(t, "bob", "one")},
		} {
			for name, user := range user {
				project, err := user.projects.GetProject(t.Context(), &consolev1.GetProjectRequest{Name: "bank"})
				if got := project.GetProject().GetStatus().GetServices(); err != nil || got != want {
					t.Errorf("%s: the project has %d services, want %d: %v", name, got, want, err)
				}
				sets, err := user.sets.ListConfigSets(t.Context(), &consolev1.ListConfigSetsRequest{})
				if err != nil || len(sets.GetConfigSets()) != 1 || sets.GetConfigSets()[0].GetStatus().GetServices() != want {
					t.Errorf("%s: configuration sets %v, want %d services: %v", name, sets.GetConfigSets(), want, err)
				}
			}
		}
	})
}

// A change is encoded once for all streams, but for what depends on the reader.
func TestStreamsCountTheServicesThatTheirReaderSees(t *testing.T) {
	overBoth(t, func(t *testing.T, r *running) {
		admin := r.admin(t)
		admin.putProject(t, "bank")
		admin.must(t, newSource("shop"), newCluster("edge-1"), newCluster("edge-2"),
			inProject("bank", newService("a", "shop", "edge-1")), inProject("bank", newService("b", "shop", "edge-2")))
		admin.let(t, "one", "viewer", &consolev1.GrantClusters{Names: []string{"edge-1"}}, "bank")
		req := &consolev1.WatchResourcesRequest{Kinds: []consolev1.Kind{consolev1.Kind_KIND_PROJECT}}
		one := r.sign(t, identity.Identity{Kind: identity.KindUser, Name: "bob", Groups: []string{"one"}})
		streams := map[int32]*lookOn{2: r.look(t, r.adminToken(t), req), 1: r.look(t, one, req)}
		for _, l := range streams {
			l.until("end")
		}
		admin.must(t, &consolev1.Project{Metadata: meta("bank"), Spec: &consolev1.ProjectSpec{
			Description: "changed", Sources: []string{"*"}, Clusters: &consolev1.ClusterSelector{All: true},
		}})
		for want, l := range streams {
			got := int32(-1)
			for got < 0 && l.stream.Receive() {
				for _, of := range l.stream.Msg().GetChanges().GetResources() {
					if of.GetProject().GetSpec().GetDescription() == "changed" {
						got = of.GetProject().GetStatus().GetServices()
					}
				}
			}
			if got != want {
				t.Errorf("a reader of %d services is told of %d: %v", want, got, l.stream.Err())
			}
		}
	})
}

// The specs that a resource had in another project are for the readers of that project.
func TestHistoryShowsNothingOfAForeignProject(t *testing.T) {
	overBoth(t, func(t *testing.T, r *running) {
		admin := r.admin(t)
		admin.must(t, newSource("shop"), newSource("vault"), newCluster("edge-1"))
		admin.putProject(t, "bank")
		admin.putProject(t, "shop")
		all := &consolev1.GrantClusters{All: true}
		admin.let(t, "bankers", "viewer", all, "bank")
		admin.let(t, "shoppers", "viewer", all, "shop")
		for _, s := range []*consolev1.Service{
			inProject("bank", newService("web", "vault", "edge-1")), inProject("shop", newService("web", "shop", "edge-1")),
		} {
			admin.must(t, s)
		}
		ask := &consolev1.ListRevisionsRequest{Kind: consolev1.Kind_KIND_SERVICE, Name: "web"}
		history := func(groups ...string) string {
			t.Helper()
			token := r.sign(t, identity.Identity{Kind: identity.KindUser, Name: "bob", Groups: groups})
			got, err := r.histories(t, token).ListRevisions(t.Context(), ask)
			if err != nil {
				return connect.CodeOf(err).String()
			}
			var lines []string
			for _, v := range got.GetRevisions() {
				line := fmt.Sprint(v.GetRevision(), " ", v.GetResource().GetService().GetSpec().GetProject())
				if strings.Contains(v.GetDiff(), "vault") {
					line += " vault"
				}
				lines = append(lines, line)
			}
			return strings.Join(lines, ", ")
		}
		both := "2 shop vault, 1 bank vault"
		for want, groups := range map[string][]string{
			"2 shop": {"shoppers"}, "not_found": {"bankers"}, both: {"bankers", "shoppers"},
		} {
			if got := history(groups...); got != want {
				t.Errorf("%v: %q, want %q", groups, got, want)
			}
		}
		if _, err := admin.services.DeleteService(t.Context(), &consolev1.DeleteServiceRequest{Name: "web"}); err != nil {
			t.Fatal(err)
		}
		if got := history("shoppers"); got != "3 , 2 shop" {
			t.Errorf("of a deleted service: %q", got)
		}
	})
}
