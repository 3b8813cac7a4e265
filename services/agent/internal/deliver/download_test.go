package deliver_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/trace/noop"

	"fairlead.dev/platform/artifact"
	"fairlead.dev/platform/artifact/ticket"
	"fairlead.dev/platform/deliveryclient"
	"fairlead.dev/platform/hubsecret"
	"fairlead.dev/services/agent/internal/deliver"
	"fairlead.dev/services/agent/internal/desired"
)

// With distributors that give nothing the content comes from a gitcache, for the ticket of its delivery.
func TestContentComesFromAGitcacheWhenNoDistributorGivesIt(t *testing.T) {
	t.Parallel()
	tickets := ticket.Signer{Secret: hubsecret.Text("the hub's secret")}
	origin, err := artifact.OpenStore(t.TempDir(), artifact.Options{})
	if err != nil {
		t.Fatal(err)
	}
	built, err := origin.Build(func(w *artifact.Writer) error { return w.File("a.yaml", false, 2, strings.NewReader("a\n")) })
	if err != nil {
		t.Fatal(err)
	}
	gitcache := httptest.NewServer(origin.Handler(func(r *http.Request, d artifact.Digest) error {
		if !tickets.Valid(r, "edge-1", d) {
			return artifact.ErrNotFound
		}
		return nil
	}))
	t.Cleanup(gitcache.Close)
	edge := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "no", http.StatusServiceUnavailable)
	}))
	t.Cleanup(edge.Close)
	distributors := deliveryclient.New(http.DefaultClient, nil)
	distributors.Set([]string{edge.URL, "http://127.0.0.1:1"})
	store, err := artifact.OpenStore(t.TempDir(), artifact.Options{})
	if err != nil {
		t.Fatal(err)
	}
	d := deliver.NewDownloader(store, &deliveryclient.Content{
		Distributors: distributors, Gitcaches: func() []string { return []string{"http://127.0.0.1:1", gitcache.URL} },
		HTTP: http.DefaultClient,
	}, newStore(t), noop.NewTracerProvider().Tracer(""))
	ticket, err := tickets.For("edge-1")
	if err != nil {
		t.Fatal(err)
	}
	service := desired.Service{Name: "a", Artifact: built.Digest}
	if err := d.Prepare(t.Context(), service); err == nil {
		t.Error("it came without a ticket")
	}
	service.Ticket = ticket(built.Digest)
	if err := d.Prepare(t.Context(), service); err != nil || !store.Has(built.Digest) {
		t.Errorf("it did not come: %v", err)
	}
}

// A reader holds a turn at the cluster: what is not on the disk must come in time, or not at all.
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
		distributors := deliveryclient.New(&http.Client{Transport: transport}, nil)
		distributors.Set([]string{"http://edge"})
		d := deliver.NewDownloader(store, &deliveryclient.Content{Distributors: distributors}, wanted,
			noop.NewTracerProvider().Tracer(""))
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
