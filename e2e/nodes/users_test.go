package nodes_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// chosenUser is what a cluster like OpenShift gives to the pods of a namespace.
const chosenUser = 1000660000

// userPolicy does what OpenShift's admission does for pods that name no user: the one of their namespace, which owns
// nothing in any image.
const userPolicy = `apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: choose-users}
spec:
  failurePolicy: Fail
  reinvocationPolicy: Never
  matchConstraints:
    namespaceSelector: {matchLabels: {users: chosen}}
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
  mutations:
    - patchType: ApplyConfiguration
      applyConfiguration:
        expression: "Object{spec: Object.spec{securityContext: Object.spec.securityContext{runAsUser: 1000660000, runAsGroup: 0, fsGroup: 1000660000}}}"
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: choose-users}
spec: {policyName: choose-users}
`

// A cluster that chooses users runs the hub over SQLite and the agent on volumes of each kind, also after their pods
// were replaced; a folder of the node that root owns is refused in words. The agent has the rights that its values
// name, and no others.
func TestAnyUserAnyVolumeLeastRights(t *testing.T) {
	if !*long {
		t.Skip("make nodes runs it")
	}
	t.Parallel()
	w := start(t, 1)
	w.kubectl(t, userPolicy, "apply", "-f", "-")
	w.makeSecrets(t)
	w.kubectl(t, databases, "apply", "--namespace=data", "-f", "-")
	w.restrict(t, "fairlead")
	w.kubectl(t, "", "label", "namespace", "fairlead", "users=chosen")
	w.giveSecrets(t)
	const values = "image: {registry: fairlead, tag: dev}\nrunAsUser: 0\nsecrets: {metrics: fairlead-metrics}\ngitcache: {allowAddresses: [10.88.0.0/24]}\n"
	if err := w.helm(t, "fairlead").install(t.Context(), "fairlead", hubChart, values, patience); err != nil {
		t.Fatal(err)
	}
	w.logIn(t)
	w.installLeastAgent(t)
	w.serveGit(t)
	w.push(t, "first")
	w.fairlead(t, catalog, "apply", "-f", filepath.Join(w.secrets, "git/secret.yaml"), "-f", "-")
	w.awaitRunning(t, "first")

	// Files that pods wrote are theirs after they were replaced. The agent's emptyDir is not: it needs another join
	// token.
	w.kubectl(t, "", "delete", "pods", "--all", "--namespace=fairlead")
	for _, namespace := range []string{"fairlead", "fairlead-system"} {
		users := w.kubectl(t, "", "get", "pods", "--namespace="+namespace,
			`--output=jsonpath={range .items[*]}{.spec.securityContext.runAsUser} {end}`)
		for _, user := range strings.Fields(users) {
			if user != fmt.Sprint(chosenUser) {
				t.Errorf("a pod in %s runs as %s", namespace, user)
			}
		}
	}
	w.await(t, "the hub is well again", func(ctx context.Context) error {
		_, err := w.tryFairlead(ctx, "", "check")
		return err
	})
	w.push(t, "second")
	w.awaitRunning(t, "second")
	w.tryRights(t)
	w.putCacheOnNode(t, values)
	w.push(t, "third")
	w.awaitRunning(t, "third")
}

