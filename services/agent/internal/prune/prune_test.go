package prune

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fairlead.dev/services/agent/internal/apply"
	"fairlead.dev/services/agent/internal/inventory"
	"fairlead.dev/services/agent/internal/object"
)

// stuck is a cluster with one object of ours that was deleted and does not go.
type stuck struct {
	API

	since time.Time
}

func (s stuck) Metadata(context.Context, object.Ref) (*metav1.PartialObjectMetadata, error) {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		UID: "1", Labels: map[string]string{object.ServiceLabel: "shop"}, Finalizers: []string{"harbour.dev/hold"}, DeletionTimestamp: &metav1.Time{Time: s.since},
	}}, nil
}

func TestFinalizerPastItsDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		p := New(stuck{since: begin}, nil, apply.NewWidth())
		entries := []inventory.Entry{
			{Ref: object.Ref{Key: object.Key{Kind: "ConfigMap", Namespace: "shop", Name: "held"}, Version: "v1"}, UID: "1"},
			{Ref: object.Ref{Key: object.Key{Kind: "Namespace", Name: "shop"}, Version: "v1"}, UID: "1"},
		}
		left := p.Prune(t.Context(), "shop", entries)
		if time.Since(begin) != 0 {
			t.Errorf("it waited for %s", time.Since(begin))
		}
		if len(left) != 2 || left[0].Why != "waits for its finalizers: harbour.dev/hold" || left[1].Why != "waits for the objects that have to go before it" {
			t.Errorf("got %v", left)
		}
		<-time.After(finalizerPatience + time.Second)
		left = p.Prune(t.Context(), "shop", entries[:1])
		if want := "waits for its finalizers since " + begin.UTC().Format(time.RFC3339) + ": harbour.dev/hold. See to it that what should take them off runs, or take them off"; len(left) != 1 || left[0].Why != want {
			t.Errorf("got %v, want %s", left, want)
		}
	})
}
