package worktree

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fairlead.dev/platform/artifact"
)

// tree writes files; one that begins with "->" is a link.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		at := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if target, isLink := strings.CutPrefix(content, "->"); isLink {
			err = os.Symlink(target, at)
		} else {
			err = os.WriteFile(at, []byte(content), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// packed are the paths of an artifact and the folder that it is made for.
func packed(t *testing.T, f Folder) (paths, base string) {
	t.Helper()
	var out bytes.Buffer
	if _, err := f.PackFolder(&out); err != nil {
		t.Fatal(err)
	}
	var names []string
	err := artifact.Walk(&out, artifact.Limits{}, func(e artifact.Entry, _ io.Reader) error {
		names, base = append(names, e.Path), e.Base
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(names, " "), base
}

func TestAFolderIsPackedAsTheHubPacksIt(t *testing.T) {
	t.Parallel()
	dir := tree(t, map[string]string{
		".git/config": "x", "README.md": "x", "shop/b.yaml": "b", "shop/a.yaml": "a", "shop/sub/c.yaml": "c",
		"shop/sub/.git": "gitdir: x", "shop/notes.txt": "x", "shop/tmp/x.yaml": "x",
		"shop/link.yaml": "->a.yaml", "shop/.fairleadignore": "*.txt\n",
	})
	if paths, base := packed(t, Folder{
		Dir: dir, Path: "shop", Ignore: []string{"/tmp/"},
	}); paths != "a.yaml b.yaml link.yaml sub/c.yaml" || base != "" {
		t.Errorf("got %q of %q", paths, base)
	}
	if paths, _ := packed(t, Folder{Dir: dir, Path: "shop", Include: []string{"/sub/"}}); paths != "sub/c.yaml" {
		t.Errorf("with include rules: %q", paths)
	}
	if paths, _ := packed(t, Folder{Dir: dir}); strings.Contains(paths, ".git") ||
		!strings.Contains(paths, "README.md") {
		t.Errorf("all of it: %q", paths)
	}
}

func TestAFolderThatRefersBesideItComesWithAllOfTheTree(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{
		"kustomization.yaml": "resources: [../base]", "Chart.yaml": "dependencies: [{repository: file://../db}]",
		"l": "->../base/a.yaml",
	} {
		dir := tree(t, map[string]string{
			"base/a.yaml": "a", "base/x.txt": "x", "shop/a.yaml": "a", "shop/x.txt": "x", "shop/" + name: content,
			".git/x": "",
		})
		paths, base := packed(t, Folder{Dir: dir, Path: "shop", Ignore: []string{"x.txt"}})
		if base != "shop" || !strings.HasPrefix(paths, "base/a.yaml base/x.txt shop/") ||
			strings.Contains(paths, "shop/x.txt") {
			t.Errorf("%s: %q of %q", name, paths, base)
		}
	}
}

func TestWhatCantBeSentIsSaid(t *testing.T) {
	t.Parallel()
	dir := tree(t, map[string]string{
		"shop/large.yaml": "", "link": "->shop", "empty/.fairleadignore": "*\n",
		"beyond/kustomization.yaml": "resources: [../shop]",
	})
	if err := os.Truncate(filepath.Join(dir, "shop", "large.yaml"), artifact.PreviewBytes+1); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"shop": "large.yaml\" has 33554433 bytes, the limit is 33554432",
		"none": "name the root of the repository's working tree", "link": "has no folder \"link\"",
		"empty": "nothing is left", "beyond": "refers to files beside it, so all of " + dir + " is sent",
	} {
		if _, err := (Folder{Dir: dir, Path: path}).PackFolder(io.Discard); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if _, err := (Folder{Dir: filepath.Join(dir, "none")}).PackFolder(io.Discard); err == nil ||
		!strings.Contains(err.Error(), "is no folder") {
		t.Errorf("got %v", err)
	}
}
