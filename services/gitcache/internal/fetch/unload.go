package fetch

import (
	"context"
	"errors"
	"io"

	"golang.org/x/sync/semaphore"
)

// unload is a Target that gives the host's place back once a pack is here, and lets few be checked at
// once: that is our own work, and what costs memory. The host has done its part, and a slow one is in
// nobody's way meanwhile.
func (b *Budget) unload(into Target, leave func()) Target {
	return unloading{into, b.checks, leave}
}

type unloading struct {
	Target
	checks *semaphore.Weighted
	leave  func()
}

// AddPack is the Target's. The end of the pack comes to it when it is its turn.
func (u unloading) AddPack(ctx context.Context, pack io.Reader) (int64, error) {
	g := &gate{ctx: ctx, r: pack, u: u}
	defer func() {
		if g.open {
			u.checks.Release(1)
		}
	}()
	return u.Target.AddPack(ctx, g)
}

type gate struct {
	ctx  context.Context //nolint:containedctx // for the length of one call
	r    io.Reader
	u    unloading
	open bool
}

func (g *gate) Read(p []byte) (int, error) {
	n, err := g.r.Read(p)
	if !errors.Is(err, io.EOF) || g.open {
		return n, err
	}
	g.u.leave()
	if err := g.u.checks.Acquire(g.ctx, 1); err != nil {
		return n, err
	}
	g.open = true
	return n, err
}
