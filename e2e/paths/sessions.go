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

const (
	manySessions = 5000
	// restarts of the tunnel, one after the other.
	restarts = 5
)

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
	var took, kib []float64
	for range restarts {
		back, err := h.restart(ctx, agents)
		if err != nil {
			return err
		}
		after, err := h.settledRSS(ctx)
		if err != nil {
			return err
		}
		fmt.Fprintf(stdout, "tunnel: back after %.1f s; %d MiB without a session, %d MiB with %d\n", back.Seconds(), before>>20, after>>20, manySessions)
		took, kib = append(took, back.Seconds()), append(kib, float64(after-before)/manySessions/1024)
	}
	report(stdout, "kib_per_idle_session", "%.1f", "KiB", kib)
	report(stdout, fmt.Sprintf("reconnect_seconds_%d", manySessions), "%.1f", "s", took)
	return nil
}

// restart kills the tunnel and says how long the agents took to come back to the next one.
func (h *hub) restart(ctx context.Context, agents *dialogue) (time.Duration, error) {
	if err := h.tunnel.Kill(); err != nil {
		return 0, err
	}
	if err := agents.connected(ctx, 0); err != nil {
		return 0, err
	}
	if err := h.tunnel.Start(); err != nil {
		return 0, err
	}
	begin := time.Now()
	err := agents.connected(ctx, manySessions)
	return time.Since(begin), err
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
