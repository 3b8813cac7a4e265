package access_test

import (
	"strings"
	"testing"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/access"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/mux/kubehttp"
)

func TestGrantsAllowNoMoreThanTheySayAtACluster(t *testing.T) {
	t.Parallel()
	cluster := &consolev1.Cluster{Metadata: &consolev1.Metadata{
		Name:   "edge-1",
		Labels: map[string]string{"env": "prod", "zone": "a"},
	}}
	here := &consolev1.GrantClusters{Names: []string{"edge-0", "edge-1"}}
	for name, tc := range map[string]struct {
		user   identity.Identity
		class  kubehttp.Class
		grants []*consolev1.Grant
		want   string // part of the refusal; empty: allowed
	}{
		"nobody":              {user("bob"), kubehttp.Read, nil, "may not read here: that needs a grant with role viewer, and no grant"},
		"admin":               {user("ada", identity.AdminsGroup), kubehttp.Secrets, nil, ""},
		"not quite admin":     {user("eve", "fairlead:admin", "Fairlead:admins"), kubehttp.Read, nil, "no grant"},
		"user":                {user("bob"), kubehttp.Read, []*consolev1.Grant{grant("g", "viewer", here, nil, "user:bob")}, ""},
		"group of that name":  {user("eve", "bob"), kubehttp.Read, []*consolev1.Grant{grant("g", "viewer", here, nil, "user:bob")}, "no grant"},
		"user of that name":   {user("dev"), kubehttp.Read, []*consolev1.Grant{grant("g", "viewer", here, nil, "group:dev")}, "no grant"},
		"second group":        {user("bob", "x", "dev"), kubehttp.Write, []*consolev1.Grant{grant("g", "deployer", here, nil, "group:ops", "group:dev")}, ""},
		"more than viewer":    {user("bob"), kubehttp.Write, []*consolev1.Grant{grant("g", "viewer", here, nil, "user:bob")}, `grant "g" gives no more than role viewer`},
		"more than deployer":  {user("bob"), kubehttp.Exec, []*consolev1.Grant{grant("g", "deployer", here, nil, "user:bob")}, "needs a grant with role operator"},
		"more than operator":  {user("bob"), kubehttp.Secrets, []*consolev1.Grant{grant("g", "operator", here, nil, "user:bob")}, "needs a grant with role admin"},
		"admin by grant":      {user("bob"), kubehttp.Secrets, []*consolev1.Grant{grant("g", "admin", here, nil, "user:bob")}, ""},
		"best of several":     {user("bob"), kubehttp.Exec, []*consolev1.Grant{grant("a", "viewer", here, nil, "user:bob"), grant("b", "operator", here, nil, "user:bob")}, ""},
		"other cluster":       {user("bob"), kubehttp.Read, []*consolev1.Grant{grant("g", "admin", &consolev1.GrantClusters{Names: []string{"edge-2"}}, nil, "user:bob")}, "no grant"},
		"all clusters":        {user("bob"), kubehttp.Read, []*consolev1.Grant{grant("g", "viewer", &consolev1.GrantClusters{All: true}, nil, "user:bob")}, ""},
		"labels":              {user("bob"), kubehttp.Read, []*consolev1.Grant{grant("g", "viewer", &consolev1.GrantClusters{Labels: map[string]string{"env": "prod", "zone": "a"}}, nil, "user:bob")}, ""},
		"one label too many":  {user("bob"), kubehttp.Read, []*consolev1.Grant{grant("g", "viewer", &consolev1.GrantClusters{Labels: map[string]string{"env": "prod", "x": ""}}, nil, "user:bob")}, "no grant"},
		"chooses no cluster":  {user("bob"), kubehttp.Read, []*consolev1.Grant{grant("g", "viewer", &consolev1.GrantClusters{}, nil, "user:bob")}, "no grant"},
		"limited token":       {identity.Identity{Kind: identity.KindUser, Name: "ada", Groups: []string{identity.AdminsGroup}, Limits: &identity.Limits{Role: "viewer"}}, kubehttp.Write, nil, `the token is limited to role "viewer"`},
		"role of a later hub": {user("bob"), kubehttp.Read, []*consolev1.Grant{grant("g", "auditor", here, nil, "user:bob")}, "no grant"},
		"no subject":          {user(""), kubehttp.Read, []*consolev1.Grant{grant("g", "viewer", here, nil)}, "no grant"},
	} {
		rules := access.Rules{Grants: tc.grants}
		got := rules.AtCluster(tc.user, tc.class, cluster).Reason
		if (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}

// The command finds the missing grant in the report of a folder, which holds refusals as text.
func TestTheMissingGrantIsFoundInARefusal(t *testing.T) {
	t.Parallel()
	rules := &access.Rules{}
	kim, account := user("kim"), identity.ServiceAccount("fleet")
	web := access.Target{Kind: access.Service, Name: "web", Project: "shop", Cluster: "edge-1"}
	held := &access.Rules{Grants: []*consolev1.Grant{{
		Metadata: &consolev1.Metadata{Name: "looks"}, Spec: &consolev1.GrantSpec{
			Role: "viewer", Clusters: &consolev1.GrantClusters{All: true},
			Subjects: []*consolev1.GrantSubject{{Subject: &consolev1.GrantSubject_ServiceAccount{ServiceAccount: "fleet"}}},
		},
	}}}
	for reason, want := range map[string]string{
		"fleet.yaml:3: " + rules.May(account, access.Edit, web).Reason + "\nfleet.yaml:9: more": "a grant with role deployer",
		held.May(account, access.Edit, web).Reason:                                              "a grant with role deployer",
		held.May(account, access.Edit, access.Target{Kind: access.Source}).Reason:               "a grant with a role that names Source at all clusters",
		rules.AtCluster(kim, kubehttp.Exec, &consolev1.Cluster{}).Reason:                        "a grant with role operator",
		rules.May(kim, access.Edit, access.Target{Kind: access.Grant}).Reason:                   "",
		"it needs a grant with role deployer":                                                   "",
	} {
		if got := access.LackedGrant(reason); got != want {
			t.Errorf("%q lacks %q, want %q", reason, got, want)
		}
	}
}
