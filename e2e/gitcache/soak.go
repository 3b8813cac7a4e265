package gitcache

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"fairlead.dev/platform/retry"
)

// Soak is a long run under more load than usual, in which nothing may grow that does not have to.
type Soak struct {
	Duration time.Duration
	Pace     time.Duration // between two pushes
	Readers  int
}

// sample is what one gitcache takes at one moment.
type sample struct {
	goroutines, descriptors, rss int64
	heap                         int64 // the heap that was in use after the last collection, about
	mirrors, artifacts, packs    int64
	upstream                     int64 // the size of the repositories themselves
}

// samples are how many are taken; a quarter of them makes a median.
const samples = 80

// mostDescriptors are those of 64 open packs, which are kept as long as they are read, and as many for all else.
const mostDescriptors = 220

// packsPerRepo is about how many packs there may be before they are joined.
const packsPerRepo = 25

// CacheBytes bounds the artifacts in a soak, so that the bound is reached in it.
const CacheBytes = 4 << 20

// Run pushes and reads all the time, writes a table, and fails if something grew from the second quarter
// to the last.
func (s Soak) Run(ctx context.Context, f *Fleet, out io.Writer) error {
	w, endWatch := f.Watch(ctx)
	if err := w.Current(ctx); err != nil {
		return err
	}
	since := time.Now()
	endPushes := f.Pushes(ctx, 1, s.Pace)
	_, endReads := f.Read(ctx, w, 1, s.Readers)
	taken := map[string][]sample{}
	for i := range samples {
		retry.Sleep(ctx, time.Until(since.Add(s.Duration/samples*time.Duration(i+1)))) // to sample takes its time, too
		for _, c := range f.Running() {
			now, err := f.sample(ctx, c)
			if err != nil {
				return err
			}
			taken[c.Name] = append(taken[c.Name], now)
		}
	}
	pushes, pushErr := endPushes()
	currentErr := w.Current(ctx)
	answered, readErr := endReads()
	fmt.Fprintf(out, "%d pushes, %d requests upstream, %d answers, the longest after %s\n\n",
		pushes, len(f.Host.Log(since)), answered.Requests, answered.Longest.Round(time.Millisecond))
	errs := []error{pushErr, currentErr, readErr, endWatch()}
	for _, c := range f.Running() {
		errs = append(errs, judge(out, c.Name, len(f.Repos()), taken[c.Name]))
	}
	return errors.Join(errs...)
}

// judge compares the medians of the second and of the last quarter.
func judge(out io.Writer, name string, repos int, taken []sample) error {
	const mib = 1 << 20
	quarter := func(n int, of func(sample) int64) int64 {
		var values []int64
		for _, s := range taken[n*len(taken)/4 : (n+1)*len(taken)/4] {
			values = append(values, of(s))
		}
		slices.Sort(values)
		return values[len(values)/2]
	}
	// The history that was pushed has to be kept, in packs that also have indexes.
	pushed := 3 * (quarter(3, sample.upstreamBytes) - quarter(1, sample.upstreamBytes))
	var grown []error
	fmt.Fprintf(out, "%-12s %-12s %12s %12s %12s %12s %14s\n", "replica", "what", "1st quarter", "2nd quarter", "3rd quarter", "4th quarter", "most in 4th")
	for _, m := range []struct {
		what string
		of   func(sample) int64
		more int64 // than a tenth may be added
		free int64 // up to here it may grow
	}{
		{"goroutines", func(s sample) int64 { return s.goroutines }, 20, 0},
		{"descriptors", func(s sample) int64 { return s.descriptors }, 20, mostDescriptors},
		{"heap", func(s sample) int64 { return s.heap }, 8 * mib, 0},
		{"rss", func(s sample) int64 { return s.rss }, 24 * mib, 0},
		{"mirrors", func(s sample) int64 { return s.mirrors }, pushed + mib, 0},
		{"artifacts", func(s sample) int64 { return s.artifacts }, mib, CacheBytes},
		{"packs", func(s sample) int64 { return s.packs }, 20, packsPerRepo * int64(repos)},
	} {
		before, after := quarter(1, m.of), quarter(3, m.of)
		most := max(before+before/10+m.more, m.free)
		fmt.Fprintf(out, "%-12s %-12s %12d %12d %12d %12d %14d\n", name, m.what, quarter(0, m.of), before, quarter(2, m.of), after, most)
		if after > most {
			grown = append(grown, fmt.Errorf("%s: %s grew from %d to %d, more than to %d", name, m.what, before, after, most))
		}
	}
	return errors.Join(grown...)
}

func (s sample) upstreamBytes() int64 { return s.upstream }

func (f *Fleet) sample(ctx context.Context, c *Cache) (sample, error) {
	goroutines, err1 := f.metric(ctx, c, "go_goroutines")
	collect, err2 := f.metric(ctx, c, "go_memstats_next_gc_bytes")
	if err := errors.Join(err1, err2); err != nil {
		return sample{}, fmt.Errorf("%s: %w", c.Name, err)
	}
	packs, err := filepath.Glob(filepath.Join(c.dir, "mirrors", "*", "repo.git", "objects", "pack", "*.pack"))
	if err != nil {
		return sample{}, err
	}
	return sample{
		goroutines: int64(goroutines), heap: int64(collect) / 2, descriptors: int64(Descriptors(c.Pid())), rss: RSS(c.Pid()),
		mirrors: DiskBytes(filepath.Join(c.dir, "mirrors")), artifacts: DiskBytes(filepath.Join(c.dir, "artifacts")),
		packs: int64(len(packs)), upstream: DiskBytes(f.Host.dir),
	}, nil
}

// metric reads a metric without labels.
func (f *Fleet) metric(ctx context.Context, c *Cache, name string) (float64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.URL+"/metrics", http.NoBody)
	if err != nil {
		return 0, err
	}
	resp, err := f.api.asAdmin().Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			return strconv.ParseFloat(value, 64)
		}
	}
	return 0, fmt.Errorf("no metric %s: %s", name, resp.Status)
}
