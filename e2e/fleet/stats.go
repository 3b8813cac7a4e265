package fleet

import (
	"context"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Times is how often what took how long, in steps of 5 %.
type Times struct {
	Count   int64
	Buckets map[int]int64 // by the logarithm of microseconds
}

// Add counts a time.
func (t *Times) Add(d time.Duration) {
	if t.Buckets == nil {
		t.Buckets = map[int]int64{}
	}
	t.Count++
	t.Buckets[int(math.Ceil(math.Log(max(float64(d)/1e3, 1))/math.Log(timesStep)))]++
}

const timesStep = 1.05

func (t *Times) merge(other *Times) {
	if t.Buckets == nil {
		t.Buckets = map[int]int64{}
	}
	t.Count += other.Count
	for b, n := range other.Buckets {
		t.Buckets[b] += n
	}
}

// Quantile is the time that a share of all did not exceed, up to 5 % too high. 0 if there was none.
func (t *Times) Quantile(share float64) time.Duration {
	if t == nil || t.Count == 0 {
		return 0
	}
	rank := int64(math.Ceil(share * float64(t.Count)))
	low, high := math.MaxInt, 0
	for b := range t.Buckets {
		low, high = min(low, b), max(high, b)
	}
	for b, seen := low, int64(0); b <= high; b++ {
		if seen += t.Buckets[b]; seen >= rank {
			return time.Duration(math.Pow(timesStep, float64(b)) * 1e3)
		}
	}
	return 0
}

// Stats is what agents saw since the question before.
type Stats struct {
	Agents   int // that run
	Watching int // that hear the distributor
	Synced   int // that it answered since Since
	Pending  int // reports that are not acknowledged
	Services int // that agents have
	Calls    map[string]*Times
	// Errors by call and code, and one text of each.
	Errors map[string]int64
	Texts  map[string]string
	Bytes  int64
	// Arrivals are the times at which services came at a commit, in Unix nanoseconds.
	Arrivals map[string][]int64
}

// downloads is how many came to a good end.
func (s *Stats) downloads() int {
	if s.Calls["download"] == nil {
		return 0
	}
	return int(s.Calls["download"].Count)
}

func (s *Stats) merge(other *Stats) {
	s.Agents += other.Agents
	s.Watching += other.Watching
	s.Synced += other.Synced
	s.Pending += other.Pending
	s.Services += other.Services
	s.Bytes += other.Bytes
	for name, times := range other.Calls {
		if s.Calls[name] == nil {
			s.Calls[name] = &Times{}
		}
		s.Calls[name].merge(times)
	}
	for name, n := range other.Errors {
		s.Errors[name] += n
		s.Texts[name] = other.Texts[name]
	}
	for commit, at := range other.Arrivals {
		s.Arrivals[commit] = append(s.Arrivals[commit], at...)
	}
}

func newStats() *Stats {
	return &Stats{Calls: map[string]*Times{}, Errors: map[string]int64{}, Texts: map[string]string{}, Arrivals: map[string][]int64{}}
}

// recorder gathers the stats of one process.
type recorder struct {
	watching atomic.Int64
	bytes    atomic.Int64

	mu        sync.Mutex // guards what follows
	stats     *Stats
	measuring bool // whether arrivals are kept: those of the first deliveries are nobody's question
}

func newRecorder() *recorder { return &recorder{stats: newStats()} }

func (r *recorder) called(ctx context.Context, name string, took time.Duration, err error) {
	if err != nil && canceled(ctx, err) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		text := err.Error()
		key := name + ": " + firstLine(text)
		r.stats.Errors[key]++
		r.stats.Texts[key] = text
		return
	}
	if r.stats.Calls[name] == nil {
		r.stats.Calls[name] = &Times{}
	}
	r.stats.Calls[name].Add(took)
}

// firstLine is as much of an error as tells its kind.
func firstLine(text string) string {
	text, _, _ = strings.Cut(text, "\n")
	text, _, _ = strings.Cut(text, "127.0.0.1:")
	return text[:min(len(text), 120)]
}

func (r *recorder) arrived(commit string, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.measuring {
		r.stats.Arrivals[commit] = append(r.stats.Arrivals[commit], at.UnixNano())
	}
}

// take returns what was gathered and begins anew.
func (r *recorder) take(measuring bool) *Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	stats := r.stats
	r.stats, r.measuring = newStats(), measuring
	stats.Bytes = r.bytes.Swap(0)
	stats.Watching = int(r.watching.Load())
	return stats
}
