package origin_test

import (
	"bytes"
	"context"
	"log/slog"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace/noop"
	"go.uber.org/goleak"

	"fairlead.dev/platform/artifact"
	"fairlead.dev/services/gitcache/internal/build"
	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/gittest"
	"fairlead.dev/services/gitcache/internal/mirror"
	"fairlead.dev/services/gitcache/internal/origin"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// hub is the catalog, and the other replicas: what lies behind the network.
type hub struct {
	mu      sync.Mutex // guards what follows
	sources map[string]origin.Source
	asked   []origin.Query
	answer  func(origin.Query) origin.Answer // nil: nobody is there
}

func (h *hub) Source(name string) (origin.Source, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s, ok := h.sources[name]
	return s, ok
}

func (h *hub) Published() []origin.Source {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []origin.Source
	for _, s := range h.sources {
		if len(s.Heads) > 0 {
			all = append(all, s)
		}
	}
	return all
}

func (h *hub) Resolve(_ context.Context, _ string, queries []origin.Query) ([]origin.Answer, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked = append(h.asked, queries...)
	if h.answer == nil {
		return nil, origin.ErrNoOwner
	}
	answers := make([]origin.Answer, 0, len(queries))
	for _, q := range queries {
		answers = append(answers, h.answer(q))
	}
	return answers, nil
}

// world is a replica with an empty mirror of source "shop", u1, and a repository.
type world struct {
	*hub
	t      *testing.T
	repo   *gittest.Repo
	mirror *mirror.Mirror
	origin *origin.Origin
	owned  bool
	keeps  bool
}

func newWorld(t *testing.T) *world {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	w := &world{
		t: t, repo: gittest.NewServer(t).NewRepo(t, "x.git"),
		hub: &hub{sources: map[string]origin.Source{"shop": {UID: "u1"}}}, keeps: true,
	}
	mirrors, err := mirror.Open(t.TempDir(), log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(mirrors.Close)
	if w.mirror, err = mirrors.Mirror("u1"); err != nil {
		t.Fatal(err)
	}
	store, err := artifact.OpenStore(t.TempDir(), artifact.Options{})
	if err != nil {
		t.Fatal(err)
	}
	builder, err := build.New(t.TempDir(), build.Deps{
		Mirrors: mirrors, Store: store, Tracer: noop.NewTracerProvider().Tracer(""), Log: log,
		Observe: func(time.Duration, error) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = builder.Close() })
	w.origin = origin.New(origin.Deps{
		Catalog: w.hub, Mirrors: mirrors, Builder: builder, Peers: w.hub,
		Owned: func(string) bool { return w.owned }, Epoch: func(string) int64 { return 0 }, Repair: func(string) {},
		Keeps: func(string) bool { return w.keeps },
	})
	return w
}

// fetch brings a commit into the mirror.
func (w *world) fetch(commit string) {
	w.t.Helper()
	cmd := exec.CommandContext(w.t.Context(), "git", "-C", w.repo.URLOnDisk(), "pack-objects",
		"--revs", "--stdout", "--quiet")
	cmd.Stdin = strings.NewReader(commit + "\n")
	pack, err := cmd.Output()
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := w.mirror.AddPack(w.t.Context(), bytes.NewReader(pack)); err != nil {
		w.t.Fatal(err)
	}
}

// publish makes a commit the published head of a ref.
func (w *world) publish(ref, commit string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.sources["shop"]
	s.Heads = []mirror.Head{{Ref: ref, Commit: git.HashOf(commit)}}
	w.sources["shop"] = s
}

func (w *world) ask(q origin.Query, forwarded bool) origin.Answer {
	w.t.Helper()
	q.Source = "shop"
	answers, err := w.origin.Resolve(w.t.Context(), []origin.Query{q}, forwarded)
	if err != nil {
		w.t.Fatal(err)
	}
	return answers[0]
}

func TestWhatIsNotHereIsAskedOfOthersByItsCommit(t *testing.T) {
	t.Parallel()
	for _, owned := range []bool{false, true} { // an owner's disk may be new
		w := newWorld(t)
		w.owned = owned
		commit := w.repo.Commit("one", gittest.Files{"a": "1"})
		w.publish("refs/heads/main", commit)
		w.answer = func(q origin.Query) origin.Answer { return origin.Answer{SourceID: "theirs of " + q.Revision} }
		q := origin.Query{Revision: "refs/heads/main", Path: "x", Include: []string{"*.yaml"}, Ignore: []string{"b"}}
		if got := w.ask(q, false); got.Err != nil || got.SourceID != "theirs of "+commit {
			t.Errorf("got %+v", got)
		}
		if asked := w.asked[0]; asked.Path != "x" || len(asked.Include) != 1 || len(asked.Ignore) != 1 {
			t.Errorf("asked %+v", asked)
		}
		if got := w.ask(origin.Query{Revision: "semver:>1"}, false); got.SourceID != "theirs of semver:>1" {
			t.Errorf("a ref that only they know: %+v", got)
		}
		if got := w.ask(q, true); got.Err == nil || got.Err.Reason != origin.NotFetched || len(w.asked) != 2 {
			t.Errorf("what another replica asks is handed on: %+v", got)
		}
	}
}

func TestAnAnswerThatSaysNoMoreIsNotTaken(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	commit := w.repo.Commit("one", gittest.Files{"a": "1"})
	for reason, taken := range map[origin.Reason]bool{
		origin.Internal: false, origin.UnknownSource: false, origin.NotFetched: false, origin.PathNotFound: true,
		origin.Refused: true,
	} {
		w.answer = func(origin.Query) origin.Answer {
			return origin.Answer{Err: &origin.Error{Reason: reason, Message: "theirs"}}
		}
		if got := w.ask(origin.Query{Revision: commit}, false).Err; (got.Message == "theirs") != taken {
			t.Errorf("%v: %v", reason, got)
		}
	}
	w.answer = nil
	if got := w.ask(origin.Query{Revision: commit}, false).Err; got.Reason != origin.NotFetched ||
		!strings.Contains(got.Message, commit) {
		t.Errorf("nobody there: %v", got)
	}
}

func TestWhatIsHereIsNotAskedOfOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	commit := w.repo.Commit("one", gittest.Files{"a": "1"})
	w.fetch(commit)
	w.publish("semver:>=1.0.0", commit)
	for _, revision := range []string{commit, "semver:>=1.0.0"} {
		if got := w.ask(origin.Query{Revision: revision}, false); got.Err != nil || got.Artifact.Files != 1 ||
			got.Head.Commit.String() != commit {
			t.Errorf("%s: %+v", revision, got)
		}
	}
	for _, q := range []origin.Query{
		{Revision: commit, Path: "no"},
		{Revision: commit, Ignore: []string{"*"}},
		{Revision: commit, Include: []string{"["}},
	} {
		if got := w.ask(q, false); got.Err == nil {
			t.Errorf("%+v: %+v", q, got)
		}
	}
	if len(w.asked) != 0 {
		t.Errorf("asked %v", w.asked)
	}
}

func TestASubmoduleThatIsNotHereIsNamedAndAskedOfOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	commit := w.repo.SetMain(w.repo.Tree(gittest.TreeEntry{
		Mode: "160000", Name: "vendor",
		ID: strings.Repeat("12", 20),
	}))
	w.fetch(commit)
	if got := w.ask(origin.Query{Revision: commit}, false).Err; got.Reason != origin.Refused ||
		!strings.Contains(got.Message, "submodules: true") {
		t.Errorf("without submodules: %v", got)
	}
	w.sources["shop"] = origin.Source{UID: "u1", Submodules: true}
	got := w.ask(origin.Query{Revision: commit}, false).Err
	if got.Reason != origin.NotFetched || !strings.Contains(got.Message, `"vendor"`) || len(w.asked) != 1 {
		t.Errorf("%v; asked %v", got, w.asked)
	}
}

func TestAnEmptyReplicaIsNotReady(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if err := w.origin.Ready(); err != nil {
		t.Errorf("nothing is published: %v", err)
	}

	w = newWorld(t)
	commit := w.repo.Commit("one", gittest.Files{"a": "1"})
	w.publish("HEAD", commit)
	if err := w.origin.Ready(); err == nil {
		t.Error("it has nothing and is ready")
	}
	w.fetch(commit)
	if err := w.origin.Ready(); err != nil {
		t.Errorf("it has what is published: %v", err)
	}
	w.publish("HEAD", strings.Repeat("12", 20))
	if err := w.origin.Ready(); err != nil {
		t.Errorf("one that was ready waits for a fetch: %v", err)
	}

	w = newWorld(t)
	w.publish("HEAD", commit)
	w.keeps = false
	if err := w.origin.Ready(); err != nil {
		t.Errorf("it should hold nothing: %v", err)
	}
}
