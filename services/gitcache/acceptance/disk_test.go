package acceptance

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	artifactv1 "fairlead.dev/gen/fairlead/artifact/v1"
	"fairlead.dev/services/gitcache/internal/gittest"
)

// fullDisk is a data folder whose artifacts are on a small disk that is full. Call the function to free it.
func fullDisk(t *testing.T) (dir string, free func()) {
	t.Helper()
	dir = t.TempDir()
	small := filepath.Join(dir, "artifacts")
	if err := os.MkdirAll(filepath.Join(small, "quarantine"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", small, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("a small disk can't be mounted here (that takes root): %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(small, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	ballast := filepath.Join(small, "ballast")
	f, err := os.Create(ballast)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	return dir, func() {
		if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAFullDiskBuildsOnceAndServesOn(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	commit := f.repo.Commit("one", gittest.Files{"deploy/a": "1", "other/b": "2"})
	dir, free := fullDisk(t)
	n := f.start(dir, nil)
	f.published("HEAD", commit)
	digest := n.resolve("HEAD", "deploy").GetArtifact().GetDigest()
	for range 3 {
		n.resolve("HEAD", "deploy")
		if got := n.download(digest); got["a"] != "1" {
			t.Errorf("the artifact holds %q", got)
		}
	}
	if builds := n.metric("fairlead_gitcache_builds_total"); builds != 1 {
		t.Errorf("%v builds", builds)
	}
	free()
	n.download(n.resolve("HEAD", "other").GetArtifact().GetDigest())
	if stored := n.metric("fairlead_gitcache_store_artifacts"); stored != 1 {
		t.Errorf("%v artifacts are stored on a disk that has room again", stored)
	}
}

func TestQueriesAreFiltered(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	commit := f.repo.Commit("one", gittest.Files{
		"deploy/a.yaml": "a", "deploy/b.yaml": "b", "deploy/c.md": "c",
		"deploy/lfs": "version https://git-lfs.github.com/spec/v1\n",
	})
	n := f.one()
	f.published("HEAD", commit)
	ask := func(include, ignore []string) *artifactv1.Result {
		t.Helper()
		resp, err := n.artifacts.Resolve(t.Context(), &artifactv1.ResolveRequest{Queries: []*artifactv1.Query{
			{Source: "shop", Revision: "HEAD", Path: "deploy", Include: include, Ignore: ignore},
		}})
		if err != nil {
			t.Fatal(err)
		}
		return resp.GetResults()[0]
	}
	n.refuses(commit, "deploy", artifactv1.ResolveError_REASON_REFUSED, "Git LFS", "ignore rule")
	got := ask([]string{"*.yaml"}, []string{"/b.*"}).GetResolved()
	if files := n.download(got.GetArtifact().GetDigest()); len(files) != 1 || files["a.yaml"] != "a" {
		t.Errorf("it holds %q", files)
	}
	for _, tt := range []struct {
		include, ignore []string
		words           string
	}{
		{[]string{"*.json"}, nil, `nothing is left of the folder by include "*.json"`},
		{nil, []string{"a[b"}, `ignore rule "a[b" matches nothing`},
	} {
		if e := ask(tt.include, tt.ignore).GetError(); e.GetReason() != artifactv1.ResolveError_REASON_REFUSED ||
			!strings.Contains(e.GetMessage(), tt.words) {
			t.Errorf("got %v", e)
		}
	}
}
