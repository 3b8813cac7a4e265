package access_test

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/access"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/mux/kubehttp"
)

func grant(name, role string, clusters *consolev1.GrantClusters, projects []string,
	subjects ...string,
) *consolev1.Grant {
	g := &consolev1.Grant{
		Metadata: &consolev1.Metadata{Name: name},
		Spec:     &consolev1.GrantSpec{Role: role, Clusters: clusters, Projects: projects},
	}
	for _, s := range subjects {
		kind, name, _ := strings.Cut(s, ":")
		subject := &consolev1.GrantSubject{}
		switch kind {
		case "user":
			subject.Subject = &consolev1.GrantSubject_User{User: name}
		case "group":
			subject.Subject = &consolev1.GrantSubject_Group{Group: name}
		case "serviceaccount":
			subject.Subject = &consolev1.GrantSubject_ServiceAccount{ServiceAccount: name}
		}
		g.Spec.Subjects = append(g.Spec.Subjects, subject)
	}
	return g
}

func user(name string, groups ...string) identity.Identity {
	return identity.Identity{Kind: identity.KindUser, Name: name, Groups: groups}
}

func limited(id identity.Identity, l identity.Limits) identity.Identity {
	id.Limits = &l
	return id
}

func TestRolesTimesScopes(t *testing.T) {
	t.Parallel()
	all, prod := &consolev1.GrantClusters{All: true}, &consolev1.GrantClusters{Labels: map[string]string{"env": "prod"}}
	edge1 := &consolev1.GrantClusters{Names: []string{"edge-1"}}
	rules := &access.Rules{
		Grants: []*consolev1.Grant{
			grant("view-all", "viewer", all, nil, "user:vic"),
			grant("edge", "operator", edge1, nil, "group:edge"),
			grant("shop", "deployer", prod, []string{"shop"}, "group:shop"),
			grant("shop-all", "operator", all, []string{"shop"}, "group:leads"),
			grant("whole", "admin", all, nil, "group:ops"),
			grant("ci", "release", all, nil, "serviceaccount:ci"),
			grant("tenant", "all", all, []string{"shop"}, "group:tenants"),
			grant("gone", "no-such-role", all, nil, "user:gus"),
		},
		Roles: []*consolev1.Role{{Metadata: &consolev1.Metadata{Name: "release"}, Spec: &consolev1.RoleSpec{
			Rules: []*consolev1.RoleRule{
				{Verbs: []string{"view", "deploy"}, Kinds: []string{"*"}},
				{Verbs: []string{"*"}, Kinds: []string{"Sink"}},
			},
			Kubernetes: "viewer",
		}}, {
			Metadata: &consolev1.Metadata{Name: "all"},
			Spec:     &consolev1.RoleSpec{Rules: []*consolev1.RoleRule{{Verbs: []string{"*"}, Kinds: []string{"*"}}}},
		}},
	}
	service := func(project, cluster, env string) access.Target {
		return access.Target{
			Kind: access.Service, Name: "web", Project: project, Cluster: cluster,
			ClusterLabels: map[string]string{"env": env},
		}
	}
	set := func(project string) access.Target {
		return access.Target{Kind: access.ConfigSet, Name: "base", Project: project}
	}
	of := func(kind string) access.Target { return access.Target{Kind: kind, Name: "x"} }
	cluster := access.Target{
		Kind: access.Cluster, Name: "edge-1", Cluster: "edge-1", ClusterLabels: map[string]string{"env": "prod"},
	}
	admin := user("ada", identity.AdminsGroup)
	for _, tc := range []struct {
		what string
		who  identity.Identity
		verb access.Verb
		at   access.Target
		want string // part of the rule, or with ! before it of the refusal
	}{
		{"administrator", admin, access.Edit, of(access.Grant), "fairlead:admins"},
		{
			"not quite", user("eve", "fairlead:admin"), access.View, service("", "edge-1", ""),
			"!no grant is for this user",
		},
		{
			"a group of a user's name", user("eve", "vic"), access.View, service("", "edge-1", ""),
			"!no grant is for this user",
		},
		{
			"a person named as an account", user("ci"), access.Deploy, service("", "edge-1", ""),
			"!no grant is for this user",
		},
		{"viewer views", user("vic"), access.View, service("shop", "edge-2", ""), `grant "view-all" (role viewer)`},
		{
			"viewer edits", user("vic"), access.Edit, service("shop", "edge-2", ""),
			`!that needs a grant with role deployer, and grant "view-all" gives role viewer`,
		},
		{"viewer and secrets", user("vic"), access.View, of(access.Secret), "!needs a grant with role admin"},
		{
			"viewer and grants", user("vic"), access.View, of(access.Grant),
			"!needs a grant with a role that names Grant",
		},
		{
			"operator at its cluster", user("bob", "edge"), access.Delete, service("shop", "edge-1", ""),
			`grant "edge" (role operator)`,
		},
		{
			"operator elsewhere", user("bob", "edge"), access.View, service("shop", "edge-2", ""),
			`!grant "edge" is for other projects or clusters`,
		},
		{"sees its cluster", user("bob", "edge"), access.View, cluster, `grant "edge"`},
		{"edits its cluster", user("bob", "edge"), access.Edit, cluster, "!needs a grant with role admin"},
		{
			"what is felt everywhere", user("bob", "edge"), access.Edit, set(""),
			`!that needs a grant with role deployer at all clusters, and grant "edge" is for other projects or clusters`,
		},
		{
			"a service of which nothing is told", user("bob", "edge"), access.View, of(access.Service),
			`!that needs a grant with role viewer for its project or cluster, and grant "edge" is for other projects or clusters`,
		},
		{"what is felt everywhere, seen", user("bob", "edge"), access.View, set(""), "!other projects or clusters"},
		{"sources are seen by all", user("bob", "edge"), access.View, of(access.Source), `grant "edge"`},
		{
			"sources are changed by few", user("kim", "ops"), access.Edit, of(access.Source),
			"!needs a grant with a role that names Source",
		},
		{"project's service", user("bob", "shop"), access.Deploy, service("shop", "edge-1", "prod"), `grant "shop"`},
		{
			"project's service in staging", user("bob", "shop"), access.Deploy, service("shop", "edge-9", "staging"),
			"!other projects or clusters",
		},
		{
			"other project", user("bob", "shop"), access.View, service("bank", "edge-1", "prod"),
			"!other projects or clusters",
		},
		{"no project", user("bob", "shop"), access.View, service("", "edge-1", "prod"), "!other projects or clusters"},
		{"cluster of a project's service", user("bob", "shop"), access.View, cluster, `grant "shop"`},
		{"configuration of the project, seen", user("bob", "shop"), access.View, set("shop"), `grant "shop"`},
		{
			"configuration of the project, changed", user("bob", "shop"), access.Edit, set("shop"),
			"!other projects or clusters",
		},
		{
			"configuration of the project, changed by its leads", user("bob", "leads"), access.Edit, set("shop"),
			`grant "shop-all"`,
		},
		{
			"bounds of one's own project", user("eve", "tenants"), access.Edit,
			access.Target{Kind: access.Project, Name: "shop", Project: "shop"},
			"!other projects or clusters",
		},
		{
			"one's own project", user("eve", "tenants"), access.View,
			access.Target{Kind: access.Project, Name: "shop", Project: "shop"},
			`grant "tenant"`,
		},
		{
			"bounds of the project of a token", limited(admin, identity.Limits{Projects: []string{"shop"}}),
			access.Edit,
			access.Target{Kind: access.Project, Name: "shop", Project: "shop"},
			"!limited to projects shop",
		},
		{"secrets in scope", user("kim", "ops"), access.Edit, of(access.Secret), `grant "whole" (role admin)`},
		{"grants of grants", user("kim", "ops"), access.Edit, of(access.Grant), "!only members of fairlead:admins"},
		{
			"own role", identity.ServiceAccount("ci"), access.Deploy, service("shop", "edge-1", ""),
			`grant "ci" (role release)`,
		},
		{
			"own role, more", identity.ServiceAccount("ci"), access.Edit, service("shop", "edge-1", ""),
			`!service account "ci" may not edit service "web" (project "shop", cluster "edge-1")`,
		},
		{
			"sinks of a project", user("lea", "leads"), access.Edit,
			access.Target{Kind: access.Sink, Name: "chat", Project: "shop"},
			`grant "shop-all" (role operator)`,
		},
		{"sinks of the hub", user("lea", "leads"), access.Edit, of(access.Sink), "!is for other projects or clusters"},
		{
			"sinks are not for deployers", user("sam", "shop"), access.Edit,
			access.Target{Kind: access.Sink, Name: "chat", Project: "shop"},
			"!needs a grant with role operator",
		},
		{"own role names a kind", identity.ServiceAccount("ci"), access.Delete, of(access.Sink), `grant "ci"`},
		{"* is not everything", identity.ServiceAccount("ci"), access.View, of(access.Secret), "!does not include it"},
		{
			"role that is gone", user("gus"), access.View, service("", "edge-1", ""),
			`!gives role "no-such-role", which does not exist`,
		},
		{"role that is gone, common", user("gus"), access.View, of(access.Source), `!gives role "no-such-role"`},

		{
			"limited administrator", limited(admin, identity.Limits{Role: "viewer"}), access.View,
			service("shop", "edge-1", ""), "fairlead:admins",
		},
		{
			"limited administrator edits", limited(admin, identity.Limits{Role: "viewer"}), access.Edit,
			service("shop", "edge-1", ""), `!limited to role "viewer"`,
		},
		{
			"limited administrator and grants", limited(admin, identity.Limits{Projects: []string{"shop"}}),
			access.Edit, of(access.Grant), "!without limits",
		},
		{
			"limited to an own role", limited(admin, identity.Limits{Role: "release"}), access.Deploy,
			service("shop", "edge-1", ""), "fairlead:admins",
		},
		{
			"limited to a role that is gone", limited(admin, identity.Limits{Role: "x"}), access.View,
			service("shop", "edge-1", ""), `!limited to role "x"`,
		},
		{
			"limited to a project", limited(admin, identity.Limits{Projects: []string{"shop"}}), access.Delete,
			service("shop", "edge-1", ""), "fairlead:admins",
		},
		{
			"limited to another project", limited(admin, identity.Limits{Projects: []string{"bank"}}), access.View,
			service("shop", "edge-1", ""), "!limited to projects bank",
		},
		{
			"limited to a project, without one", limited(admin, identity.Limits{Projects: []string{"bank"}}),
			access.View, service("", "edge-1", ""), "!limited to projects bank",
		},
		{
			"limited to clusters",
			limited(user("vic"), identity.Limits{
				Clusters: &identity.Clusters{Labels: map[string]string{"env": "prod"}},
			}),
			access.View, service("", "edge-1", "prod"), `grant "view-all"`,
		},
		{
			"limited to other clusters",
			limited(user("vic"), identity.Limits{Clusters: &identity.Clusters{Names: []string{"edge-2"}}}),
			access.View, service("", "edge-1", "prod"), "!limited to other clusters",
		},
		{
			"limits give nothing", limited(user("eve"), identity.Limits{Role: "admin"}), access.View,
			service("", "edge-1", ""), "!no grant is for this user",
		},
		{"agents", identity.Identity{Kind: identity.KindAgent, Name: "edge-1"}, access.View, cluster, "!only users"},
	} {
		got := rules.May(tc.who, tc.verb, tc.at)
		want, refused := strings.CutPrefix(tc.want, "!")
		if got.Allowed == refused || !strings.Contains(got.Rule+got.Reason, want) || (got.Rule == "") != refused {
			t.Errorf("%s: got %+v, want %s", tc.what, got, tc.want)
		}
	}
}

