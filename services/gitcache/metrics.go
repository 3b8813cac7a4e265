package gitcache

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"fairlead.dev/platform/artifact"
	"fairlead.dev/platform/telemetry"
)

// registerStore adds the artifact store's numbers, counted when they are asked for.
func registerStore(r prometheus.Registerer, store *artifact.Store) error {
	value := func(of func(artifact.Stats) int64) func() float64 {
		return func() float64 { return float64(of(store.Stats())) }
	}
	gauge := func(name, help string, of func(artifact.Stats) int64) error {
		return r.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value(of)))
	}
	count := func(name, help string, of func(artifact.Stats) int64) error {
		return r.Register(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, value(of)))
	}
	return errors.Join(
		gauge("fairlead_gitcache_store_artifacts", "Artifacts on the disk.", func(s artifact.Stats) int64 { return int64(s.Artifacts) }),
		gauge("fairlead_gitcache_store_bytes", "Bytes of artifacts on the disk.", func(s artifact.Stats) int64 { return s.Bytes }),
		gauge("fairlead_gitcache_store_max_bytes", "Bound of the bytes on the disk.", func(s artifact.Stats) int64 { return s.MaxBytes }),
		count("fairlead_gitcache_store_hits_total", "Artifacts that were found on the disk.", func(s artifact.Stats) int64 { return s.Hits }),
		count("fairlead_gitcache_store_misses_total", "Artifacts that were not on the disk.", func(s artifact.Stats) int64 { return s.Misses }),
		count("fairlead_gitcache_store_evicted_total", "Artifacts that made room for others.", func(s artifact.Stats) int64 { return s.Evicted }),
		count("fairlead_gitcache_store_corrupt_total", "Artifacts whose bytes went bad.", func(s artifact.Stats) int64 { return s.Corrupt }),
		count("fairlead_gitcache_store_full_total", "Artifacts that the disk did not take.", func(s artifact.Stats) int64 { return s.Full }),
	)
}

// registerBuilds adds the metrics of builds and returns what they are told with.
func registerBuilds(r prometheus.Registerer) (func(took time.Duration, err error), error) {
	builds := telemetry.FromZero(prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "fairlead_gitcache_builds_total", Help: "Artifacts built by result: ok, refused, failed.",
	}, []string{"result"}), "ok", "refused", "failed")
	duration := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "fairlead_gitcache_build_seconds", Help: "Duration of builds.", Buckets: prometheus.ExponentialBuckets(0.001, 4, 9),
	})
	observe := func(took time.Duration, err error) {
		result := "ok"
		switch {
		case errors.Is(err, artifact.ErrRefused):
			result = "refused"
		case err != nil:
			result = "failed"
		}
		builds.WithLabelValues(result).Inc()
		duration.Observe(took.Seconds())
	}
	return observe, errors.Join(r.Register(builds), r.Register(duration))
}

// registerShards adds gauges of what this replica has for others and should own.
func registerShards(r prometheus.Registerer, copies, preferred func() int) error {
	gauge := func(name, help string, of func() int) error {
		return r.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return float64(of()) }))
	}
	return errors.Join(
		gauge("fairlead_gitcache_sources_copied", "Sources of which this replica has a whole copy for others.", copies),
		gauge("fairlead_gitcache_sources_preferred", "Sources that this replica should own.", preferred),
	)
}
