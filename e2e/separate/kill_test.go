// Package separate tests the suite as separate processes over real Redis and PostgreSQL.
package separate

import (
	"context"
	"testing"
	"time"

	"fairlead.dev/e2e/stack"
)

const patience = 4 * time.Minute

// TestEveryPartMayDie kills each part in turn while a commit travels. After it is back the next
// commit arrives, and what the API servers saw says that nothing was applied twice or lost.
func TestEveryPartMayDie(t *testing.T) {
	t.Parallel()
	bins, err := stack.FindBinaries(t.Context(), "../..")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	s, servers := stack.Separate(ctx, t, bins)
	ship, err := s.NewShip(ctx, "ship", "ship")
	if err != nil {
		t.Fatal(err)
	}
	// Each marker is waited for before the next is pushed: two commits may become one change.
	if err := ship.WaitApplied(ctx, "first"); err != nil {
		t.Fatal(err)
	}
	if _, err := ship.Deliver(ctx, "start"); err != nil {
		t.Fatal(err)
	}

	type victim struct {
		name          string
		kill, restart func() error
	}
	var victims []victim
	for _, part := range s.Parts() {
		victims = append(victims, victim{
			part, func() error { return s.Kill(part) }, func() error { return s.Start(part) },
		})
	}
	victims = append(victims,
		victim{
			"redis", func() error { servers.Redis.Kill(); return nil },
			func() error { servers.Redis.Restart(); return nil },
		},
		victim{
			"postgres", func() error { servers.Postgres.Kill(t); return nil },
			func() error { servers.Postgres.Restart(t); return nil },
		},
	)
	for _, v := range victims {
		// Not t.Run: each step stands on the one before, and a failure ends the test.
		ctx, cancel := context.WithTimeout(ctx, patience)
		if err := killDuringCommit(ctx, ship, v.name, v.kill, v.restart); err != nil {
			t.Fatalf("%s: %v", v.name, err)
		}
		cancel()
		t.Logf("%s was killed and came back", v.name)
	}
	// At the resource: the Deployment's generation grows by one with each real change, and every
	// marker is one change.
	counts, err := ship.Generations(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for cluster, generation := range counts {
		if generation != ship.Pushes() {
			t.Errorf("cluster %s: the Deployment changed %d times for %d commits", cluster, generation, ship.Pushes())
		}
	}
}

// killDuringCommit kills a part right after a push, starts it again, and sends the next commit.
func killDuringCommit(ctx context.Context, ship *stack.Ship, name string, kill, restart func() error) error {
	if _, err := ship.Push(ctx, "during "+name); err != nil {
		return err
	}
	if err := kill(); err != nil {
		return err
	}
	if err := restart(); err != nil {
		return err
	}
	if err := ship.WaitApplied(ctx, "during "+name); err != nil {
		return err
	}
	_, err := ship.Deliver(ctx, "after "+name)
	return err
}
