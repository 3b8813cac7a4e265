package plan_test

import (
	"testing"
	"time"

	"fairlead.dev/services/distributor/internal/plan"
)

func TestTraceOfACommitIsToldAndIsNoNews(t *testing.T) {
	t.Parallel()
	p := plan.New(plan.Memory{})
	s := spec{name: "hello", uid: "1", cluster: "edge-1", source: "shop", path: "apps"}
	one(t, p, s, "1111111")
	point := func(commit, trace string) plan.Change {
		return p.Update(time.Unix(1, 0), func(u *plan.Update) {
			u.Source("shop", &plan.Source{
				UID:   "shop-1",
				Heads: map[string]plan.Revision{"HEAD": {Commit: commit, Traceparent: trace}},
			})
		})
	}
	point("2222222", "the trace")
	want := p.Open()[0]
	if got := p.Trace(want); got != "the trace" {
		t.Errorf("asked in trace %q", got)
	}
	change := p.Answer(time.Unix(2, 0), plan.Answer{Want: want, Artifact: content(want)})
	if got := change.Clusters["edge-1"]; got != "the trace" {
		t.Errorf("nudged in trace %q", got)
	}
	if d := change.Delivered; len(d) != 1 || !d[0].Since.Equal(time.Unix(1, 0)) ||
		d[0].Content.Revision.Traceparent != "the trace" {
		t.Errorf("delivered %v", d)
	}
	if change := point("2222222", "another"); len(change.Clusters)+len(change.Services)+len(change.Delivered)+len(change.Lines) > 0 {
		t.Errorf("another trace of the same commit is news: %+v", change)
	}
	if p.Trace(want) != "the trace" {
		t.Error("who found the commit first does not have its trace any more")
	}
	labels := p.Update(time.Unix(3, 0), func(u *plan.Update) { u.Remove("hello") })
	if got := labels.Clusters["edge-1"]; got != "" {
		t.Errorf("a removal is in trace %q", got)
	}
}
