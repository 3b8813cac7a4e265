package cluster

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"fairlead.dev/deploy"
)

func TestImageIsTakenApart(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][3]string{
		"fairlead/agent":                             {"fairlead/agent", "", ""},
		"fairlead/agent:v1":                          {"fairlead/agent", "v1", ""},
		"registry.example.com:5000/agent":            {"registry.example.com:5000/agent", "", ""},
		"registry.example.com:5000/agent:v1":         {"registry.example.com:5000/agent", "v1", ""},
		"registry.example.com:5000/agent@sha256:0a":  {"registry.example.com:5000/agent", "", "sha256:0a"},
		"registry.example.com/x/agent:v1@sha256:0a0": {"registry.example.com/x/agent", "v1", "sha256:0a0"},
	} {
		repository, tag, digest := splitImage(text)
		if got := [3]string{repository, tag, digest}; got != want {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}

func TestImageGoesOverTheValuesOfTheFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(file, []byte("replicas: 2\nimage: {pullPolicy: Always, tag: old}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	values := agentValues{image: "mirror/agent@sha256:0a", file: file}
	got, err := values.readValues()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"replicas": 2.0,
		"image": map[string]any{
			"pullPolicy": "Always", "repository": "mirror/agent", "tag": "", "digest": "sha256:0a",
		},
	}
	if !reflect.DeepEqual(got.AsMap(), want) {
		t.Errorf("got %v, want %v", got.AsMap(), want)
	}
	if err := os.WriteFile(file, []byte("replicas: 2\nreplicas: 3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := values.readValues(); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("a value that is there twice: %v", err)
	}
}

// A binding that was given once is no binding of today: what a manifest does not have any more is deleted, and nothing
// of others.
func TestBindingsThatAreGivenNoMoreAreTakenBack(t *testing.T) {
	t.Parallel()
	render := func(rbac map[string]any) []byte {
		manifest, err := deploy.Agent(map[string]any{
			"hub": map[string]any{"url": "https://hub"}, "join": map[string]any{"tokens": []any{"t"}}, "rbac": rbac,
		}, "v1")
		if err != nil {
			t.Fatal(err)
		}
		return manifest
	}
	bind := func(group, role string) any { return map[string]any{"group": group, "role": role} }
	before, err := agentManifest(render(map[string]any{
		"bindAdmins": true, "bind": []any{bind("dev", "view"), bind("dev", "edit")},
	}))
	if err != nil {
		t.Fatal(err)
	}
	there := []string{"clusterrolebinding.rbac.authorization.k8s.io/others"}
	for _, o := range before {
		if o.Kind == "ClusterRoleBinding" && o.Metadata.Labels[bindLabel] != "" {
			there = append(there, "clusterrolebinding.rbac.authorization.k8s.io/"+o.Metadata.Name)
		}
	}
	if len(there) != 5 { // with that of the agent
		t.Fatalf("bound are %q", there)
	}
	for name, tt := range map[string]struct {
		rbac map[string]any
		gone int
	}{
		"the same": {
			map[string]any{"bindAdmins": true, "bind": []any{bind("dev", "view"), bind("dev", "edit")}}, 0,
		},
		"a group less": {map[string]any{"bindAdmins": true, "bind": []any{bind("dev", "view")}}, 1},
		"another role": {
			map[string]any{"bindAdmins": true, "bind": []any{bind("dev", "admin"), bind("dev", "edit")}}, 1,
		},
		"no admins":       {map[string]any{"bind": []any{bind("dev", "view"), bind("dev", "edit")}}, 1},
		"nobody any more": {map[string]any{}, 3},
		"another mode": {
			map[string]any{
				"mode": "least", "bindAdmins": true, "bind": []any{bind("dev", "view"), bind("dev", "edit")},
			},
			1,
		},
		"nothing at all": {map[string]any{"mode": "none"}, 4},
	} {
		manifest := render(tt.rbac)
		now, err := agentManifest(manifest)
		if err != nil {
			t.Fatal(err)
		}
		gone := takenBack(now, there)
		if len(gone) != tt.gone || slices.Contains(gone, there[0]) {
			t.Errorf("%s: %q are taken back", name, gone)
		}
		if selector := boundBefore(manifest); strings.Contains(selector, "notin") == (tt.gone == 4) {
			t.Errorf("%s: kubectl is given %q", name, selector)
		}
		// By its name, since an earlier release gave it no label to find it by.
		byName := slices.Contains(unbindLines(manifest),
			"kubectl delete clusterrolebinding fairlead-agent --ignore-not-found")
		if mode := tt.rbac["mode"]; byName != (mode == "least") {
			t.Errorf("%s: the agent's binding is deleted by its name: %v", name, byName)
		}
	}
}

func TestGroupsAreBoundBesidesThoseOfTheFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(file, []byte("rbac: {mode: least, bind: [{group: ops, role: edit}]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	values := agentValues{file: file, bindAdmins: true, bind: []string{"cn=dev,dc=example=view"}}
	got, err := values.readValues()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"rbac": map[string]any{"mode": "least", "bindAdmins": true, "bind": []any{
		map[string]any{"group": "ops", "role": "edit"}, map[string]any{"group": "cn=dev,dc=example", "role": "view"},
	}}}
	if !reflect.DeepEqual(got.AsMap(), want) {
		t.Errorf("got %v, want %v", got.AsMap(), want)
	}
	for _, bad := range []string{"dev", "=view", "dev=", ""} {
		values := agentValues{bind: []string{bad}}
		if _, err := values.readValues(); err == nil || !strings.Contains(err.Error(), "GROUP=ROLE") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
