package proxy

import (
	"testing"
	"time"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/identity"
)

// slowCatalog is one that takes its time over a cluster.
type slowCatalog struct {
	asked  chan struct{}
	answer chan struct{}
}

func (c slowCatalog) Ready() error { return nil }

func (c slowCatalog) Cluster(string) (*consolev1.Cluster, bool) {
	c.asked <- struct{}{}
	<-c.answer
	return &consolev1.Cluster{Metadata: &consolev1.Metadata{Name: "edge-1"}}, true
}

func (c slowCatalog) Grants() []*consolev1.Grant     { return nil }
func (c slowCatalog) Roles() []*consolev1.Role       { return nil }
func (c slowCatalog) Projects() []*consolev1.Project { return nil }

// Thousands of grants take a while to judge thousands of streams by: requests begin and end meanwhile.
func TestRequestsBeginAndEndWhileStreamsAreJudged(t *testing.T) {
	t.Parallel()
	catalog := slowCatalog{make(chan struct{}), make(chan struct{})}
	h := New(Deps{Catalog: catalog})
	bob := identity.Identity{Kind: identity.KindUser, Name: "bob"}
	judged := &exchange{handler: h, cluster: "edge-1", user: bob}
	ctx, stop := h.standWhileAllowed(t.Context(), judged)
	defer stop()
	over := make(chan struct{})
	go func() {
		defer close(over)
		h.Judge()
	}()
	<-catalog.asked
	begun := make(chan struct{})
	go func() {
		defer close(begun)
		_, stop := h.standWhileAllowed(t.Context(), &exchange{handler: h, cluster: "edge-1", user: bob})
		stop()
	}()
	select {
	case <-begun:
	case <-time.After(20 * time.Second):
		t.Error("a request waits for the judgement of others")
	}
	catalog.answer <- struct{}{}
	<-over
	<-begun
	if ctx.Err() == nil || judged.endedError() == nil {
		t.Error("a request that no grant allows goes on")
	}
}
