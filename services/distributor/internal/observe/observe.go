// Package observe holds the distributor's metrics. Labels are few and fixed.
package observe

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"fairlead.dev/platform/artifact"
	"fairlead.dev/platform/telemetry"
	"fairlead.dev/services/distributor/internal/plan"
)

// Metrics are counted into by the other packages.
type Metrics struct {
	Syncs    *prometheus.CounterVec // by result: not_modified, have_wanted, changes, unknown_cluster, not_ready
	Nudges   prometheus.Counter
	Resolves *prometheus.CounterVec // by result: resolved, no_folder, refused, unavailable
	Reports  *prometheus.CounterVec // by result: durable, failed
	Away     *prometheus.CounterVec // turned away, by class: sync, watch, report, details, view, registry
	Gets     *prometheus.CounterVec // of artifacts, by result: hit, miss, refused
}

// State is what is looked at when metrics are asked for.
type State struct {
	Store    func() artifact.Stats
	Plan     func() plan.Counts
	Stale    func() (since time.Time, stale bool)
	Watchers func() int
}

// New registers the metrics.
func New(r prometheus.Registerer, s State) (*Metrics, error) {
	m := &Metrics{
		Syncs:    counters("syncs_total", "Syncs answered, by result.", "result"),
		Resolves: counters("resolves_total", "Answers to what was asked of gitcaches, by result.", "result", "resolved", "no_folder", "refused", "unavailable"),
		Reports:  counters("reports_total", "Service reports taken in, by whether they got durable.", "result", "durable", "failed"),
		Gets:     counters("artifact_gets_total", "Artifacts that agents asked for: on this node (hit), to be fetched first (miss), or not theirs (refused).", "result"),
		Away:     counters("turned_away_total", "Calls that were told to come back later, by class.", "class"),
		Nudges:   prometheus.NewCounter(prometheus.CounterOpts{Name: prefix + "nudges_total", Help: "Nudges put to watching agents."}),
	}
	for _, c := range append(gauges(s), m.Syncs, m.Resolves, m.Reports, m.Away, m.Gets, m.Nudges) {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

const prefix = "fairlead_distributor_"

func counters(name, help, label string, values ...string) *prometheus.CounterVec {
	return telemetry.FromZero(prometheus.NewCounterVec(prometheus.CounterOpts{Name: prefix + name, Help: help}, []string{label}), values...)
}

func gauges(s State) []prometheus.Collector {
	gauge := func(name, help string, f func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: prefix + name, Help: help}, f)
	}
	counter := func(name, help string, f func() int64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: prefix + name, Help: help}, func() float64 { return float64(f()) })
	}
	return []prometheus.Collector{
		gauge("watchers", "Watch streams that are open.", func() float64 { return float64(s.Watchers()) }),
		gauge("clusters", "Clusters in the catalog.", func() float64 { return float64(s.Plan().Clusters) }),
		gauge("services", "Services in the catalog.", func() float64 { return float64(s.Plan().Services) }),
		gauge("services_undelivered", "Services that have never been resolved.", func() float64 { return float64(s.Plan().Undelivered) }),
		gauge("unresolved", "Folders at commits that no gitcache has answered for yet.", func() float64 { return float64(s.Plan().Open) }),
		gauge("catalog_silence_seconds", "Seconds since the console was heard last.", func() float64 {
			since, _ := s.Stale()
			return time.Since(since).Seconds()
		}),
		gauge("cache_bytes", "Bytes of artifacts on the disk.", func() float64 { return float64(s.Store().Bytes) }),
		gauge("cache_max_bytes", "Bound of cache_bytes.", func() float64 { return float64(s.Store().MaxBytes) }),
		gauge("cache_artifacts", "Artifacts on the disk.", func() float64 { return float64(s.Store().Artifacts) }),
		counter("cache_hits_total", "Artifacts asked for that were on the disk.", func() int64 { return s.Store().Hits }),
		counter("cache_misses_total", "Artifacts asked for that were not.", func() int64 { return s.Store().Misses }),
		counter("cache_evicted_total", "Artifacts that made room for others.", func() int64 { return s.Store().Evicted }),
		counter("cache_corrupt_total", "Artifacts whose bytes were found bad.", func() int64 { return s.Store().Corrupt }),
		counter("cache_full_total", "Times that an artifact found no room.", func() int64 { return s.Store().Full }),
	}
}

// Resolved counts an answer.
func (m *Metrics) Resolved(a plan.Answer) {
	result := "resolved"
	if a.Failure != nil {
		switch a.Failure.Kind {
		case plan.NoFolder:
			result = "no_folder"
		case plan.Refused:
			result = "refused"
		default:
			result = "unavailable"
		}
	}
	m.Resolves.WithLabelValues(result).Inc()
}
