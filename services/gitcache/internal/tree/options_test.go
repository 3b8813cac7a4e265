package tree

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"fairlead.dev/platform/artifact"
	"fairlead.dev/platform/pathrules"
	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/mirror"
)

func (o objects) commit(tree git.Hash) git.Hash {
	return o.add(git.Commit, fmt.Appendf(nil,
		"tree %s\nauthor a <a> 0 +0000\ncommitter a <a> 0 +0000\n\nx\n", tree))
}

func rules(t *testing.T, include, ignore []string) pathrules.Rules {
	t.Helper()
	r, err := pathrules.Parse(include, ignore)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// refused checks that a folder is refused, in these words.
func refused(t *testing.T, o objects, root git.Hash, options Options, words ...string) {
	t.Helper()
	options.Limits = wide
	_, err := packWith(t, o, root, options)
	if !errors.Is(err, artifact.ErrRefused) {
		t.Errorf("got %v", err)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q does not say %q", err, w)
		}
	}
}

// holds checks which files are packed.
func holds(t *testing.T, o objects, root git.Hash, options Options, want ...string) {
	t.Helper()
	options.Limits = wide
	files, err := packWith(t, o, root, options)
	if got := slices.Sorted(maps.Keys(files)); err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}

func TestRulesOfTheServiceAndOfFoldersLeaveFilesOut(t *testing.T) {
	t.Parallel()
	o := objects{}
	root := o.tree(
		entry{modeFile, ".fairleadignore", o.blob("docs/\n*.md\n")},
		entry{modeFile, "a.md", o.blob("x")},
		entry{modeFile, "a.yaml", o.blob("x")},
		entry{modeFolder, "b", o.tree(
			entry{modeFile, ".fairleadignore", o.blob("!keep.md\n")},
			entry{modeFile, "keep.md", o.blob("x")},
			entry{modeFile, "b.yaml", o.blob("x")},
		)},
		entry{modeFolder, "docs", o.tree(entry{modeFile, "d", o.blob("x")})},
	)
	holds(t, o, root, Options{}, "a.yaml", "b/b.yaml", "b/keep.md")
	holds(t, o, root, Options{Rules: rules(t, []string{"*.yaml"}, []string{"/a.*"})}, "b/b.yaml")
	refused(t, o, root, Options{Rules: rules(t, []string{"*.jsonnet"}, nil)}, "nothing is left", `"*.jsonnet"`,
		pathrules.FileName)
}

// A file that is left out may be anything: no limit, no hostile name and no missing object there matters.
func TestOnlyWhatIsLeftCounts(t *testing.T) {
	t.Parallel()
	o := objects{}
	var many []entry
	for i := range 200 {
		many = append(many, entry{modeFile, fmt.Sprintf("f%03d", i), git.Hash{9}})
	}
	root := o.tree(
		entry{modeFile, "a", o.blob("x")},
		entry{modeFolder, "bad", o.tree(
			entry{modeLink, "escape", o.blob("../../etc/passwd")},
			entry{modeFile, ".GIT", o.blob("x")},
			entry{modeFile, "lfs", o.blob(lfsBegin + "v1\n")},
			entry{"100", "mode", o.blob("x")},
			entry{modeFile, "big", o.blob(strings.Repeat("x", 2<<10))},
			entry{modeSubmodule, "sub", git.Hash{8}},
			entry{modeFolder, "gone", git.Hash{7}},
			entry{modeFolder, "many", o.tree(many...)},
		)},
	)
	holds(t, o, root, Options{Rules: rules(t, nil, []string{"bad"})}, "a")
	holds(t, o, root, Options{Rules: rules(t, []string{"/a"}, nil)}, "a")
	holds(t, o, root, Options{Rules: rules(t, nil, []string{"bad/*"})}, "a")
	refused(t, o, root, Options{Rules: rules(t, nil, []string{"gone", "many"})}, `"bad/mode"`)
}

func TestRulesThatCanNotBeReadAreRefused(t *testing.T) {
	t.Parallel()
	o := objects{}
	file := entry{modeFile, "a", o.blob("x")}
	refused(t, o, o.tree(file, entry{modeLink, ".fairleadignore", o.blob("a")}), Options{}, ".fairleadignore", "link")
	refused(t, o, o.tree(file, entry{modeFile, ".fairleadignore", o.blob("a\x00")}), Options{}, "not a text file")
	refused(t, o, o.tree(file, entry{
		modeFolder, "b",
		o.tree(entry{modeFile, ".fairleadignore", o.blob(strings.Repeat("a\n", 40_000))}),
	}), Options{},
		`"b/.fairleadignore"`, "64 KiB")
	holds(t, o, o.tree(file, entry{modeFolder, ".fairleadignore", o.tree(file)}), Options{}, ".fairleadignore/a", "a")
}

