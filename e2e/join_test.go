package e2e

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fairlead.dev/e2e/process"
	"fairlead.dev/e2e/stack"
	"fairlead.dev/platform/kubetest"
)

// joinPatience bounds a test that starts a cluster of its own.
const joinPatience = 2 * patience

// least lets the agent do what the chart says that it needs, and no more.
const least = "rbac: {mode: least}\npersistence: {enabled: false}\n"

// joiner runs the CLI with a kubectl in PATH.
type joiner struct {
	*stack.Stack
	bins stack.Binaries
	kube *kubetest.Cluster
	dir  string
}

func newJoiner(ctx context.Context, t *testing.T) joiner {
	t.Helper()
	s := shared(t)
	bins, err := stack.FindBinaries(ctx, "..")
	if err != nil {
		t.Fatal(err)
	}
	j := joiner{Stack: s, bins: bins, dir: t.TempDir()}
	if err := os.Symlink(filepath.Join(filepath.Dir(bins.Kubelocal), "kubectl"),
		filepath.Join(j.dir, "kubectl")); err != nil {
		t.Fatal(err)
	}
	if j.kube, err = kubetest.Start(ctx, filepath.Join(j.dir, "cluster"), "join"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(j.kube.Stop)
	return j
}

func (j joiner) run(ctx context.Context, args ...string) (string, error) {
	env := []string{"FAIRLEAD_CONFIG=" + j.ConfigFile(), "PATH=" + j.dir + ":" + os.Getenv("PATH")}
	return process.Run(ctx, env, "", filepath.Join(j.bins.Dir, "fairlead"), args...)
}

// account writes a kubeconfig for the agent's service account, and the join token of its Secret into a file, as the
// pod would have both.
func (j joiner) account(ctx context.Context, t *testing.T) (kubeconfig, token string) {
	t.Helper()
	var secret string
	err := process.Await(ctx, "the join token is in the cluster", func(ctx context.Context) (err error) {
		secret, err = j.Kubectl(ctx, j.kube.Kubeconfig, "get", "secret", "fairlead-agent-join", "-n",
			"fairlead-system", "-o", `jsonpath={.data.fairlead-agent-0}`)
		if err == nil && secret == "" {
			err = fmt.Errorf("the secret is empty")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	text, err := base64.StdEncoding.DecodeString(secret)
	if err != nil {
		t.Fatal(err)
	}
	token, kubeconfig = filepath.Join(j.dir, "join"), filepath.Join(j.dir, "agent.kubeconfig")
	config, err := os.ReadFile(j.kube.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	for file, content := range map[string][]byte{token: text, kubeconfig: config} {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	bearer, err := j.Kubectl(ctx, j.kube.Kubeconfig, "create", "token", "fairlead-agent", "-n", "fairlead-system")
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"config", "set-credentials", "fairlead-agent", "--token=" + strings.TrimSpace(bearer)},
		{"config", "set-context", "--current", "--user=fairlead-agent"},
	} {
		if _, err := j.Kubectl(ctx, kubeconfig, args...); err != nil {
			t.Fatal(err)
		}
	}
	return kubeconfig, token
}

// One command joins a cluster and says what works; the rights that its manifest gives are enough.
func TestLeastRightsSuffice(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), joinPatience)
	defer cancel()
	j := newJoiner(ctx, t)
	const name = "joined"
	values := filepath.Join(j.dir, "values.yaml")
	if err := os.WriteFile(values, []byte(least), 0o600); err != nil {
		t.Fatal(err)
	}

	_, err := j.run(ctx, "cluster", "join", name, "--kubeconfig", j.kube.Kubeconfig, "-f", values, "--timeout", "1s")
	if err == nil || !strings.Contains(err.Error(), `no "reached the hub": the agent does not run`) ||
		!strings.Contains(err.Error(), "kubectl get pods") {
		t.Fatalf("nothing runs the agent, and joining says %v", err)
	}
	if left, err := j.Kubectl(ctx, j.kube.Kubeconfig, "get", "namespaces,clusterroles,clusterrolebindings", "-A", "-l",
		"app.kubernetes.io/component=agent", "-o", "name"); err != nil || left != "" {
		t.Errorf("the join that failed leaves in the cluster: %s %v", left, err)
	}
	if out, err := j.run(ctx, "get", "cluster", name); err == nil {
		t.Errorf("the join that failed leaves in the catalog: %s", out)
	}

	type result struct {
		out string
		err error
	}
	joined := make(chan result, 1)
	join := []string{
		"cluster", "join", name, "--kubeconfig", j.kube.Kubeconfig, "-f", values, "--bind-admins", "--bind",
		"developers=view",
	}
	go func() {
		out, err := j.run(ctx, join...)
		joined <- result{out, err}
	}()
	j.account(ctx, t)
	// Another join that fails takes nothing from the one that waits.
	if out, err := j.run(ctx, append(join, "--timeout", "1s")...); err == nil {
		t.Fatalf("nothing runs the agent, and another join says %s", out)
	}
	if out, err := j.run(ctx, "get", "cluster", name); err != nil {
		t.Errorf("another join that failed deletes the cluster of the one that waits: %s %v", out, err)
	}
	kubeconfig, token := j.account(ctx, t)
	agent := process.New(j.dir, "agent", filepath.Join(j.bins.Dir, "agent"),
		"--hub-url", j.Hub["console"], "--hub-ca-file", j.CAFile, "--join-token-file", token, "--data-dir",
		filepath.Join(j.dir, "data"), "--kubeconfig", kubeconfig)
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := agent.Stop(time.Minute); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("last words of the agent:\n%s", agent.Tail())
		}
	})
	r := <-joined
	if r.err != nil {
		t.Fatalf("%v\n%s", r.err, r.out)
	}
	for _, want := range []string{"ok    reached the hub", "ok    tunnel up", "ok    first sync: agent "} {
		if !strings.Contains(r.out, want) {
			t.Errorf("no %q in\n%s", want, r.out)
		}
	}
	t.Logf("\n%s", r.out)
	if _, err := j.run(ctx, "cluster", "join", name); err == nil ||
		!strings.Contains(err.Error(), "has an agent, and it is connected") {
		t.Errorf("joining again says %v", err)
	}
	for group, verb := range map[string]string{"fairlead:admins": "delete", "developers": "get"} {
		if out, err := j.Kubectl(ctx, j.kube.Kubeconfig, "auth", "can-i", verb, "deployments", "-A", "--as",
			"somebody", "--as-group", group); err != nil || out != "yes\n" {
			t.Errorf("%s may not %s: %s, %v", group, verb, out, err)
		}
	}
	if out, err := j.run(ctx, "get", "cluster", name, "-o", "yaml"); err != nil ||
		strings.Contains(out, "fairlead.dev/joining") {
		t.Errorf("a cluster that has joined is marked as one that joins: %s %v", out, err)
	}
	if out, err := j.Kubectl(ctx, kubeconfig, "auth", "can-i", "*", "*"); err == nil {
		t.Errorf("the agent may do everything: %s", out)
	}
	j.ships(ctx, t, name)
	j.again(ctx, t, name, values)
}

