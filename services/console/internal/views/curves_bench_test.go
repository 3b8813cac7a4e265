package views

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// The curves of 10,000 clusters, added up as a person asks for them. One figure of a cluster in twenty changes in a
// step.
func BenchmarkCurvesOf10000(b *testing.B) {
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // not for secrets
	c := curves{of: map[string]*curve{}}
	now := time.Now()
	uids := make([]string, 10_000)
	for i := range uids {
		uids[i] = fmt.Sprint(i)
		d := day{end: stepOf(now)}
		p := point{{1, 1}, {1, 1}, {1, 1}, {pack(500), pack(500), pack(1000)}, {pack(500), pack(500), pack(1000)}}
		for k := range d.points {
			for f := range p {
				if random.IntN(20) == 0 {
					p[f][0] = pack(random.Int64N(900))
					p[f][1] = p[f][0]
				}
			}
			d.points[k] = p
		}
		c.of[uids[i]] = &curve{data: d.encode(), step: d.end}
	}
	for b.Loop() {
		sums := new(totals)
		for _, uid := range uids {
			d := day{end: stepOf(now)}
			c.into(&d, uid)
			sums.add(&d)
		}
		sums.end()
	}
}
