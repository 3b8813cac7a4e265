package webhook

import (
	"hash/maphash"

	"golang.org/x/time/rate"
)

const (
	// perSecond and burst of signed webhooks for one source: a busy monorepo has some pushes a second. Webhooks beyond
	// the rate cost nothing but the polls between, which come anyway.
	perSecond = 10
	burst     = 50
	// buckets bounds the memory. Two sources that share one share its rate.
	buckets = 1024
)

// limits is a rate per source. The rate is asked once a proof was good: strangers mute no source.
type limits struct {
	seed  maphash.Seed
	rates [buckets]*rate.Limiter
}

func newLimits() *limits {
	l := &limits{seed: maphash.MakeSeed()}
	for i := range l.rates {
		l.rates[i] = rate.NewLimiter(perSecond, burst)
	}
	return l
}

func (l *limits) allow(name string) bool {
	return l.rates[maphash.String(l.seed, name)%buckets].Allow()
}
