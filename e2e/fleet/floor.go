package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	"fairlead.dev/e2e/gitcache"
	"fairlead.dev/e2e/process"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/gen/fairlead/delivery/v1/deliveryv1connect"
	"fairlead.dev/platform/localca"
	"fairlead.dev/platform/retry"
)

// floorBeat is between two messages of a stream, as the distributor has it.
const floorBeat = 45 * time.Second

// Floor measures the cores that a server takes which does nothing: it holds the streams of the fleet over TLS, and
// answers the polls of the same agents at the same pace with an empty answer.
func Floor(ctx context.Context, cfg Config, progress io.Writer) (cores float64, err error) {
	if cfg.Executable == "" {
		return 0, errors.New("a server that does nothing is measured as a process of its own: Executable is missing")
	}
	files, err := localca.Ensure(filepath.Join(cfg.Dir, "tls"), "127.0.0.1", "localhost")
	if err != nil {
		return 0, err
	}
	addrs, err := process.FreeAddresses(1)
	if err != nil {
		return 0, err
	}
	server := process.New(cfg.Dir, "floor", cfg.Executable, "floor", addrs[0], files.CertFile, files.KeyFile, cfg.NextPoll.String())
	if err := server.Start(); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, endPart(ctx, server)) }()
	if err := dialed(ctx, server, addrs[0]); err != nil {
		return 0, err
	}
	tokens := map[string]string{}
	for i := range cfg.Clusters {
		tokens[clusterName(i)] = "nobody asks"
	}
	r := &Run{cfg: cfg, progress: progress, begin: time.Now(), errors: newStats(), tokens: tokens}
	r.simulators, err = startSimulators(ctx, cfg, Spec{
		CAFile: files.CAFile, Distributors: []string{"https://" + addrs[0]}, Tokens: tokens, Spread: time.Duration(cfg.Clusters) * time.Second / rampPerSecond,
	})
	defer func() { err = errors.Join(err, r.simulators.close(ctx)) }()
	if err != nil {
		return 0, err
	}
	err = r.until(ctx, settleTimeout, question{}, func(a answer) (bool, string) {
		return a.Stats.Watching == cfg.Clusters && a.Stats.Synced == cfg.Clusters,
			fmt.Sprintf("%d of %d agents watch a server that does nothing, %d poll", a.Stats.Watching, cfg.Clusters, a.Stats.Synced)
	})
	if err != nil {
		return 0, err
	}
	r.say("measuring a server that does nothing for %s", cfg.Duration)
	begin, before := time.Now(), gitcache.CPU(server.Pid())
	if !retry.Sleep(ctx, cfg.Duration) {
		return 0, context.Cause(ctx)
	}
	return (gitcache.CPU(server.Pid()) - before).Seconds() / time.Since(begin).Seconds(), nil
}

// dialed waits until a program takes connections, or has ended.
func dialed(ctx context.Context, p *process.Process, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return process.Await(ctx, p.Name+" takes connections", func(ctx context.Context) error {
		if ended, err := p.Ended(); ended {
			cancel()
			return fmt.Errorf("%s ended: %w: %s", p.Name, err, p.Tail())
		}
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
		if err == nil {
			err = conn.Close()
		}
		return err
	})
}

// serveFloor is the server that does nothing.
func serveFloor(ctx context.Context, addr, cert, key, nextPoll string) error {
	every, err := time.ParseDuration(nextPoll)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle(deliveryv1connect.NewDeliveryServiceHandler(nothing{every: every}))
	protocols := new(http.Protocols)
	protocols.SetHTTP2(true)
	s := &http.Server{Addr: addr, Handler: mux, Protocols: protocols, ReadHeaderTimeout: time.Minute}
	context.AfterFunc(ctx, func() { _ = s.Close() })
	if err := s.ListenAndServeTLS(cert, key); !errors.Is(err, http.ErrServerClosed) || ctx.Err() == nil {
		return err
	}
	return nil
}

// nothing answers as soon as it can, to anybody.
type nothing struct {
	deliveryv1connect.UnimplementedDeliveryServiceHandler

	every time.Duration
}

func (n nothing) Sync(context.Context, *deliveryv1.SyncRequest) (*deliveryv1.SyncResponse, error) {
	return &deliveryv1.SyncResponse{
		Result: &deliveryv1.SyncResponse_NotModified{NotModified: &deliveryv1.NotModified{}}, NextPoll: durationpb.New(n.every),
	}, nil
}

func (nothing) Watch(ctx context.Context, _ *deliveryv1.WatchRequest, out *connect.ServerStream[deliveryv1.WatchResponse]) error {
	tick := time.NewTicker(floorBeat)
	defer tick.Stop()
	for {
		if err := out.Send(&deliveryv1.WatchResponse{Event: &deliveryv1.WatchResponse_Heartbeat{Heartbeat: &deliveryv1.Heartbeat{}}}); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}
