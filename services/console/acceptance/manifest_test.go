package acceptance

import (
	"regexp"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/structpb"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
)

// The form of a join token in the manifest, one for each replica.
var joinLine = regexp.MustCompile(`(?m)^  (fairlead-agent-\d): "([^"]+)"$`)

func TestAgentManifestJoins(t *testing.T) {
	t.Parallel()
	r := newHub(t, "").start(t)
	admin := r.admin(t)
	admin.putCluster(t, "edge-1")
	values, err := structpb.NewStruct(map[string]any{"replicas": 2, "rbac": map[string]any{"mode": "least"}})
	if err != nil {
		t.Fatal(err)
	}
	made, err := admin.clusters.RenderAgentManifest(t.Context(), &consolev1.RenderAgentManifestRequest{
		Cluster: "edge-1", HubCa: "-----BEGIN CERTIFICATE-----\nabc\n", Values: values,
	})
	if err != nil {
		t.Fatal(err)
	}
	text := made.GetManifest()
	if !strings.HasPrefix(text, "---\napiVersion: v1\nkind: Namespace\n") {
		t.Errorf("the namespace is not first in\n%s", text)
	}
	for _, want := range []string{
		`"--hub-url=` + r.url + `"`, `ca.crt: "-----BEGIN CERTIFICATE-----\nabc\n"`, "--leader-elect",
		"kind: ClusterRole\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	tokens := joinLine.FindAllStringSubmatch(text, -1)
	if len(tokens) != 2 || tokens[0][1] != "fairlead-agent-0" || tokens[1][1] != "fairlead-agent-1" ||
		tokens[0][2] == tokens[1][2] {
		t.Fatalf("join tokens: %q in\n%s", tokens, text)
	}
	nobody := r.as(t, "")
	for _, token := range tokens {
		joined, err := nobody.identity.JoinCluster(t.Context(), joining(token[2]))
		if err != nil || joined.GetCluster() != "edge-1" {
			t.Fatalf("join: %v, %v", joined, err)
		}
		_, err = nobody.identity.JoinCluster(t.Context(), joining(token[2]))
		wantCode(t, err, connect.CodeUnauthenticated)
	}
	if strings.Contains(r.logs.String(), tokens[0][2]) {
		t.Error("the join token is in the log")
	}
}

func TestAgentManifestIsForAdministrators(t *testing.T) {
	t.Parallel()
	r := newHub(t, "").start(t)
	admin := r.admin(t)
	admin.putCluster(t, "edge-1")
	ada, err := admin.identity.CreateUserToken(t.Context(), &consolev1.CreateUserTokenRequest{
		User: "ada", Groups: []string{"developers"},
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, caller := range map[string]api{
		"a user": r.as(t, ada.GetToken().GetToken()), "an agent": r.as(t, admin.join(t, "edge-1")),
	} {
		_, err := caller.clusters.RenderAgentManifest(t.Context(), &consolev1.RenderAgentManifestRequest{
			Cluster: "edge-1",
		})
		if connect.CodeOf(err) != connect.CodePermissionDenied {
			t.Errorf("%s: got %v", name, err)
		}
	}
	_, err = admin.clusters.RenderAgentManifest(t.Context(), &consolev1.RenderAgentManifestRequest{Cluster: "nowhere"})
	wantCode(t, err, connect.CodeNotFound, `cluster "nowhere"`)
	for want, given := range map[string]map[string]any{
		`no value "replica"`:                {"replica": 2},
		`replicas must be a number from 1`:  {"replicas": 1.5},
		`value "join" must be a map`:        {"join": "x"},
		`value "hub.url" must be a text`:    {"hub": map[string]any{"url": 1}},
		`value "tunnel.readOnly" must be a`: {"tunnel": map[string]any{"readOnly": "no"}},
	} {
		values, err := structpb.NewStruct(given)
		if err != nil {
			t.Fatal(err)
		}
		_, err = admin.clusters.RenderAgentManifest(t.Context(), &consolev1.RenderAgentManifestRequest{
			Cluster: "edge-1", Values: values,
		})
		wantCode(t, err, connect.CodeInvalidArgument, want)
	}
}
