// Package outage tells in the log of something that is away and comes back by itself, as a rule, such as the database:
// with a warning when it begins, an error when it has lasted for so long that somebody has to look, and a word when it
// is over. However often it is met meanwhile, nothing else is told.
package outage

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

const (
	// serious is how long an outage lasts until it is an error. A database that fails over, or is started again, is
	// back by then.
	serious = 30 * time.Second
	// forgotten is after how long without a failure the next one is another outage, for those that do not learn of the
	// end.
	forgotten = time.Minute
)

// Outage is of one thing. The zero value is none.
type Outage struct {
	mu    sync.Mutex // guards what follows
	since time.Time  // zero: there is none
	last  time.Time
	told  slog.Level // as what it was told
}

// Failed is called for each failure.
func (o *Outage) Failed(ctx context.Context, log *slog.Logger, now time.Time, message string, err error) {
	o.mu.Lock()
	level, say := o.met(now)
	since := o.since
	o.mu.Unlock()
	if say {
		log.Log(ctx, level, message, "err", err, "since", since.UTC().Format(time.RFC3339)) //nolint:sloglint // a constant of the caller
	}
}

// met notes a failure, and says whether it is to be told, and as what. The caller holds mu.
func (o *Outage) met(now time.Time) (level slog.Level, say bool) {
	defer func() { o.last = now }()
	switch {
	case o.since.IsZero() || now.Sub(o.last) > forgotten:
		o.since, o.told = now, slog.LevelWarn
		return o.told, true
	case o.told < slog.LevelError && now.Sub(o.since) >= serious:
		o.told = slog.LevelError
		return o.told, true
	}
	return 0, false
}

// Over is called for each success.
func (o *Outage) Over(ctx context.Context, log *slog.Logger, now time.Time, message string) {
	o.mu.Lock()
	since := o.since
	o.since = time.Time{}
	o.mu.Unlock()
	if !since.IsZero() {
		log.InfoContext(ctx, message, "after", now.Sub(since).Round(time.Millisecond)) //nolint:sloglint // a constant of the caller
	}
}
