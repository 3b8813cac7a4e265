package accounts_test

import (
	"testing"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/accounts"
)

func TestAccountsOfAProject(t *testing.T) {
	t.Parallel()
	const controller = "kube-system/clusterrole-aggregation-controller"
	for _, test := range []struct {
		name    string
		rules   *deliveryv1.ObjectRules
		account string
		refused bool
	}{
		{"nothing is bounded", nil, controller, false},
		{
			"none is named", &deliveryv1.ObjectRules{Namespaces: []string{"shop"}, Accounts: []string{"shop/a"}}, "",
			false,
		},
		{"of its namespaces", &deliveryv1.ObjectRules{Namespaces: []string{"shop-*"}}, "shop-eu/deployer", false},
		{"of others", &deliveryv1.ObjectRules{Namespaces: []string{"shop-*"}}, "bank/deployer", true},
		{"of Kubernetes, by a pattern", &deliveryv1.ObjectRules{Namespaces: []string{"*", "kube-*"}}, controller, true},
		{
			"of the agent, by a pattern", &deliveryv1.ObjectRules{Accounts: []string{"*", "*/*"}},
			"fairlead-system/fairlead-agent", true,
		},
		{
			"of Kubernetes, written out",
			&deliveryv1.ObjectRules{Namespaces: []string{"shop"}, Accounts: []string{"kube-system/*"}}, controller,
			false,
		},
		{
			"kinds alone: of the service's namespace", &deliveryv1.ObjectRules{Kinds: []string{"ConfigMap"}},
			"shop/deployer", false,
		},
		{"kinds alone: of another", &deliveryv1.ObjectRules{Kinds: []string{"ConfigMap"}}, "bank/deployer", true},
		{
			"kinds alone: of one whose name is longer", &deliveryv1.ObjectRules{DeniedKinds: []string{"Secret"}},
			"shop-eu/deployer", true,
		},
		{"accounts alone", &deliveryv1.ObjectRules{Accounts: []string{"shop/a", "ci/*"}}, "ci/deployer", false},
		{"accounts alone, another", &deliveryv1.ObjectRules{Accounts: []string{"shop/a", "ci/*"}}, "shop/b", true},
	} {
		if got := accounts.Refused(test.rules, "shop", test.account); got != test.refused {
			t.Errorf("%s: refused is %v", test.name, got)
		}
	}
	if !accounts.Refused(&deliveryv1.ObjectRules{Kinds: []string{"*"}}, "kube-system", controller) {
		t.Error("a service chooses its namespace, and by it an account of Kubernetes")
	}
}
