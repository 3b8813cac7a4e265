package pressure

import (
	"sync"
	"time"

	"fairlead.dev/platform/retry"
)

const (
	// paceOver is how long a rate is measured before it counts, and paceWeight the share of the newest in the mean, one
	// in so many.
	paceOver, paceWeight = time.Second, 4
	// A caller that is refused comes back after leastPause, and after unknownPause at most while no rate is known;
	// longestPause is what agents heed.
	leastPause, unknownPause, longestPause = 2 * time.Second, 15 * time.Second, time.Minute
	// overbooked is how many callers are told to come in the time in which the line takes one. A rate is of a moment,
	// mostly a slow one, and a line that has run empty waits for the callers that were sent away. A caller that comes
	// too early is only sent away again.
	overbooked = 2
	// jitter is the share of a pause that is left to chance.
	jitter = 0.2
)

// Pace knows how fast a line is worked off. The zero value is ready.
type Pace struct {
	mu    sync.Mutex // guards what follows
	rate  float64    // per second; 0: not known yet
	done  int        // since begin
	begin time.Time  // zero: nothing waits
	// booked is the time at which the line reaches the last refused caller, at the current rate.
	booked time.Time
}

// Note counts what was worked off. waits says whether more is in the line: a rate is measured only while there is,
// since a line that is empty now and then moves as slowly as it is filled.
func (p *Pace) Note(n int, waits bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if p.begin.IsZero() {
		if waits {
			p.begin, p.done = now, 0
		}
		return
	}
	p.done += n
	if took := now.Sub(p.begin); took >= paceOver {
		rate := float64(p.done) / took.Seconds()
		if p.rate == 0 {
			p.rate = rate
		}
		p.rate += (rate - p.rate) / paceWeight
		p.begin, p.done = now, 0
	}
	if !waits {
		p.begin, p.booked = time.Time{}, time.Time{}
	}
}

// Takes is how long a line of so many takes; 0 while no rate is known.
func (p *Pace) Takes(waiting int64) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.rate == 0 {
		return 0
	}
	return p.takes(waiting)
}

// Within is how many the line takes in a time; 0 while no rate is known.
func (p *Pace) Within(time time.Duration) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return int(p.rate * time.Seconds())
}

// takes is Takes at a known rate. The caller holds mu.
func (p *Pace) takes(waiting int64) time.Duration {
	return time.Duration(min(float64(waiting)/p.rate, longestPause.Seconds()) * float64(time.Second))
}

// Pause is when a refused caller may come back: once the line and the callers refused before it are worked off, if the
// line moves overbooked times as fast as now. Each caller gets a time of its own.
func (p *Pace) Pause(waiting int64) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.rate == 0 {
		return retry.Between(leastPause, unknownPause)
	}
	now := time.Now()
	line := now.Add(p.takes(waiting) / overbooked)
	if line.After(p.booked) {
		p.booked = line
	}
	pause := p.booked.Sub(now)
	if next := p.booked.Add(time.Duration(float64(time.Second) / (overbooked * p.rate))); next.Before(now.Add(longestPause)) {
		p.booked = next
	}
	spread := time.Duration(jitter * float64(pause))
	return max(retry.Between(pause-spread, pause), retry.Between(leastPause, leastPause+time.Second))
}
