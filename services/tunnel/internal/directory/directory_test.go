package directory_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"fairlead.dev/platform/await"
	"fairlead.dev/platform/coordination"
	"fairlead.dev/platform/coordination/redistest"
	"fairlead.dev/services/tunnel/internal/directory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type replica struct {
	*directory.Directory
	t   *testing.T
	url string
}

func newReplica(t *testing.T, c coordination.Coordinator, url string) *replica {
	t.Helper()
	r := &replica{t: t, url: url, Directory: directory.New(directory.Deps{
		Coordinator: c,
		URL:         func() string { return url }, Log: slog.New(slog.DiscardHandler),
	})}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := r.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); running.Wait() })
	return r
}

func open(t *testing.T, url string) coordination.Coordinator {
	t.Helper()
	c, err := coordination.Open(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func (r *replica) holders(cluster string) (urls []string) {
	for _, h := range r.Holders(r.t.Context(), cluster) {
		urls = append(urls, h.URL)
	}
	return urls
}

func (r *replica) awaitHolders(cluster string, want ...string) {
	r.t.Helper()
	await.True(r.t, cluster+" at "+strings.Join(want, ", "), func() bool {
		got := r.holders(cluster)
		slices.Sort(got)
		return slices.Equal(got, want)
	})
}

func TestSessionsAreFoundAtTheirReplicas(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"in memory", "Redis"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := ""
			if name == "Redis" {
				url = redistest.Start(t).URL()
			}
			c := open(t, url)
			a, b, ask := newReplica(t, c, "https://a"), newReplica(t, c, "https://b"), newReplica(t, c, "https://ask")
			await.True(ask.t, "the others", func() bool { return len(ask.Others()) == 2 })
			a.Add("edge-1", "s1")
			b.Add("edge-2", "s2")
			b.Add("edge-2", "s3")
			ask.awaitHolders("edge-1", "https://a")
			ask.awaitHolders("edge-2", "https://b")
			ask.awaitHolders("edge-3", "https://a", "https://b") // no entry is known: any replica may have it
			b.Add("edge-1", "s4")
			ask.awaitHolders("edge-1", "https://a", "https://b")
			b.Remove("s2")
			a.Remove("s1")
			ask.awaitHolders("edge-1", "https://b")
			ask.awaitHolders("edge-2", "https://b")
			if !ask.Elsewhere(t.Context(), "edge-2") {
				t.Error("edge-2 is nowhere else")
			}
			a.Add("edge-2", "s5")
			b.Drain(t.Context())
			await.True(ask.t, "the one that drains comes last", func() bool {
				return slices.Equal(ask.holders("edge-2"), []string{"https://a", "https://b"})
			})
			await.True(ask.t, "nobody that stays has it", func() bool { return !ask.Elsewhere(t.Context(), "edge-1") })
		})
	}
}

func TestOneThatDoesNotAnswerIsAskedLast(t *testing.T) {
	t.Parallel()
	c := open(t, "")
	newReplica(t, c, "https://a")
	newReplica(t, c, "https://b")
	ask := newReplica(t, c, "https://ask")
	await.True(ask.t, "the others", func() bool { return len(ask.Others()) == 2 })
	first := ask.Others()[0]
	ask.Shun(first.ID)
	if now := ask.Others()[1]; now != first {
		t.Errorf("%v is asked last instead of %v", now, first)
	}
}

// Redis forgets everything: the replicas write it again, and in the meantime what was known is.
func TestFlushedStoreIsFilledAgain(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	a := newReplica(t, open(t, redis.URL()), "https://a")
	ask := newReplica(t, open(t, redis.URL()), "https://ask")
	for _, s := range []string{"s1", "s2", "s3"} {
		a.Add("edge-1", s)
	}
	await.True(ask.t, "the other", func() bool { return len(ask.Others()) == 1 })
	ask.awaitHolders("edge-1", "https://a")
	c := open(t, redis.URL())
	count := func() int {
		m, err := c.Members(t.Context(), "tunnel/edge-1")
		if err != nil {
			t.Fatal(err)
		}
		return len(m)
	}
	await.True(ask.t, "all entries", func() bool { return count() == 3 })
	redis.Do("FLUSHALL")
	await.True(ask.t, "all entries again", func() bool {
		if len(ask.Others()) != 1 {
			t.Error("the other was forgotten")
		}
		return count() == 3
	})
}

