package gitcache

import (
	"context"
	"testing"
	"time"
)

// TestNothingGrows is the short form of `make soak`.
func TestNothingGrows(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	dir := t.TempDir()
	redis, err := StartAlone(ctx, dir)
	if err != nil {
		t.Fatal(err)
	}
	f := startFleet(ctx, t, Config{Dir: dir, Redis: redis, CacheBytes: CacheBytes}, 2, 20)
	soak := Soak{Duration: time.Minute, Pace: 200 * time.Millisecond, Readers: 2}
	if err := soak.Run(ctx, f, t.Output()); err != nil {
		t.Error(err)
	}
}
