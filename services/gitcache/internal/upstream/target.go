package upstream

import (
	"context"
	"errors"
	"io"

	"fairlead.dev/services/gitcache/internal/archive"
	"fairlead.dev/services/gitcache/internal/git"
)

// Target takes what a fetch brings.
type Target interface {
	// Haves are commits whose whole history is there: upstream leaves out what they reach.
	Haves() ([]git.Hash, error)
	// AddPack stores a pack. AddPack reads to the end, checks everything, and returns only once the objects are
	// durable. After an error none of them is there.
	AddPack(ctx context.Context, pack io.Reader) (bytes int64, err error)
	// ObjectsDir is the folder of the objects that are there already, for Git's own tools to read.
	ObjectsDir() string
}

// UnloadTarget is a Target that gives the host's place back once a pack is here, and lets few be checked at
// once: that is our own work, and what costs memory. The host has done its part, and a slow one is in
// nobody's way meanwhile. Nor is one whose packs take long to check: it has some of the places only.
func (b *Budget) UnloadTarget(host string, into Target, leave func()) Target {
	return unloading{into, func(ctx context.Context) (func(), error) { return b.checkTurn(ctx, host) }, leave}
}

// checkTurn waits until another pack of the host may be checked. done must be called once.
func (b *Budget) checkTurn(ctx context.Context, host string) (done func(), err error) {
	h := b.hostOf(host)
	if err := h.checks.Acquire(ctx, 1); err != nil {
		b.forgetHost(h)
		return nil, err
	}
	if err := b.checks.Acquire(ctx, 1); err != nil {
		h.checks.Release(1)
		b.forgetHost(h)
		return nil, err
	}
	return func() {
		b.checks.Release(1)
		h.checks.Release(1)
		b.forgetHost(h)
	}, nil
}

type unloading struct {
	Target

	check func(context.Context) (done func(), err error)
	leave func()
}

// AddPack is the Target's. The end of the pack comes to it when it is its turn.
func (u unloading) AddPack(ctx context.Context, pack io.Reader) (int64, error) {
	g := &gate{ctx: ctx, r: pack, u: u}
	defer func() {
		if g.done != nil {
			g.done()
		}
	}()
	return u.Target.AddPack(ctx, g)
}

type gate struct {
	ctx  context.Context //nolint:containedctx // for the length of one call
	r    io.Reader
	u    unloading
	done func() // nil: the pack is not whole yet
}

func (g *gate) Read(p []byte) (int, error) {
	n, err := g.r.Read(p)
	if !errors.Is(err, io.EOF) || g.done != nil {
		return n, err
	}
	g.u.leave()
	done, no := g.u.check(g.ctx)
	if no != nil {
		return n, no
	}
	g.done = done
	return n, err
}

// StoreObjects puts objects into the mirror.
func (c *Client) StoreObjects(ctx context.Context, r Remote, objects *archive.Objects, into Target) error {
	checked, err := c.budget.checkTurn(ctx, r.DoorOf(r.URL)) // few packs are checked at once: it takes memory
	if err != nil {
		return err
	}
	defer checked()
	pack, err := objects.Pack()
	if err == nil {
		_, err = into.AddPack(ctx, pack)
	}
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return StorageError(err)
}

// StorageError is for a disk of ours that does not take what came.
func StorageError(err error) *Error {
	return &Error{Kind: KindStorage, Cause: err, Message: "what came can't be kept: " + CleanLine(err.Error())}
}
