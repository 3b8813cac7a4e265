package access_test

import (
	"strings"
	"testing"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/mux/kubehttp"
	"fairlead.dev/services/tunnel/internal/access"
)

func grant(name, role string, clusters *consolev1.GrantClusters, subjects ...string) *consolev1.Grant {
	g := &consolev1.Grant{
		Metadata: &consolev1.Metadata{Name: name},
		Spec:     &consolev1.GrantSpec{Role: role, Clusters: clusters},
	}
	for _, s := range subjects {
		if user, ok := strings.CutPrefix(s, "user:"); ok {
			g.Spec.Subjects = append(g.Spec.Subjects,
				&consolev1.GrantSubject{Subject: &consolev1.GrantSubject_User{User: user}})
		} else {
			g.Spec.Subjects = append(g.Spec.Subjects,
				&consolev1.GrantSubject{Subject: &consolev1.GrantSubject_Group{Group: s}})
		}
	}
	return g
}

func TestGrantsAllowNoMoreThanTheySay(t *testing.T) {
	t.Parallel()
	cluster := &consolev1.Cluster{Metadata: &consolev1.Metadata{
		Name:   "edge-1",
		Labels: map[string]string{"env": "prod", "zone": "a"},
	}}
	here := &consolev1.GrantClusters{Names: []string{"edge-0", "edge-1"}}
	user := func(name string, groups ...string) identity.Identity {
		return identity.Identity{Kind: identity.KindUser, Name: name, Groups: groups}
	}
	for name, tc := range map[string]struct {
		user   identity.Identity
		class  kubehttp.Class
		grants []*consolev1.Grant
		want   string // part of the refusal; empty: allowed
	}{
		"nobody":              {user("bob"), kubehttp.Read, nil, "may not read here: that needs a grant with role viewer, and no grant"},
		"admin":               {user("ada", identity.AdminsGroup), kubehttp.Secrets, nil, ""},
		"not quite admin":     {user("eve", "fairlead:admin", "Fairlead:admins"), kubehttp.Read, nil, "no grant"},
		"user":                {user("bob"), kubehttp.Read, []*consolev1.Grant{grant("g", "viewer", here, "user:bob")}, ""},
		"group of that name":  {user("eve", "bob"), kubehttp.Read, []*consolev1.Grant{grant("g", "viewer", here, "user:bob")}, "no grant"},
		"user of that name":   {user("dev"), kubehttp.Read, []*consolev1.Grant{grant("g", "viewer", here, "dev")}, "no grant"},
		"second group":        {user("bob", "x", "dev"), kubehttp.Write, []*consolev1.Grant{grant("g", "deployer", here, "ops", "dev")}, ""},
		"more than viewer":    {user("bob"), kubehttp.Write, []*consolev1.Grant{grant("g", "viewer", here, "user:bob")}, `grant "g" gives no more than role viewer`},
		"more than deployer":  {user("bob"), kubehttp.Exec, []*consolev1.Grant{grant("g", "deployer", here, "user:bob")}, "needs a grant with role operator"},
		"more than operator":  {user("bob"), kubehttp.Secrets, []*consolev1.Grant{grant("g", "operator", here, "user:bob")}, "needs a grant with role admin"},
		"admin by grant":      {user("bob"), kubehttp.Secrets, []*consolev1.Grant{grant("g", "admin", here, "user:bob")}, ""},
		"best of several":     {user("bob"), kubehttp.Exec, []*consolev1.Grant{grant("a", "viewer", here, "user:bob"), grant("b", "operator", here, "user:bob")}, ""},
		"other cluster":       {user("bob"), kubehttp.Read, []*consolev1.Grant{grant("g", "admin", &consolev1.GrantClusters{Names: []string{"edge-2"}}, "user:bob")}, "no grant"},
		"all clusters":        {user("bob"), kubehttp.Read, []*consolev1.Grant{grant("g", "viewer", &consolev1.GrantClusters{All: true}, "user:bob")}, ""},
		"labels":              {user("bob"), kubehttp.Read, []*consolev1.Grant{grant("g", "viewer", &consolev1.GrantClusters{Labels: map[string]string{"env": "prod", "zone": "a"}}, "user:bob")}, ""},
		"one label too many":  {user("bob"), kubehttp.Read, []*consolev1.Grant{grant("g", "viewer", &consolev1.GrantClusters{Labels: map[string]string{"env": "prod", "x": ""}}, "user:bob")}, "no grant"},
		"chooses no cluster":  {user("bob"), kubehttp.Read, []*consolev1.Grant{grant("g", "viewer", &consolev1.GrantClusters{}, "user:bob")}, "no grant"},
		"limited token":       {identity.Identity{Kind: identity.KindUser, Name: "ada", Groups: []string{identity.AdminsGroup}, Limits: &identity.Limits{Role: "viewer"}}, kubehttp.Write, nil, `the token is limited to role "viewer"`},
		"role of a later hub": {user("bob"), kubehttp.Read, []*consolev1.Grant{grant("g", "auditor", here, "user:bob")}, "no grant"},
		"no subject":          {user(""), kubehttp.Read, []*consolev1.Grant{grant("g", "viewer", here)}, "no grant"},
	} {
		got := access.Check(tc.user, tc.class, cluster, tc.grants)
		if (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}
