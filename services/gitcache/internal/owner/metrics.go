package owner

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"fairlead.dev/platform/telemetry"
	"fairlead.dev/services/gitcache/internal/upstream"
)

// Metrics of polls, fetches and publishes. No label holds a name from outside.
type Metrics struct {
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

// NewMetrics registers the metrics.
func NewMetrics(r prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
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

// RegisterTotals adds gauges that are counted when they are asked for.
func RegisterTotals(r prometheus.Registerer, o *Owner) error {
	gauge := func(name, help string, value func(Totals) float64) error {
		return r.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help},
			func() float64 { return value(o.Totals()) }))
	}
	return errors.Join(
		gauge("fairlead_gitcache_sources", "Sources in the catalog.", func(t Totals) float64 { return float64(t.Known) }),
		gauge("fairlead_gitcache_sources_owned", "Sources whose lease this replica holds.", func(t Totals) float64 { return float64(t.Owned) }),
		gauge("fairlead_gitcache_sources_with_problem",
			"Owned sources that have a problem, other than refs that upstream does not have.", func(t Totals) float64 { return float64(t.Problems) }),
		gauge("fairlead_gitcache_sources_stale", "Owned sources whose last poll failed.", func(t Totals) float64 { return float64(t.Stale) }),
		gauge("fairlead_gitcache_mirrors_bytes", "Size of the packs of owned sources.", func(t Totals) float64 { return float64(t.MirrorBytes) }),
		gauge("fairlead_gitcache_oldest_poll_age_seconds", "Age of the oldest last good poll of an owned source.",
			func(t Totals) float64 { return t.OldestPoll.Seconds() }),
	)
}

func (m *Metrics) countPoll(ctx context.Context, result string, took time.Duration) {
	m.polls.WithLabelValues(result).Inc()
	telemetry.Observe(ctx, m.pollTime, took)
}

func (m *Metrics) countListing(bytes int64) { m.listed.Add(float64(bytes)) }

func (m *Metrics) countFetch(bytes int64, err error) {
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

func (m *Metrics) countPublish(result string) { m.publishes.WithLabelValues(result).Inc() }

func (m *Metrics) countTakeover(handed bool) {
	how := "free"
	if handed {
		how = "handed"
	}
	m.takeovers.WithLabelValues(how).Inc()
}

func (m *Metrics) countVerification(result string) { m.verified.WithLabelValues(result).Inc() }

func (m *Metrics) countUpkeep(err error) {
	result := "ok"
	if err != nil {
		result = "failed"
	}
	m.upkeeps.WithLabelValues(result).Inc()
}
