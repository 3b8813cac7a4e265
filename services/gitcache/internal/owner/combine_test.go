package owner

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace/noop"

	"fairlead.dev/platform/catalog"
	"fairlead.dev/platform/coordination"
	"fairlead.dev/services/gitcache/internal/combination"
	"fairlead.dev/services/gitcache/internal/fetch"
	"fairlead.dev/services/gitcache/internal/fetch/gitwire"
	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/metrics"
	"fairlead.dev/services/gitcache/internal/mirror"
	"fairlead.dev/services/gitcache/internal/pause"
	"fairlead.dev/services/gitcache/internal/source"
	"fairlead.dev/services/gitcache/internal/upstream"
)

// record is a console that keeps what is published.
type record struct {
	away      bool
	claimed   source.Problem // that was published before
	published []Publication
}

func (r *record) Claim(context.Context, string, string, string) (Claimed, error) {
	if r.away {
		return Claimed{}, errors.New("away")
	}
	return Claimed{Epoch: 1, Problem: r.claimed}, nil
}

func (r *record) Publish(_ context.Context, p Publication) error {
	r.published = append(r.published, p)
	return nil
}

func (*record) Credentials(context.Context, string) (upstream.Credentials, error) {
	return upstream.Credentials{}, nil
}

// silent is a host that answers nothing.
type silent struct{ fetch.Fetcher }

func (silent) List(context.Context, upstream.Remote, gitwire.Names) (*gitwire.Listing, error) {
	return nil, &upstream.Error{Kind: upstream.KindUnreachable, Message: "the host is down"}
}

