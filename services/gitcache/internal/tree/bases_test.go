package tree

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	"fairlead.dev/platform/artifact"
	"fairlead.dev/platform/remotebase"
	"fairlead.dev/services/gitcache/internal/git"
)

const far = "https://git.example.com/org/"

// files makes the tree of files by path.
func (o objects) files(all map[string]string) git.Hash {
	var entries []entry
	below := map[string]map[string]string{}
	for name, content := range all {
		first, rest, isBelow := strings.Cut(name, "/")
		target, isLink := strings.CutPrefix(content, "-> ")
		switch {
		case isBelow:
			if below[first] == nil {
				below[first] = map[string]string{}
			}
			below[first][rest] = content
		case isLink:
			entries = append(entries, entry{modeLink, name, o.blob(target)})
		default:
			entries = append(entries, entry{modeFile, name, o.blob(content)})
		}
	}
	for name, files := range below {
		entries = append(entries, entry{modeFolder, name, o.files(files)})
	}
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.path, b.path) })
	return o.tree(entries...)
}

// based are the names that an artifact has beyond its folder app, if the repositories below far have these files.
func based(t *testing.T, own map[string]string, repositories map[string]map[string]string) ([]string, []WantedBase, error) {
	t.Helper()
	o := objects{}
	options := Options{Limits: wideFiles(), Bases: func(b remotebase.Base) (git.Hash, bool) {
		files, ok := repositories[strings.TrimPrefix(b.Repository, far)]
		return o.files(files), ok
	}}
	root := o.files(own)
	wanted, err := Bases(t.Context(), o, root, "app", options)
	if err != nil {
		t.Fatal(err)
	}
	parts, _, err := Reach(t.Context(), o, root, "app", options)
	var names []string
	for _, p := range parts {
		names = append(names, p.Path)
	}
	return names, wanted, err
}

func folderOf(name string) string {
	return remotebase.Base{Repository: far + name, Revision: "HEAD"}.Folder()
}

// A base brings what its kustomization leads to within its repository, links and other repositories, and no more.
func TestABaseBringsWhatItLeadsTo(t *testing.T) {
	t.Parallel()
	own := map[string]string{
		"app/kustomization.yaml": "resources: [" + far + "a//x, ../own.yaml]\n", "own.yaml": "x",
		"secret": "x",
	}
	repositories := map[string]map[string]string{
		"a": {"x/kustomization.yaml": "resources: [../y, " + far + "b]\n", "y": "-> real/y", "real/y/kustomization.yaml": "resources: [y.yaml]\n", "real/y/y.yaml": "y", "x/unused": "x", "own.yaml": "x"},
		"b": {"kustomization.yaml": "configMapGenerator: [{files: [f, out]}]\n", "f": "-> g", "g": "x", "out": "-> ../secret"},
	}
	want := []string{"own.yaml"}
	for name, files := range map[string][]string{"a": {"x/kustomization.yaml", "y", "real/y/kustomization.yaml", "real/y/y.yaml"}, "b": {"kustomization.yaml", "f", "g"}} {
		for _, file := range files {
			want = append(want, path.Join(folderOf(name), file))
		}
	}
	slices.Sort(want)
	names, wanted, err := based(t, own, repositories)
	if err != nil || !slices.Equal(names, want) || len(wanted) != 2 || wanted[1].Within.Repository != far+"a" ||
		wanted[1].File != "x/kustomization.yaml" {
		t.Errorf("got %q, %+v, %v\nwant %q", names, wanted, err, want)
	}
	repositories["b"]["kustomization.yaml"] = "configMapGenerator: [{files: [../../secret]}]\n"
	if _, _, err := based(t, own, repositories); !errors.Is(err, artifact.ErrRefused) ||
		!strings.Contains(err.Error(), `kustomization.yaml line 1 of `+far+
			`b at HEAD: "../../secret" leads out of that repository`) {
		t.Errorf("a way out: %v", err)
	}
}

