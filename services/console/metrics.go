package console

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"fairlead.dev/platform/telemetry"
	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/index"
	"fairlead.dev/services/console/internal/store"
)

// register adds the console's own metrics. No metric has a label that grows with the catalog.
func register(tel *telemetry.Telemetry, s *Service) error {
	all := []prometheus.Collector{
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "fairlead_console_watch_streams",
			Help: "Streams that follow the catalog at this console.",
		}, func() float64 { return float64(s.feed.Streams()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "fairlead_console_change_sequence",
			Help: "Number of the last change of the catalog that this console knows; it differs between consoles only for moments.",
		}, func() float64 { return float64(s.feed.End()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "fairlead_console_log_read_age_seconds",
			Help: "Time since the change log was last read. Above 15 s streams are ended.",
		}, func() float64 { return s.feed.Age().Seconds() }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "fairlead_console_sealed_by_older_keys",
			Help: "Values in the database that older master keys have sealed and that can't be sealed anew. At 0 the older keys can go.",
		}, func() float64 { return s.renewer.Older() }),
		agents{func() *index.Index { return s.index }},
		commits(s.store, tel.Tracer.Tracer("fairlead.dev/services/console")),
	}
	all = append(all, s.sinks.Metrics.Collectors()...)
	for name, db := range s.store.Databases() {
		all = append(all, collectors.NewDBStatsCollector(db, name))
	}
	for _, c := range all {
		if err := tel.Registry.Register(c); err != nil {
			return fmt.Errorf("register metric: %w", err)
		}
	}
	return nil
}

// commits measures how long commits take, and ends their traces.
func commits(of *store.Store, tracer trace.Tracer) prometheus.Collector {
	healthy := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "fairlead_console_commit_healthy_seconds",
		Help:    "Time from the fetch of a commit until a cluster says that a service is healthy at it. Counted once, by the console that heard it.",
		Buckets: []float64{1, 2, 5, 10, 20, 30, 60, 120, 300, 900, 3600},
	})
	of.OnHealthy(func(d store.Deployment, within string) {
		if fetched, ok := catalog.FetchedAt(d); ok {
			ctx, span := telemetry.Of(context.Background(), within, tracer, "console.healthy", trace.WithAttributes(attribute.String("digest", d.Digest)))
			defer span.End()
			telemetry.Observe(ctx, healthy, time.Since(fetched))
		}
	})
	return healthy
}

// agents collects how many clusters have their agents.
type agents struct{ board func() *index.Index }

func agentsDesc() *prometheus.Desc {
	return prometheus.NewDesc("fairlead_console_clusters",
		"Clusters in the catalog, by whether the hub hears of their agents: connected, disconnected, never, left.", []string{"state"}, nil)
}

func (a agents) Describe(out chan<- *prometheus.Desc) { out <- agentsDesc() }

func (a agents) Collect(out chan<- prometheus.Metric) {
	counts, known := a.board().Agents()
	if !known {
		return
	}
	for state, n := range counts {
		out <- prometheus.MustNewConstMetric(agentsDesc(), prometheus.GaugeValue, float64(n), state)
	}
}
