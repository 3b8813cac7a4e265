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
