// Package pause remembers what did not work, so that it is not tried again with every poll: objects that came and can't
// be used, repositories of submodules that did not answer. A key that failed more often pauses longer.
package pause

import (
	"fmt"
	"time"

	"fairlead.dev/platform/retry"
	"fairlead.dev/services/gitcache/internal/git"
)

const (
	// first is the first pause, around which it is spread.
	first = 2 * time.Second
	// Most bounds the pause between two tries of what upstream did not give.
	Most = 5 * time.Minute
	// MostSpoiled bounds the pause between two fetches of what could not be used: each may be a whole
	// clone. A commit that is pushed in between is fetched at once.
	MostSpoiled = time.Hour
	// limitTimes is with how many failures a repository begins of which a pack broke a limit: a pause of about two
	// minutes.
	limitTimes = 6
	// maxPauses bounds their memory: mostly a source has none.
	maxPauses = 200
)

// Pauses are those of a source, by what is not tried. One goroutine uses them.
type Pauses map[string]pause

type pause struct {
	err   error
	times int
	until time.Time
}

// Check is why something is not tried now; nil: it is.
func (p Pauses) Check(key string) error {
	if before, ok := p[key]; ok && time.Now().Before(before.until) {
		return before.err
	}
	return nil
}

// Add pauses something for a time that doubles up to most. The first pause is short: a transfer may just have been
// cut on its way.
func (p Pauses) Add(key string, err error, most time.Duration) {
	before, known := p[key]
	if !known && len(p) >= maxPauses {
		clear(p)
	}
	bound := min(first<<min(before.times, 16), most)
	p[key] = pause{err: err, times: before.times + 1, until: time.Now().Add(retry.Around(bound))}
}

// AddLong pauses objects for long at once: a pack breaks a limit each time that it comes, and costs what the limit
// allows. Other objects of the same repository pause, too, for a shorter time that doubles: each push would have all of
// it checked again.
func (p Pauses) AddLong(key, repository string, err error) {
	p[key] = pause{err: err, times: 16}
	p.Add(key, err, MostSpoiled)
	if _, known := p[repository]; !known {
		p[repository] = pause{times: limitTimes}
	}
	p.Add(repository, err, MostSpoiled)
}

// Has tells whether something did not work before, whether or not it is tried again by now.
func (p Pauses) Has(key string) bool {
	_, known := p[key]
	return known
}

// Clear forgets what works again.
func (p Pauses) Clear(key string) { delete(p, key) }

// KeyOf is the key of objects that are fetched together.
func KeyOf(ids ...git.Hash) string { return fmt.Sprint(ids) }
