package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fairlead.dev/e2e/process"
)

// TestOverlayWithBasesBesideItIsDelivered points a service at an overlay, as other tools have it, and wants in the
// cluster what kubectl makes of a clone.
func TestOverlayWithBasesBesideItIsDelivered(t *testing.T) {
	t.Parallel()
	s := shared(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	repo, err := s.Clone(ctx)
	if err != nil {
		t.Fatal(err)
	}
	const overlay = "over+lays/deploy/overlays/dev"
	cluster := s.Clusters[0]
	push := func(files map[string]string) {
		t.Helper()
		if _, err := repo.Push(ctx, "overlays", files); err != nil {
			t.Fatal(err)
		}
	}
	config := func(name, value string) string {
		return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, labels: {overlay-test: 'yes'}}\ndata: {value: %s}\n", name, value)
	}
	if err := os.MkdirAll(filepath.Join(repo.Dir(), "over+lays/deploy/bases"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../../shared", filepath.Join(repo.Dir(), "over+lays/deploy/bases/linked")); err != nil {
		t.Fatal(err)
	}
	push(map[string]string{
		overlay + "/kustomization.yaml":                     "namePrefix: overlay-\nresources: [../../bases/backend, ../../bases/linked]\npatches: [{path: ../patch.yaml}]\nconfigMapGenerator: [{name: made, files: ['text=../../../settings/a b'], options: {labels: {overlay-test: 'yes'}}}]\n",
		"over+lays/deploy/overlays/patch.yaml":              config("backend", "patched"),
		"over+lays/deploy/bases/backend/kustomization.yaml": "resources: [backend.yaml]\n",
		"over+lays/deploy/bases/backend/backend.yaml":       config("backend", "base"),
		"over+lays/shared/kustomization.yaml":               "resources: [shared.yaml]\n",
		"over+lays/shared/shared.yaml":                      config("shared", "first"),
		"over+lays/settings/a b":                            "content",
		"over+lays/unused/kustomization.yaml":               "resources: [https://example.com/remote.yaml]\n",
	})
	_, err = s.FairleadStdin(ctx,
		fmt.Sprintf("apiVersion: fairlead.dev/v1\nkind: Service\nmetadata: {name: overlay}\nspec: {source: sample, path: %s, cluster: %s}\n", overlay, cluster.Name), "apply", "-f", "-")
	if err != nil {
		t.Fatal(err)
	}
	// same waits until the cluster has what kubectl makes of the clone.
	same := func() {
		t.Helper()
		rendered, err := s.Kubectl(ctx, cluster.Kubeconfig, "kustomize", "--load-restrictor", "LoadRestrictionsNone",
			filepath.Join(repo.Dir(), overlay))
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "rendered.yaml")
		if err := os.WriteFile(file, []byte(rendered), 0o600); err != nil {
			t.Fatal(err)
		}
		text, err := s.Kubectl(ctx, cluster.Kubeconfig, "create", "--dry-run=client", "-o", "json", "-f", file)
		if err != nil {
			t.Fatal(err)
		}
		want := dataOf(t, text)
		err = process.Await(ctx, "the overlay is applied", func(ctx context.Context) error {
			text, err := s.Kubectl(ctx, cluster.Kubeconfig, "get", "configmaps", "-l", "overlay-test=yes", "-o", "json")
			if err != nil {
				return err
			}
			if got := dataOf(t, text); len(want) != 3 || !maps.Equal(got, want) {
				return fmt.Errorf("the cluster has %v, kubectl made %v", got, want)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	same()

	push(map[string]string{"over+lays/shared/shared.yaml": config("shared", "second")})
	same()
	push(map[string]string{
		overlay + "/kustomization.yaml":                   "resources: [../../bases/loop]\n",
		"over+lays/deploy/bases/loop/kustomization.yaml":  "resources: [../loop2]\n",
		"over+lays/deploy/bases/loop2/kustomization.yaml": "resources: [../loop]\n",
	})
	err = process.Await(ctx, "the loop is named", func(ctx context.Context) error {
		text, err := s.Fairlead(ctx, "get", "service", "overlay")
		if want := "over+lays/deploy/bases/loop -> over+lays/deploy/bases/loop2 -> over+lays/deploy/bases/loop"; err == nil && !strings.Contains(text, want) {
			err = fmt.Errorf("it says %s", text)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Fairlead(ctx, "delete", "service", "overlay", "--yes"); err != nil {
		t.Fatal(err)
	}
}

// dataOf are the data of the ConfigMaps in a list, or in several objects one after the other, by name.
func dataOf(t *testing.T, text string) map[string]string {
	t.Helper()
	type object struct {
		Metadata struct {
			Name string `json:"name"`
		} `json:"metadata"`
		Data  map[string]string `json:"data"`
		Items []object          `json:"items"`
	}
	all := map[string]string{}
	decoder := json.NewDecoder(strings.NewReader(text))
	for decoder.More() {
		var o object
		if err := decoder.Decode(&o); err != nil {
			t.Fatal(err)
		}
		for _, o := range append(o.Items, o) {
			if o.Metadata.Name != "" {
				all[o.Metadata.Name] = fmt.Sprint(o.Data)
			}
		}
	}
	return all
}
