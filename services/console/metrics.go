package console

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// register adds the console's own metrics. None of them has a label that grows with the catalog.
func register(registry *prometheus.Registry, s *Service) error {
	all := []prometheus.Collector{
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "fairlead_console_watch_streams",
			Help: "Streams that follow the catalog at this console.",
		}, func() float64 { return float64(s.hub.Streams()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "fairlead_console_change_sequence",
			Help: "Number of the last change of the catalog that this console knows; it differs between consoles only for moments.",
		}, func() float64 { return float64(s.hub.End()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "fairlead_console_log_read_age_seconds",
			Help: "Time since the change log was last read. Above 15 s streams are ended.",
		}, func() float64 { return s.hub.Age().Seconds() }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "fairlead_console_sealed_by_older_keys",
			Help: "Values in the database that older master keys have sealed and that can't be sealed anew. At 0 the older keys can go.",
		}, func() float64 { return s.renewer.Older() }),
	}
	for name, db := range s.store.Databases() {
		all = append(all, collectors.NewDBStatsCollector(db, name))
	}
	for _, c := range all {
		if err := registry.Register(c); err != nil {
			return fmt.Errorf("register metric: %w", err)
		}
	}
	return nil
}
