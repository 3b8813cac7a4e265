package gitcache

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"fairlead.dev/platform/postgrestest"
	"fairlead.dev/platform/retry"
)

var (
	long = flag.Bool("long", false, "60 repositories and 20 rounds of faults, as `make chaos` does")
	seed = flag.Uint64("seed", 0, "of the order of faults; 0: a new one")
	only = flag.String("only", "", "faults with this in their names")
)

var postgres postgrestest.Server

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	if err := postgres.Stop(); err != nil {
		code = 1
	}
	os.Exit(code)
}

// pollInterval is the shortest that the catalog takes.
const pollInterval = 5 * time.Second

// TestOneFetcherAndRightBytesWhateverHappens is the promise of the gitcache: faults of every kind, in a
// random order, and always one fetcher per repository, heads that never go back, and right bytes.
func TestOneFetcherAndRightBytesWhateverHappens(t *testing.T) {
	t.Parallel()
	t.Run("SQLite, one Redis", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		redis, err := StartAlone(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		runChaos(t, Config{Dir: dir, Redis: redis})
	})
	t.Run("PostgreSQL, Redis with Sentinel", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		redis, err := StartSentinels(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		runChaos(t, Config{Dir: dir, Redis: redis, DatabaseURL: postgres.Database(t)})
	})
}

