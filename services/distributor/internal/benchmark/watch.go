package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"
	"time"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/localca"
	"fairlead.dev/platform/retry"
	"fairlead.dev/services/distributor/internal/nudge"
)

const (
	// settle is how long streams are left alone before they are weighed, and timed is how long they are timed: whole
	// rounds of heartbeats and many checks of tokens.
	settle, timed = 30 * time.Second, 2 * nudge.Beat
	// collect is how long a server has to collect its garbage when it is asked to.
	collect = 2 * time.Second
)

// watches weighs idle Watch streams over TLS, each with a connection of its own, and says what they use.
func watches(ctx context.Context, what, dir string, streams int, stdout io.Writer) error {
	keys, err := identity.NewKeySet()
	if err != nil {
		return err
	}
	ca, err := localca.Ensure(dir, "127.0.0.1")
	if err != nil {
		return err
	}
	s, err := start(ctx, what, envKeys+"="+string(keys.PublicJWKS()), envCert+"="+ca.CertFile, envKey+"="+ca.KeyFile)
	if err != nil {
		return err
	}
	defer s.stop()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	before, err := s.weigh(ctx)
	if err != nil {
		return err
	}
	for i := range streams {
		a, err := newAgent(i%clusters, keys, s.url, ca.CAFile)
		if err != nil {
			return err
		}
		defer a.http.CloseIdleConnections()
		if err := a.watch(ctx); err != nil {
			return err
		}
	}
	if !retry.Sleep(ctx, settle) {
		return ctx.Err()
	}
	used, err := s.during(ctx, timed)
	if err != nil {
		return err
	}
	after, err := s.weigh(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%s_stream_kib %.1f\n", what, float64(after-before)/float64(streams)/1024)
	fmt.Fprintf(stdout, "%s_stream_cores_10000 %.4f\n", what, used.Seconds()/timed.Seconds()/float64(streams)*10_000)
	return nil
}

// during is the CPU time that the process uses in a while.
func (s *started) during(ctx context.Context, d time.Duration) (time.Duration, error) {
	before, err := s.cpu()
	if err != nil {
		return 0, err
	}
	if !retry.Sleep(ctx, d) {
		return 0, ctx.Err()
	}
	after, err := s.cpu()
	return after - before, err
}

// weigh is the memory of the process, in bytes, without what it could give back.
func (s *started) weigh(ctx context.Context) (int64, error) {
	for range 3 { // stacks shrink by half each time
		if err := s.cmd.Process.Signal(syscall.SIGUSR1); err != nil {
			return 0, err
		}
		if !retry.Sleep(ctx, collect) {
			return 0, ctx.Err()
		}
	}
	return s.resident()
}

// watch opens a stream, and reads it until ctx ends.
func (a *agent) watch(ctx context.Context) error {
	stream, err := a.rpc.Watch(ctx, &deliveryv1.WatchRequest{})
	if err != nil {
		return err
	}
	if !stream.Receive() {
		return errors.Join(errors.New("the stream ended"), stream.Err(), stream.Close())
	}
	go func() {
		for stream.Receive() {
		}
		_ = stream.Close()
	}()
	return nil
}
