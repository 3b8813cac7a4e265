package foreign

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	"fairlead.dev/e2e/process"
	"fairlead.dev/platform/kubetest"
)

// A release of the agent's chart goes from one mode of rights to another, and keeps no binding of the one before:
// Kubernetes gives no binding another role.
func TestTheModeOfTheAgentsRightsChanges(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	kube, err := kubetest.Start(ctx, t.TempDir(), "mode")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(kube.Stop)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	env := []string{asHelm + "=yes", "KUBECONFIG=" + kube.Kubeconfig}
	for i, step := range []struct {
		mode string
		want []string
	}{
		{"cluster-admin", []string{"fairlead-agent=cluster-admin"}},
		{"least", []string{"fairlead-agent-least=fairlead-agent"}},
		{"cluster-admin", []string{"fairlead-agent=cluster-admin"}},
		{"none", nil},
		{"least", []string{"fairlead-agent-least=fairlead-agent"}},
	} {
		args := []string{
			"upgrade", "fairlead-agent", "../../deploy/charts/agent", "--install", "--create-namespace", "-n",
			"fairlead-system",
			"--set", "hub.url=https://hub.example.com,rbac.mode=" + step.mode,
		}
		if out, err := process.Run(ctx, env, "", self, args...); err != nil {
			t.Fatalf("step %d, to %s: %v\n%s", i, step.mode, err, out)
		}
		out, err := process.Run(ctx, env, "", kubelocal(ctx, t), "kubectl", "get", "clusterrolebindings", "-l",
			"app.kubernetes.io/component=agent",
			"-o", `jsonpath={range .items[*]}{.metadata.name}={.roleRef.name}{"\n"}{end}`)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Fields(out); !slices.Equal(got, step.want) {
			t.Errorf("step %d, with %s: bound are %v, want %v", i, step.mode, got, step.want)
		}
	}
}

func kubelocal(ctx context.Context, t *testing.T) string {
	t.Helper()
	binary, err := kubetest.Binary(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return binary
}
