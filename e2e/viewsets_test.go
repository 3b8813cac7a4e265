package e2e

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const ferries = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: ferries.sets.example.com}
spec:
  group: sets.example.com
  scope: Namespaced
  names: {plural: ferries, singular: ferry, kind: Ferry}
  versions:
    - name: v1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

const ferriesAfloat = `apiVersion: sets.example.com/v1
kind: Ferry
metadata: {name: anna, namespace: default}
spec: {port: {name: calais}, sails: "2030-01-01T00:00:00Z"}
status: {conditions: [{type: Ready, status: "True"}]}
---
apiVersion: sets.example.com/v1
kind: Ferry
metadata: {name: bella, namespace: default}
spec: {port: {name: dover}, sails: "2030-01-01T00:00:00Z"}
status: {conditions: [{type: Ready, status: "False", reason: Leaks, lastTransitionTime: "2026-01-01T00:00:00Z"}]}
`

const ferrySet = `apiVersion: fairlead.dev/v1
kind: ViewSet
metadata: {name: ferries}
spec:
  clusters: {names: [CLUSTER]}
  of: {group: sets.example.com, kind: Ferry}
  counts: [{name: port, path: .spec.port.name}]
  conditions: [Ready]
  columns: [{name: port, path: .spec.port.name}, {name: sails, path: .spec.sails, type: date}]
  rows: {notTrue: [Ready]}
`

// The view of a cluster gets a kind that a person names, before the cluster knows it, and loses it again.
func TestAViewHasTheKindsThatPeopleName(t *testing.T) {
	t.Parallel()
	s := shared(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cluster := s.Clusters[0]
	run := func(args ...string) string {
		t.Helper()
		out, err := s.Fairlead(ctx, args...)
		if err != nil {
			t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return out
	}
	written := func(text string) string {
		t.Helper()
		file := filepath.Join(t.TempDir(), "objects.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	kubectl := func(args ...string) {
		t.Helper()
		if out, err := s.Kubectl(ctx, cluster.Kubeconfig, args...); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	says := func(want string, args ...string) string {
		t.Helper()
		for {
			out := run(args...)
			if strings.Contains(out, want) {
				return out
			}
			select {
			case <-ctx.Done():
				t.Fatalf("%s does not say %q:\n%s", strings.Join(args, " "), want, out)
			case <-time.After(200 * time.Millisecond):
			}
		}
	}
	if out := run("apply", "-f", written(strings.ReplaceAll(ferrySet, "CLUSTER", cluster.Name))); !strings.Contains(out,
		"adds to the views of 1 cluster: "+cluster.Name) {
		t.Errorf("apply says %s", out)
	}
	says(cluster.Name+": the cluster has no Ferry of sets.example.com", "get", "viewset", "ferries")
	kubectl("apply", "-f", written(ferries))
	kubectl("wait", "--for=condition=established", "crd/ferries.sets.example.com", "--timeout=180s")
	kubectl("apply", "-f", written(ferriesAfloat))
	says("Ready.false=1 Ready.true=1 port.calais=1 port.dover=1 total=2", "top", "cluster", cluster.Name)
	out := run("get", "rows", "ferries", "--cluster", cluster.Name)
	for _, want := range []string{"PORT", "SAILS", "bella", "Leaks", "dover", "in "} {
		if !strings.Contains(out, want) {
			t.Errorf("rows lack %s:\n%s", want, out)
		}
	}
	if strings.Contains(out, "anna") {
		t.Errorf("an object that is well has a row:\n%s", out)
	}
	if out := run("top", "cluster", "--filter", "set-ferries.Ready.false > 0"); !strings.Contains(out, cluster.Name) {
		t.Errorf("the filter finds\n%s", out)
	}
	kubectl("-n", "default", "patch", "ferry", "bella", "--type=merge",
		"-p", `{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`)
	says("Ready.true=2", "top", "cluster", cluster.Name)
	run("delete", "viewset", "ferries")
	for strings.Contains(run("top", "cluster", cluster.Name), "set-ferries") {
		select {
		case <-ctx.Done():
			t.Fatal("the section stays")
		case <-time.After(200 * time.Millisecond):
		}
	}
	kubectl("delete", "crd", "ferries.sets.example.com")
}
