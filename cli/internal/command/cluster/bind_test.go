package cluster

import (
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
