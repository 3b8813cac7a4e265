package gitcache

import (
	"testing"
	"time"
)

func TestWhatIsNotPoliteIsSeen(t *testing.T) {
	t.Parallel()
	const interval = 5 * time.Second
	begin := time.Now()
	polls := func(by string, seconds ...float64) (log []Request) {
		for _, s := range seconds {
			log = append(log, Request{Time: begin.Add(time.Duration(s * float64(time.Second))), Repo: "r", By: by})
		}
		return log
	}
	steady := polls("a", 1, 6, 11, 16, 21, 26)
	for name, c := range map[string]struct {
		log    []Request
		claims int
		good   bool
	}{
		"one fetcher":                   {steady, 0, true},
		"a failover":                    {append(polls("a", 1, 6), polls("b", 9, 14, 19, 24)...), 1, true},
		"one more after a failover":     {append(polls("a", 1, 6, 12), polls("b", 11, 16, 21, 26)...), 1, true},
		"a change of hands by nobody":   {append(polls("a", 1, 6), polls("b", 9, 14, 19, 24)...), 0, false},
		"two for the whole time":        {append(polls("b", 3, 8, 13, 18, 23, 28), steady...), 1, false},
		"one that polls twice as often": {append(polls("a", 3, 8, 13, 18, 23, 28), steady...), 1, false},
		"strangers":                     {append(polls("", 3, 8), steady...), 0, false},
	} {
		if err := Polite(c.log, begin, begin.Add(6*interval), interval, map[string]int{
			"r": c.claims,
		}); (err == nil) != c.good {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestGrowthIsSeen(t *testing.T) {
	t.Parallel()
	samples := func(of func(i int64) sample) (taken []sample) {
		for i := range int64(80) {
			taken = append(taken, of(i))
		}
		return taken
	}
	for name, c := range map[string]struct {
		of   func(i int64) sample
		good bool
	}{
		"flat": {
			func(int64) sample { return sample{goroutines: 90, descriptors: 100, rss: 60 << 20, packs: 9} }, true,
		},
		"history":         {func(i int64) sample { return sample{mirrors: i << 20, upstream: i << 20} }, true},
		"goroutines":      {func(i int64) sample { return sample{goroutines: 90 + i} }, false},
		"descriptors":     {func(i int64) sample { return sample{descriptors: 190 + 2*i} }, false},
		"heap":            {func(i int64) sample { return sample{heap: (20 + i) << 20} }, false},
		"memory":          {func(i int64) sample { return sample{rss: (60 + 2*i) << 20} }, false},
		"mirrors":         {func(i int64) sample { return sample{mirrors: i << 20} }, false},
		"artifacts":       {func(i int64) sample { return sample{artifacts: i << 20} }, false},
		"packs":           {func(i int64) sample { return sample{packs: 2 * i} }, false},
		"only at the end": {func(i int64) sample { return sample{goroutines: 90 + i/60*100} }, false},
	} {
		if err := judge(t.Output(), "gitcache-0", 1, samples(c.of)); (err == nil) != c.good {
			t.Errorf("%s: %v", name, err)
		}
	}
}
