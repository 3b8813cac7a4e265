package coordination_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"fairlead.dev/platform/await"
	"fairlead.dev/platform/coordination"
	"fairlead.dev/platform/coordination/coordinationtest"
	"fairlead.dev/platform/coordination/redistest"
)

const patience = 5 * time.Minute

func openRedis(t *testing.T, url string) coordination.Coordinator {
	t.Helper()
	c, err := coordination.Open(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func acquire(t *testing.T, c coordination.Leases, key, holder string, ttl time.Duration) *coordination.Lease {
	t.Helper()
	l, err := c.Acquire(t.Context(), key, holder, ttl)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestRedisConforms(t *testing.T) {
	t.Parallel()
	coordinationtest.Run(t, func(t *testing.T) (a, b coordination.Coordinator) {
		s := redistest.Start(t)
		return openRedis(t, s.URL()), openRedis(t, s.URL())
	})
}

func TestRedisDownIsAnErrorWithinTheDeadline(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := openRedis(t, s.URL())
	l := acquire(t, c, "k", "one", time.Hour)
	for _, fault := range []struct {
		name         string
		happens, end func()
	}{{"hung", s.Pause, s.Resume}, {"dead", s.Kill, func() {}}} {
		fault.happens()
		for op, call := range map[string]func() error{
			"acquire": func() error { _, err := c.Acquire(t.Context(), "k2", "h", time.Minute); return err },
			"holder":  func() error { _, err := c.Holder(t.Context(), "k"); return err },
			"renew":   func() error { return l.Renew(t.Context()) },
			"join":    func() error { return c.Join(t.Context(), "g", coordination.Member{ID: "m"}, time.Minute) },
			"leave":   func() error { return c.Leave(t.Context(), "g", "m") },
			"members": func() error { _, err := c.Members(t.Context(), "g"); return err },
			"publish": func() error { return c.Publish(t.Context(), "t", nil) },
			"ping":    func() error { return c.Ping(t.Context()) },
		} {
			quickest := time.Duration(math.MaxInt64)
			for try := 0; try < 3 && quickest > 2*coordination.OpTimeout; try++ { // a busy machine may be late once
				began := time.Now()
				err := call()
				if err == nil || errors.Is(err, coordination.ErrHeld) || errors.Is(err, coordination.ErrLost) {
					t.Errorf("%s with Redis %s: %v", op, fault.name, err)
				}
				quickest = min(quickest, time.Since(began))
			}
			if quickest > 2*coordination.OpTimeout {
				t.Errorf("%s with Redis %s took %s", op, fault.name, quickest)
			}
		}
		if !l.Valid() {
			t.Errorf("Redis %s: the holder lost its lease before its clock said so", fault.name)
		}
		fault.end()
	}
}

// SIGSTOP of Redis for longer than the lease: the holder stops by its own clock, and nobody takes over.
func TestRedisPausedLongerThanTheLease(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	a, b := openRedis(t, s.URL()), openRedis(t, s.URL())
	const ttl = time.Second
	l := acquire(t, a, "k", "one", ttl)
	s.Pause()
	for l.Valid() {
		if _, err := b.Acquire(t.Context(), "k", "two", ttl); err == nil {
			t.Fatal("acquired from a stopped Redis")
		}
		if err := l.Renew(t.Context()); err == nil {
			t.Fatal("renewed at a stopped Redis")
		}
	}
	if err := l.Renew(t.Context()); !errors.Is(err, coordination.ErrLost) {
		t.Errorf("renew after the end: %v", err)
	}
	s.Resume()
	// The renewals that hung meanwhile may have been carried out now, but the lease ends.
	await.NoError(t, "Redis is reached", func() error {
		next, err := b.Acquire(t.Context(), "k", "two", ttl)
		if err == nil && next.Epoch() <= l.Epoch() {
			t.Errorf("epoch %d after %d", next.Epoch(), l.Epoch())
		}
		return err
	})
}

// A flush and the next lease can share a millisecond; the earlier holder must still see that the key was taken.
func TestRedisFlushedBetweenTwoLeasesAtOnce(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	a, b := openRedis(t, s.URL()), openRedis(t, s.URL())
	for i := range 200 {
		key := fmt.Sprintf("k%d", i)
		first := acquire(t, a, key, "one", time.Hour)
		s.Do("FLUSHALL")
		if next := acquire(t, b, key, "two", time.Hour); next.Epoch() <= first.Epoch() {
			t.Fatalf("epoch %d after %d", next.Epoch(), first.Epoch())
		}
		if err := first.Renew(t.Context()); !errors.Is(err, coordination.ErrLost) {
			t.Fatalf("renew of what another has: %v", err)
		}
	}
}

func TestRedisFlushed(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	a, b := openRedis(t, s.URL()), openRedis(t, s.URL())
	kept := acquire(t, a, "kept", "one", time.Hour)
	taken := acquire(t, a, "taken", "one", time.Hour)
	if err := a.Join(t.Context(), "g", coordination.Member{ID: "m"}, time.Hour); err != nil {
		t.Fatal(err)
	}
	s.Do("FLUSHALL")
	s.Do("SCRIPT", "FLUSH")

	// A holder that renews first keeps the key, with its epoch.
	if err := kept.Renew(t.Context()); err != nil {
		t.Errorf("renew after a flush: %v", err)
	}
	if _, err := b.Acquire(t.Context(), "kept", "two", time.Hour); !errors.Is(err, coordination.ErrHeld) {
		t.Errorf("acquire of what was put back: %v", err)
	}
	// A holder that finds another one steps down, and epochs grow on.
	next := acquire(t, b, "taken", "two", time.Hour)
	if next.Epoch() <= taken.Epoch() {
		t.Errorf("epoch %d after %d", next.Epoch(), taken.Epoch())
	}
	if err := taken.Renew(t.Context()); !errors.Is(err, coordination.ErrLost) || taken.Valid() {
		t.Errorf("renew of what another has: %v", err)
	}
	// Also when the other one has already given it back.
	again := acquire(t, a, "again", "one", time.Hour)
	s.Do("FLUSHALL")
	if err := acquire(t, b, "again", "two", time.Hour).Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := again.Renew(t.Context()); !errors.Is(err, coordination.ErrLost) {
		t.Errorf("renew after another had it: %v", err)
	}
	// The next heartbeat brings a member back.
	if err := a.Join(t.Context(), "g", coordination.Member{ID: "m"}, time.Hour); err != nil {
		t.Fatal(err)
	}
	if m, err := b.Members(t.Context(), "g"); len(m) != 1 || err != nil {
		t.Errorf("members: %v, %v", m, err)
	}
}

// kill -9 and a restart without data: leases, members and subscriptions come back by themselves.
func TestRedisKilledAndRestarted(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	a, b := openRedis(t, s.URL()), openRedis(t, s.URL())
	l := acquire(t, a, "k", "one", time.Hour)
	messages, err := a.Subscribe(t.Context(), "t")
	if err != nil {
		t.Fatal(err)
	}
	s.Kill()
	if err := l.Renew(t.Context()); err == nil || errors.Is(err, coordination.ErrLost) {
		t.Errorf("renew with Redis dead: %v", err)
	}
	await.NoError(t, "Redis is reached", func() error {
		if a.Ping(t.Context()) == nil {
			return errors.New("ping of a dead Redis")
		}
		return nil
	})
	s.Restart()
	await.NoError(t, "Redis is reached", func() error { return l.Renew(t.Context()) })
	if h, err := b.Holder(t.Context(), "k"); h != "one" || err != nil {
		t.Errorf("holder: %q, %v", h, err)
	}
	awaitMessage(t, b, messages)
	await.NoError(t, "Redis is reached", func() error { return a.Ping(t.Context()) })
}

// awaitMessage publishes until something arrives: what is published before the subscription is
// back gets lost.
func awaitMessage(t *testing.T, c coordination.Bus, messages <-chan []byte) {
	t.Helper()
	await.NoError(t, "Redis is reached", func() error {
		if err := c.Publish(t.Context(), "t", []byte("m")); err != nil {
			return err
		}
		select {
		case <-messages:
			return nil
		case <-time.After(50 * time.Millisecond):
			return errors.New("no message")
		}
	})
}

func TestRedisSubscribedBeforeItIsUp(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Kill()
	c := openRedis(t, s.URL())
	messages, err := c.Subscribe(t.Context(), "t")
	if err != nil {
		t.Fatal(err)
	}
	s.Restart()
	awaitMessage(t, c, messages)
}

// A connection that is open but silent is found by the ping, not by TCP after minutes.
func TestRedisSubscriptionSurvivesAHungServer(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := openRedis(t, s.URL())
	messages, err := c.Subscribe(t.Context(), "t")
	if err != nil {
		t.Fatal(err)
	}
	s.Pause()
	await.NoError(t, "Redis is reached", func() error {
		if c.Ping(t.Context()) == nil {
			return errors.New("ping of a hung Redis")
		}
		return nil
	})
	<-time.After(7 * time.Second) // two heartbeats: the connection is given up
	s.Resume()
	awaitMessage(t, c, messages)
}

func asUser(s *redistest.Server, user, password string) string {
	return strings.Replace(s.URL(), "unix://", "unix://"+user+":"+password+"@", 1)
}

func TestRedisWrongLoginAndACLSayWhatToDo(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do("ACL", "SETUSER", "right", "on", ">s3cret", "resetkeys", "resetchannels", "~fairlead:*", "&fairlead:*",
		"+@all", "-@dangerous")
	s.Do("ACL", "SETUSER", "otherkeys", "on", ">s3cret", "resetkeys", "resetchannels", "~other:*", "&other:*", "+@all")

	if _, err := openRedis(t, asUser(s, "right", "s3cret")).Acquire(t.Context(), "k", "one", time.Minute); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct{ url, want string }{
		"wrong password": {asUser(s, "right", "s3cret-wrong"), "--redis-url"},
		"wrong keys":     {asUser(s, "otherkeys", "s3cret"), "fairlead:*"},
	} {
		c := openRedis(t, tt.url)
		_, acquireErr := c.Acquire(t.Context(), "k2", "one", time.Minute)
		for op, err := range map[string]error{
			"acquire": acquireErr,
			"join":    c.Join(t.Context(), "g", coordination.Member{ID: "m"}, time.Minute),
			"publish": c.Publish(t.Context(), "t", nil),
		} {
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("%s, %s: %v", name, op, err)
			}
		}
		if _, err := c.Subscribe(t.Context(), "t"); err != nil {
			t.Errorf("%s: subscribe: %v", name, err)
		}
		await.NoError(t, "Redis is reached", func() error {
			if err := c.Ping(t.Context()); err == nil || !strings.Contains(err.Error(), tt.want) {
				return fmt.Errorf("%s: ping hides that subscribing fails: %w", name, err)
			}
			return nil
		})
	}
}

// maxmemory with noeviction: what is held is kept and released, what is new is refused in words.
func TestRedisFull(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := openRedis(t, s.URL())
	l := acquire(t, c, "k", "one", time.Hour)
	// Loads the scripts: a full Redis takes no new ones.
	if err := acquire(t, c, "warm", "one", time.Hour).Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.Do("CONFIG", "SET", "maxmemory-policy", "noeviction", "maxmemory", "1")
	_, err := c.Acquire(t.Context(), "k2", "one", time.Hour)
	if err == nil || !strings.Contains(err.Error(), "full") {
		t.Errorf("acquire at a full Redis: %v", err)
	}
	if err := l.Renew(t.Context()); err != nil {
		t.Errorf("renew at a full Redis: %v", err)
	}
	if err := l.Release(t.Context()); err != nil {
		t.Errorf("release at a full Redis: %v", err)
	}
	if h, err := c.Holder(t.Context(), "k"); h != "" || err != nil {
		t.Errorf("holder: %q, %v", h, err)
	}
	s.Do("CONFIG", "SET", "maxmemory", "0")
	acquire(t, c, "k", "two", time.Hour)
}

// Redis is nobody's record: what others wrote there does no more than get in the way.
func TestRedisForgedValues(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := openRedis(t, s.URL())
	s.Do("SET", "fairlead:{lease/short}", "x")
	if h, err := c.Holder(t.Context(), "short"); h == "" || err != nil {
		t.Errorf("holder: %q, %v", h, err)
	}
	if _, err := c.Acquire(t.Context(), "short", "one", time.Minute); !errors.Is(err, coordination.ErrHeld) {
		t.Errorf("acquire: %v", err)
	}
	s.Do("SET", "fairlead:{lease/garbage}:epoch", "nonsense")
	acquire(t, c, "garbage", "one", time.Minute)
	s.Do("LPUSH", "fairlead:{lease/list}", "x")
	if _, err := c.Acquire(t.Context(), "list", "one", time.Minute); err == nil {
		t.Error("acquired a list")
	}
	if err := c.Join(t.Context(), "g", coordination.Member{ID: "good"}, time.Hour); err != nil {
		t.Fatal(err)
	}
	s.Do("HSET", "fairlead:{group/g}:members", "bad", "{", "worse", `{"id":""}`, "twin", `{"id":"good"}`)
	s.Do("ZADD", "fairlead:{group/g}:alive", "9e15", "bad", "9e15", "worse", "9e15", "twin", "9e15", "nodata")
	m, err := c.Members(t.Context(), "g")
	if err != nil || len(m) != 1 || m[0].ID != "good" {
		t.Errorf("members: %v, %v", m, err)
	}
}

// Contenders under a Redis that is stopped, killed and flushed while they work: as long as Redis
// keeps its memory, no two of them ever hold the lease at once.
func TestRedisNeverTwoHoldersUnderPauses(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	const ttl = 400 * time.Millisecond
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	began := time.Now()
	var mu sync.Mutex // guards what follows
	var holder *coordination.Lease
	turns := 0
	seen := func() bool { // enough; a busy machine takes its time
		mu.Lock()
		defer mu.Unlock()
		return turns >= 3 && time.Since(began) > 6*time.Second
	}
	var wg sync.WaitGroup
	for i := range 4 {
		c := openRedis(t, s.URL())
		wg.Go(func() {
			for ctx.Err() == nil {
				l, err := c.Acquire(ctx, "k", fmt.Sprint("contender", i), ttl)
				if err != nil {
					<-time.After(rand.N(20 * time.Millisecond))
					continue
				}
				mu.Lock()
				if holder != nil && holder.Valid() && l.Valid() {
					t.Errorf("epochs %d and %d are valid at once", holder.Epoch(), l.Epoch())
				}
				// A holder that waited for the lock until its lease was over may come behind the next one.
				if holder != nil && l.Epoch() <= holder.Epoch() && l.Valid() {
					t.Errorf("epoch %d after %d", l.Epoch(), holder.Epoch())
				}
				holder = l
				turns++
				mu.Unlock()
				for range rand.N(4) {
					<-time.After(rand.N(ttl / 3))
					_ = l.Renew(ctx)
				}
				if rand.N(2) == 0 {
					_ = l.Release(ctx)
				}
			}
		})
	}
	for ctx.Err() == nil && !seen() {
		<-time.After(rand.N(time.Second))
		s.Pause()
		<-time.After(rand.N(2 * ttl))
		s.Resume()
	}
	cancel()
	wg.Wait()
	if turns < 3 {
		t.Errorf("only %d turns: the test saw nothing", turns)
	}
}
