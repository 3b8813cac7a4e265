package command

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
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
	got, err := values.read()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"replicas": 2.0, "image": map[string]any{"pullPolicy": "Always", "repository": "mirror/agent", "tag": "", "digest": "sha256:0a"}}
	if !reflect.DeepEqual(got.AsMap(), want) {
		t.Errorf("got %v, want %v", got.AsMap(), want)
	}
	if err := os.WriteFile(file, []byte("replicas: 2\nreplicas: 3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := values.read(); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("a value that is there twice: %v", err)
	}
}

func TestGroupsAreBoundBesidesThoseOfTheFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(file, []byte("rbac: {mode: least, bind: [{group: ops, role: edit}]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	values := agentValues{file: file, bindAdmins: true, bind: []string{"cn=dev,dc=example=view"}}
	got, err := values.read()
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
		if _, err := values.read(); err == nil || !strings.Contains(err.Error(), "GROUP=ROLE") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