func TestWithTheStoreDownAllThatWasKnownIs(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	a := newReplica(t, open(t, redis.URL()), "https://a")
	ask := newReplica(t, open(t, redis.URL()), "https://ask")
	newReplica(t, open(t, redis.URL()), "https://b")
	a.Add("edge-1", "s1")
	await.True(ask.t, "the others", func() bool { return len(ask.Others()) == 2 })
	ask.awaitHolders("edge-1", "https://a")
	redis.Kill()
	ask.Forget("edge-2")
	if got := ask.holders("edge-1"); !slices.Equal(got, []string{"https://a"}) {
		t.Errorf("edge-1 is at %v", got)
	}
	if got := ask.holders("edge-2"); len(got) != 2 {
		t.Errorf("edge-2, of which nothing is known, is asked at %v", got)
	}
	a.Add("edge-2", "s2")
	redis.Restart()
	ask.awaitHolders("edge-2", "https://a") // written when the store came back
}

// An attacker who can write into the store can't have a token sent in clear text, and can't break anything.
func TestForgedEntries(t *testing.T) {
	t.Parallel()
	c := open(t, "")
	for _, m := range []coordination.Member{
		{ID: "plain", URL: "http://evil.example.com"},
		{ID: "user", URL: "https://a:b@evil.example.com"},
		{ID: "none"},
		{ID: "file", URL: "file:///etc"},
	} {
		if err := c.Join(t.Context(), "tunnel", m, coordination.MaxTTL); err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range []coordination.Member{{ID: "x"}, {ID: "y", Meta: map[string]string{"replica": "plain"}}} {
		if err := c.Join(t.Context(), "tunnel/edge-1", m, coordination.MaxTTL); err != nil {
			t.Fatal(err)
		}
	}
	newReplica(t, c, "https://a")
	ask := newReplica(t, c, "https://ask")
	ask.awaitHolders("edge-1", "https://a")
	if err := c.Publish(t.Context(), "tunnel/changes", []byte("\n\x00\n")); err != nil {
		t.Fatal(err)
	}
	ask.awaitHolders("edge-1", "https://a")
}

// slow is a store that takes a while to take members in.
type slow struct{ coordination.Coordinator }

func (s slow) Join(ctx context.Context, group string, m coordination.Member, ttl time.Duration) error {
	select {
	case <-time.After(time.Second):
	case <-ctx.Done():
		return ctx.Err()
	}
	return s.Coordinator.Join(ctx, group, m, ttl)
}

// mute is a store whose messages get lost.
type mute struct{ coordination.Coordinator }

func (mute) Publish(context.Context, string, []byte) error { return nil }

// hung is a store that answers no question about members in time.
type hung struct {
	coordination.Coordinator
	asked atomic.Int64
}

func (h *hung) Members(ctx context.Context, _ string) ([]coordination.Member, error) {
	h.asked.Add(1)
	<-time.After(coordination.OpTimeout)
	return nil, errors.New("it does not answer")
}

// Requests that wait for a cluster while the store hangs don't stand behind each other's questions.
func TestRequestsDontQueueForAStoreThatHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &hung{Coordinator: open(t, "")}
		d := directory.New(directory.Deps{
			Coordinator: c, URL: func() string { return "https://ask" },
			Log: slog.New(slog.DiscardHandler),
		})
		began := time.Now()
		var asking sync.WaitGroup
		for range 50 {
			asking.Go(func() {
				d.Look("edge-1")
				d.Holders(t.Context(), "edge-1")
			})
		}
		asking.Wait()
		if took := time.Since(began); took > coordination.OpTimeout || c.asked.Load() != 1 {
			t.Errorf("50 requests took %v and asked %d times", took, c.asked.Load())
		}
	})
}

// A directory that is told of a new replica looks at once, and then not for seconds: the replica must be there to be
// found.
func TestNewReplicaIsKnownAsSoonAsItIsListed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := open(t, "")
		ask := newReplica(t, c, "https://ask")
		synctest.Wait()
		began := time.Now()
		newReplica(t, slow{c}, "https://a")
		for news := ask.News(); len(ask.Others()) == 0; news = ask.News() {
			<-news
		}
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("known only after %v", took)
		}
	})
}

// A replica of which no message told is found by whoever misses it, at once.
func TestLookFindsAReplicaThatNoMessageTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := open(t, "")
		ask := newReplica(t, c, "https://ask")
		synctest.Wait()
		newReplica(t, mute{c}, "https://a").Add("edge-1", "s1")
		synctest.Wait()
		if got := ask.holders("edge-1"); len(got) != 0 {
			t.Fatalf("the message arrived: edge-1 is at %v", got)
		}
		ask.Look("edge-1")
		synctest.Wait()
		if got := ask.holders("edge-1"); !slices.Equal(got, []string{"https://a"}) {
			t.Errorf("edge-1 is at %v", got)
		}
	})
}
