package pack_test

import (
	"bytes"
	"context"
	"crypto/sha1"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"fairlead.dev/platform/longform"
	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/gittest"
	"fairlead.dev/services/gitcache/internal/pack"
)

// runGit runs Git's own tools, which are right by definition.
func runGit(t testing.TB, dir string, stdin []byte, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(context.Background(), "git", args...)
	cmd.Dir, cmd.Stdin, cmd.Stderr = dir, bytes.NewReader(stdin), os.Stderr
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "GIT_CONFIG_NOSYSTEM=1",
		"GIT_CONFIG_GLOBAL=/dev/null",
	}
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("git %s: %v", args, err)
	}
	return out
}

// store writes a pack and the index that Check makes of it, and opens both.
func store(t testing.TB, b []byte) *pack.File {
	t.Helper()
	dir := t.TempDir()
	objects, err := pack.Check(t.Context(), bytes.NewReader(b), int64(len(b)), dir, pack.UsualBounds())
	if err != nil {
		t.Fatal(err)
	}
	var index bytes.Buffer
	if err := objects.WriteIndex(&index, git.Hash(b[len(b)-20:])); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "pack-"+git.Hash(b[len(b)-20:]).String())
	for ext, content := range map[string][]byte{pack.PackExt: b, pack.IndexExt: index.Bytes()} {
		if err := os.WriteFile(path+ext, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f, err := pack.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if err := f.Verify(t.Context()); err != nil {
		t.Fatalf("verify: %v", err)
	}
	return f
}

// history makes a repository whose objects are deltas upon deltas.
func history(t testing.TB, commits int) *gittest.Repo {
	t.Helper()
	repo := gittest.NewServer(t).NewRepo(t, "x.git")
	text := strings.Repeat("a line of some length that repeats\n", 500)
	for i := range commits {
		text += fmt.Sprintf("and line %d\n", i)
		repo.Commit(fmt.Sprint("commit ", i), gittest.Files{"deploy/a": text, fmt.Sprintf("b/%d", i): fmt.Sprint(i)})
	}
	return repo
}

// same compares all objects with what Git says they are.
func same(t *testing.T, f *pack.File, repo string) {
	t.Helper()
	listed := strings.Fields(string(runGit(t, repo, nil, "cat-file",
		"--batch-all-objects", "--batch-check=%(objectname)")))
	if f.Index().Len() != len(listed) {
		t.Errorf("%d objects, want %d", f.Index().Len(), len(listed))
	}
	cache, dir := pack.NewCache(1<<20), t.TempDir()
	for _, name := range listed {
		id := git.HashOf(name)
		at, found, err := f.Index().Find(id)
		if err != nil || !found {
			t.Fatalf("%s: found %t, %v", name, found, err)
		}
		size, err := f.Size(at)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := f.Read(at, size-1, cache, dir); !errors.Is(err, pack.ErrLarge) {
			t.Errorf("%s: one byte more than asked for: %v", name, err)
		}
		kind, b, err := f.Read(at, size, cache, dir)
		if err != nil || pack.Name(kind, b) != id || int64(len(b)) != size {
			t.Errorf("%s: a %s of %d bytes, said %d: %v", name, kind, len(b), size, err)
		}
		if same, err := f.Kind(at); err != nil || same != kind {
			t.Errorf("%s: kind %s, then %s: %v", name, kind, same, err)
		}
	}
	if _, found, err := f.Index().Find(git.Hash{1}); found || err != nil {
		t.Errorf("found what is not there: %v", err)
	}
}

func TestEveryObjectIsFoundAndReadAsGitHasIt(t *testing.T) {
	t.Parallel()
	longform.Only(t, "packs of a long history")
	repo := history(t, 30).URLOnDisk()
	for name, args := range map[string][]string{
		"by place": {"--delta-base-offset"}, "by name": {"--no-reuse-delta"},
		"deep": {"--no-reuse-delta", "--depth=200", "--window=100"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := runGit(t, repo, nil, append([]string{"pack-objects", "--all", "--stdout", "-q"}, args...)...)
			same(t, store(t, b), repo)
		})
	}
}

// TestTheIndexIsTheOneThatGitMakes to the byte.
func TestTheIndexIsTheOneThatGitMakes(t *testing.T) {
	t.Parallel()
	b := runGit(t, history(t, 10).URLOnDisk(), nil, "pack-objects", "--all", "--stdout", "-q")
	dir := t.TempDir()
	runGit(t, dir, nil, "init", "-q", "--bare")
	runGit(t, dir, b, "index-pack", "--stdin", "-o", filepath.Join(dir, "x.idx"), filepath.Join(dir, "x.pack"))
	want, err := os.ReadFile(filepath.Join(dir, "x.idx"))
	if err != nil {
		t.Fatal(err)
	}
	objects, err := pack.Check(t.Context(), bytes.NewReader(b), int64(len(b)), dir, pack.UsualBounds())
	if err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	if err := objects.WriteIndex(&got, git.Hash(b[len(b)-20:])); err != nil || !bytes.Equal(got.Bytes(), want) {
		t.Errorf("%d bytes of index, want %d: %v", got.Len(), len(want), err)
	}
}

// TestJoinedPacksHoldEverything joins packs whose objects overlap, with deltas across the cut.
func TestJoinedPacksHoldEverything(t *testing.T) {
	t.Parallel()
	longform.Only(t, "packs of a long history")
	repo := history(t, 30)
	dir := repo.URLOnDisk()
	var files []*pack.File
	for _, revs := range []string{"main~20\n", "main~10\n^main~22\n", "main\n^main~9\n"} {
		files = append(files, store(t, runGit(t, dir, []byte(revs), "pack-objects",
			"--revs", "--stdout", "-q", "--delta-base-offset")))
	}
	files = append(files, store(t, runGit(t, dir, nil, "pack-objects", "--all", "--stdout", "-q")))
	var joined bytes.Buffer
	if err := pack.Join(t.Context(), &joined, files, t.TempDir()); err != nil {
		t.Fatal(err)
	}
	same(t, store(t, joined.Bytes()), dir)
}

func sealed(b []byte) []byte {
	sum := sha1.Sum(b)
	return append(bytes.Clone(b), sum[:]...)
}

func TestASumIsRightHoweverItsBytesCome(t *testing.T) {
	t.Parallel()
	whole := sealed(bytes.Repeat([]byte("0123456789"), 20))
	for _, step := range []int{1, 7, 19, 20, 21, 64, len(whole)} {
		s := pack.NewSum()
		for b := whole; len(b) > 0; b = b[min(step, len(b)):] {
			_, _ = s.Write(b[:min(step, len(b))])
		}
		if sum, err := s.Check(); err != nil || !bytes.Equal(sum[:], whole[len(whole)-20:]) {
			t.Errorf("by %d: %s, %v", step, sum, err)
		}
	}
	if _, err := pack.NewSum().Check(); err == nil {
		t.Error("nothing has a sum")
	}
}

var _ io.Writer = (*pack.Sum)(nil)