// What can't be had is told to the owner and to the builder, with its place.
func TestABaseThatCantBeHadIsRefused(t *testing.T) {
	t.Parallel()
	line := map[string]map[string]string{}
	for i := range MaxBaseChain + 1 {
		line[fmt.Sprint("r", i)] = map[string]string{"kustomization.yaml": fmt.Sprintf("resources: [%sr%d]\n",
			far, i+1)}
	}
	many, all := "resources:\n", map[string]string{}
	for i := range MaxBases + 1 {
		all[fmt.Sprintf("x%d/kustomization.yaml", i)] = "{}\n"
		many += fmt.Sprintf("- %sa//x%d\n", far, i)
	}
	loop := map[string]map[string]string{
		"a": {"kustomization.yaml": "resources: [" + far + "b]\n"},
		"b": {"kustomization.yaml": "resources:\n- " + far + "a\n"},
	}
	for name, tc := range map[string]struct {
		own          string
		more         map[string]string
		repositories map[string]map[string]string
		says         string
	}{
		"a loop":         {"resources: [" + far + "a]\n", nil, loop, "kustomization.yaml line 2 of " + far + "b at HEAD: base " + far + "a?ref=HEAD: bases refer to each other without an end"},
		"a long line":    {"resources: [" + far + "r0]\n", nil, line, "more than the limit of 8 repositories"},
		"too many":       {many, nil, map[string]map[string]string{"a": all}, "app/kustomization.yaml line 52: base " + far + "a//x50?ref=HEAD: it is one more than the limit of 50"},
		"its place":      {"resources: [" + far + "a]\n", map[string]string{remotebase.FolderName + "/x": "x"}, loop, "Rename that folder"},
		"no folder":      {"resources: [" + far + "a//x]\n", nil, map[string]map[string]string{"a": {"y": "x"}}, "no such folder"},
		"out of it":      {"resources: [" + far + "a//x]\n", nil, map[string]map[string]string{"a": {"x": "-> ../../app"}}, "no such folder"},
		"a file":         {"resources: [" + far + "a//x]\n", nil, map[string]map[string]string{"a": {"x": "x"}}, "it is a file"},
		"nothing in it":  {"components: [" + far + "a]\n", nil, map[string]map[string]string{"a": {"x": "x"}}, "has no kustomization.yaml"},
		"not a password": {"resources: ['https://ada:hush@git.example.com/a/b']\n", nil, nil, "app/kustomization.yaml line 1: the base has a repository whose url"},
	} {
		own := map[string]string{"app/kustomization.yaml": tc.own}
		maps.Copy(own, tc.more)
		_, wanted, err := based(t, own, tc.repositories)
		if !errors.Is(err, artifact.ErrRefused) || !strings.Contains(err.Error(), tc.says) ||
			strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: the builder says %v, want %q", name, err, tc.says)
		}
		if !slices.ContainsFunc(wanted, func(w WantedBase) bool { return w.Problem != "" && strings.Contains(w.Where()+": "+w.Problem, tc.says) }) {
			t.Errorf("%s: the owner hears %+v, want %q", name, wanted, tc.says)
		}
	}
}

// A base that is not here is no refusal: it may be on its way. The folder never counts as one that refers to nothing.
func TestABaseThatIsNotHereIsAwaited(t *testing.T) {
	t.Parallel()
	own := map[string]string{"app/kustomization.yaml": "resources: [" + far + "a]\n"}
	_, wanted, err := based(t, own, nil)
	if !errors.Is(err, ErrNoBase) || errors.Is(err, artifact.ErrRefused) || len(wanted) != 1 ||
		wanted[0].Problem != "" {
		t.Errorf("got %+v, %v", wanted, err)
	}
	o := objects{}
	parts, alone, err := Reach(t.Context(), o, o.files(own), "app", Options{Limits: wide})
	if len(parts) != 0 || alone || err != nil {
		t.Errorf("without hosts: %v, alone %t, %v", parts, alone, err)
	}
}

// The kustomization of a whole repository has bases, too.
func TestAWholeRepositoryHasBases(t *testing.T) {
	t.Parallel()
	o := objects{}
	parts, _, err := Reach(t.Context(), o, o.files(map[string]string{"kustomization.yaml": "resources: [" + far + "a, b]\n", "b/kustomization.yaml": "{}\n"}), "", Options{Limits: wideFiles(), Bases: func(remotebase.Base) (git.Hash, bool) {
		return o.files(map[string]string{"kustomization.yaml": "{}\n"}), true
	}})
	if err != nil || len(parts) != 1 || parts[0].Path != folderOf("a")+"/kustomization.yaml" {
		t.Errorf("got %+v, %v", parts, err)
	}
}

func wideFiles() artifact.Limits {
	l := wide
	l.Files = 1000
	return l
}
