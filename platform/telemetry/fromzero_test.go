package telemetry_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"fairlead.dev/platform/telemetry"
)

func TestCounterIsThereBeforeItCounts(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	registry.MustRegister(telemetry.FromZero(prometheus.NewCounterVec(prometheus.CounterOpts{Name: "n", Help: "n"},
		[]string{"result"}), "ok", "failed"))
	families, err := registry.Gather()
	if err != nil || len(families) != 1 || len(families[0].GetMetric()) != 2 {
		t.Fatalf("%v, %v", families, err)
	}
	for _, m := range families[0].GetMetric() {
		if m.GetCounter().GetValue() != 0 {
			t.Errorf("%v has counted", m)
		}
	}
}
