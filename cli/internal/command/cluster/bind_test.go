package cluster

import (
	"errors"
	"strings"
	"testing"
)

func TestBindingsAreThoseOfTheChartAndNothingElse(t *testing.T) {
	t.Parallel()
	values := agentValues{bindAdmins: true, bind: []string{"developers=view", "ops=cluster-admin"}}
	manifest, err := values.renderBindings()
	if err != nil {
		t.Fatal(err)
	}
	text := string(manifest)
	if strings.Count(text, "kind: ") != 3*3 || strings.Count(text, "kind: ClusterRoleBinding\n") != 3 ||
		strings.Contains(text, "ServiceAccount") {
		t.Errorf("not three bindings of groups:\n%s", text)
	}
	for _, want := range []string{`name: "fairlead:admins"`, `name: "developers"`, `name: "view"`, `name: "ops"`} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is missing in\n%s", want, text)
		}
	}
	values = agentValues{bind: []string{"developers"}}
	if _, err := values.renderBindings(); err == nil || !strings.Contains(err.Error(), "must be GROUP=ROLE") {
		t.Errorf("a group without a role: %v", err)
	}
}

func TestBindingSaysWhatToDoWhereNoAgentRuns(t *testing.T) {
	t.Parallel()
	j := joining{cluster: "edge-1"}
	const missing = `kubectl get: exit status 1: Error from server (NotFound): ` +
		`serviceaccounts "fairlead-agent" not found`
	got := j.explainNoAgent(errors.New(missing)).Error()
	for _, want := range []string{missing, "give its own --context or --kubeconfig", "its agent runs outside of it"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %s", want, got)
		}
	}
	const away = "kubectl get: exit status 1: Unable to connect to the server: dial tcp: i/o timeout"
	if got := j.explainNoAgent(errors.New(away)).Error(); got != "look for the agent of cluster edge-1: "+away {
		t.Errorf("the cluster is away: %s", got)
	}
}