// again takes the credential away and joins anew, with the agent that is there: it finds the new token in its file.
func (j joiner) again(ctx context.Context, t *testing.T, name, values string) {
	t.Helper()
	if _, err := j.run(ctx, "cluster", "leave", name, "--yes"); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(j.dir, "agent.yaml")
	out, err := j.run(ctx, "cluster", "join", name, "-f", values, "-o", file, "--timeout", "1s")
	if err == nil || !strings.Contains(err.Error(), `no "reached the hub"`) ||
		out != "kubectl apply --server-side -f "+file+
			"\nkubectl delete clusterrolebindings -l 'fairlead.dev/bind,fairlead.dev/bind notin (agent-least)'\n"+
			"kubectl delete clusterrolebinding fairlead-agent --ignore-not-found\n" {
		t.Fatalf("nobody applied the manifest, and joining says %q, %v", out, err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("the manifest with the token: %v, %v", info, err)
	}
	joined := make(chan error, 1)
	go func() {
		_, err := j.run(ctx, "cluster", "join", name, "-f", values, "--kubeconfig", j.kube.Kubeconfig)
		joined <- err
	}()
	// As the kubelet does, with whatever the Secret holds.
	for {
		j.account(ctx, t)
		select {
		case err := <-joined:
			if err != nil {
				t.Fatal(err)
			}
			// This join gives none of the bindings.
			for _, group := range []string{"fairlead:admins", "developers"} {
				if out, err := j.Kubectl(ctx, j.kube.Kubeconfig, "auth", "can-i", "get", "deployments", "-A", "--as",
					"somebody", "--as-group", group); err == nil {
					t.Errorf("%s keeps the binding that a later join took back: %s", group, out)
				}
			}
			return
		case <-time.After(time.Second):
		}
	}
}

// ships brings a service into the cluster, and looks at it through the tunnel.
func (j joiner) ships(ctx context.Context, t *testing.T, name string) {
	t.Helper()
	repository, err := j.Clone(ctx)
	if err != nil {
		t.Fatal(err)
	}
	_, err = repository.Push(ctx, "for the cluster that joined", map[string]string{
		name + "/objects.yaml": "apiVersion: v1\nkind: Namespace\nmetadata: {name: joined}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: greeting}\ndata: {text: hello}\n---\n" +
			"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  selector: {matchLabels: {app: web}}\n  template:\n    metadata: {labels: {app: web}}\n    spec: {containers: [{name: web, image: web}]}\n",
	})
	if err != nil {
		t.Fatal(err)
	}
	service := fmt.Sprintf("apiVersion: fairlead.dev/v1\nkind: Service\nmetadata: {name: %s}\nspec: {source: sample, path: %s, cluster: %s, namespace: joined}\n", name, name, name)
	if _, err := j.FairleadStdin(ctx, service, "apply", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	err = process.Await(ctx, "the service is healthy", func(ctx context.Context) error {
		got, err := j.Service(ctx, name)
		if err != nil || got.Status.State == "healthy" {
			return err
		}
		return fmt.Errorf("%s: %s %s", got.Status.State, got.Status.StateMessage, got.Status.Cluster.Report.Message)
	})
	if err != nil {
		t.Fatal(err)
	}
	through, err := j.TunnelKubeconfig(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := j.Kubectl(ctx, through, "get", "configmap", "greeting", "-n", "joined", "-o",
		"jsonpath={.data.text}"); err != nil || text != "hello" {
		t.Errorf("through the tunnel: %q, %v", text, err)
	}
	if _, err := j.Fairlead(ctx, "delete", "service", name, "--yes"); err != nil {
		t.Fatal(err)
	}
	err = process.Await(ctx, "the service is gone", func(ctx context.Context) error {
		if out, err := j.Kubectl(ctx, j.kube.Kubeconfig, "get", "deployment", "web", "-n", "joined",
			"--ignore-not-found", "-o", "name"); err != nil || out != "" {
			return fmt.Errorf("%s %w", out, err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
