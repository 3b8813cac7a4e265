package kubectl

import (
	"maps"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/contexts"
	"fairlead.dev/cli/internal/hubclient"
)

// kubeconfigAt is the kubeconfig of a cluster by a context, or by FAIRLEAD_TOKEN.
func kubeconfigAt(t *testing.T, context, cluster string) string {
	t.Helper()
	a := &app.App{IO: app.IO{Getenv: func(name string) string {
		return map[string]string{"FAIRLEAD_CONFIG": "/home/kim/config.yaml"}[name]
	}}}
	text, err := kubeconfigFor(a, contexts.Context{
		Name: context, URL: "https://hub.test", Endpoints: contexts.Endpoints{Tunnels: []string{"https://tunnel.test"}},
	}, cluster)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The program that kubectl runs for a token finds the hub where a token in the environment takes the place of a context.
func TestAKubeconfigOfATokenInTheEnvironmentNamesItsHub(t *testing.T) {
	t.Parallel()
	for context, want := range map[string]string{
		"prod":                    "args:\n      - kubectl-credential\n      - --context\n      - prod\n",
		hubclient.FromEnvironment: "args:\n      - kubectl-credential\n      - --server\n      - https://hub.test\n",
	} {
		if got := kubeconfigAt(t, context, "edge-1"); !strings.Contains(got, want) {
			t.Errorf("%s:\n%s\nwant\n%s", context, got, want)
		}
	}
}

// A token in the environment may be for another hub than the context of a kubeconfig.
func TestAKubeconfigOfAContextLeavesTheTokenOfTheEnvironmentOut(t *testing.T) {
	t.Parallel()
	for context, want := range map[string]map[string]string{
		"prod":                    {"FAIRLEAD_CONFIG": "/home/kim/config.yaml", "FAIRLEAD_TOKEN": "", "FAIRLEAD_SERVER": ""},
		hubclient.FromEnvironment: {"FAIRLEAD_CONFIG": "/home/kim/config.yaml"},
	} {
		var config struct {
			Users []struct {
				User struct {
					Exec struct {
						Env []struct{ Name, Value string }
					}
				}
			}
		}
		if err := yaml.Unmarshal([]byte(kubeconfigAt(t, context, "edge-1")), &config); err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for _, variable := range config.Users[0].User.Exec.Env {
			got[variable.Name] = variable.Value
		}
		if !maps.Equal(got, want) {
			t.Errorf("%s: %v, want %v", context, got, want)
		}
	}
}

// A person's kubeconfig has clusters of others, too, and their credentials.
func TestOtherEntriesOfAKubeconfigStay(t *testing.T) {
	t.Parallel()
	const others = `apiVersion: v1
kind: Config
current-context: work
preferences: {colors: true}
clusters: [{name: work, cluster: {server: "https://work.test"}}, {name: edge-1.prod, cluster: {server: "https://old.test"}}]
users: [{name: kim, user: {token: s3cret}}]
contexts: [{name: work, context: {cluster: work, user: kim}}]
`
	merged, err := mergeKubeconfigs([]byte(others), []byte(kubeconfigAt(t, "prod", "edge-1")))
	if err != nil {
		t.Fatal(err)
	}
	if merged, err = mergeKubeconfigs(merged, []byte(kubeconfigAt(t, "prod", "edge-2"))); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Current                   string `json:"current-context"`
		Preferences               map[string]bool
		Clusters, Users, Contexts []struct {
			Name    string
			Cluster struct{ Server string }
			User    struct{ Token string }
		}
	}
	if err := yaml.Unmarshal(merged, &got); err != nil {
		t.Fatal(err)
	}
	servers, tokens := map[string]string{}, map[string]string{}
	for _, c := range got.Clusters {
		servers[c.Name] = c.Cluster.Server
	}
	for _, u := range got.Users {
		tokens[u.Name] = u.User.Token
	}
	if got.Current != "edge-2.prod" || !got.Preferences["colors"] || len(got.Clusters) != 3 || len(got.Users) != 3 ||
		len(got.Contexts) != 3 || servers["work"] != "https://work.test" ||
		servers["edge-1.prod"] != "https://tunnel.test/clusters/edge-1" || tokens["kim"] != "s3cret" {
		t.Errorf("got %+v of\n%s", got, merged)
	}
	for name, text := range map[string]string{
		"a manifest": "kind: ConfigMap\n", "no YAML": "{", "a list": "[1]", "clusters that are none": "kind: Config\nclusters: 7\n",
	} {
		if merged, err := mergeKubeconfigs([]byte(text), []byte(kubeconfigAt(t, "prod", "edge-1"))); err == nil {
			t.Errorf("%s was taken: %s", name, merged)
		}
	}
}
