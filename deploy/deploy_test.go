package deploy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

func objects(t *testing.T, text []byte) map[string]map[string]any {
	t.Helper()
	all := map[string]map[string]any{}
	first := ""
	for decoder := yaml.NewDecoder(bytes.NewReader(text)); ; {
		object := map[string]any{}
		err := decoder.Decode(&object)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		metadata, _ := object["metadata"].(map[string]any)
		name := object["kind"].(string) + "/" + metadata["name"].(string)
		if first == "" {
			first = name
		}
		all[name] = object
	}
	if _, ok := all["Namespace/fairlead-system"]; ok && first != "Namespace/fairlead-system" {
		t.Errorf("%s comes before the namespace", first)
	}
	return all
}

func TestAgentIsWhole(t *testing.T) {
	t.Parallel()
	text, err := Agent(map[string]any{
		"createNamespace": true,
		"hub": map[string]any{
			"url": "https://hub.example.com", "ca": "-----BEGIN\n: {{ not a template }} # \"\n",
		},
		"join": map[string]any{"tokens": []any{"a b: c"}},
	}, "v1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	all := objects(t, text)
	for _, name := range []string{
		"Namespace/fairlead-system", "ServiceAccount/fairlead-agent", "ClusterRoleBinding/fairlead-agent",
		"StatefulSet/fairlead-agent",
		"ConfigMap/fairlead-agent-hub-ca", "Secret/fairlead-agent-join", "NetworkPolicy/fairlead-agent",
	} {
		if all[name] == nil {
			t.Errorf("no %s in\n%s", name, text)
		}
	}
	if got := all["Secret/fairlead-agent-join"]["stringData"].(map[string]any)["fairlead-agent-0"]; got != "a b: c" {
		t.Errorf("join token: %q", got)
	}
	if got := all["ConfigMap/fairlead-agent-hub-ca"]["data"].(map[string]any)["ca.crt"]; got != "-----BEGIN\n: {{ not a template }} # \"\n" {
		t.Errorf("authority: %q", got)
	}
	if !strings.Contains(string(text), `"fairlead/agent:v1.2.3"`) ||
		!strings.Contains(string(text), `"--hub-url=https://hub.example.com"`) {
		t.Errorf("image or hub is missing in\n%s", text)
	}
}

// An image that was changed under its tag is not pulled: with a digest, no tag is named.
func TestAnImageWithADigestIsNamedByTheDigest(t *testing.T) {
	t.Parallel()
	digest := "sha256:" + strings.Repeat("0a", 32)
	text, err := Agent(map[string]any{
		"hub": map[string]any{"url": "https://hub.example.com"}, "image": map[string]any{"tag": "v9", "digest": digest},
	}, "v1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	images := regexp.MustCompile(`image: .*`).FindAllString(string(text), -1)
	for _, image := range images {
		if !strings.Contains(image, "fairlead/agent@"+digest) || strings.Contains(image, ":v") {
			t.Error(image)
		}
	}
	if len(images) == 0 {
		t.Errorf("no image in\n%s", text)
	}
}

func TestAgentRefusesWhatTheChartDoesNotKnow(t *testing.T) {
	t.Parallel()
	hub := map[string]any{"url": "https://hub.example.com"}
	for want, values := range map[string]map[string]any{
		"hub.url is missing":                           {},
		`no value "replica"`:                           {"hub": hub, "replica": 1},
		`no value "hub.uri": it has ca, caSecret, url`: {"hub": map[string]any{"uri": "x"}},
		`value "replicas" must be a number`:            {"hub": hub, "replicas": "two"},
		`value "join.tokens" must be a list`:           {"hub": hub, "join": map[string]any{"tokens": "x"}},
	} {
		if _, err := Agent(values, "dev"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: got %v, want %s", values, err, want)
		}
	}
}

// The right to be any account is the right to everything: a controller's account of kube-system gives itself what it
// likes.
func TestLeastRightsNameTheAccountsThatTheAgentMayBe(t *testing.T) {
	t.Parallel()
	text, err := Agent(map[string]any{
		"hub": map[string]any{"url": "https://hub.example.com"}, "rbac": map[string]any{"mode": "least"},
		"tunnel":              map[string]any{"users": []any{"ada@example.com"}, "groups": []any{"fairlead:admins"}},
		"impersonateAccounts": map[string]any{"shop": []any{"deployer", "jobs"}, "ci": []any{"*"}},
	}, "v1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), `"--impersonate-accounts=ci/*,shop/deployer,shop/jobs,"`) {
		t.Errorf("the agent is not told the accounts:\n%s", text)
	}
	// It drops other groups of people, where the API server would refuse all of the request.
	if !strings.Contains(string(text), `"--tunnel-user=ada@example.com"`) ||
		!strings.Contains(string(text), `"--tunnel-group=fairlead:admins"`) {
		t.Errorf("the agent is not told the users and groups:\n%s", text)
	}
	all := map[string][]string{} // by namespace, or "" for the whole cluster
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var object struct {
			Metadata struct{ Namespace string }
			Rules    []struct {
				Resources, Verbs []string
				ResourceNames    []string `yaml:"resourceNames"`
			}
		}
		if err := decoder.Decode(&object); errors.Is(err, io.EOF) {
			break
		}
		for _, rule := range object.Rules {
			if slices.Contains(rule.Verbs, "impersonate") {
				all[object.Metadata.Namespace] = append(all[object.Metadata.Namespace],
					fmt.Sprint(rule.Resources, rule.ResourceNames))
			}
		}
	}
	want := map[string][]string{
		"": {"[users] [ada@example.com]", "[groups] [fairlead:admins]"}, "ci": {"[serviceaccounts] []"},
		"shop": {"[serviceaccounts] [deployer]", "[serviceaccounts] [jobs]"},
	}
	if !reflect.DeepEqual(all, want) {
		t.Errorf("got %v, want %v", all, want)
	}
}
