// Package metrics counts polls, fetches, verifications and publishes. No label holds a name from outside.
package metrics

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"fairlead.dev/platform/telemetry"
	"fairlead.dev/services/gitcache/internal/upstream"
)

// Set is all of them.
type Set struct {
	polls     *prometheus.CounterVec
	pollTime  prometheus.Histogram
	fetches   *prometheus.CounterVec
	listed    prometheus.Counter
	bytes     prometheus.Counter
	publishes *prometheus.CounterVec
	verified  *prometheus.CounterVec
	upkeeps   *prometheus.CounterVec
	takeovers *prometheus.CounterVec
}

// New registers the metrics.
func New(r prometheus.Registerer) (*Set, error) {
	m := &Set{
		polls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fairlead_gitcache_polls_total",
			Help: "Polls of upstream by result: unchanged, moved, or the kind of error.",
		}, []string{"result"}),
		pollTime: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "fairlead_gitcache_poll_seconds", Help: "Duration of polls, with the fetch if there was one.",
			Buckets: prometheus.ExponentialBuckets(0.02, 4, 8),
		}),
		fetches: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fairlead_gitcache_fetches_total", Help: "Packs asked from upstream by result: ok, or the kind of error.",
		}, []string{"result"}),
		listed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "fairlead_gitcache_listed_bytes_total", Help: "Bytes of lists of refs from upstream, which polls ask for.",
		}),
		bytes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "fairlead_gitcache_fetched_bytes_total", Help: "Bytes of packs from upstream.",
		}),
		publishes: telemetry.FromZero(prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fairlead_gitcache_publishes_total", Help: "Publishes of heads to the console by result: ok, failed.",
		}, []string{"result"}), "ok", "failed"),
		verified: telemetry.FromZero(prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fairlead_gitcache_verifications_total",
			Help: "Signatures of commits, tags, charts and artifacts that were checked, by result: ok, unsigned, unknown_key, expired, revoked, invalid.",
		}, []string{"result"}), "ok", "unsigned", "unknown_key", "expired", "revoked", "invalid"),
		upkeeps: telemetry.FromZero(prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fairlead_gitcache_mirror_upkeeps_total", Help: "Times that a mirror which had grown was looked after, by result: ok, failed.",
		}, []string{"result"}), "ok", "failed"),
		takeovers: telemetry.FromZero(prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fairlead_gitcache_takeovers_total",
			Help: "Sources that this replica came to own: handed over by another replica, or because nobody had them (free).",
		}, []string{"how"}), "handed", "free"),
	}
	for _, c := range []prometheus.Collector{m.polls, m.pollTime, m.listed, m.fetches, m.bytes, m.publishes, m.verified, m.upkeeps, m.takeovers} {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// CountPoll counts a poll by its result: unchanged, moved, or the kind of error.
func (m *Set) CountPoll(ctx context.Context, result string, took time.Duration) {
	m.polls.WithLabelValues(result).Inc()
	telemetry.Observe(ctx, m.pollTime, took)
}

// CountListing counts what upstream said without a pack.
func (m *Set) CountListing(bytes int64) { m.listed.Add(float64(bytes)) }

// CountFetch counts a pack, or a package, or why there is none.
func (m *Set) CountFetch(bytes int64, err error) {
	result := "ok"
	if err != nil {
		result = "failed"
		if known, ok := errors.AsType[*upstream.Error](err); ok {
			result = string(known.Kind)
		}
	}
	m.fetches.WithLabelValues(result).Inc()
	m.bytes.Add(float64(bytes))
}

// CountPublish counts a publication by its result: ok, failed.
func (m *Set) CountPublish(result string) { m.publishes.WithLabelValues(result).Inc() }

// CountTakeover counts a source that came here, handed over or free.
func (m *Set) CountTakeover(handed bool) {
	how := "free"
	if handed {
		how = "handed"
	}
	m.takeovers.WithLabelValues(how).Inc()
}

// CountVerification counts a signature that was checked, by its result: ok, or what is wrong.
func (m *Set) CountVerification(result string) { m.verified.WithLabelValues(result).Inc() }

// CountUpkeep counts a mirror that was looked after.
func (m *Set) CountUpkeep(err error) {
	result := "ok"
	if err != nil {
		result = "failed"
	}
	m.upkeeps.WithLabelValues(result).Inc()
}
