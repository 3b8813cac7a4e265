package acceptance

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
)

// shape reads a folder of testdata/apps.
func shape(t *testing.T, name, namespace string) map[string]string {
	t.Helper()
	files := map[string]string{}
	root := os.DirFS(filepath.Join("testdata", "apps", name))
	if err := fs.WalkDir(root, ".", func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(root, file)
		files[file] = strings.ReplaceAll(string(data), "NAMESPACE", namespace)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return files
}

// operator is an operator's folder: twelve kinds, and objects of them before and behind.
func operator(namespace string) map[string]string {
	group := namespace + ".example.com"
	files := map[string]string{}
	for i := range 12 {
		scope := "Namespaced"
		if i%4 == 0 {
			scope = "Cluster"
		}
		files[fmt.Sprintf("crds/%02d.yaml", i)] = fmt.Sprintf(`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: boat%[1]ds.%[2]s}
spec:
  group: %[2]s
  scope: %[3]s
  names: {kind: Boat%[1]d, plural: boat%[1]ds}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, x-kubernetes-preserve-unknown-fields: true}}}}
`, i, group, scope)
		files[fmt.Sprintf("boats/%02d.yaml",
			i)] = fmt.Sprintf("apiVersion: %s/v1\nkind: Boat%d\nmetadata: {name: boat}\nspec: {length: %d}\n",
			group, i, i)
	}
	return files
}

func TestTenShapesApplyTwiceWithNoRequestTheSecondTime(t *testing.T) {
	t.Parallel()
	const refused = "metadata.generateName would make a new object at every apply"
	shapes := []struct {
		name   string
		files  func(namespace string) map[string]string
		render deliveryv1.Renderer
		total  int32
		err    string
		// asks are requests of the second pass: templates are told what the cluster can do, a lookup asks, and a hook
		// is run for every revision.
		asks []string
	}{
		{name: "operator", files: operator, total: 24},
		{name: "overlay", total: 4},
		{
			name: "chart", total: 4,
			asks: []string{
				"GET /api", "GET /apis", "GET /api/v1/namespaces/NAMESPACE/configmaps/*",
				"DELETE /api/v1/namespaces/NAMESPACE/configmaps/migrate",
				"PATCH /api/v1/namespaces/NAMESPACE/configmaps/migrate",
			},
		},
		{name: "names", total: 3},
		{name: "large", files: func(string) map[string]string {
			return map[string]string{"a.yaml": configMap("large", strings.Repeat("0123456789abcdef", 62_500))}
		}, total: 1},
		{name: "generated", err: refused},
		{name: "lists", total: 4},
		{name: "comments", total: 2},
		{
			name: "templates", render: deliveryv1.Renderer_RENDERER_TEMPLATE, total: 2,
			asks: []string{"GET /api", "GET /apis"},
		},
		{name: "platform", total: 7},
	}
	for _, one := range shapes {
		t.Run(one.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.start()
			var files map[string]string
			if one.files != nil {
				files = one.files(w.namespace)
			} else {
				files = shape(t, one.name, w.namespace)
			}
			name := w.service("shape")
			w.hub.render(name, one.render, map[string]string{"region": "eu", "tier": "gold"})
			digest := w.hub.push(t, name, w.namespace, files)
			applied := func(r *deliveryv1.ServiceReport) bool {
				return r.GetAppliedDigest() == digest && r.GetDigest() == digest ||
					r.GetPhase() == deliveryv1.Phase_PHASE_FAILED
			}
			report := w.hub.await(t, name, applied)
			if one.err != "" {
				if !strings.Contains(report.GetMessage(), one.err) {
					t.Errorf("got %q, want %s", report.GetMessage(), one.err)
				}
				return
			}
			if report.GetPhase() == deliveryv1.Phase_PHASE_FAILED {
				t.Fatal(report.GetMessage())
			}
			if got := len(w.record(name).Entries); got != int(one.total) {
				t.Errorf("%d objects are applied, want %d: %v", got, one.total, w.record(name).Entries)
			}
			w.hub.await(t, name, func(r *deliveryv1.ServiceReport) bool {
				return applied(r) && r.GetPhase() == healthy
			})
			// The agent asks for an object that its stream has not told of yet, in one pass at most.
			asked := map[string]bool{}
			for told := false; !told; {
				told = true
				w.forget()
				files["README.md"] += "# Another revision of the same objects\n"
				digest = w.hub.push(t, name, w.namespace, files)
				if report := w.hub.await(t, name, applied); report.GetPhase() == deliveryv1.Phase_PHASE_FAILED {
					t.Fatal(report.GetMessage())
				}
				// the new revision is noted
				expected := append([]string{"PUT /api/v1/namespaces/fairlead-system/configmaps/inventory.*"},
					one.asks...)
				for _, line := range w.api.since(0) {
					at := slices.IndexFunc(expected, func(pattern string) bool {
						fits, err := path.Match(strings.ReplaceAll(pattern, "NAMESPACE", w.namespace), line)
						return fits && err == nil
					})
					switch {
					case at < 0 && strings.HasPrefix(line, "GET ") && !asked[line]:
						asked[line], told = true, false
					case at < 0:
						t.Errorf("asked the second time: %s", line)
					case one.asks == nil:
						expected = slices.Delete(expected, at, at+1) // once
					}
				}
			}
		})
	}
}

// render says how a service is rendered from its next push on.
func (h *testHub) render(service string, renderer deliveryv1.Renderer, labels map[string]string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.rendering[service] = rendering{spec: &deliveryv1.RenderSpec{Renderer: renderer}, labels: labels}
}

// rendering is how a service is rendered.
type rendering struct {
	spec   *deliveryv1.RenderSpec
	labels map[string]string
}
