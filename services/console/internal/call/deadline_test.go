package call_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
	"fairlead.dev/platform/client"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/server"
	"fairlead.dev/platform/telemetry"
	"fairlead.dev/services/console/internal/call"
)

// flood sends until it is cut.
type flood struct{ ended chan error }

func (f *flood) Watch(ctx context.Context, _ *consolev1.WatchRequest,
	stream *connect.ServerStream[consolev1.WatchResponse],
) error {
	m := &consolev1.WatchResponse{
		Event: &consolev1.WatchResponse_Changes{Changes: &consolev1.Changes{Changes: []*consolev1.Change{{
			Change: &consolev1.Change_Cluster{
				Cluster: &consolev1.Cluster{Spec: &consolev1.ClusterSpec{Description: strings.Repeat("x", 1<<20)}},
			},
		}}}},
	}
	for {
		if err := call.Bounded(ctx, 200*time.Millisecond, func() error { return stream.Send(m) }); err != nil {
			f.ended <- err
			return err
		}
	}
}

// TestFollowerThatDoesNotReadIsCut shows that the deadline reaches the connection through everything
// that our listener wraps around it, over HTTP/1.1 and HTTP/2.
func TestFollowerThatDoesNotReadIsCut(t *testing.T) {
	t.Parallel()
	keys, err := identity.NewKeySet()
	if err != nil {
		t.Fatal(err)
	}
	token, _, err := keys.Sign(identity.Identity{Kind: identity.KindService, Name: identity.ServiceTunnel}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := identity.NewBundleVerifier(identity.Bundle{Keys: keys.PublicJWKS(), IssuedAt: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	f := &flood{ended: make(chan error, 2)}
	s, err := server.New(server.Config{Listen: "127.0.0.1:0"}, server.Deps{
		Name: "console", Log: slog.New(slog.DiscardHandler), Telemetry: telemetry.Discard(), Verifier: verifier,
		Policy: identity.Policy{consolev1connect.CatalogServiceWatchProcedure: identity.RoleTunnel},
	}, server.RPC(consolev1connect.CatalogServiceName, func(o ...connect.HandlerOption) (string, http.Handler) {
		path, h := consolev1connect.NewCatalogServiceHandler(f, o...)
		return path, call.WithDeadlines(h)
	}))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	h2, err := client.New(client.Config{})
	if err != nil {
		t.Fatal(err)
	}
	h1 := &http.Client{Transport: &http.Transport{}}
	for name, hc := range map[string]*http.Client{"HTTP/2": h2, "HTTP/1.1": h1} {
		// The call ends only with the test: whoever doesn't read doesn't hang up either.
		callCtx, hangUp := context.WithCancel(context.Background())
		t.Cleanup(func() { hangUp(); hc.CloseIdleConnections() })
		opts := append(client.Options(), client.WithToken(identity.StaticToken(token)))
		stream, err := consolev1connect.NewCatalogServiceClient(hc, s.URL(), opts...).Watch(callCtx,
			&consolev1.WatchRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if !stream.Receive() {
			t.Fatalf("%s: %v", name, stream.Err())
		}
		select {
		case err := <-f.ended:
			if errors.Is(err, context.Canceled) {
				t.Errorf("%s: the client hung up: %v", name, err)
			}
		case <-time.After(time.Minute):
			t.Errorf("%s: the stream is not cut", name)
		}
	}
}
