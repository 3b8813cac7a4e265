package build

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"fairlead.dev/platform/artifact"
	"fairlead.dev/platform/longform"
	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/gittest"
	"fairlead.dev/services/gitcache/internal/tree"
)

func TestFiltersArePartOfTheIdentity(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	first := w.commit(gittest.Files{"deploy/a.yaml": "a", "deploy/README.md": "r", "deploy/test/t.yaml": "t"})
	p := place(first, "deploy")
	all := w.resolve(p)
	some := w.resolve(filtered(t, p, []string{"*.yaml"}, []string{"test/"}))
	same := w.resolve(filtered(t, p, nil, []string{"*.md", "/test"}))
	if all.SourceID == some.SourceID || some.SourceID == same.SourceID {
		t.Error("different rules have one source_id")
	}
	if some.Artifact != same.Artifact || some.Artifact == all.Artifact {
		t.Errorf("artifacts are %v, %v, %v", all.Artifact, some.Artifact, same.Artifact)
	}
	if got := w.files(some.Artifact.Digest); len(got) != 1 || got["a.yaml"] != "a" {
		t.Errorf("it holds %q", got)
	}

	second := w.commit(gittest.Files{".fairleadignore": "*\n", "deploy/.fairleadignore": "*.md\n"})
	if got := slices.Sorted(maps.Keys(w.files(w.resolve(place(second, "deploy")).Artifact.Digest))); !slices.Equal(got, []string{"a.yaml", "test/t.yaml"}) {
		t.Errorf("rules of the folder leave %q", got)
	}
	third := w.commit(gittest.Files{".fairleadignore": "# nothing\n"})
	if a, b := w.resolve(place(second, "deploy")), w.resolve(place(third, "deploy")); a.SourceID != b.SourceID {
		t.Error("a file of rules above the folder changes its identity")
	}
	_, err := w.builder.Resolve(t.Context(), filtered(t, place(third, "deploy"), []string{"*.jsonnet"}, nil))
	if !errors.Is(err, artifact.ErrRefused) || !strings.Contains(err.Error(), "*.jsonnet") {
		t.Errorf("nothing left: %v", err)
	}
}

// A commit that changes only files that are left out delivers what was delivered before.
func TestACommitOfFilesThatAreLeftOutChangesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	files := gittest.Files{
		"deploy/a.yaml": "a", "deploy/README.md": "r", "deploy/test/t.yaml": "t", "deploy/.fairleadignore": "drafts/\n",
		"deploy/drafts/d.yaml": "d",
	}
	at := func() Place {
		return filtered(t, place(w.commit(files), "deploy"), []string{"*.yaml"}, []string{"test/"})
	}
	first := w.resolve(at())
	for _, name := range []string{"deploy/README.md", "deploy/test/t.yaml", "deploy/drafts/d.yaml", "deploy/new.md"} {
		files[name] = "changed"
		if b := w.resolve(at()); b.Artifact != first.Artifact || b.Commit == first.Commit {
			t.Errorf("%s: %+v, before %+v", name, b, first)
		}
	}
	files["deploy/a.yaml"] = "changed"
	if b := w.resolve(at()); b.Artifact == first.Artifact {
		t.Error("a file of the service has changed, and its artifact is the same")
	}
}

// submodule makes main a commit with a file and a submodule at a commit.
func (w *world) submodule(at string) git.Hash {
	w.t.Helper()
	return git.HashOf(w.repo.SetMain(w.repo.Tree(
		gittest.TreeEntry{Mode: "100644", Name: "a", ID: w.repo.Object("blob", []byte("outer"))},
		gittest.TreeEntry{Mode: "160000", Name: "sub", ID: at},
	)))
}

func TestSubmodulesAreFollowedOnRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	folder := w.repo.Tree(gittest.TreeEntry{Mode: "100644", Name: "i", ID: w.repo.Object("blob", []byte("inner"))})
	inner := w.repo.Bare("commit-tree", "-m", "inner",
		w.repo.Tree(gittest.TreeEntry{Mode: "40000", Name: "in", ID: folder}))
	p := place(w.submodule(inner), "")
	missing := place(w.submodule(strings.Repeat("12", 20)), "")
	w.fetch()
	if _, err := w.builder.Resolve(t.Context(), p); !errors.Is(err, artifact.ErrRefused) ||
		!strings.Contains(err.Error(), "submodules: true") {
		t.Errorf("without submodules: %v", err)
	}
	p.Submodules, missing.Submodules = true, true
	if got := w.files(w.resolve(p).Artifact.Digest); got["sub/in/i"] != "inner" || got["a"] != "outer" ||
		len(got) != 2 {
		t.Errorf("it holds %q", got)
	}
	within := p
	within.Path = "sub/in"
	if got := w.files(w.resolve(within).Artifact.Digest); got["i"] != "inner" {
		t.Errorf("a path into the submodule holds %q", got)
	}
	_, err := w.builder.Resolve(t.Context(), missing)
	if !errors.Is(err, tree.ErrNoSubmodule) || !strings.Contains(err.Error(), `"sub"`) || w.mirror.Doubted() {
		t.Errorf("a submodule that is not fetched: %v; the mirror is in doubt: %v", err, w.mirror.Doubted())
	}
	if got := w.files(w.resolve(filtered(t, missing, nil, []string{"sub"})).Artifact.Digest); len(got) != 1 {
		t.Errorf("without it there is %q", got)
	}
}

// A hundred thousand files are refused by name and limit, and a filter makes the rest usable.
func TestAHundredThousandFilesAreRefusedUnlessLeftOut(t *testing.T) {
	t.Parallel()
	longform.Only(t, "100,000 files")
	w := newWorld(t, 0)
	blob := w.repo.Object("blob", []byte("x"))
	var folders []gittest.TreeEntry
	for i := range 100 {
		var files []gittest.TreeEntry
		for j := range 1000 {
			files = append(files, gittest.TreeEntry{Mode: "100644", Name: fmt.Sprintf("%03d-%03d", i, j), ID: blob})
		}
		folders = append(folders, gittest.TreeEntry{
			Mode: "40000", Name: fmt.Sprintf("d%03d", i),
			ID: w.repo.Tree(files...),
		})
	}
	p := place(git.HashOf(w.repo.SetMain(w.repo.Tree(folders...))), "")
	w.fetch()
	for range 2 {
		_, err := w.builder.Resolve(t.Context(), p)
		if !errors.Is(err, artifact.ErrRefused) || !strings.Contains(err.Error(), "limit of 50000") ||
			!strings.Contains(err.Error(), `"d050/050-000"`) {
			t.Errorf("got %v", err)
		}
	}
	if n := w.builds.Load(); n != 1 {
		t.Errorf("%d builds of what is known to be refused", n)
	}
	some := w.resolve(filtered(t, p, []string{"d00?/", "*-999"}, nil))
	if some.Artifact.Files != 10*1000+90 {
		t.Errorf("%d files are left", some.Artifact.Files)
	}
}

func TestABuildThatTakesTooLongNamesTheLimitAndWhereItWas(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	p := place(w.commit(gittest.Files{"a": "a"}), "")
	w.builder.time = time.Nanosecond
	_, err := w.builder.Resolve(t.Context(), p)
	if err == nil || errors.Is(err, artifact.ErrRefused) || !strings.Contains(err.Error(), "limit of 1ns") {
		t.Errorf("got %v", err)
	}
	w.builder.time = buildTime
	w.resolve(p) // the timeout was no verdict on the content
}
