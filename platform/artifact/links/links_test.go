package links_test

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"fairlead.dev/platform/artifact/links"
)

// file is a file or, with a target, a link.
type file struct{ body, link string }

// nodes of files and links, with their folders.
func nodes(files map[string]file) map[string]links.Node {
	all := map[string]links.Node{}
	for p, f := range files {
		all[p] = links.Node{Link: f.link}
		for dir := path.Dir(p); dir != "."; dir = path.Dir(dir) {
			all[dir] = links.Node{Folder: true}
		}
	}
	return all
}

func follow(files map[string]file, p string) (string, error) {
	all := nodes(files)
	return links.Follow(p, func(p string) (links.Node, bool) { n, ok := all[p]; return n, ok })
}

func TestFollowNamesTheLinkThatLeadsOut(t *testing.T) {
	t.Parallel()
	tree := map[string]file{
		"a/b/c": {body: "x"}, "up": {link: ".."}, "abs": {link: "/etc/passwd"}, "round": {link: "a/../../x"},
		"far": {link: "a/b"}, "via": {link: "far/../../../x"},
		"loop": {link: "pool"}, "pool": {link: "loop"}, "gone": {link: "nothing/x"}, "in": {link: "far/../b/./c"},
		"a/out": {link: "../up/x"},
	}
	for p, want := range map[string]string{
		"": ".", "in": "a/b/c", "far/c": "a/b/c", "far/..": "a", "a//b/": "a/b", "a/b/": "a/b", "a/b/../../far": "a/b",
	} {
		if got, err := follow(tree, p); err != nil || got != want {
			t.Errorf("%q leads to %q, %v, want %q", p, got, err, want)
		}
	}
	for p, want := range map[string]error{
		"up": links.ErrOutside, "abs": links.ErrOutside, "round": links.ErrOutside,
		"via": links.ErrOutside, "a/out": links.ErrOutside, "../x": links.ErrOutside,
		"loop": links.ErrLoop, "gone": fs.ErrNotExist, "in/x": fs.ErrNotExist, "in/..": fs.ErrNotExist,
		"no": fs.ErrNotExist,
	} {
		got, err := follow(tree, p)
		if !errors.Is(err, want) {
			t.Errorf("%q leads to %q, %v, want %v", p, got, err, want)
		}
		if name := path.Base(p); tree[p].link != "" && !strings.Contains(err.Error(), name) && name != "gone" &&
			name != "out" {
			t.Errorf("%q: %v names no link", p, err)
		}
	}
}

// Follow leads where a disk leads, and nowhere where the disk leads out of the tree.
func TestFollowLeadsWhereADiskLeads(t *testing.T) {
	t.Parallel()
	name := rapid.StringMatching(`[a-c]`)
	paths := rapid.Map(rapid.SliceOfN(name, 1, 3), func(p []string) string { return strings.Join(p, "/") })
	content := rapid.Custom(func(t *rapid.T) file {
		if rapid.Bool().Draw(t, "link") {
			return file{link: rapid.StringMatching(`([a-c.]{1,2}/){0,4}[a-c.]{1,2}`).Draw(t, "target")}
		}
		return file{body: "x"}
	})
	rapid.Check(t, func(rt *rapid.T) {
		tree := rapid.MapOfN(paths, content, 1, 8).Draw(rt, "tree")
		for p := range tree {
			for dir := path.Dir(p); dir != "."; dir = path.Dir(dir) {
				if _, too := tree[dir]; too {
					rt.Skip("a file that is a folder, too")
				}
			}
		}
		outer := t.TempDir() // another one each time
		root := filepath.Join(outer, "deep", "root")
		for p, f := range tree {
			p = filepath.Join(root, p)
			if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
				rt.Fatal(err)
			}
			if f.link != "" {
				if err := os.Symlink(f.link, p); err != nil {
					rt.Fatal(err)
				}
			} else if err := os.WriteFile(p, []byte(f.body), 0o644); err != nil {
				rt.Fatal(err)
			}
		}
		for p := range tree {
			got, err := follow(tree, p)
			want, diskErr := filepath.EvalSymlinks(filepath.Join(root, p))
			inside := diskErr == nil && (want == root || strings.HasPrefix(want, root+"/"))
			switch {
			case err == nil && (diskErr != nil || filepath.Join(root, got) != want):
				rt.Fatalf("%q leads to %q, on a disk to %q, %v", p, got, want, diskErr)
			case err != nil && inside && !errors.Is(err, links.ErrOutside): // by way of outside a disk may come back
				rt.Fatalf("%q: %v, on a disk it leads to %q", p, err, want)
			}
		}
	})
}