// startFleet runs a fleet of so many gitcaches over so many repositories, until the test ends.
func startFleet(ctx context.Context, t *testing.T, cfg Config, caches, repos int) *Fleet {
	t.Helper()
	var err error
	if cfg.Bins, err = Bins("../.."); err != nil {
		t.Fatal(err)
	}
	f, err := Start(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Stop(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			for _, c := range f.Caches() {
				t.Logf("last words of %s:\n%s", c.Name, c.Tail())
			}
		}
	})
	if err := f.AddRepos(ctx, "repo", repos, pollInterval); err != nil {
		t.Fatal(err)
	}
	for i := range caches {
		if _, err := f.Add(ctx, fmt.Sprintf("gitcache-%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

// chaos is a run of faults over a fleet.
type chaos struct {
	f      *Fleet
	ttl    time.Duration
	random *rand.Rand
}

// fault is something that happens to a fleet. A fault ends with as many gitcaches as there were.
type fault struct {
	name string
	do   func(context.Context) error
	// moves are how often a repository may change hands by it.
	moves int
}

func runChaos(t *testing.T, cfg Config) {
	t.Helper()
	repos, rounds, pace := 16, 0, 150*time.Millisecond
	cfg.TTL = 6 * time.Second
	if *long {
		repos, rounds = 60, 20
	}
	s := *seed
	if s == 0 {
		s = rand.Uint64()
	}
	t.Logf("again with: -seed %d", s)
	ctx, cancel := context.WithTimeout(t.Context(), 25*time.Minute)
	defer cancel()
	f := startFleet(ctx, t, cfg, 3, repos)
	w, endWatch := f.Watch(ctx)
	if err := w.Current(ctx); err != nil {
		t.Fatal(err)
	}
	c := &chaos{f: f, ttl: cfg.TTL, random: rand.New(rand.NewPCG(s, 0))}
	c.hold(ctx, 2) // until ownership is settled
	before, since := w.Claims(), time.Now()
	endPushes := f.Pushes(ctx, s, pace)
	reader, endReads := f.Read(ctx, w, s, 3)

	moves := 0
	for i, fault := range c.plan(rounds) {
		if err := fault.do(ctx); err != nil {
			t.Fatalf("round %d, %s: %v", i, fault.name, err)
		}
		c.hold(ctx, 1)
		moves += fault.moves
		count, err := reader.Count()
		if err != nil {
			t.Fatalf("round %d, %s: %v", i, fault.name, err)
		}
		t.Logf("round %d, %s: %d answers, owners %v", i, fault.name, count.Requests, w.Owners())
	}

	pushes, err := endPushes()
	if err != nil {
		t.Error(err)
	}
	// A dead one's leases run out, and then two polls with their jitter; and this machine may be very busy.
	converge, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	if err := w.Current(converge); err != nil {
		t.Errorf("after the faults: %v", err)
	}
	count, err := endReads()
	if err != nil {
		t.Error(err)
	}
	until := time.Now()
	if err := endWatch(); err != nil {
		t.Error(err)
	}
	claims := w.Claims()
	lost, err := f.LostLeases()
	if err != nil {
		t.Error(err)
	}
	for repo := range claims {
		// Away and back, and the same for each lease that ran out: who was stopped loses all of its own, and
		// anybody may whom a busy machine lets starve for so long.
		explained := moves + 2*lost[repo]
		if claims[repo] -= before[repo]; claims[repo] > explained {
			t.Errorf("%s changed hands %d times, the faults explain %d", repo, claims[repo], explained)
		}
	}
	if err := Polite(f.Host.Log(since), since, until, pollInterval, claims); err != nil {
		t.Error(err)
	}
	if count.Requests == 0 || pushes == 0 {
		t.Error("nothing was asked")
	}
	log := f.Host.Log(since)
	log = slices.DeleteFunc(log, func(r Request) bool { return r.Look })
	packs := len(slices.DeleteFunc(slices.Clone(log), func(r Request) bool { return !r.Pack }))
	t.Logf("%d pushes, %d polls, %d packs, repositories changed hands %d times; %+v",
		pushes, len(log)-packs, packs, total(claims), count)
}

func total(counts map[string]int) (sum int) {
	for n := range maps.Values(counts) {
		sum += n
	}
	return sum
}

// hold lets some leases' time pass.
func (c *chaos) hold(ctx context.Context, ttls int) {
	retry.Sleep(ctx, time.Duration(ttls)*c.ttl+rand.N(c.ttl/2))
}

// plan is so many rounds, every fault at least once; without rounds those of the replicas or, with
// Sentinel, those of Redis. The order is random.
func (c *chaos) plan(rounds int) []fault {
	kill := fault{"kill -9", c.kill, 2}
	faults := []fault{
		kill,
		{"a pause longer than the lease", c.paused, 0}, // its leases are lost
		{"drain", c.drain, 2},
		{"scale 3 -> 5 -> 2 -> 3", c.scale, 6},
	}
	redis := []fault{{"FLUSHALL", c.f.Redis().Flush, 2}, {"Redis restarts", c.f.Redis().Restart, 2}}
	s, sentinels := c.f.Redis().(*Sentinels)
	if sentinels {
		lose := func(ctx context.Context) error { return s.LoseWrites(ctx, c.ttl/2+rand.N(c.ttl/2)) }
		redis = append(redis, fault{"a failover that loses writes", lose, 2})
	}
	switch {
	case rounds > 0:
		faults = append(faults, redis...)
	case sentinels:
		faults = append(redis, kill)
	}
	faults = slices.DeleteFunc(faults, func(f fault) bool { return !strings.Contains(f.name, *only) })
	for kinds := len(faults); len(faults) < rounds; {
		faults = append(faults, faults[c.random.IntN(kinds)])
	}
	c.random.Shuffle(len(faults), func(i, j int) { faults[i], faults[j] = faults[j], faults[i] })
	return faults
}

func (c *chaos) victim() *Cache {
	live := c.f.Running()
	return live[c.random.IntN(len(live))]
}

func (c *chaos) kill(ctx context.Context) error {
	v := c.victim()
	if err := v.Kill(); err != nil {
		return err
	}
	retry.Sleep(ctx, time.Duration(c.random.Int64N(int64(2*c.ttl))))
	return c.f.Run(ctx, v)
}

func (c *chaos) paused(ctx context.Context) error {
	v := c.victim()
	if err := v.Pause(); err != nil {
		return err
	}
	c.hold(ctx, 2)
	return v.Resume()
}

func (c *chaos) drain(ctx context.Context) error {
	v := c.victim()
	if err := v.Drain(); err != nil {
		return err
	}
	retry.Sleep(ctx, time.Duration(c.random.Int64N(int64(2*c.ttl))))
	return c.f.Run(ctx, v)
}

func (c *chaos) scale(ctx context.Context) error {
	for _, n := range []int{5, 2, 3} {
		for len(c.f.Running()) > n {
			if err := c.victim().Drain(); err != nil {
				return err
			}
		}
		for len(c.f.Running()) < n {
			if err := c.up(ctx); err != nil {
				return err
			}
		}
		c.hold(ctx, 1)
	}
	return nil
}

// up starts one that is down, or a new one.
func (c *chaos) up(ctx context.Context) error {
	all := c.f.Caches()
	if i := slices.IndexFunc(all, func(c *Cache) bool { return c.is() == stopped }); i >= 0 {
		return c.f.Run(ctx, all[i])
	}
	_, err := c.f.Add(ctx, fmt.Sprintf("gitcache-%d", len(all)))
	return err
}
