package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"fairlead.dev/e2e/process"
	"fairlead.dev/e2e/stack"
)

// TestFolderInGitDeclaresServices pushes what the catalog is to have: services come, change, and go, and what they
// deliver with them.
func TestFolderInGitDeclaresServices(t *testing.T) {
	t.Parallel()
	s := shared(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	repo, err := s.Clone(ctx)
	if err != nil {
		t.Fatal(err)
	}
	cluster := s.Clusters[0]
	service := func(name, path string) string {
		return fmt.Sprintf("apiVersion: fairlead.dev/v1\nkind: Service\nmetadata: {name: declared-%s}\nspec:\n  source: sample\n  path: declared/%s\n  cluster: %s\n", name, path, cluster.Name)
	}
	marker := func(name, value string) string {
		return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: declared-%s}\ndata: {value: %s}\n",
			name, value)
	}
	push := func(files map[string]string) {
		t.Helper()
		if _, err := repo.Push(ctx, "declare", files); err != nil {
			t.Fatal(err)
		}
	}
	push(map[string]string{
		"declared/one/config.yaml": marker("one", "first"), "declared/two/config.yaml": marker("two", "first"),
		"declared/new/config.yaml": marker("one", "second"),
		"declared/fleet/one.yaml":  service("one", "one"), "declared/fleet/two.yaml": service("two", "two"),
	})
	_, err = s.FairleadStdin(ctx, `apiVersion: fairlead.dev/v1
kind: ServiceAccount
metadata: {name: declared-fleet}
---
apiVersion: fairlead.dev/v1
kind: Grant
metadata: {name: declared-fleet}
spec: {subjects: [{serviceAccount: declared-fleet}], role: operator, clusters: {all: true}}
---
apiVersion: fairlead.dev/v1
kind: Service
metadata: {name: declared-fleet}
spec: {source: sample, path: declared/fleet, catalog: true, serviceAccount: declared-fleet}
`, "apply", "-f", "-")
	if err != nil {
		t.Fatal(err)
	}
	value := func(name, want string) {
		t.Helper()
		await(ctx, t, s, cluster, name, want)
	}
	value("one", "first")
	value("two", "first")
	stands := func(want string) {
		t.Helper()
		err := process.Await(ctx, "trace says "+want, func(ctx context.Context) error {
			got, err := s.Fairlead(ctx, "trace", "service", "declared-fleet")
			if err == nil && !strings.Contains(got, want) {
				err = fmt.Errorf("it says %s", got)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	stands("is in the catalog: nothing to do.")

	// It changes.
	push(map[string]string{"declared/fleet/one.yaml": service("one", "new")})
	value("one", "second")

	// The file is broken: nothing of the commit is taken.
	push(map[string]string{
		"declared/fleet/one.yaml": service("one", "one"),
		"declared/fleet/two.yaml": service("two", "two") + "  pth: x\n",
	})
	stands(`declared/fleet/two.yaml:8: service "declared-two": spec.pth: unknown field`)
	value("one", "second")

	// It goes.
	push(map[string]string{"declared/fleet/two.yaml": ""})
	value("one", "first")
	value("two", "")
	stands("is in the catalog: nothing to do.")
	if _, err := s.Fairlead(ctx, "delete", "service", "declared-fleet", "--yes"); err != nil {
		t.Fatal(err)
	}
	value("one", "")
}

// await waits until a ConfigMap has a value; empty: until it is gone.
func await(ctx context.Context, t *testing.T, s *stack.Stack, cluster stack.Cluster, name, want string) {
	t.Helper()
	err := process.Await(ctx, fmt.Sprintf("declared-%s is %q", name, want), func(ctx context.Context) error {
		got, err := s.Kubectl(ctx, cluster.Kubeconfig, "get", "configmap", "declared-"+name, "--ignore-not-found",
			"-o", "jsonpath={.data.value}")
		if err == nil && strings.TrimSpace(got) != want {
			err = fmt.Errorf("it is %q", got)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
