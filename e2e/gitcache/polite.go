package gitcache

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Polite judges a Git host's log. Per repository there is at most one fetcher in an interval, plus one
// for each time that the repository changed hands; and polls are not closer than the interval's jitter
// allows, but for one with each change of hands.
func Polite(log []Request, since, until time.Time, interval time.Duration, claims map[string]int) error {
	byRepo, nobody := map[string][]Request{}, 0
	for _, r := range log {
		switch {
		case r.Pack || r.Look || r.Time.After(until):
		case r.By == "": // the program died meanwhile
			nobody++
		default:
			byRepo[r.Repo] = append(byRepo[r.Repo], r)
		}
	}
	var wrong []error
	if nobody > len(log)/10 {
		wrong = append(wrong, fmt.Errorf("nobody knows where %d of %d requests came from", nobody, len(log)))
	}
	for _, repo := range slices.Sorted(maps.Keys(byRepo)) {
		polls := byRepo[repo]
		slices.SortFunc(polls, func(a, b Request) int { return a.Time.Compare(b.Time) })
		if extra := extraFetchers(polls, since, interval); extra > claims[repo] {
			wrong = append(wrong, fmt.Errorf("%s: %d fetchers too many in intervals of %s, but it changed hands %d times:%s",
				repo, extra, interval, claims[repo], story(polls, since)))
		}
		const jitter = 0.9 // the shortest pause between two polls, in intervals
		most := 1 + int(until.Sub(since).Seconds()/interval.Seconds()/jitter) + claims[repo]
		if len(polls) > most {
			wrong = append(wrong, fmt.Errorf("%s: %d polls in %s, want at most %d:%s", repo, len(polls), until.Sub(since), most, story(polls, since)))
		}
	}
	return errors.Join(wrong...)
}

// extraFetchers counts, over all intervals, the replicas beyond the first.
func extraFetchers(polls []Request, since time.Time, interval time.Duration) int {
	windows := map[time.Duration]map[string]bool{}
	for _, p := range polls {
		w := p.Time.Sub(since) / interval
		if windows[w] == nil {
			windows[w] = map[string]bool{}
		}
		windows[w][p.By] = true
	}
	extra := 0
	for _, by := range windows {
		extra += len(by) - 1
	}
	return extra
}

func story(polls []Request, since time.Time) string {
	var text strings.Builder
	for _, p := range polls {
		fmt.Fprintf(&text, " %.1fs %s", p.Time.Sub(since).Seconds(), p.By)
	}
	return text.String()
}
