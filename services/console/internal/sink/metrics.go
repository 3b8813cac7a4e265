package sink

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"fairlead.dev/services/console/internal/store"
)

// Metrics count what is sent, by what sinks are: none has a label that grows with the catalog.
type Metrics struct {
	events   *prometheus.CounterVec
	failures *prometheus.CounterVec
	failing  atomic.Int64
	lag      atomic.Int64 // nanoseconds
}

// NewMetrics returns counters at 0.
func NewMetrics() *Metrics {
	m := &Metrics{
		events: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fairlead_console_sink_events_total", Help: "Events that this console sent to sinks, or gave up.",
		}, []string{"kind", "outcome"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fairlead_console_sink_failures_total", Help: "Messages of this console that a sink did not take; they are tried again.",
		}, []string{"kind"}),
	}
	for _, kind := range []string{"webhook", "slack", "email"} {
		m.failures.WithLabelValues(kind)
		for _, outcome := range []string{"sent", "dropped"} {
			m.events.WithLabelValues(kind, outcome)
		}
	}
	return m
}

// Collectors are what to register.
func (m *Metrics) Collectors() []prometheus.Collector {
	return []prometheus.Collector{m.events, m.failures, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "fairlead_console_sinks_failing", Help: "Sinks of the hub that did not take the last message, whichever console sent it.",
	}, func() float64 { return float64(m.failing.Load()) }), prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "fairlead_console_sink_lag_seconds", Help: "Age of the oldest event that waits for a sink of the hub which did not take it.",
	}, func() float64 { return time.Duration(m.lag.Load()).Seconds() })}
}

func (m *Metrics) saw(all map[string]store.Sending, now time.Time) {
	var failing int64
	var lag time.Duration
	for _, of := range all {
		if of.Problem != "" {
			failing++
		}
		if of.Waiting > 0 {
			lag = max(lag, now.Sub(of.Oldest))
		}
	}
	m.failing.Store(failing)
	m.lag.Store(int64(lag))
}
