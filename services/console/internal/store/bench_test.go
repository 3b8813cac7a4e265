package store_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"fairlead.dev/services/console/internal/store"
	"fairlead.dev/services/console/internal/store/audittrail"
)

// BenchmarkAuditBatch stores a thousand events of requests in one transaction, as a busy tunnel sends them.
func BenchmarkAuditBatch(b *testing.B) {
	s, err := store.New("sqlite:"+filepath.Join(b.TempDir(), "console.db"), store.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if err := s.Migrate(b.Context()); err != nil {
		b.Fatal(err)
	}
	const many = 1000
	now, n := time.Now(), 0
	text := []byte(`{"id":"019a","time":"2026-11-22T17:00:00.123456789Z","actor":{"kind":"user","name":"ada","groups":["dev"]},"action":"tunnel.request","cluster":"edge-1","resource":"pods","verb":"get","code":200,"bytesReceived":"2048","duration":"0.001234567s"}`)
	b.ReportAllocs()
	for b.Loop() {
		events := make([]audittrail.Event, many)
		for i := range events {
			n++
			events[i] = audittrail.Event{
				ID:   fmt.Sprintf("%032d", n),
				Time: now.Add(time.Duration(n) * time.Microsecond), Actor: "user:ada", Cluster: "edge-1",
				Action: "tunnel.request", Event: text,
			}
		}
		if err := s.AppendAudit(b.Context(), events); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*many), "us/event")
}