func (w *world) installLeastAgent(t *testing.T) {
	t.Helper()
	w.fairlead(t, "apiVersion: fairlead.dev/v1\nkind: Cluster\nmetadata: {name: edge}\n", "apply", "-f", "-")
	w.restrict(t, "fairlead-system")
	w.kubectl(t, "", "label", "namespace", "fairlead-system", "users=chosen")
	w.kubectl(t, "", "create", "namespace", "accounts")
	w.kubectl(t, "", "create", "serviceaccount", "deployer", "--namespace=accounts")
	values, err := json.Marshal(map[string]any{
		"image":       map[string]any{"repository": "fairlead/agent", "tag": "dev"},
		"hub":         map[string]any{"url": hubURL, "ca": w.read(t, "tls/ca.crt")},
		"join":        map[string]any{"tokens": []string{strings.TrimSpace(w.fairlead(t, "", "cluster", "join-token", "edge"))}},
		"runAsUser":   0,
		"persistence": map[string]any{"enabled": false},
		"rbac": map[string]any{"mode": "least", "resources": []any{
			map[string]any{"apiGroups": []any{""}, "resources": []any{"namespaces", "services", "configmaps"}},
			map[string]any{"apiGroups": []any{"apps"}, "resources": []any{"deployments", "replicasets"}},
		}},
		"tunnel":              map[string]any{"users": []any{"ada"}, "groups": []any{"developers"}, "impersonation": map[string]any{"enabled": false}},
		"impersonateAccounts": map[string]any{"accounts": []any{"deployer"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.helm(t, "fairlead-system").install(t.Context(), "fairlead-agent", agentChart, string(values), patience); err != nil {
		t.Fatal(err)
	}
}

// tryRights asks the API server with the agent's own token for what its values name, and for what a stolen agent would
// like to have.
func (w *world) tryRights(t *testing.T) {
	t.Helper()
	kubeconfig := filepath.Join(w.dir, "agent.kubeconfig")
	content, err := os.ReadFile(w.kubeconfig)
	if err == nil {
		err = os.WriteFile(kubeconfig, content, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	config := func(args ...string) string {
		return strings.TrimSpace(w.mustRun(t, nil, w.bins.Kubelocal,
			append([]string{"kubectl", "--kubeconfig", kubeconfig, "config"}, args...)...))
	}
	token := strings.TrimSpace(w.kubectl(t, "", "create", "token", "fairlead-agent", "--namespace=fairlead-system"))
	config("set-credentials", "agent", "--token="+token)
	config("set-context", "agent", "--user=agent", "--cluster="+config("view", "--output=jsonpath={.clusters[0].name}"))
	config("use-context", "agent")
	try := func(command string) error {
		_, err := w.tryKubectlAs(t.Context(), kubeconfig, strings.Fields(command)...)
		return err
	}
	for _, command := range []string{
		"get deployments --namespace=web",
		"create configmap tried --namespace=web",
		"delete configmap tried --namespace=web",
		"get configmaps --namespace=fairlead-system",
		"get customresourcedefinitions",
		"get rolebindings --all-namespaces",
		"get --raw /version --as=ada --as-group=developers",
		"get --raw /version --as=system:serviceaccount:accounts:deployer",
	} {
		if err := try(command); err != nil {
			t.Errorf("the agent may not %q: %v", command, err)
		}
	}
	for command, refused := range map[string]string{
		"get nodes":                                                              `cannot list resource "nodes"`,
		"get --raw /api/v1/nodes/node-1/proxy":                                   `cannot get resource "nodes/proxy"`,
		"get secrets --namespace=web":                                            `cannot list resource "secrets"`,
		"get secrets --namespace=kube-system":                                    `cannot list resource "secrets"`,
		"get secrets --namespace=fairlead-system":                                `cannot list resource "secrets"`,
		"get secret fairlead-hub --namespace=fairlead":                           `cannot get resource "secrets"`,
		"get pods --namespace=web":                                               `cannot list resource "pods"`,
		"delete pod fairlead-agent-0 --namespace=fairlead-system":                `cannot delete resource "pods"`,
		"create token default --namespace=web":                                   `cannot create resource "serviceaccounts/token"`,
		"create clusterrolebinding mine --clusterrole=cluster-admin --user=ada":  `cannot create resource "clusterrolebindings"`,
		"create rolebinding mine --clusterrole=admin --user=ada --namespace=web": `cannot create resource "rolebindings"`,
		"label clusterrole fairlead-agent tried=yes":                             `cannot get resource "clusterroles"`,
		"get --raw /version --as=eve":                                            `cannot impersonate resource "users"`,
		"get --raw /version --as=ada --as-group=system:masters":                  `cannot impersonate resource "groups"`,
		"get --raw /version --as=ada --as-uid=1":                                 `cannot impersonate resource "uids"`,
		"get --raw /version --as=system:serviceaccount:kube-system:default":      `cannot impersonate resource "serviceaccounts"`,
		"get --raw /version --as=system:serviceaccount:accounts:default":         `cannot impersonate resource "serviceaccounts"`,
		"create job mine --image=x --namespace=web":                              `cannot create resource "jobs"`,
		"get validatingwebhookconfigurations":                                    `cannot list resource "validatingwebhookconfigurations"`,
		"get mutatingadmissionpolicies":                                          `cannot list resource "mutatingadmissionpolicies"`,
	} {
		err := try(command)
		if err == nil || !strings.Contains(err.Error(), refused) {
			t.Errorf("the agent's %q ends with %v, want %s", command, err, refused)
		}
	}

	// A service with what the agent may not apply says which object and which right.
	w.write(t, "apps/web/secret.yaml", "{apiVersion: v1, kind: Secret, metadata: {name: refused}, stringData: {a: b}}\n")
	w.push(t, "second")
	w.await(t, "the service names what is refused", func(ctx context.Context) error {
		said, err := w.tryFairlead(ctx, "", "get", "service", "web", "-o", "yaml")
		if err == nil && (!strings.Contains(said, "Secret web/refused") || !strings.Contains(said, `cannot get resource "secrets"`)) {
			err = errors.New(said)
		}
		return err
	})
	if err := os.Remove(filepath.Join(w.clone, "apps/web/secret.yaml")); err != nil {
		t.Fatal(err)
	}
}

// putCacheOnNode moves the distributor's cache to a folder of the node, which root owns at first.
func (w *world) putCacheOnNode(t *testing.T, values string) {
	t.Helper()
	const folder = "/var/cache/fairlead"
	w.kubectl(t, "", "label", "namespace", "fairlead", "--overwrite", "pod-security.kubernetes.io/enforce=privileged")
	upgraded := make(chan error, 1)
	go func() {
		upgraded <- w.helm(t, "fairlead").upgrade(t.Context(), "fairlead", hubChart, strings.Replace(values, "secrets: {", "secrets: {redis: fairlead-redis, ", 1)+
			"distributor: {kind: DaemonSet, cache: {hostPath: "+folder+"}}\n", patience)
	}()
	w.await(t, "a distributor says that it can't write to the folder", func(ctx context.Context) error {
		said, err := w.tryKubectl(ctx, "", "logs", "--namespace=fairlead", "daemonset/fairlead-distributor", "--tail=5")
		if err == nil && (!strings.Contains(said, "/data") || !strings.Contains(said, "permission denied")) {
			err = errors.New(said)
		}
		return err
	})
	w.mustRun(t, nil, w.program, "exec", "--dir", w.lab, "--node", "node-1", "--", "chown",
		fmt.Sprint(chosenUser), folder)
	if err := <-upgraded; err != nil {
		t.Fatal(err)
	}
}
