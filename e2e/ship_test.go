package e2e

import (
	"context"
	"testing"
	"time"
)

// patience bounds what waits for a commit to travel on a machine that runs much else: tests start up to seven clusters
// at once.
const patience = 10 * time.Minute

func TestCommitReachesEveryClusterAndComesBackHealthy(t *testing.T) {
	t.Parallel()
	s := shared(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()

	ship, err := s.NewShip(ctx, "ship", "ship")
	if err != nil {
		t.Fatal(err)
	}
	if err := ship.WaitApplied(ctx, "first"); err != nil {
		t.Fatal(err)
	}
	took, err := ship.Deliver(ctx, "second")
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("applied in both clusters %.2f s after the push", took.Seconds())

	// An object that leaves the folder leaves the clusters.
	if _, err := ship.PushFiles(ctx, "no web", map[string]string{"web.yaml": ""}); err != nil {
		t.Fatal(err)
	}
	if err := ship.WaitGone(ctx, "deployment", "web"); err != nil {
		t.Fatal(err)
	}
}

func TestDeletedServiceLeavesTheCluster(t *testing.T) {
	t.Parallel()
	s := shared(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()

	ship, err := s.NewShip(ctx, "leave", "leave")
	if err != nil {
		t.Fatal(err)
	}
	if err := ship.WaitApplied(ctx, "first"); err != nil {
		t.Fatal(err)
	}
	for _, c := range s.Clusters {
		if _, err := s.Fairlead(ctx, "delete", "service", ship.Service(c), "--yes"); err != nil {
			t.Fatal(err)
		}
	}
	if err := ship.WaitGone(ctx, "configmap", "marker"); err != nil {
		t.Fatal(err)
	}
}