func TestAnEmptyFolderIsRefused(t *testing.T) {
	t.Parallel()
	o := objects{}
	refused(t, o, o.tree(), Options{}, "holds no files")
	refused(t, o, o.tree(entry{modeFile, ".fairleadignore", o.blob("")}), Options{}, "nothing is left", pathrules.FileName)
}

func TestSubmodules(t *testing.T) {
	t.Parallel()
	o := objects{}
	inner := o.commit(o.tree(entry{modeFile, "i", o.blob("inner")}, entry{modeFile, ".fairleadignore", o.blob("j")},
		entry{modeFile, "j", o.blob("x")}))
	outer := o.commit(o.tree(entry{modeFile, "o", o.blob("outer")}, entry{modeSubmodule, "nested", inner}))
	gone := git.HashOf("0123456789012345678901234567890123456789")
	root := o.tree(entry{modeFile, "a", o.blob("x")},
		entry{modeFolder, "v", o.tree(entry{modeSubmodule, "sub", outer}, entry{modeSubmodule, "gone", gone})})

	refused(t, o, root, Options{}, `"v/sub"`, "submodules: true", "ignore")
	refused(t, o, root, Options{Rules: rules(t, []string{"*.yaml"}, nil)}, `"v/sub"`) // the submodule may hold some
	holds(t, o, root, Options{Rules: rules(t, nil, []string{"v"})}, "a")
	holds(t, o, root, Options{Rules: rules(t, []string{"/a", "/v/*/"}, []string{"gone", "sub"})}, "a")
	holds(t, o, root, Options{Submodules: true, Rules: rules(t, nil, []string{"gone"})}, "a", "v/sub/nested/i",
		"v/sub/o")
	holds(t, o, root, Options{Submodules: true, Rules: rules(t, []string{"nested/"}, []string{"gone"})},
		"v/sub/nested/i")

	_, err := packWith(t, o, root, Options{Limits: wide, Submodules: true})
	if !errors.Is(err, ErrNoSubmodule) || errors.Is(err, mirror.ErrMissing) ||
		!strings.Contains(err.Error(), `"v/gone"`) || !strings.Contains(err.Error(), gone.String()) {
		t.Errorf("a submodule that is not there: %v", err)
	}

	nested, err := Find(o, root, "v/sub/nested", true)
	if err != nil {
		t.Fatal(err)
	}
	holds(t, o, nested, Options{}, "i")
	if _, err := Find(o, root, "v/sub/nested", false); !errors.Is(err, artifact.ErrRefused) ||
		!strings.Contains(err.Error(), "submodules: true") {
		t.Errorf("a path into a submodule: %v", err)
	}
	if _, err := Find(o, root, "v/gone/x", true); !errors.Is(err, ErrNoSubmodule) {
		t.Errorf("a path into a submodule that is not there: %v", err)
	}
}

func TestSubmodulesWithinSubmodulesHaveALimit(t *testing.T) {
	t.Parallel()
	o := objects{}
	root := o.tree(entry{modeFile, "f", o.blob("x")})
	for range maxNested + 1 {
		root = o.tree(entry{modeSubmodule, "s", o.commit(root)})
	}
	deep := wide
	deep.Depth = 100
	_, err := packWith(t, o, root, Options{Limits: deep, Submodules: true})
	if !errors.Is(err, artifact.ErrRefused) || !strings.Contains(err.Error(), "limit of 8") ||
		!strings.Contains(err.Error(), strings.Repeat("s/", 8)+"s") {
		t.Errorf("got %v", err)
	}
}

func TestASubmoduleAtWhatIsNoCommitIsRefused(t *testing.T) {
	t.Parallel()
	o := objects{}
	for name, b := range map[string]string{"empty": "", "no tree": "author x\n", "short": "tree 1234\n"} {
		t.Log(name)
		refused(t, o, o.tree(entry{modeSubmodule, "s", o.add(git.Commit, []byte(b))}),
			Options{Submodules: true}, `"s"`, "malformed")
	}
}

func TestASubmoduleAtACombinationIsRefused(t *testing.T) {
	t.Parallel()
	o := objects{}
	text := "tree %s\nauthor a <a> 0 +0000\ncommitter %s <> 0 +0000\n\nx\n\n" + mirror.CombinationLine +
		"combination:1\n"
	files := o.tree(entry{modeFile, "secret", o.blob("x")})
	combined := o.add(git.Commit, fmt.Appendf(nil, text, files, mirror.CombinedBy))
	root := o.tree(entry{modeSubmodule, "s", combined})
	refused(t, o, root, Options{Submodules: true}, `"s"`, "several sources")
	if _, err := Find(o, root, "s", true); !errors.Is(err, artifact.ErrRefused) {
		t.Errorf("a path into it: %v", err)
	}
}
