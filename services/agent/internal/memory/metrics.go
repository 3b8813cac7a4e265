package memory

import "github.com/prometheus/client_golang/prometheus"

// Register exports what the memory holds.
func (m *Memory) Register(metrics prometheus.Registerer) {
	for state, count := range map[string]func(Counts) int{
		"all": func(c Counts) int { return c.Total }, "healthy": func(c Counts) int { return c.Healthy },
		"unseen": func(c Counts) int { return c.Unseen }, "drifted": func(c Counts) int { return c.Drifted },
		"gone": func(c Counts) int { return c.Missing }, "held": func(c Counts) int { return c.Held },
	} {
		metrics.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "fairlead_agent_objects", Help: "Managed objects, by state.", ConstLabels: prometheus.Labels{"state": state},
		}, func() float64 { return float64(count(m.Counts())) }))
	}
	metrics.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "fairlead_agent_memory_bytes", Help: "Memory that the records of managed objects take.",
	}, func() float64 { return float64(m.Bytes()) }))
}
