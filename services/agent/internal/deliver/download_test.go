package deliver_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/trace/noop"

	"fairlead.dev/platform/artifact"
	"fairlead.dev/platform/hub"
	"fairlead.dev/services/agent/internal/deliver"
	"fairlead.dev/services/agent/internal/desired"
)

// Whoever reads holds a turn at the cluster: what is not on the disk must come in time, or not at all.
func TestDownloadThatStopsInTheMiddleEnds(t *testing.T) {
	t.Parallel()
	dir, wanted := t.TempDir(), newStore(t)
	synctest.Test(t, func(t *testing.T) {
		store, err := artifact.OpenStore(dir, artifact.Options{})
		if err != nil {
			t.Fatal(err)
		}
		transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
			near, far := net.Pipe()
			go func() { // answers half
				_, _ = far.Read(make([]byte, 4096))
				_, _ = io.WriteString(far, "HTTP/1.1 200 OK\r\nContent-Length: 1024\r\n\r\nhalf")
				_, _ = io.Copy(io.Discard, far)
				_ = far.Close()
			}()
			return near, nil
		}}
		distributors := hub.New(&http.Client{Transport: transport}, nil)
		distributors.Set([]string{"http://edge"})
		d := deliver.NewDownloader(store, distributors, wanted, noop.NewTracerProvider().Tracer(""))
		ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
		defer cancel()
		content, err := d.Open(ctx, desired.Service{Name: "a", Artifact: artifact.SumDigest(make([]byte, 32))})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, content); err == nil || ctx.Err() != nil {
			t.Errorf("it read on to %v", err)
		}
		_ = content.Close()
		_ = store.Close()
		transport.CloseIdleConnections()
	})
}
