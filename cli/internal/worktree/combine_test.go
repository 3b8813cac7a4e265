package worktree

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"fairlead.dev/platform/artifact"
)

// combinedOf are the paths and contents of several sources together.
func combinedOf(t *testing.T, hub map[string]string, parts ...Part) string {
	t.Helper()
	var theirs, out bytes.Buffer
	if len(hub) > 0 {
		if _, err := (Folder{Dir: tree(t, hub)}).PackFolder(&theirs); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := CombineParts(&out, &theirs, parts); err != nil {
		t.Fatal(err)
	}
	var all []string
	err := artifact.Walk(&out, artifact.Limits{}, func(e artifact.Entry, content io.Reader) error {
		text, err := io.ReadAll(content)
		all = append(all, e.Path+"="+string(text)+e.Link)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(all, " ")
}

func TestAWorkingTreeTakesThePlaceOfOneSource(t *testing.T) {
	t.Parallel()
	hub := map[string]string{
		"chart/Chart.yaml": "c", "chart/x/y": "y", "values/prod.yaml": "old",
		"values/gone.yaml": "old", "values-2/a": "a",
	}
	dir := tree(t, map[string]string{
		".git/x": "x", "prod.yaml": "new", "other.yaml": "x", "base/a": "base",
		"overlay/kustomization.yaml": "resources: [../base]", "overlay/l": "->kustomization.yaml",
	})
	for name, tc := range map[string]struct {
		part Part
		want string
	}{
		"values files alone": {
			Part{"values", []Folder{{Dir: dir, Include: []string{"/prod.yaml"}}}},
			"chart/Chart.yaml=c chart/x/y=y values-2/a=a values/prod.yaml=new",
		},
		"a folder that refers beside it": {
			Part{"chart", []Folder{{Dir: dir, Path: "overlay"}}},
			"chart/base/a=base chart/other.yaml=x chart/overlay/kustomization.yaml=resources: [../base] chart/overlay/l=kustomization.yaml chart/prod.yaml=new " +
				"values-2/a=a values/gone.yaml=old values/prod.yaml=old",
		},
		"a folder and a values file": {
			Part{"values", []Folder{{Dir: dir, Path: "base"}, {Dir: dir, Include: []string{"/prod.yaml"}}}},
			"chart/Chart.yaml=c chart/x/y=y values-2/a=a values/base/a=base values/prod.yaml=new",
		},
	} {
		if got := combinedOf(t, hub, tc.part); got != tc.want {
			t.Errorf("%s: got %s, want %s", name, got, tc.want)
		}
	}
	if got := combinedOf(t, nil, Part{"base", []Folder{{Dir: dir, Path: "base"}}}); got != "base/base/a=base" {
		t.Errorf("all sources from here: %s", got)
	}
}
