package owner

import (
	"math/rand/v2"
	"time"
)

const (
	// mostSpoiled bounds the pause between two fetches of what could not be used: each may be a whole
	// clone. A commit that is pushed in between is fetched at once.
	mostSpoiled = time.Hour
	// limitTimes is with how many failures a repository begins of which a pack broke a limit: a pause of about two minutes.
	limitTimes = 6
	// maxHolds bounds their memory: mostly a source has none.
	maxHolds = 200
)

// holds are things that did not work and are not tried again with every poll, by what they are: objects
// that came and can't be used, repositories of submodules that did not answer.
type holds map[string]hold

type hold struct {
	err   error
	times int
	until time.Time
}

// checkPaused is why something is not tried now; nil: it is.
func (h holds) checkPaused(key string) error {
	if before, ok := h[key]; ok && time.Now().Before(before.until) {
		return before.err
	}
	return nil
}

// addPause pauses for a time that doubles up to most. The first pause is short: a transfer may just have been
// cut on its way.
func (h holds) addPause(key string, err error, most time.Duration) {
	before, known := h[key]
	if !known && len(h) >= maxHolds {
		clear(h)
	}
	pause := min(firstBackoff<<min(before.times, 16), most)
	h[key] = hold{err: err, times: before.times + 1, until: time.Now().Add(pause/2 + rand.N(pause))} //nolint:gosec // jitter
}

// pauseLong pauses for long at once: a pack breaks a limit each time that it comes, and costs what the limit allows. Other objects of the same
// repository are held, too, for a shorter time that doubles: each push would have all of it checked again.
func (h holds) pauseLong(key, repository string, err error) {
	h[key] = hold{err: err, times: 16}
	h.addPause(key, err, mostSpoiled)
	if _, known := h[repository]; !known {
		h[repository] = hold{times: limitTimes}
	}
	h.addPause(repository, err, mostSpoiled)
}

func (h holds) clearPause(key string) { delete(h, key) }