// newCombining is a tenure of a source whose host is down, with a combination to make of what was fetched before. open
// is called for its parts.
func newCombining(t *testing.T, console Console, open func()) *tenure {
	t.Helper()
	counted, err := metrics.New(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	mirrors, err := mirror.Open(t.TempDir(), log)
	if err != nil {
		t.Fatal(err)
	}
	m, err := mirrors.Mirror("u1")
	if err != nil {
		t.Fatal(err)
	}
	coordinator, err := coordination.Open("memory:")
	if err != nil {
		t.Fatal(err)
	}
	lease, err := coordinator.Acquire(t.Context(), LeaseKey("u1"), "one", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	o := New(Config{Replica: "one", Dir: t.TempDir()}, Deps{
		Console: console, Fetcher: silent{}, Mirrors: mirrors,
		Metrics: counted, Tracer: noop.NewTracerProvider().Tracer(""), Log: log,
		OpenPart: func(context.Context, combination.PartQuery) (io.ReadCloser, error) {
			open()
			return nil, errors.New("it can't be read")
		},
	})
	fetched := mirror.Head{Ref: source.RefHead, Commit: git.Hash{1}, FetchTime: time.Now()}
	part := func(name, uid string) source.Part {
		return source.Part{Name: name, Source: name, UID: uid, Ref: source.RefHead, Head: fetched, Folders: []source.PartFolder{{Path: "."}}}
	}
	s := source.Source{
		Name: "shop", UID: "u1", URL: "https://git.example.com/shop.git", IsCurrent: true,
		Wants: map[string]int{source.RefHead: 1},
		Combinations: map[string]source.Combination{
			catalog.CombinationPrefix + "1": {Parts: []source.Part{part("shop", "u1"), part("values", "u2")}},
		},
	}
	return &tenure{
		loop: newLoop(o, s), lease: lease, mirror: m, work: newWork(),
		heads: map[string]mirror.Head{source.RefHead: fetched}, seen: map[string]bool{},
		dirty: true, answers: map[lookOf]looked{}, lookPauses: pause.Pauses{},
	}
}

func (t *tenure) mustStep(tt *testing.T) {
	tt.Helper()
	if err := t.takeStep(tt.Context()); err != nil {
		tt.Fatal(err)
	}
}

// A ref that no service has named before is fetched within a second: until then nothing is wrong with services that need
// it for a combination, unless its source says so.
func TestACombinationWaitsForItsSourcesWithoutAProblem(t *testing.T) {
	t.Parallel()
	tn := newCombining(t, &record{}, func() {})
	ref := catalog.CombinationPrefix + "1"
	for problem, want := range map[string]int{"": 0, "there is no such ref": 1} {
		parts := []source.Part{
			{Name: "shop", Source: "shop", UID: "u1", Ref: source.RefHead},
			{Name: "values", Source: "values", UID: "u2", Ref: "refs/heads/dev", Problem: problem},
		}
		c := &combining{t: tn, s: source.Source{Name: "shop", UID: "u1"}, heads: map[string]mirror.Head{}}
		tn.apart = nil
		c.combineOne(t.Context(), ref, source.Combination{Parts: parts})
		if !c.isLacking || len(tn.apart) != want {
			t.Errorf("with %q the combination lacks something: %v, and the problems are %v", problem, c.isLacking, tn.apart)
		}
	}
}

// What a poll found is not kept back by combinations, which may take a minute.
func TestAPollIsPublishedBeforeCombinationsAreMade(t *testing.T) {
	t.Parallel()
	console, before := &record{}, 0
	tn := newCombining(t, console, func() { before = len(console.published) })
	tn.mustStep(t)
	if before != 1 || !strings.Contains(console.published[0].Problem.Message, "the host is down") {
		t.Fatalf("%d publications came before, of %+v", before, console.published)
	}
	last := console.published[len(console.published)-1].Problem
	if len(console.published) != 2 || len(last.Single) != 1 ||
		!strings.Contains(last.Single[0].Message, "it can't be read") {
		t.Errorf("published are %+v", console.published)
	}
}

// Until the first poll of a tenure what the last owner told of the source stands.
func TestCombinationsWaitForTheFirstPoll(t *testing.T) {
	t.Parallel()
	console, opened := &record{}, 0
	tn := newCombining(t, console, func() { opened++ })
	tn.pollAt, tn.combineAt = time.Now().Add(time.Hour), time.Now()
	tn.mustStep(t)
	if opened != 0 || len(console.published) != 0 {
		t.Fatalf("%d parts were opened, published are %+v", opened, console.published)
	}
	signalOnce(tn.loop.parts)
	if err := tn.waitForDue(t.Context()); err != nil {
		t.Fatal(err)
	}
	tn.pollAt = time.Now() // minPause is not what is tested
	tn.mustStep(t)
	if opened == 0 {
		t.Error("news of the parts bring no poll")
	}
}

// Without an epoch nobody knows which combinations were published: an older one must not be told for the newest.
func TestCombinationsWaitForAnEpoch(t *testing.T) {
	t.Parallel()
	console, opened := &record{away: true}, 0
	tn := newCombining(t, console, func() { opened++ })
	tn.mustStep(t)
	if opened != 0 {
		t.Fatal("a combination is made without an epoch")
	}
	console.away, tn.pollAt, tn.publishAt = false, time.Now().Add(time.Hour), time.Now()
	tn.mustStep(t)
	if opened == 0 {
		t.Error("with an epoch no combination is made")
	}
}

// A problem of a combination outlasts the gitcache that found it, also where the next one meets the console only after
// its first poll.
func TestAProblemOfACombinationKeepsItsBeginningOverARestart(t *testing.T) {
	t.Parallel()
	first := &record{claimed: source.Problem{Single: []source.RefProblem{{Ref: source.RefHead, Message: `source "shop": HEAD is no commit`}}}}
	newCombining(t, first, func() {}).mustStep(t)
	before := first.published[len(first.published)-1].Problem
	if len(before.Single) != 3 { // of the ref, and of the combination because of it and by itself
		t.Fatalf("published is %+v", before)
	}
	began := time.Now().Add(-time.Hour)
	before.Since = began
	for i := range before.Single {
		before.Single[i].Since = began
	}
	for _, comesLate := range []bool{false, true} {
		second := &record{away: comesLate, claimed: before}
		tn := newCombining(t, second, func() {})
		tn.mustStep(t)
		if comesLate {
			second.away, tn.pollAt, tn.publishAt = false, time.Now().Add(time.Hour), time.Now()
			tn.mustStep(t)
		}
		if len(second.published) == 0 {
			t.Fatalf("late %t: nothing is published", comesLate)
		}
		for i, p := range second.published {
			if !p.Problem.Equal(before) {
				t.Errorf("late %t: publication %d tells %+v, want %+v", comesLate, i, p.Problem, before)
			}
		}
	}
}

// A catalog from the disk says nothing of combinations: what was wrong with them stays until the console confirms it.
func TestAProblemOfACombinationStaysUntilTheCatalogIsCurrent(t *testing.T) {
	t.Parallel()
	ref := catalog.CombinationPrefix + "1"
	was := source.RefProblem{Ref: ref, Message: `source "shop": it can't be read`, Since: time.Now().Add(-time.Hour)}
	console := &record{claimed: source.Problem{Message: was.Message, Since: was.Since, Refs: []string{ref}, Single: []source.RefProblem{was}}}
	tn := newCombining(t, console, func() {})
	tn.loop.source.IsCurrent = false
	tn.mustStep(t)
	last := console.published[len(console.published)-1].Problem
	if len(last.Single) != 1 || !last.Single[0].Since.Equal(was.Since) {
		t.Errorf("published is %+v", last)
	}
	tn.loop.source.IsCurrent, tn.loop.source.Combinations = true, nil
	tn.combineAt = time.Now()
	tn.mustStep(t)
	if last = console.published[len(console.published)-1].Problem; len(last.Single) != 0 {
		t.Errorf("of no combination published is %+v", last)
	}
}
