package render_test

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/artifact"
	"fairlead.dev/services/agent/internal/desired"
	"fairlead.dev/services/agent/internal/kubeyaml"
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
	folder, err := render.Scan(service, open(tar))
	if err != nil {
		return nil, err
	}
	err = render.New().Render(t.Context(), render.Input{Folder: folder},
		func(obj *unstructured.Unstructured, at kubeyaml.Position) error {
			list = append(list, kubeyaml.Object{Unstructured: obj, Position: at}.String())
			return nil
		})
	return list, err
}

const configMap = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"

func TestPlainManifestsAreRead(t *testing.T) {
	t.Parallel()
	got, err := renderAll(t, desired.Service{Path: "apps"}, pack(t, map[string]string{
		".github/x.yaml": "on: push", ".sops.yaml": "x: y", "LICENSE": "{", "README": "->LICENSE", "a.yaml": configMap,
		"deep/b.json": `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"b"}}`, "deep/c.txt": "x",
	}))
	want := []string{"ConfigMap a (apps/a.yaml, document 1)", "Secret b (apps/deep/b.json, document 1)"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v %v", got, err)
	}
}

// As `kubectl apply -R -f` does: a link to a file is read by the link's name, and one to a folder is not entered. A
// file that is read already is not read again.
func TestLinksOfPlainManifestsAreFollowedAsKubectlDoes(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		root  string
		files map[string]string
		want  string
	}{
		"a file that is read anyway": {
			"", map[string]string{"a.yaml": configMap, "b.yaml": "->a.yaml"}, "ConfigMap a (apps/a.yaml, document 1)",
		},
		"a file of another name": {
			"", map[string]string{"files/a": configMap, "b.yaml": "->files/a"}, "ConfigMap a (apps/b.yaml, document 1)",
		},
		"a file by two names": {
			"",
			map[string]string{"files/a": configMap, "b.yaml": "->files/a", "c.yaml": "->b.yaml"},
			"ConfigMap a (apps/b.yaml, document 1)",
		},
		"a file beside the root": {
			"prod",
			map[string]string{"files/a.yaml": configMap, "prod/b.yaml": "->../files/a.yaml"},
			"ConfigMap a (apps/prod/b.yaml, document 1)",
		},
		"\"..\" after a name": {
			"prod",
			map[string]string{"files/a.yaml": configMap, "prod/x/y": "", "prod/b.yaml": "->x/../../files/a.yaml"},
			"ConfigMap a (apps/prod/b.yaml, document 1)",
		},
		"a folder": {
			"prod",
			map[string]string{"files/a.yaml": "not: this", "prod/a.yaml": configMap, "prod/files": "->../files"},
			"ConfigMap a (apps/prod/a.yaml, document 1)",
		},
		"a folder that is read anyway": {
			"",
			map[string]string{"base/deep/a.yaml": configMap, "x/prod": "->../base/deep"},
			"ConfigMap a (apps/base/deep/a.yaml, document 1)",
		},
		"the root": {
			"now",
			map[string]string{"v2/a.yaml": configMap, "v1/a.yaml": "not: this", "now": "->v2"},
			"ConfigMap a (apps/v2/a.yaml, document 1)",
		},
		"unused, and out": {
			"",
			map[string]string{
				"a.yaml": configMap, "README": "->../../README", "etc": "->/etc", ".b.yaml": "->/etc/passwd",
				"gone.txt": "->gone",
			},
			"ConfigMap a (apps/a.yaml, document 1)",
		},
	} {
		got, err := renderAll(t, desired.Service{Path: "apps", Render: &deliveryv1.RenderSpec{Path: test.root}},
			pack(t, test.files))
		if err != nil || len(got) != 1 || got[0] != test.want {
			t.Errorf("%s: got %v, %v", name, got, err)
		}
	}
}

// A file that a link hides would look as if it had been removed from the folder.
func TestLinksThatLeadNowhereAreMistakes(t *testing.T) {
	t.Parallel()
	for target, words := range map[string]string{
		"../b.yaml": `apps/a.yaml: is a link that can't be followed: link "a.yaml" -> "../b.yaml" leads out of the folder`, "/etc/passwd": "leads out of the folder", "x/../../b": "leads out of the folder",
		"a.yaml": "leads through more links than are followed", "gone": `"gone": file does not exist`,
		"x": "is a link to a folder, and is named like a file",
	} {
		_, err := renderAll(t, desired.Service{Path: "apps"},
			pack(t, map[string]string{"a.yaml": "->" + target, "x/b.yaml": configMap}))
		if _, mistake := errors.AsType[*kubeyaml.Error](err); !mistake || !strings.Contains(err.Error(), words) {
			t.Errorf("%s: %v", target, err)
		}
	}
	_, err := renderAll(t, desired.Service{Path: "apps", Render: &deliveryv1.RenderSpec{Path: "now"}},
		pack(t, map[string]string{"a.yaml": configMap, "now": "->../v2"}))
	if _, mistake := errors.AsType[*kubeyaml.Error](err); !mistake ||
		!strings.Contains(err.Error(), `link "now" -> "../v2" leads out of the folder`) {
		t.Errorf("a root: %v", err)
	}
}

