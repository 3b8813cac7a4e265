// Package observe holds the tunnel's metrics. No label has more values than are written here.
package observe

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"fairlead.dev/platform/mux"
	"fairlead.dev/platform/telemetry"
)

// Metrics of a tunnel.
type Metrics struct {
	classes  [6]prometheus.Counter // of requests; 0: aborted
	to, from prometheus.Counter    // bytes
	// requests to and from other replicas
	handed, taken prometheus.Counter
	ends          *prometheus.CounterVec
}

// New registers the metrics; counts is asked when they are collected.
func New(r prometheus.Registerer, counts func() (sessions, streams int)) (*Metrics, error) {
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "fairlead_tunnel_requests_total", Help: "Requests to clusters that ended, by class of their status; aborted: the response broke off or nobody waited for it.",
	}, []string{"code"})
	bytes := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "fairlead_tunnel_bytes_total", Help: "Bytes of bodies, to and from clusters.",
	}, []string{"direction"})
	relayed := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "fairlead_tunnel_relayed_total", Help: "Requests that went to another replica, which has the session (to), or came from one (from).",
	}, []string{"direction"})
	m := &Metrics{
		handed: relayed.WithLabelValues("to"), taken: relayed.WithLabelValues("from"),
		to: bytes.WithLabelValues("to_cluster"), from: bytes.WithLabelValues("from_cluster"),
		ends: telemetry.FromZero(prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fairlead_tunnel_session_ends_total", Help: "Agents' sessions that ended, by reason.",
		}, []string{"reason"}), "peer", "silent", "closed", "protocol"),
	}
	for i := range m.classes {
		m.classes[i] = requests.WithLabelValues([...]string{"aborted", "1xx", "2xx", "3xx", "4xx", "5xx"}[i])
	}
	gauge := func(name, help string, value func() int) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return float64(value()) })
	}
	return m, errors.Join(
		r.Register(requests), r.Register(bytes), r.Register(relayed), r.Register(m.ends),
		r.Register(gauge("fairlead_tunnel_sessions", "Agents' sessions that this replica holds.", func() int { n, _ := counts(); return n })),
		r.Register(gauge("fairlead_tunnel_streams", "Requests that run over them.", func() int { _, n := counts(); return n })),
	)
}

// Request counts a request that ended. Code 0: aborted.
func (m *Metrics) Request(code int, sent, received int64) {
	class := code / 100
	if class >= len(m.classes) {
		class = 0
	}
	m.classes[class].Inc()
	m.to.Add(float64(sent))
	m.from.Add(float64(received))
}

// Handed counts a request that went to another replica.
func (m *Metrics) Handed() { m.handed.Inc() }

// Taken counts a request that came from another replica.
func (m *Metrics) Taken() { m.taken.Inc() }

// SessionEnd counts a session that ended.
func (m *Metrics) SessionEnd(err error) {
	reason := "peer"
	var protocol *mux.ProtocolError
	var version *mux.VersionError
	switch {
	case errors.Is(err, mux.ErrDead):
		reason = "silent"
	case errors.Is(err, mux.ErrClosed):
		reason = "closed"
	case errors.As(err, &protocol), errors.As(err, &version):
		reason = "protocol"
	}
	m.ends.WithLabelValues(reason).Inc()
}
