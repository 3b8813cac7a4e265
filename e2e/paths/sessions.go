package paths

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"fairlead.dev/e2e/gitcache"
	"fairlead.dev/e2e/stack"
)

const manySessions = 5000

// Sessions measures what idle sessions cost, and how soon all are back when the tunnel restarts.
func Sessions(ctx context.Context, bins stack.Binaries, dir string, stdout io.Writer) (err error) {
	dir, err = os.MkdirTemp(dir, "sessions-")
	if err != nil {
		return err
	}
	h, err := startHub(ctx, bins, dir)
	defer func() { err = errors.Join(err, h.stop()) }()
	if err != nil {
		return err
	}
	names := make([]string, manySessions)
	for i := range names {
		names[i] = fmt.Sprintf("cluster-%04d", i)
	}
	tokens, err := h.join(ctx, names)
	if err != nil {
		return err
	}
	before, err := h.settledRSS(ctx)
	if err != nil {
		return err
	}
	begin := time.Now()
	agents, err := startAgents(ctx, fleet{Tunnel: h.url, Backend: "http://127.0.0.1:1", Tokens: tokens})
	if agents != nil {
		defer func() { err = errors.Join(err, agents.stop()) }()
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%d sessions opened in %.1f s\n", manySessions, time.Since(begin).Seconds())
	after, err := h.settledRSS(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "tunnel: %d MiB without a session, %d MiB with %d\n", before>>20, after>>20, manySessions)
	fmt.Fprintf(stdout, "BENCH tunnel.kib_per_idle_session %.1f KiB\n", float64(after-before)/manySessions/1024)
	if err := h.tunnel.Kill(); err != nil {
		return err
	}
	if err := agents.connected(ctx, 0); err != nil {
		return err
	}
	if err := h.tunnel.Start(); err != nil {
		return err
	}
	begin = time.Now()
	if err := agents.connected(ctx, manySessions); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "BENCH tunnel.reconnect_seconds_%d %.1f s\n", manySessions, time.Since(begin).Seconds())
	return nil
}

// settledRSS is what the tunnel takes when it has been left alone for a while, as idle sessions do.
func (h *hub) settledRSS(ctx context.Context) (int64, error) {
	select {
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	case <-time.After(45 * time.Second):
		return gitcache.RSS(h.tunnel.Pid()), nil
	}
}
