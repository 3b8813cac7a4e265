package build

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"fairlead.dev/platform/artifact"
	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/gittest"
	"fairlead.dev/services/gitcache/internal/mirror"
)

// noise does not compress.
func noise(seed uint64, n int) string {
	r := rand.New(rand.NewPCG(seed, 1))
	var b strings.Builder
	for b.Len() < n {
		fmt.Fprintf(&b, "%x\n", r.Uint64())
	}
	return b.String()
}

func TestCurrentArtifactsStayInTheStore(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 200_000)
	files := gittest.Files{}
	for i := range uint64(8) {
		files[fmt.Sprintf("f%d/a", i)] = noise(i, 60_000)
	}
	commit := w.commit(files)
	built := w.resolve(place(commit, "f0"))
	w.builder.Pin(t.Context(), []Place{place(commit, "f0"), place(commit, "f1"), place(commit, "no such folder")})
	later := w.resolve(place(commit, "f1"))
	for range 2 {
		for i := range 8 {
			w.files(w.resolve(place(commit, fmt.Sprintf("f%d", i))).Artifact.Digest)
		}
	}
	if !w.store.Has(built.Artifact.Digest) || !w.store.Has(later.Artifact.Digest) {
		t.Errorf("a current artifact was evicted: %+v", w.store.Stats())
	}
	w.builder.Pin(t.Context(), nil)
	for i := range 8 {
		w.files(w.resolve(place(commit, fmt.Sprintf("f%d", 7-i))).Artifact.Digest)
	}
	if st := w.store.Stats(); st.Pinned != 0 || st.Evicted == 0 {
		t.Errorf("%+v", st)
	}
}

func TestWhatTheStoreHasNoMoreIsBuiltForADownload(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 200_000)
	commit := w.commit(gittest.Files{"a/x": noise(1, 200_000), "b/x": noise(2, 200_000)})
	a := w.resolve(place(commit, "a"))
	w.resolve(place(commit, "b"))
	if w.store.Has(a.Artifact.Digest) {
		t.Fatal("both fit")
	}
	if again := w.resolve(place(commit, "a")); again != a || w.builds.Load() != 2 {
		t.Errorf("%+v after %d builds", again, w.builds.Load())
	}
	if got := w.files(a.Artifact.Digest); got["x"] != noise(1, 200_000) {
		t.Error("wrong bytes")
	}
}

// TestADownloadIsBuiltFromAnySourceThatHasTheContent: the one that was built last may be gone.
func TestADownloadIsBuiltFromAnySourceThatHasTheContent(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 200_000)
	commit := w.commit(gittest.Files{"a/x": noise(1, 200_000), "b/x": noise(2, 200_000)})
	a := w.resolve(place(commit, "a"))
	known := w.builder.Known("u1")[0]
	known.SourceID = content{source: "gone", tree: git.HashOf(known.Tree)}.sourceID().String()
	w.builder.Learn(t.Context(), "gone", []Record{known})
	w.resolve(place(commit, "b"))
	if w.store.Has(a.Artifact.Digest) {
		t.Fatal("both fit")
	}
	if got := w.files(a.Artifact.Digest); got["x"] != noise(1, 200_000) {
		t.Error("wrong bytes")
	}
}

// TestACopyThatIsOnlyComingIsNotDoubted: what a head needs must be here, all else may be on its way.
func TestACopyThatIsOnlyComingIsNotDoubted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	commit := git.HashOf(w.repo.Commit("x", gittest.Files{"a/x": "a", "b/x": "b"}))
	blob := w.repo.Bare("rev-parse", commit.String()+":b/x")
	pack := func(objects string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", "-C", w.repo.URLOnDisk(), "pack-objects", "--stdout", "--quiet")
		cmd.Stdin = strings.NewReader(objects + "\n")
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.mirror.AddPack(t.Context(), bytes.NewReader(out)); err != nil {
			t.Fatal(err)
		}
	}
	root, b := w.repo.Bare("rev-parse", commit.String()+"^{tree}"), w.repo.Bare("rev-parse", commit.String()+":b")
	pack(strings.Join([]string{commit.String(), root, b}, "\n"))
	for _, folder := range []string{"a", "b"} {
		if _, err := w.builder.Resolve(t.Context(), place(commit, folder)); !errors.Is(err, ErrNotFetched) ||
			w.mirror.Doubted() {
			t.Errorf("half a copy, folder %q: %v", folder, err)
		}
	}
	h := mirror.Head{Ref: "HEAD", Object: commit, Commit: commit}
	if err := w.mirror.SetHeads(map[string]mirror.Head{h.Ref: h}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.builder.Resolve(t.Context(), place(commit, "b")); !errors.Is(err, ErrDamaged) ||
		!w.mirror.Doubted() {
		t.Errorf("blob %s of a head is missing: %v", blob, err)
	}
}

func TestBuildsForDownloadsAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	d := w.resolve(place(w.commit(gittest.Files{"a": noise(1, 200_000)}), "")).Artifact.Digest
	var slow []io.ReadCloser
	for range builders { // no client reads from these
		r, err := w.builder.Open(t.Context(), d)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Read(make([]byte, 1)); err != nil { // the builder is at work
			t.Fatal(err)
		}
		slow = append(slow, r)
	}
	next, err := w.builder.Open(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	var reading sync.WaitGroup
	reading.Go(func() {
		if b, err := io.ReadAll(next); err != nil || len(b) == 0 {
			t.Errorf("%d bytes, %v", len(b), err)
		}
	})
	if len(w.builder.again) != builders {
		t.Errorf("%d build", len(w.builder.again))
	}
	w.commit(gittest.Files{"b": "b"}) // builds for answers go on meanwhile
	for _, r := range slow {
		_ = r.Close()
	}
	reading.Wait()
}

func TestAWrongRecordIsFoundOutAndForgotten(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	commit := w.commit(gittest.Files{"a/x": "a", "b/x": "b"})
	a, b := w.resolve(place(commit, "a")), w.resolve(place(commit, "b"))
	known := w.builder.Known("u1")
	if len(known) != 2 || len(w.builder.Known("u2")) != 0 {
		t.Fatalf("known: %v", known)
	}
	for i := range known {
		if known[i].SourceID == a.SourceID {
			known[i].Digest = artifact.SumDigest(make([]byte, 32)) // a lie
		}
	}
	w.open(t.TempDir())
	w.builder.Learn(t.Context(), "u1", known)
	w.builder.Learn(t.Context(), "u2", known) // does not fit together
	if n := len(w.builder.Known("u2")); n != 0 {
		t.Errorf("%d records of another source were taken", n)
	}
	before := w.builds.Load()
	if got := w.resolve(place(commit, "b")); got.Artifact != b.Artifact || w.builds.Load() != before {
		t.Errorf("what was learned is not used: %+v", got)
	}
	lie := w.resolve(place(commit, "a")).Artifact.Digest
	if _, err := w.store.Fill(t.Context(), lie, w.builder.Open); !errors.Is(err, artifact.ErrCorrupt) {
		t.Errorf("the lie is served: %v", err)
	}
	if got := w.resolve(place(commit, "a")); got.Artifact != a.Artifact {
		t.Errorf("after it was found out: %+v", got)
	}
}

func TestLearnedFiltersAndSubmodulesAreUsed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	inner := w.repo.Bare("commit-tree", "-m", "inner",
		w.repo.Tree(gittest.TreeEntry{Mode: "100644", Name: "i", ID: w.repo.Object("blob", []byte("inner"))}))
	p := filtered(t, place(w.submodule(inner), ""), nil, []string{"a"})
	p.Submodules = true
	w.fetch()
	want := w.resolve(p)
	known := w.builder.Known("u1")
	for i := range known {
		known[i].Submodules = false // as it travels
	}
	store, err := artifact.OpenStore(t.TempDir(), artifact.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w.store = store
	w.open(t.TempDir())
	w.builder.Learn(t.Context(), "u1", known)
	before := w.builds.Load()
	if r, ok := w.builder.Lookup(t.Context(), p); !ok || r.Digest != want.Artifact.Digest {
		t.Errorf("%+v, %v", r, ok)
	}
	if got := w.files(w.resolve(p).Artifact.Digest); got["sub/i"] != "inner" || len(got) != 1 ||
		w.builds.Load() != before {
		t.Errorf("it holds %q after %d builds", got, w.builds.Load()-before)
	}
}
