package access_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/access"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/mux/kubehttp"
)

// lent is a grant that ends.
func lent(name, role string, clusters *consolev1.GrantClusters, until time.Time, subjects ...string) *consolev1.Grant {
	g := grant(name, role, clusters, nil, subjects...)
	g.Spec.UntilTime = timestamppb.New(until)
	return g
}

func TestAGrantAllowsUntilItsTimeIsOver(t *testing.T) {
	t.Parallel()
	here, end := &consolev1.GrantClusters{Names: []string{"edge-1"}}, time.Unix(1_800_000_000, 0)
	now := end.Add(-time.Minute)
	rules := &access.Rules{
		Grants: []*consolev1.Grant{lent("access-1", "operator", here, end, "user:bob")},
		Now:    func() time.Time { return now },
	}
	cluster := &consolev1.Cluster{Metadata: &consolev1.Metadata{Name: "edge-1"}}
	other := &consolev1.Cluster{Metadata: &consolev1.Metadata{Name: "edge-2"}}
	bob := user("bob")
	allowed := func() []bool {
		return []bool{
			rules.AtCluster(bob, kubehttp.Exec, cluster).Allowed,
			rules.May(bob, access.Deploy, access.Target{Kind: access.Service, Cluster: "edge-1"}).Allowed,
			rules.May(bob, access.View, access.Target{Kind: access.Source}).Allowed, rules.Any(bob),
			len(rules.Of(bob)) > 0, len(rules.LentGroups(bob, cluster)) > 0,
		}
	}
	if got := allowed(); slices.Contains(got, false) {
		t.Errorf("before its end: %v", got)
	}
	if got := rules.LentGroups(bob, cluster); !slices.Equal(got, []string{"fairlead:lent:operator"}) {
		t.Errorf("groups %v", got)
	}
	if got := rules.LentGroups(bob, other); len(got) > 0 {
		t.Errorf("groups at another cluster: %v", got)
	}
	if got := rules.LentGroups(limited(bob, identity.Limits{Role: "viewer"}), cluster); len(got) > 0 {
		t.Errorf("groups of a token with limits: %v", got)
	}
	if got := rules.NextEnd(); !got.Equal(end) {
		t.Errorf("the next end is %v", got)
	}
	now = end
	if got := allowed(); slices.Contains(got, true) {
		t.Errorf("at its end: %v", got)
	}
	if got := rules.NextEnd(); !got.IsZero() {
		t.Errorf("the next end is %v", got)
	}
}

func TestNobodyLendsMoreThanTheyHaveForGood(t *testing.T) {
	t.Parallel()
	prod := &consolev1.GrantClusters{Labels: map[string]string{"env": "prod"}}
	named, soon := &consolev1.GrantClusters{Names: []string{"edge-1"}}, time.Now().Add(time.Hour)
	rules := &access.Rules{
		Grants: []*consolev1.Grant{
			grant("lead", "admin", prod, nil, "user:lea"),
			grant("ops", "operator", named, nil, "user:oda", "user:gil"),
			grant("keeper", "keeper", named, nil, "user:gil", "user:kim", "serviceaccount:ci"),
			lent("access-1", "admin", named, soon, "user:bob"),
			grant("shop", "admin", named, []string{"shop"}, "user:pia"),
			grant("robots", "admin", prod, nil, "serviceaccount:ci"),
		},
		Roles: []*consolev1.Role{{Metadata: &consolev1.Metadata{Name: "keeper"}, Spec: &consolev1.RoleSpec{
			Rules: []*consolev1.RoleRule{{Verbs: []string{"edit"}, Kinds: []string{"Cluster"}}}, Kubernetes: "viewer",
		}}},
	}
	cluster := &consolev1.Cluster{
		Metadata: &consolev1.Metadata{Name: "edge-1", Labels: map[string]string{"env": "prod"}},
	}
	ada := user("ada", identity.AdminsGroup)
	for what, tc := range map[string]struct {
		who  identity.Identity
		role string
		want string // of the rule, or behind ! of the reason
	}{
		"an administrator":                      {ada, "admin", identity.AdminsGroup},
		"an administrator with limits":          {limited(ada, identity.Limits{Role: "admin"}), "viewer", "!limits"},
		"role admin by labels":                  {user("lea"), "admin", `grant "lead"`},
		"less than that":                        {user("lea"), "viewer", `grant "lead"`},
		"a role of one's own that is not held":  {user("lea"), "keeper", "!more than"},
		"no right to edit the cluster":          {user("oda"), "viewer", "!edit the cluster"},
		"the right by another grant":            {user("gil"), "operator", `grant "ops"`},
		"more than held":                        {user("gil"), "admin", "!more than"},
		"a role of one's own":                   {user("kim"), "keeper", `grant "keeper"`},
		"a role of one's own is none of others": {user("kim"), "viewer", "!more than"},
		"what is lent":                          {user("bob"), "viewer", "!edit the cluster"},
		"a grant of a project":                  {user("pia"), "viewer", "!edit the cluster"},
		"a service account":                     {identity.ServiceAccount("ci"), "viewer", "!only people"},
		"a stranger":                            {user("eve"), "viewer", "!edit the cluster"},
		"an agent": {
			identity.Identity{Kind: identity.KindAgent, Name: "edge-1"}, "viewer", "!only people",
		},
	} {
		got := rules.MayLend(tc.who, tc.role, cluster)
		want, refused := strings.CutPrefix(tc.want, "!")
		if got.Allowed == refused || !strings.Contains(got.Rule+got.Reason, want) {
			t.Errorf("%s: got %+v, want %s", what, got, tc.want)
		}
	}
}
