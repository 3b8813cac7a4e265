package render_test

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"fairlead.dev/platform/artifact"
	"fairlead.dev/services/agent/internal/desired"
	"fairlead.dev/services/agent/internal/manifest"
	"fairlead.dev/services/agent/internal/render"
)

// pack makes an artifact of files. A content that begins with "->" is the target of a link.
func pack(t testing.TB, files map[string]string) []byte {
	t.Helper()
	var tar bytes.Buffer
	w := artifact.NewWriter(&tar, artifact.Limits{})
	var names []string
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		content := files[name]
		target, link := strings.CutPrefix(content, "->")
		var err error
		if link {
			err = w.Symlink(name, target)
		} else {
			err = w.File(name, false, int64(len(content)), strings.NewReader(content))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return tar.Bytes()
}

func open(tar []byte) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(tar)), nil }
}

// renderAll renders a folder and lists the objects: "ConfigMap a (apps/a.yaml, document 1)".
func renderAll(t testing.TB, service desired.Service, tar []byte) ([]string, error) {
	t.Helper()
	var list []string
	err := render.New().Render(t.Context(), render.Input{Service: service, Open: open(tar)}, func(obj *unstructured.Unstructured, at manifest.Position) error {
		list = append(list, manifest.Object{Unstructured: obj, Position: at}.String())
		return nil
	})
	return list, err
}

const configMap = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"

func TestPlainManifestsAreRead(t *testing.T) {
	t.Parallel()
	got, err := renderAll(t, desired.Service{Path: "apps"}, pack(t, map[string]string{
		".github/x.yaml": "on: push", ".sops.yaml": "x: y", "LICENSE": "{", "README": "->LICENSE", "a.yaml": configMap, "deep/b.json": `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"b"}}`, "deep/c.txt": "x",
	}))
	want := []string{"ConfigMap a (apps/a.yaml, document 1)", "Secret b (apps/deep/b.json, document 1)"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v %v", got, err)
	}
}

// What a link hides would look as if it had been removed from the folder.
func TestLinksThatCouldHideManifestsAreRefused(t *testing.T) {
	t.Parallel()
	for name, files := range map[string]map[string]string{
		"a file":   {"a.yaml": configMap, "b.yaml": "->a.yaml"},
		"a folder": {"base/a.yaml": configMap, "prod": "->base"},
		"deep":     {"base/deep/a.yaml": configMap, "x/prod": "->../base/deep"},
	} {
		_, err := renderAll(t, desired.Service{}, pack(t, files))
		if _, mistake := errors.AsType[*manifest.Error](err); !mistake || !strings.Contains(err.Error(), "is a symbolic link") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestDamagedArtifactIsAnError(t *testing.T) {
	t.Parallel()
	tar := pack(t, map[string]string{"a.yaml": configMap})
	if got, err := renderAll(t, desired.Service{}, tar[:len(tar)-700]); err == nil {
		t.Errorf("got %v", got)
	}
}

func TestFoldersForOtherToolsAreNamed(t *testing.T) {
	t.Parallel()
	for file, tool := range map[string]string{"kustomization.yaml": "Kustomize", "deep/Chart.yaml": "Helm"} {
		_, err := renderAll(t, desired.Service{Path: "apps"}, pack(t, map[string]string{"a.yaml": configMap, file: "name: x"}))
		if err == nil || !strings.Contains(err.Error(), "apps/"+file+": the folder is made for "+tool) {
			t.Errorf("%s: %v", file, err)
		}
	}
}
