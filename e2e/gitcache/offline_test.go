package gitcache

import (
	"context"
	"testing"
	"time"
)

// TestUpstreamOffForGood stops the Git host once everything was fetched. Then each gitcache is restarted,
// and each is replaced by an empty one: in the end all that is served has come from peers only.
func TestUpstreamOffForGood(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	dir := t.TempDir()
	redis, err := StartAlone(ctx, dir)
	if err != nil {
		t.Fatal(err)
	}
	f := startFleet(ctx, t, Config{Dir: dir, Redis: redis, TTL: 4 * time.Second}, 3, 20)
	for _, r := range f.Repos() {
		if _, err := r.Push(ctx); err != nil {
			t.Fatal(err)
		}
	}
	w, endWatch := f.Watch(ctx)
	if err := w.Current(ctx); err != nil {
		t.Fatal(err)
	}
	complete(ctx, t, f, "before")
	f.Host.Stop()
	off := time.Now()

	again := func(c *Cache) error { return f.Run(ctx, c) }
	empty := func(c *Cache) error { return f.Replace(ctx, c) }
	a, b, c := f.Caches()[0], f.Caches()[1], f.Caches()[2]
	for _, step := range []struct {
		what  string
		cache *Cache
		end   func(*Cache) error
		begin func(*Cache) error
	}{
		{"restart", a, (*Cache).Drain, again},
		{"restart", b, (*Cache).Kill, again},
		{"restart", c, (*Cache).Drain, again},
		{"replace after a drain", a, (*Cache).Drain, empty},
		{"replace after kill -9 and with the disk lost", b, (*Cache).Kill, empty},
		{"replace after kill -9 and with the disk lost", c, (*Cache).Kill, empty},
	} {
		if err := step.end(step.cache); err != nil {
			t.Fatal(err)
		}
		if err := f.Served(ctx); err != nil {
			t.Errorf("%s %s: without it: %v", step.what, step.cache.Name, err)
		}
		if err := step.begin(step.cache); err != nil {
			t.Fatal(err)
		}
		complete(ctx, t, f, step.what+" "+step.cache.Name)
	}
	if err := endWatch(); err != nil {
		t.Error(err)
	}
	if n := len(f.Host.Log(off)); n > 0 {
		t.Errorf("%d requests reached the Git host that is off", n)
	}
}

// complete waits until every source has an owner and a copy; then every gitcache must serve everything.
func complete(ctx context.Context, t *testing.T, f *Fleet, when string) {
	t.Helper()
	began := time.Now()
	limited, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	if err := f.Copied(limited); err != nil {
		t.Fatalf("%s: %v", when, err)
	}
	if err := f.Served(ctx); err != nil {
		t.Fatalf("%s: %v", when, err)
	}
	t.Logf("%s: complete after %.1f s", when, time.Since(began).Seconds())
}