func TestKubernetesAPI(t *testing.T) {
	t.Parallel()
	here := &consolev1.GrantClusters{Names: []string{"edge-1"}}
	rules := &access.Rules{
		Grants: []*consolev1.Grant{
			grant("view", "viewer", here, nil, "user:vic"),
			grant("shop", "admin", here, []string{"shop"}, "user:bob"),
			grant("own", "debug", here, nil, "serviceaccount:ci"),
		},
		Roles: []*consolev1.Role{
			{Metadata: &consolev1.Metadata{Name: "debug"}, Spec: &consolev1.RoleSpec{Kubernetes: "operator"}},
		},
	}
	cluster := &consolev1.Cluster{Metadata: &consolev1.Metadata{Name: "edge-1"}}
	admin := user("ada", identity.AdminsGroup)
	for what, tc := range map[string]struct {
		who   identity.Identity
		class kubehttp.Class
		want  string // as above
	}{
		"viewer":                  {user("vic"), kubehttp.Read, `grant "view"`},
		"viewer writes":           {user("vic"), kubehttp.Write, `!grant "view" gives no more than role viewer`},
		"a project is no cluster": {user("bob"), kubehttp.Read, "!no grant for this cluster"},
		"own role":                {identity.ServiceAccount("ci"), kubehttp.Exec, `grant "own" (role debug)`},
		"own role, more": {
			identity.ServiceAccount("ci"), kubehttp.Secrets, `!service account "ci" may not reach secrets`,
		},
		"administrator": {admin, kubehttp.Secrets, "fairlead:admins"},
		"limited by role": {
			limited(admin, identity.Limits{Role: "viewer"}), kubehttp.Write, `!limited to role "viewer"`,
		},
		"limited by own role": {limited(admin, identity.Limits{Role: "debug"}), kubehttp.Exec, "fairlead:admins"},
		"limited by project": {
			limited(admin, identity.Limits{Projects: []string{"shop"}}), kubehttp.Read, "!limited to projects",
		},
		"limited by cluster": {
			limited(admin, identity.Limits{Clusters: &identity.Clusters{Names: []string{"edge-2"}}}), kubehttp.Read,
			"!limited to other clusters",
		},
		"within limits": {
			limited(user("vic"), identity.Limits{Role: "operator", Clusters: &identity.Clusters{All: true}}),
			kubehttp.Read, `grant "view"`,
		},
	} {
		got := rules.AtCluster(tc.who, tc.class, cluster)
		want, refused := strings.CutPrefix(tc.want, "!")
		if got.Allowed == refused || !strings.Contains(got.Rule+got.Reason, want) {
			t.Errorf("%s: got %+v, want %s", what, got, tc.want)
		}
	}
}

