package telemetry

import "github.com/prometheus/client_golang/prometheus"

// FromZero has a counter of one label show its values before anything is counted, and returns it. Prometheus sees no
// increase in a series that begins with 1: of what must never happen the first time would go unnoticed.
func FromZero(counter *prometheus.CounterVec, values ...string) *prometheus.CounterVec {
	for _, value := range values {
		counter.WithLabelValues(value)
	}
	return counter
}
