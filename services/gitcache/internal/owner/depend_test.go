package owner

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"fairlead.dev/services/gitcache/internal/depend"
	"fairlead.dev/services/gitcache/internal/mirror"
)

// A repository whose versions begin with v has the version that a chart wants without it, as for Helm, and the other way round.
func TestVersionsAreTheSameWithAndWithoutV(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		has, wants string
		is         bool
	}{
		{"v1.17.0", "1.17.0", true}, {"1.17.0", "v1.17.0", true}, {"1.17.0", "1.17.0", true},
		{"v1.17.1", "1.17.0", false}, {"1.16.0", "v1.17.0", false}, {"1.17.0+a", "1.17.0+b", false}, {"1.17.0-rc.1", "1.17.0", false},
	} {
		if got := isVersion(tc.has, tc.wants); got != tc.is {
			t.Errorf("%s for %s: %t", tc.has, tc.wants, got)
		}
	}
}

func chart(i int, host string) depend.Chart {
	return depend.Chart{Name: fmt.Sprint("db", i), Version: "1.0.0", Repository: "https://" + host}
}

func TestDependenciesOfASourceHaveALimit(t *testing.T) {
	t.Parallel()
	d := &dependencies{s: Source{Allow: []string{"a.example.com"}}, needed: map[string]bool{}}
	for i := range maxNeeded {
		if err := d.admit(chart(i, "a.example.com")); err != nil {
			t.Fatalf("the %dth: %v", i+1, err)
		}
		d.needed[chart(i, "a.example.com").Ref()] = true
	}
	if err := d.admit(chart(0, "a.example.com")); err != nil {
		t.Errorf("a chart that another folder needs too: %v", err)
	}
	if err := d.admit(chart(maxNeeded, "a.example.com")); err == nil || !strings.Contains(err.Error(), fmt.Sprint(maxNeeded)) {
		t.Errorf("one more: %v", err)
	}
}

// A host that is not allowed any more is told, also where the chart is here.
func TestAHostThatIsNotAllowedIsRefused(t *testing.T) {
	t.Parallel()
	d := &dependencies{s: Source{Allow: []string{"a.example.com"}}, needed: map[string]bool{}}
	if err := d.admit(chart(1, "b.example.com")); err == nil || !strings.Contains(err.Error(), "b.example.com") {
		t.Errorf("got %v", err)
	}
}

// Until it is known which charts are needed, none is dropped: commits settle before that.
func TestHeadsOfDependenciesStayUntilTheNeedIsKnown(t *testing.T) {
	t.Parallel()
	tn := newTenure(Source{})
	tn.heads = map[string]mirror.Head{}
	for i := range 2 * maxDependencies {
		ref := chart(i, "a.example.com").Ref()
		tn.heads[ref] = mirror.Head{Ref: ref}
	}
	for want, needed := range map[int]map[string]bool{2 * maxDependencies: nil, maxDependencies: {}} {
		heads := map[string]mirror.Head{}
		if tn.keepDependencies(heads, &plan{needed: needed}); len(heads) != want {
			t.Errorf("%d heads, want %d", len(heads), want)
		}
	}
}

// A repository that takes the time of a poll is put off, so that the next poll begins with the others.
func TestARepositoryThatTakesTheTimeOfOthersIsPutOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &dependencies{t: newTenure(Source{})}
		ctx, cancel := context.WithTimeoutCause(t.Context(), dependTime, errDependTime)
		defer cancel()
		<-ctx.Done()
		if err := d.hold(ctx, "slow", ctx.Err()); !errors.Is(err, errDependTime) || d.t.holds.check("slow") == nil {
			t.Errorf("got %v, held by %v", err, d.t.holds.check("slow"))
		}
		over, stop := context.WithCancel(t.Context())
		stop()
		if err := d.hold(over, "ended", over.Err()); !errors.Is(err, context.Canceled) || d.t.holds.check("ended") != nil {
			t.Errorf("the end of a tenure puts off: %v", err)
		}
	})
}
