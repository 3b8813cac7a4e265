package input

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fairlead.dev/cli/internal/app"
)

// write makes files in a new folder, by path.
func write(t *testing.T, files map[string]string) (folder string) {
	t.Helper()
	folder = t.TempDir()
	for name, text := range files {
		file := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// names are those of the objects that are read, in order.
func names(t *testing.T, stdin string, files ...string) (string, error) {
	t.Helper()
	objects, err := ReadObjects(t.Context(), &app.App{IO: app.IO{Stdin: strings.NewReader(stdin)}}, files, nil)
	var all []string
	for _, o := range objects {
		all = append(all, o.Ref())
	}
	return strings.Join(all, " "), err
}

func cluster(name string) string {
	return "apiVersion: fairlead.dev/v1\nkind: Cluster\nmetadata: {name: " + name + "}\n"
}

func TestFilesOfAFolderAreReadAndThoseBelowAreNot(t *testing.T) {
	t.Parallel()
	folder := write(t, map[string]string{
		"b.yml": cluster("b"), "a.yaml": cluster("a"), "c.json": `{"apiVersion":"fairlead.dev/v1","kind":"Cluster","metadata":{"name":"c"}}`,
		"notes.txt": "not: read", "below/d.yaml": cluster("d"),
	})
	if got, err := names(t, cluster("e"), folder, "-"); err != nil || got != "cluster/a cluster/b cluster/c cluster/e" {
		t.Errorf("the folder and stdin have %q: %v", got, err)
	}
	_, err := names(t, "", write(t, map[string]string{"sub/a.yaml": cluster("a")}))
	if err == nil || !strings.Contains(err.Error(), "subfolders are not looked into") {
		t.Errorf("a folder with subfolders only: %v", err)
	}
	_, err = names(t, "", "https://ada:s3cret@git.example.com/shop.yaml")
	if err == nil || !strings.HasPrefix(err.Error(), "-f takes no URL: ") || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("a URL: %v", err)
	}
	_, err = names(t, "", filepath.Join(folder, "absent.yaml"))
	if err == nil || !strings.Contains(err.Error(), "absent.yaml") {
		t.Errorf("a file that is not there: %v", err)
	}
}

func TestAllMistakesAreToldAtOnce(t *testing.T) {
	t.Parallel()
	folder := write(t, map[string]string{
		"a.yaml": cluster("a") + "spec: {colour: blue}\n",
		"b.yaml": "apiVersion: fairlead.dev/v1\nkind: Clutser\nmetadata: {name: b}\n",
	})
	_, err := names(t, "", folder)
	if err == nil {
		t.Fatal("two mistakes were read")
	}
	for _, want := range []string{"nothing was done", "a.yaml:4", "colour", "b.yaml:2", "Clutser"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q:\n%v", want, err)
		}
	}
	if _, err := names(t, "# nothing\n", "-"); err == nil || !strings.Contains(err.Error(), "no resources in -") {
		t.Errorf("an input without a resource: %v", err)
	}
}

func TestAKustomizationFetchesNothing(t *testing.T) {
	t.Parallel()
	for what, of := range map[string]struct{ files, why string }{
		"a base elsewhere":        {"resources: [https://example.com/base]", `"https://example.com/base" is not on this machine`},
		"a folder that is absent": {"resources:\n- ../absent", `kustomization.yaml:2: "../absent" is not on this machine`},
		"a chart":                 {"helmCharts: [{name: a}]", "helmCharts would fetch a chart"},
		"a patch elsewhere":       {"patches: [{path: https://example.com/p.yaml}]", "is not on this machine"},
	} {
		folder := write(t, map[string]string{"kustomization.yaml": of.files + "\n"})
		if err := requireLocal(folder, map[string]bool{}); err == nil || !strings.Contains(err.Error(), of.why) {
			t.Errorf("%s: %v", what, err)
		}
	}
	local := write(t, map[string]string{
		"kustomization.yaml":      "resources: [base, a.yaml]\nconfigMapGenerator: [{name: a, literals: ['url=https://example.com']}]\ncommonAnnotations: {home: https://example.com}\n",
		"a.yaml":                  cluster("a"),
		"base/kustomization.yaml": "resources: [../base]\n", // itself: Kustomize has the better words
	})
	if err := requireLocal(local, map[string]bool{}); err != nil {
		t.Errorf("addresses that nobody fetches: %v", err)
	}
	below := write(t, map[string]string{"kustomization.yaml": "resources: [base]\n", "base/Kustomization": "bases: [https://example.com/base]\n"})
	if err := requireLocal(below, map[string]bool{}); err == nil || !strings.Contains(err.Error(), filepath.Join("base", "Kustomization")+":1") {
		t.Errorf("a base of a base elsewhere: %v", err)
	}
	for _, folder := range []string{"https://example.com/base", t.TempDir()} {
		if _, err := buildKustomization(t.Context(), folder); err == nil || !strings.Contains(err.Error(), "must be a folder") {
			t.Errorf("-k %s: %v", folder, err)
		}
	}
}

// The first Ctrl-C ends the context: a command that reads what a person types must not wait for the end of it then.
func TestAnInterruptEndsTheReadingOfStdin(t *testing.T) {
	t.Parallel()
	terminal, person := io.Pipe()
	defer person.Close()
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	_, err := ReadObjects(ctx, &app.App{IO: app.IO{Stdin: terminal}}, []string{"-"}, nil)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("an interrupt ends the reading by %v", err)
	}
}
