package access_test

import (
	"testing"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/access"
	"fairlead.dev/platform/identity"
)

func TestBeyondIsWhatNoSingleGrantGives(t *testing.T) {
	t.Parallel()
	all := &consolev1.GrantClusters{All: true}
	named := func(names ...string) *consolev1.GrantClusters { return &consolev1.GrantClusters{Names: names} }
	labelled := func(pairs ...string) *consolev1.GrantClusters {
		labels := map[string]string{}
		for i := 0; i < len(pairs); i += 2 {
			labels[pairs[i]] = pairs[i+1]
		}
		return &consolev1.GrantClusters{Labels: labels}
	}
	type spec = consolev1.GrantSpec
	for _, c := range []struct {
		name      string
		has, asks *spec
		beyond    bool
	}{
		{"the same", &spec{Role: "deployer", Clusters: all}, &spec{Role: "deployer", Clusters: all}, false},
		{
			"more", &spec{Role: "admin", Clusters: all},
			&spec{Role: "deployer", Clusters: named("a"), Projects: []string{"shop"}}, false,
		},
		{"a greater role", &spec{Role: "deployer", Clusters: all}, &spec{Role: "operator", Clusters: all}, true},
		{"a role of one's own", &spec{Role: "admin", Clusters: all}, &spec{Role: "own", Clusters: all}, true},
		{
			"the same role of one's own", &spec{Role: "own", Clusters: all}, &spec{Role: "own", Clusters: named("a")},
			false,
		},
		{
			"all projects", &spec{Role: "admin", Clusters: all, Projects: []string{"shop"}},
			&spec{Role: "viewer", Clusters: all}, true,
		},
		{
			"another project", &spec{Role: "admin", Clusters: all, Projects: []string{"shop"}},
			&spec{Role: "viewer", Clusters: all, Projects: []string{"shop", "bank"}}, true,
		},
		{"all clusters", &spec{Role: "admin", Clusters: named("a")}, &spec{Role: "viewer", Clusters: all}, true},
		{
			"another cluster", &spec{Role: "admin", Clusters: named("a")},
			&spec{Role: "viewer", Clusters: named("a", "b")}, true,
		},
		{
			"clusters by name of some by label", &spec{Role: "admin", Clusters: labelled("env", "prod")},
			&spec{Role: "viewer", Clusters: named("a")}, true,
		},
		{
			"narrower labels", &spec{Role: "admin", Clusters: labelled("env", "prod")},
			&spec{Role: "viewer", Clusters: labelled("env", "prod", "zone", "a")}, false,
		},
		{
			"wider labels", &spec{Role: "admin", Clusters: labelled("env", "prod", "zone", "a")},
			&spec{Role: "viewer", Clusters: labelled("env", "prod")}, true,
		},
	} {
		c.has.Subjects = []*consolev1.GrantSubject{{Subject: &consolev1.GrantSubject_User{User: "kim"}}}
		c.asks.Subjects = []*consolev1.GrantSubject{
			{Subject: &consolev1.GrantSubject_ServiceAccount{ServiceAccount: "fleet"}},
		}
		rules := &access.Rules{Grants: []*consolev1.Grant{
			{Metadata: &consolev1.Metadata{Name: "of-kim"}, Spec: c.has},
			{Metadata: &consolev1.Metadata{Name: "of-fleet"}, Spec: c.asks},
		}}
		kim, fleet := identity.Identity{Kind: identity.KindUser, Name: "kim"}, identity.ServiceAccount("fleet")
		if got := rules.Beyond(kim, fleet); (got == "of-fleet") != c.beyond {
			t.Errorf("%s: beyond is %q", c.name, got)
		}
		if got := rules.Beyond(identity.Identity{Kind: identity.KindUser, Name: "lee"}, fleet); got != "of-fleet" {
			t.Errorf("%s: of who has nothing: %q", c.name, got)
		}
		if got := rules.Beyond(kim, identity.ServiceAccount("idle")); got != "" {
			t.Errorf("%s: of what may nothing: %q", c.name, got)
		}
	}
}
