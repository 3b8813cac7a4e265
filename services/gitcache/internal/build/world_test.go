package build

import (
	"bytes"
	"io"
	"log/slog"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace/noop"

	"fairlead.dev/platform/artifact"
	"fairlead.dev/platform/pathrules"
	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/gittest"
	"fairlead.dev/services/gitcache/internal/mirror"
)

// world is a builder over the mirror "u1" of a repository.
type world struct {
	t       testing.TB
	repo    *gittest.Repo
	mirror  *mirror.Mirror
	mirrors *mirror.Mirrors
	store   *artifact.Store
	builder *Builder
	builds  atomic.Int32
}

func newWorld(t testing.TB, storeBytes int64) *world {
	t.Helper()
	w := &world{t: t, repo: gittest.NewServer(t).NewRepo(t, "x.git")}
	log := slog.New(slog.DiscardHandler)
	var err error
	if w.mirrors, err = mirror.Open(t.TempDir(), log); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.mirrors.Close)
	if w.mirror, err = w.mirrors.Mirror("u1"); err != nil {
		t.Fatal(err)
	}
	if w.store, err = artifact.OpenStore(t.TempDir(), artifact.Options{MaxBytes: storeBytes}); err != nil {
		t.Fatal(err)
	}
	w.open(t.TempDir())
	return w
}

// open makes a builder with the memo in dir, as after a start.
func (w *world) open(dir string) {
	w.t.Helper()
	b, err := New(dir, Deps{
		Mirrors: w.mirrors, Store: w.store, Log: slog.New(slog.DiscardHandler),
		Observe: func(time.Duration, error) { w.builds.Add(1) }, Tracer: noop.NewTracerProvider().Tracer(""),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = b.Close() })
	w.builder = b
}

// fetch brings all that the repository has into the mirror.
func (w *world) fetch() {
	w.t.Helper()
	cmd := exec.CommandContext(w.t.Context(), "git", "-C", w.repo.URLOnDisk(), "pack-objects", "--stdout", "--quiet")
	cmd.Stdin = strings.NewReader(w.repo.Bare("cat-file", "--batch-all-objects", "--batch-check=%(objectname)") + "\n")
	pack, err := cmd.Output()
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := w.mirror.AddPack(w.t.Context(), bytes.NewReader(pack)); err != nil {
		w.t.Fatal(err)
	}
}

// commit makes files the content of main, and fetches it.
func (w *world) commit(files gittest.Files) git.Hash {
	w.t.Helper()
	id := git.HashOf(w.repo.Commit("x", files))
	w.fetch()
	return id
}

func place(commit git.Hash, path string) Place {
	return Place{Source: "u1", Commit: commit, Path: path}
}

// filtered is a place with rules.
func filtered(t testing.TB, p Place, include, ignore []string) Place {
	t.Helper()
	r, err := pathrules.Parse(include, ignore)
	if err != nil {
		t.Fatal(err)
	}
	p.Filter = r.Canonical()
	return p
}

func (w *world) resolve(p Place) Built {
	w.t.Helper()
	b, err := w.builder.Resolve(w.t.Context(), p)
	if err != nil {
		w.t.Fatal(err)
	}
	return b
}

// files of an artifact, as it is downloaded.
func (w *world) files(d artifact.Digest) map[string]string {
	w.t.Helper()
	blob, err := w.store.Fill(w.t.Context(), d, w.builder.Open)
	if err != nil {
		w.t.Fatal(err)
	}
	defer blob.Close()
	files := map[string]string{}
	err = artifact.Walk(blob, artifact.Limits{}, func(e artifact.Entry, r io.Reader) error {
		b, err := io.ReadAll(r)
		files[e.Path] = string(b) + e.Link
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return files
}
