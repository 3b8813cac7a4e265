// Package pressure tells how busy this process is, by how late it comes to what it wants to do at a certain
// time: whatever it lacks, be it CPU time or memory that is collected all the time, shows in that.
package pressure

import (
	"context"
	"sync/atomic"
	"time"
)

const (
	// look is the time between two looks.
	look = 500 * time.Millisecond
	// weight is the share of the newest look in the mean, one in so many: some seconds count.
	weight = 8
	// From calm on there is pressure; at full, all there can be.
	calm = 20 * time.Millisecond
	full = 300 * time.Millisecond
)

// Gauge measures it. The zero value is ready, and says that there is none.
type Gauge struct{ late atomic.Int64 } // in nanoseconds, the mean

// Run measures until ctx ends.
func (g *Gauge) Run(ctx context.Context) error {
	timer := time.NewTimer(look)
	defer timer.Stop()
	for {
		due := time.Now().Add(look)
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		g.Note(time.Since(due))
		timer.Reset(look)
	}
}

// Note takes in how late something was.
func (g *Gauge) Note(late time.Duration) {
	mean := g.late.Load()
	g.late.Store(mean + (int64(max(late, 0))-mean)/weight)
}

// Share is how much pressure there is, from 0 to 1.
func (g *Gauge) Share() float64 {
	late := time.Duration(g.late.Load())
	return min(max(float64(late-calm)/float64(full-calm), 0), 1)
}