func TestDamagedArtifactIsAnError(t *testing.T) {
	t.Parallel()
	tar := pack(t, map[string]string{"a.yaml": configMap})
	if got, err := renderAll(t, desired.Service{}, tar[:len(tar)-700]); err == nil {
		t.Errorf("got %v", got)
	}
}

// How a folder is rendered is said by its spec, or else by its files; what is in doubt is an error.
func TestRendererIsFound(t *testing.T) {
	t.Parallel()
	const chart, kustomization = "Chart.yaml", "kustomization.yaml"
	tests := map[string]struct {
		files []string
		spec  *deliveryv1.RenderSpec
		want  deliveryv1.Renderer
		err   string
	}{
		"plain":   {[]string{"a.yaml"}, nil, deliveryv1.Renderer_RENDERER_RAW, ""},
		"a chart": {[]string{chart}, nil, deliveryv1.Renderer_RENDERER_HELM, ""},
		"a kustomization": {
			[]string{"Kustomization", "base/" + kustomization}, nil, deliveryv1.Renderer_RENDERER_KUSTOMIZE, "",
		},
		"both": {
			[]string{chart, kustomization},
			nil, 0,
			"the folder also has Chart.yaml. Remove one, or say in render.renderer which is meant",
		},
		"both, and said": {
			[]string{chart, kustomization},
			&deliveryv1.RenderSpec{Renderer: deliveryv1.Renderer_RENDERER_HELM},
			deliveryv1.Renderer_RENDERER_HELM, "",
		},
		"a path": {
			[]string{"a.yaml", "prod/" + kustomization},
			&deliveryv1.RenderSpec{Path: "prod"},
			deliveryv1.Renderer_RENDERER_KUSTOMIZE, "",
		},
		"a path that is not there": {
			[]string{"a.yaml"}, &deliveryv1.RenderSpec{Path: "prod"}, 0, "apps/prod: there is no such folder",
		},
		"deeper, and not said": {
			[]string{"a.yaml", "deep/" + chart}, nil, 0, "apps/deep/Chart.yaml: the folder is made for helm",
		},
		"beside the path": {
			[]string{"a/a.yaml", "deep/" + chart},
			&deliveryv1.RenderSpec{Path: "a"}, deliveryv1.Renderer_RENDERER_RAW,
			"",
		},
		"plain, but a kustomization": {
			[]string{kustomization},
			&deliveryv1.RenderSpec{Renderer: deliveryv1.Renderer_RENDERER_RAW}, 0,
			"made for kustomize, and is taken for plain manifests. Set render.path to it, and render.renderer to kustomize;",
		},
		"no chart": {
			[]string{"a.yaml"},
			&deliveryv1.RenderSpec{Renderer: deliveryv1.Renderer_RENDERER_HELM}, 0,
			"there is no Chart.yaml",
		},
		"no kustomization": {
			[]string{"a.yaml"},
			&deliveryv1.RenderSpec{Renderer: deliveryv1.Renderer_RENDERER_KUSTOMIZE}, 0,
			"there is no kustomization.yaml",
		},
		"templates are never guessed": {[]string{"a.yaml", "_a.tpl"}, nil, deliveryv1.Renderer_RENDERER_RAW, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := map[string]string{}
			for _, file := range test.files {
				files[file] = "x: y"
			}
			folder, err := render.Scan(desired.Service{Path: "apps", Render: test.spec}, open(pack(t, files)))
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Errorf("got %v, want %s", err, test.err)
				}
			} else if err != nil || folder.Renderer != test.want {
				t.Errorf("got %v %v, want %v", folder, err, test.want)
			}
		})
	}
}

// FuzzFrames: whatever a child says, nothing but an error comes of it, or an object with a name.
func FuzzFrames(f *testing.F) {
	var whole bytes.Buffer
	obj := &unstructured.Unstructured{
		Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "a"}},
	}
	payload, err := render.EncodeObject(obj, kubeyaml.Position{File: "a.yaml"})
	if err != nil {
		f.Fatal(err)
	}
	if err := render.WriteFrame(&whole, render.FrameObject, payload); err != nil {
		f.Fatal(err)
	}
	f.Add(whole.Bytes())
	f.Add([]byte("o\x00\x7f\xff\xffx"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := bytes.NewReader(data)
		for {
			kind, payload, err := render.ReadFrame(r)
			if err != nil {
				return
			}
			if kind != render.FrameObject {
				continue
			}
			if obj, _, err := render.DecodeObject(payload); err == nil && (obj.GetName() == "" || obj.GetKind() == "") {
				t.Errorf("an object has no identity: %v", obj.Object)
			}
		}
	})
}
