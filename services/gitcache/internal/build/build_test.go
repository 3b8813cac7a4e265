package build

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace/noop"
	"go.uber.org/goleak"

	"fairlead.dev/platform/artifact"
	"fairlead.dev/platform/parallel"
	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/gittest"
	"fairlead.dev/services/gitcache/internal/mirror"
)

func TestMain(m *testing.M) {
	parallel.WaitingTests()
	goleak.VerifyTestMain(m)
}

// newBuilder has a mirror of a commit with the file deploy/a, as source "u1".
func newBuilder(t *testing.T) (*Builder, git.Hash) {
	t.Helper()
	repo := gittest.NewServer(t).NewRepo(t, "x.git")
	id := git.HashOf(repo.Commit("one", gittest.Files{"deploy/a": "1"}))
	pack, err := exec.CommandContext(t.Context(), "git", "-C", repo.URLOnDisk(), "pack-objects",
		"--all", "--stdout", "--quiet").Output()
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	mirrors, err := mirror.Open(t.TempDir(), log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(mirrors.Close)
	m, err := mirrors.Mirror("u1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.AddPack(t.Context(), bytes.NewReader(pack)); err != nil {
		t.Fatal(err)
	}
	store, err := artifact.OpenStore(t.TempDir(), artifact.Options{Log: log})
	if err != nil {
		t.Fatal(err)
	}
	b, err := New(t.TempDir(), Deps{
		Mirrors: mirrors, Store: store, Log: log, Observe: func(time.Duration, error) {},
		Tracer: noop.NewTracerProvider().Tracer(""),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b, id
}

func TestACancelledFirstCallerDoesNotFailTheOthers(t *testing.T) {
	t.Parallel()
	b, commit := newBuilder(t)
	place := Place{Source: "u1", Commit: commit, Path: "deploy"}
	for range builders {
		b.builds.all <- struct{}{} // all builders are busy
	}
	first, cancel := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	go func() {
		_, err := b.Resolve(first, place)
		gone <- err
	}()
	cancel()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Fatalf("the first caller got %v", err)
	}
	second := make(chan error, 1)
	go func() {
		_, err := b.Resolve(t.Context(), place)
		second <- err
	}()
	for range builders {
		<-b.builds.all
	}
	if err := <-second; err != nil {
		t.Errorf("the second caller got %v", err)
	}
}

// Content can be made so that every build of it takes as long as one may.
func TestASourceWithBuildsThatTakeLongIsInNobodysWay(t *testing.T) {
	t.Parallel()
	b, commit := newBuilder(t)
	for range sourceBuilders {
		leave, err := b.builds.takeTurn(t.Context(), "evil")
		if err != nil {
			t.Fatal(err)
		}
		defer leave()
	}
	waiting := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_, err := b.builds.takeTurn(ctx, "evil")
		waiting <- err
	}()
	if _, err := b.Resolve(t.Context(), Place{Source: "u1", Commit: commit, Path: "deploy"}); err != nil {
		t.Error(err)
	}
	cancel()
	if err := <-waiting; !errors.Is(err, context.Canceled) {
		t.Errorf("one more build of the same source: %v", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.builds.sources) != 1 || b.builds.sources["evil"].users != sourceBuilders {
		t.Errorf("turns of %d sources are remembered", len(b.builds.sources))
	}
}

func TestCloseEndsBuildsThatWait(t *testing.T) {
	t.Parallel()
	b, commit := newBuilder(t)
	for range builders {
		b.builds.all <- struct{}{}
	}
	done := make(chan error, 1)
	go func() {
		_, err := b.Resolve(context.Background(), Place{Source: "u1", Commit: commit})
		done <- err
	}()
	for b.places.countPlaces() == 0 {
		runtime.Gosched()
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestSourceIDSeparatesWhatDiffers(t *testing.T) {
	t.Parallel()
	seen := map[key]bool{}
	for _, source := range []string{"a", "ab"} {
		for _, id := range []git.Hash{{1}, {2}} {
			seen[(content{source: source, tree: id}).sourceID()] = true
		}
	}
	if len(seen) != 4 {
		t.Errorf("%d ids for 4 contents", len(seen))
	}
	const want = "sha256:d38273bb59772f97" // the format is part of what replicas agree on
	if got := (content{source: "u1", tree: git.HashOf("4b825dc642cb6eb9a060e54bf8d69288fbee4904")}).sourceID().String(); !strings.HasPrefix(got, want) {
		t.Errorf("the format has changed: %s", got)
	}
}

func TestATornMemoKeepsWhatIsWhole(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "memo")
	m, err := openMemo(path, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	digest := artifact.Digest("sha256:" + strings.Repeat("ab", 32))
	for id := 1; id <= 3; id++ {
		r := recordOf("u1", id)
		r.Digest = digest
		if err := m.putRecord(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.closeFile(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b = bytes.Replace(b, []byte(idOf(2).String()), []byte(idOf(4).String()), 1) // a flipped line, and a torn one
	if err := os.WriteFile(path, b[:len(b)-10], 0o600); err != nil {
		t.Fatal(err)
	}
	again, err := openMemo(path, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer again.closeFile()
	for id, want := range map[int]bool{1: true, 2: false, 4: false, 3: false} {
		if _, ok := again.getRecord(idOf(id)); ok != want {
			t.Errorf("%d is known: %v", id, ok)
		}
	}
}
