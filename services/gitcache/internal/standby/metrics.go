package standby

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"fairlead.dev/platform/telemetry"
)

// Metrics of copies.
type Metrics struct {
	copies *prometheus.CounterVec
	size   prometheus.Counter
}

// NewMetrics registers the metrics.
func NewMetrics(r prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		copies: telemetry.FromZero(prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fairlead_gitcache_copies_total",
			Help: "Looks at what another replica has of a source, by result: copied, unchanged, behind, none, failed.",
		}, []string{"result"}), "copied", "unchanged", "behind", "none", "failed"),
		size: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "fairlead_gitcache_copied_bytes_total", Help: "Bytes of packs and artifacts from other replicas.",
		}),
	}
	return m, errors.Join(r.Register(m.copies), r.Register(m.size))
}

func (m *Metrics) countCopy(news bool, err error) {
	result := "unchanged"
	switch {
	case errors.Is(err, ErrBehind):
		result = "behind"
	case errors.Is(err, errNobody), errors.Is(err, ErrNothing):
		result = "none"
	case err != nil:
		result = "failed"
	case news:
		result = "copied"
	}
	m.copies.WithLabelValues(result).Inc()
}

func (m *Metrics) countBytes(n int64) { m.size.Add(float64(n)) }
