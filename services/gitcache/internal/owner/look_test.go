package owner

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace/noop"

	"fairlead.dev/services/gitcache/internal/fetch/gitwire"
	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/metrics"
	"fairlead.dev/services/gitcache/internal/pack"
	"fairlead.dev/services/gitcache/internal/pause"
	"fairlead.dev/services/gitcache/internal/source"
	"fairlead.dev/services/gitcache/internal/upstream"
)

// tooLarge is a host each pack of which breaks a limit.
type tooLarge struct{ fetches int }

func (*tooLarge) List(context.Context, upstream.Remote, gitwire.Names) (*gitwire.Listing, error) {
	return &gitwire.Listing{}, nil
}

func (f *tooLarge) Fetch(context.Context, upstream.Remote, *gitwire.Listing, []git.Hash, upstream.Target) (int64, error) {
	f.fetches++
	return 0, errors.Join(&upstream.Error{Kind: upstream.KindContent, Message: "too large"}, &pack.LimitError{})
}

// A person may look at any branch: one whose pack breaks a limit must not hold back what services follow.
func TestALookThatBreaksALimitHoldsNoPollBack(t *testing.T) {
	t.Parallel()
	counted, err := metrics.New(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	host := &tooLarge{}
	o := New(Config{}, Deps{Fetcher: host, Metrics: counted, Tracer: noop.NewTracerProvider().Tracer("")})
	tn := &tenure{loop: newLoop(o, source.Source{Name: "shop"}), work: newWork(), lookPauses: pause.Pauses{}}
	fetches := func(commit string) bool {
		before := host.fetches
		if err := tn.fetchInto(t.Context(), upstream.Remote{URL: &url.URL{Scheme: "https", Host: "git.example.com"}}, nil, []git.Hash{git.HashOf(commit)}, nil); err == nil {
			t.Fatal("a pack that breaks a limit is taken")
		}
		return host.fetches > before
	}
	look := func(commit string) bool {
		defer tn.setAside()()
		return fetches(commit)
	}
	if !look("01") {
		t.Fatal("the first look fetches nothing")
	}
	if look("01") || look("02") {
		t.Error("looks go on fetching from a repository whose packs break a limit")
	}
	if !fetches("03") {
		t.Error("a look holds the polls back")
	}
	tn.pauses.Add("submodule", errors.New("down"), pause.Most)
	func() {
		defer tn.setAside()()
		for i := range 1000 {
			tn.pauses.Add(fmt.Sprint(i), errors.New("down"), pause.Most)
		}
	}()
	if tn.pauses.Check("submodule") == nil {
		t.Error("looks have polls try again at once what did not work")
	}
}
