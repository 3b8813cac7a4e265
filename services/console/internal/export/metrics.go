package export

import "github.com/prometheus/client_golang/prometheus"

// Metrics of an exporter.
type Metrics struct {
	exported prometheus.Counter
	failed   prometheus.Counter
}

// NewMetrics registers the metrics of an exporter.
func NewMetrics(registry prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		exported: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "fairlead_console_audit_exported_total",
			Help: "Events of the audit trail that --audit-export has taken.",
		}),
		failed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "fairlead_console_audit_export_failures_total",
			Help: "Batches of events that --audit-export did not take; each is sent again.",
		}),
	}
	for _, c := range []prometheus.Collector{m.exported, m.failed} {
		if err := registry.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}
