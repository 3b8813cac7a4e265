package acceptance

import (
	"strings"
	"testing"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
)

func TestServiceAccountBoundsAService(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	w.kubectl("create", "serviceaccount", "deployer")
	w.kubectl("create", "role", "deployer", "--verb=get,list,create,patch,update,delete", "--resource=configmaps")
	w.kubectl("create", "rolebinding", "deployer", "--role=deployer", "--serviceaccount="+w.namespace+":deployer")
	name, account := w.service("web"), w.namespace+"/deployer"
	w.hub.push(t, name, w.namespace, map[string]string{"a.yaml": configMap("a", "1")})
	bounded := w.hub.sync(name, &deliveryv1.SyncSpec{Impersonate: account})
	w.hub.awaitPhase(t, name, bounded, healthy)
	w.mustData("a", "1")
	// A service may not do what its account may not, whatever the agent may: in fairlead-system as elsewhere.
	for what, manifest := range map[string]string{
		"secrets": "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {a: b}\n",
		"clusterroles": "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: " +
			w.namespace + "-all}\nrules: [{apiGroups: ['*'], resources: ['*'], verbs: ['*']}]\n",
		"configmaps": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings." + w.namespace +
			", namespace: fairlead-system}\n",
	} {
		bad := w.hub.push(t, name, w.namespace, map[string]string{"a.yaml": configMap("a", "2"), "b.yaml": manifest})
		report := w.hub.awaitPhase(t, name, bad, failed)
		if want := `User "system:serviceaccount:` + w.namespace +
			`:deployer" cannot `; !strings.Contains(report.GetMessage(), want) ||
			!strings.Contains(report.GetMessage(), what) {
			t.Errorf("%s: got %s", what, report.GetMessage())
		}
		w.mustData("a", "1")
	}
	good := w.hub.push(t, name, w.namespace, map[string]string{"c.yaml": configMap("c", "1")})
	w.hub.awaitPhase(t, name, good, healthy)
	w.mustBeGone("v1", "ConfigMap", w.namespace, "a")
	w.hub.remove(name)
	w.hub.await(t, name, func(r *deliveryv1.ServiceReport) bool { return r.GetPhase() == removed })
	w.mustBeGone("v1", "ConfigMap", w.namespace, "c")
}

// The agent itself may write them, and would for a service that names no account.
func TestNoServiceHasAnInventory(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name := w.service("web")
	for _, own := range []string{"inventory." + w.namespace + "-other", "cluster"} {
		digest := w.hub.push(t, name, w.namespace, map[string]string{
			"a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + own +
				", namespace: fairlead-system}\ndata: {name: x}\n",
		})
		if report := w.hub.awaitPhase(t, name, digest,
			failed); !strings.Contains(report.GetMessage(), "what the agent itself keeps there") {
			t.Errorf("%s: got %s", own, report.GetMessage())
		}
	}
}

func TestImpersonationCanBeRequired(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.bounded = true
	w.start()
	name := w.service("web")
	report := w.hub.awaitPhase(t, name,
		w.hub.push(t, name, w.namespace, map[string]string{"a.yaml": configMap("a", "1")}), failed)
	if !strings.Contains(report.GetMessage(), "spec.sync.impersonate") ||
		!strings.Contains(report.GetMessage(), "nothing was applied") {
		t.Errorf("got %s", report.GetMessage())
	}
	w.mustBeGone("v1", "ConfigMap", w.namespace, "a")
}

// A controller's account may give itself any right: with it a service gets past its project, and past what the agent
// itself may.
func TestAccountsThatAServiceMayNotBeAppliedAs(t *testing.T) {
	t.Parallel()
	const controller = "kube-system/clusterrole-aggregation-controller"
	bound := func(namespaces, kinds, accounts []string) *deliveryv1.ObjectRules {
		return &deliveryv1.ObjectRules{Project: "shop", Namespaces: namespaces, Kinds: kinds, Accounts: accounts}
	}
	for _, test := range []struct {
		name    string
		allowed []string
		rules   *deliveryv1.ObjectRules
		account string
		want    string
	}{
		{"controller", nil, nil, controller, "--impersonate-accounts"},
		{"agent", []string{"*/*"}, nil, "fairlead-system/fairlead-agent", "--impersonate-accounts"},
		{"unlisted", []string{"ci/*"}, nil, "OWN/deployer", "--impersonate-accounts"},
		{
			"bounded",
			[]string{controller, "*/*"},
			bound([]string{"OWN"}, nil, nil), controller,
			`Project "shop" does not allow`,
		},
		{
			"neighbour", nil, bound([]string{"OWN", "default"}, nil, []string{"OWN/*"}), "default/default",
			`Project "shop" does not allow`,
		},
		{"kinds", nil, bound(nil, []string{"ConfigMap"}, nil), "default/default", `Project "shop" does not allow`},
		{"own", []string{"*/deployer"}, bound([]string{"OWN"}, nil, nil), "OWN/deployer", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.accounts = test.allowed
			w.start()
			own := func(text string) string { return strings.ReplaceAll(text, "OWN", w.namespace) }
			w.kubectl("create", "serviceaccount", "deployer")
			w.kubectl("create", "rolebinding", "deployer", "--clusterrole=admin",
				"--serviceaccount="+w.namespace+":deployer")
			name := w.service("web")
			w.hub.push(t, name, w.namespace, map[string]string{"a.yaml": configMap("a", "1")})
			if test.rules != nil {
				for i := range test.rules.GetNamespaces() {
					test.rules.Namespaces[i] = own(test.rules.GetNamespaces()[i])
				}
				for i := range test.rules.GetAccounts() {
					test.rules.Accounts[i] = own(test.rules.GetAccounts()[i])
				}
				w.hub.bound(name, test.rules)
			}
			w.hub.sync(name, &deliveryv1.SyncSpec{Impersonate: own(test.account)})
			digest := w.hub.push(t, name, w.namespace, map[string]string{"b.yaml": configMap("b", "1")})
			report := w.hub.await(t, name, func(r *deliveryv1.ServiceReport) bool {
				return r.GetDigest() == digest && (r.GetPhase() == failed || r.GetPhase() == healthy)
			})
			if (report.GetPhase() == healthy) != (test.want == "") ||
				!strings.Contains(report.GetMessage(), test.want) {
				t.Errorf("got %s %s\nwant %s", report.GetPhase(), report.GetMessage(), test.want)
			}
			if test.want != "" {
				w.mustBeGone("v1", "ConfigMap", w.namespace, "b")
			}
		})
	}
}
