package server

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"connectrpc.com/connect"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/gen/fairlead/delivery/v1/deliveryv1connect"
	tunnelv1 "fairlead.dev/gen/fairlead/tunnel/v1"
	"fairlead.dev/gen/fairlead/tunnel/v1/tunnelv1connect"
	"fairlead.dev/platform/client"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/longform"
)

func ended(t *testing.T, s *running) {
	t.Helper()
	select {
	case <-s.done:
	case <-time.After(time.Minute):
		t.Fatal("the server does not end")
	}
}

func TestDrainLetsRequestsFinishAfterTellingThatItIsNotReady(t *testing.T) {
	t.Parallel()
	entered, finish := make(chan struct{}), make(chan struct{})
	get := func(ctx context.Context, _ string) error {
		close(entered)
		select {
		case <-finish:
			return nil
		case <-ctx.Done():
			return errors.New("cut off")
		}
	}
	srv, log := newServer(t, Config{DrainDelay: time.Hour}, rpcMounts(get)...)
	srv.drainLimit = time.Hour // the drain ends because nothing is left
	delayOver := make(chan time.Time)
	srv.after = func(d time.Duration) <-chan time.Time {
		if d != time.Hour {
			t.Errorf("waits %v", d)
		}
		return delayOver
	}
	s := run(t, srv, log)
	hc := httpClient(t, client.Config{})
	inFlight := make(chan error, 1)
	go func() { inFlight <- getCluster(t, s, "x", as("user")) }()
	<-entered

	s.stop()
	poll(t, func() bool {
		resp, _ := request(t, hc, "GET", s.URL()+"/readyz", "", "")
		return resp.StatusCode == http.StatusServiceUnavailable
	})
	if resp, _ := request(t, hc, "GET", s.URL()+"/healthz", "", ""); resp.StatusCode != 200 {
		t.Errorf("alive while draining: %s", resp.Status)
	}
	resp, body := request(t, hc, "POST", s.URL()+"/grpc.health.v1.Health/Check", "", `{}`, "Content-Type",
		"application/json")
	if resp.StatusCode != 200 || body != `{"status":"SERVING_STATUS_NOT_SERVING"}` &&
		body != `{"status":"NOT_SERVING"}` {
		t.Errorf("grpc.health.v1 while draining: %s %s", resp.Status, body)
	}
	close(finish)
	if err := <-inFlight; err != nil {
		t.Errorf("request in flight: %v", err)
	}
	close(delayOver)
	ended(t, s)
}

// poll tries until it is so; the test's own timeout bounds it.
func poll(t *testing.T, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatal("never")
		}
	}
}

func TestDrainEndsStreamsAtOnceAndBoundsTheRest(t *testing.T) {
	t.Parallel()
	longform.Only(t, "a wait of 5 s")
	entered, cut := make(chan struct{}), make(chan struct{})
	get := func(ctx context.Context, _ string) error {
		close(entered)
		<-ctx.Done() // Would never end by itself.
		close(cut)
		return ctx.Err()
	}
	hijacked := make(chan struct{})
	raw := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = conn.Write([]byte("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n"))
		<-r.Context().Done()
		close(hijacked)
	})
	srv, log := newServer(t, Config{}, append(rpcMounts(get), Raw("/clusters/", raw, identity.RoleUser))...)
	srv.drainLimit = 5 * time.Second // ample for what is to work in it
	s := run(t, srv, log)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	hc := httpClient(t, client.Config{})
	watch, err := deliveryv1connect.NewDeliveryServiceClient(hc, s.URL(), as("agent")).Watch(ctx,
		&deliveryv1.WatchRequest{})
	if err != nil || !watch.Receive() {
		t.Fatal("no stream", err)
	}
	lingering, err := tunnelv1connect.NewTunnelServiceClient(hc, s.URL(), as("agent")).Connect(ctx)
	if err != nil {
		t.Fatal(err)
	}
	echo := func(text string) error {
		if err := lingering.Send(&tunnelv1.ConnectRequest{Frames: []byte(text)}); err != nil {
			return err
		}
		_, err := lingering.Receive()
		return err
	}
	if err := echo("before"); err != nil {
		t.Fatal(err)
	}
	inFlight := make(chan error, 1)
	go func() { inFlight <- getCluster(t, s, "x", as("user")) }()
	<-entered
	upgrade(t, s)

	s.stop()
	if watch.Receive() || connect.CodeOf(watch.Err()) != connect.CodeUnavailable {
		t.Errorf("stream at the drain's begin: %v", watch.Err())
	}
	if err := echo("after"); err != nil {
		t.Errorf("lingering stream right after the drain's begin: %v", err)
	}
	<-cut
	<-hijacked
	if err := <-inFlight; err == nil {
		t.Error("a request that was cut off looks answered")
	}
	if _, err := lingering.Receive(); err == nil {
		t.Error("a lingering stream outlives its server")
	}
	ended(t, s)
}

func upgrade(t *testing.T, s *running) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "GET", s.URL()+"/clusters/x", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer user")
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", "x")
	resp, err := http1Client(t, nil).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatal(resp.Status)
	}
}

func TestDrainingTellsHandlers(t *testing.T) {
	t.Parallel()
	told := make(chan struct{})
	entered := make(chan struct{})
	h := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(entered)
		<-Draining(r.Context())
		close(told)
	})
	s := start(t, Config{}, Raw("/x/", h, identity.RoleUser))
	go func() {
		req, _ := http.NewRequestWithContext(context.Background(), "GET", s.URL()+"/x/", nil)
		req.Header.Set("Authorization", "Bearer user")
		if resp, err := httpClient(t, client.Config{}).Do(req); err == nil {
			resp.Body.Close()
		}
	}()
	<-entered
	s.stop()
	<-told
	if Draining(context.Background()) != nil {
		t.Error("drains without a server")
	}
}
