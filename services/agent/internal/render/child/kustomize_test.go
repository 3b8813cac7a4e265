package child_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
)

// onDisk builds with kustomize itself from a folder on a disk. Links out of the folder lead to nothing there.
func onDisk(t *testing.T, root string, files map[string]string) (map[string]string, error) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "artifact")
	for name, content := range files {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if target, link := strings.CutPrefix(content, "-> "); link {
			err = os.Symlink(target, name)
		} else {
			err = os.WriteFile(name, []byte(content), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	options := krusty.MakeDefaultOptions()
	options.LoadRestrictions = types.LoadRestrictionsNone
	built, err := krusty.MakeKustomizer(options).Run(filesys.MakeFsOnDisk(), filepath.Join(dir, root))
	if err != nil {
		return nil, err
	}
	objects := map[string]string{}
	for _, resource := range built.Resources() {
		fields, err := resource.Map()
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(fields)
		if err != nil {
			t.Fatal(err)
		}
		objects[resource.GetKind()+" "+resource.GetName()] = string(text)
	}
	return objects, nil
}

// builds wants of a folder what kustomize makes of it on a disk.
func builds(t *testing.T, root string, files map[string]string) {
	t.Helper()
	want, err := onDisk(t, root, files)
	if err != nil || len(want) == 0 {
		t.Fatalf("on a disk: %v, %v", want, err)
	}
	got, err := run(t, &deliveryv1.RenderSpec{Path: root}, files, nil)
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("got %v, %v\nwant %v", got, err, want)
	}
}

func TestKustomizeTakesEveryNameThatADiskTakes(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"high-availability-1.21+", "a b", "a,b", "ä ö", "(x)", "[x]", "{x}", "x@y", "x:y", "x;y", "x&y", "x'y", `x"y`,
		`x\y`, "x|y", "x?y", "x*y", "x$y", "~x", "^", "%41", "#x", "!x",
		"...", "a..b", "..a", "-", "-rf", ".hidden", " ", "\t", "\x1b[31m", "\n", "\u202e", "名前", "x,y=z",
	} {
		quoted, err := json.Marshal("../" + name + "/base")
		if err != nil {
			t.Fatal(err)
		}
		file, err := json.Marshal("file " + name)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			builds(t, "overlay", map[string]string{
				"overlay/kustomization.yaml":          "namePrefix: dev-\nresources: [" + string(quoted) + "]\n",
				name + "/base/kustomization.yaml":     "resources: [" + string(file) + "]\n",
				name + "/base/file " + name:           configMap("a", "x"),
				name + "/unused/" + name + "/" + name: "x",
			})
		})
	}
}

func TestKustomizeLeavesUnusedFilesOfAnyNameAlone(t *testing.T) {
	t.Parallel()
	builds(t, "", map[string]string{
		"kustomization.yaml": "resources: [a.yaml]\n", "a.yaml": configMap("a", "x"),
		"caf\xe9/\xff": "x", "README": "x", "readme": "x",
		"1.21+/kustomization.yaml": "resources: [nothing.yaml]\n",
	})
}

// A kustomization that the root does not reach may refer to anything.
func TestKustomizeIgnoresWhatTheRootDoesNotReach(t *testing.T) {
	t.Parallel()
	files := map[string]string{
		"prod/kustomization.yaml":   "resources: [../base]\n",
		"base/kustomization.yaml":   "resources: [a.yaml]\n",
		"base/a.yaml":               configMap("a", "x"),
		"remote/kustomization.yaml": "resources: [https://example.com/a.yaml]\n",
		"charts/kustomization.yaml": "helmCharts: [{name: x}]\n",
		"broken/kustomization.yaml": "resources: {\n",
	}
	builds(t, "prod", files)
	files["prod/kustomization.yaml"] = "resources: [../base, ../remote]\n"
	refuses(t, &deliveryv1.RenderSpec{Path: "prod"}, files,
		`apps/remote/kustomization.yaml, line 1: "https://example.com/a.yaml" is not in the service's folder, and nothing is fetched`)
	files["prod/kustomization.yaml"] = "resources: [../base]\ncomponents: [../charts]\n"
	refuses(t, &deliveryv1.RenderSpec{Path: "prod"}, files,
		"apps/charts/kustomization.yaml, line 1: helmCharts would fetch a chart")
}