// Names are one space for people only: an agent is called like its cluster.
func TestGrantsOfAPersonAreNotThoseOfAnAgentOfThatName(t *testing.T) {
	t.Parallel()
	rules := &access.Rules{
		Grants: []*consolev1.Grant{grant("all", "admin", &consolev1.GrantClusters{All: true}, nil, "user:ada")},
	}
	if !rules.Any(user("ada")) || len(rules.Of(user("ada"))) != 1 {
		t.Error("the person has no rights")
	}
	for _, kind := range []identity.Kind{identity.KindAgent, identity.KindService} {
		who := identity.Identity{Kind: kind, Name: "ada"}
		if rules.Any(who) || len(rules.Of(who)) != 0 ||
			rules.May(who, access.View, access.Target{Kind: access.Source}).Allowed {
			t.Errorf("a grant for user ada is one for %s", who.Subject())
		}
	}
}

// A grant or a role that is added allows more, limits that are added allow less, and neither the other way round.
func TestMoreRulesNeverAllowLess(t *testing.T) {
	t.Parallel()
	names := rapid.SampledFrom([]string{"", "a", "b"})
	roles := rapid.SampledFrom([]string{"viewer", "deployer", "operator", "admin", "none"})
	grants := rapid.Custom(func(t *rapid.T) *consolev1.Grant {
		clusters := &consolev1.GrantClusters{All: rapid.Bool().Draw(t, "all")}
		if !clusters.All {
			clusters.Names = []string{rapid.SampledFrom([]string{"a", "b"}).Draw(t, "cluster")}
		}
		var projects []string
		if p := names.Draw(t, "project"); p != "" {
			projects = []string{p}
		}
		return grant("g", roles.Draw(t, "role"), clusters, projects,
			"user:"+rapid.SampledFrom([]string{"u", "v"}).Draw(t, "user"))
	})
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfN(grants, 0, 4).Draw(t, "grants")
		at := access.Target{
			Kind: rapid.SampledFrom(access.Kinds()).Draw(t, "kind"), Project: names.Draw(t, "of"),
			Cluster: names.Draw(t, "at"),
		}
		verb := rapid.SampledFrom(access.Verbs()).Draw(t, "verb")
		before := (&access.Rules{Grants: list}).May(user("u"), verb, at)
		after := (&access.Rules{Grants: append(slices.Clone(list), grants.Draw(t, "more"))}).May(user("u"), verb, at)
		if before.Allowed && !after.Allowed {
			t.Fatalf("%s %v: a grant took a right away: %+v", verb, at, after)
		}
		limits := identity.Limits{
			Role:     rapid.SampledFrom([]string{"", "viewer", "admin"}).Draw(t, "limit"),
			Projects: rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b"}), 0, 2).Draw(t, "limited"),
		}
		if got := (&access.Rules{Grants: list}).May(limited(user("u"), limits), verb, at); got.Allowed &&
			!before.Allowed {
			t.Fatalf("%s %v: limits gave a right: %+v", verb, at, got)
		}
		if strings.Contains(before.Rule, "fairlead:admins") {
			t.Fatal("an administrator out of nothing")
		}
	})
}
