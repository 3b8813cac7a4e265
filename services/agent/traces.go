package agent

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"time"

	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"fairlead.dev/platform/telemetry"
	"fairlead.dev/platform/version"
)

// traceThroughHub makes spans go to the distributors.
func (a *Agent) traceThroughHub() (err error) {
	observed := *a.telemetry // the process' own goes on for those who have it
	a.flush, err = observed.ExportThrough(context.Background(), telemetry.Config{Service: "agent", Version: version.String(), Log: a.log}, a.upload)
	a.telemetry = &observed
	return err
}

// flushTime bounds the last upload.
const flushTime = 3 * time.Second

func (a *Agent) flushTraces() {
	if a.flush == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), flushTime)
	defer cancel()
	_ = a.flush(ctx) // spans may be lost
}

// upload hands spans to the distributor in use. Other distributors are not tried, and nothing is tried again: spans may
// be lost.
func (a *Agent) upload(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	one, err := a.distributors.Current()
	if err != nil {
		return fmt.Errorf("hand spans to the hub: %w", err)
	}
	body, err := proto.Marshal(&coltracepb.ExportTraceServiceRequest{ResourceSpans: spans})
	if err != nil {
		return fmt.Errorf("encode spans: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, one.URL+"/v1/traces", bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("hand spans to the hub: %w", err)
	}
	req.Header.Set("Content-Type", "application/x-protobuf")
	resp, err := one.HTTP.Do(req)
	if err != nil {
		return fmt.Errorf("hand spans to the hub: %w", err)
	}
	if err := resp.Body.Close(); err != nil {
		return fmt.Errorf("hand spans to the hub: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("hand spans to the hub: distributor answers %s", resp.Status)
	}
	return nil
}
