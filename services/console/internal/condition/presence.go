package condition

import (
	"context"
	"log/slog"
	"time"

	"fairlead.dev/services/console/internal/outage"
	"fairlead.dev/services/console/internal/store"
)

const (
	// presentEvery is between two signs of life of a console, so that two may be lost until it counts as gone.
	presentEvery = 10 * time.Second
	// presencePatience bounds a sign of life, and a look at those of the others.
	presencePatience = 2 * time.Second
)

// Presence keeps this console among those that share its database. Its fields don't change once Run was called.
type Presence struct {
	Store *store.Store
	Self  store.Console
	Log   *slog.Logger
}

// Run says that this console is there until ctx ends, and then that it is gone. A database that is not shared has one console, and is told nothing.
func (p *Presence) Run(ctx context.Context) error {
	if !p.Store.Shared() {
		return nil
	}
	var away outage.Outage
	ticker := time.NewTicker(presentEvery)
	defer ticker.Stop()
	for {
		if err := p.keep(ctx); err == nil {
			away.Over(ctx, p.Log, time.Now(), "the other consoles learn again that this one is there")
		} else if ctx.Err() == nil {
			away.Failed(ctx, p.Log, time.Now(), "the other consoles don't learn that this one is there", err)
		}
		select {
		case <-ctx.Done():
			p.leave(context.WithoutCancel(ctx))
			return nil
		case <-ticker.C:
		}
	}
}

func (p *Presence) keep(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, presencePatience)
	defer cancel()
	return p.Store.KeepConsole(ctx, p.Self)
}

func (p *Presence) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, presencePatience)
	defer cancel()
	if err := p.Store.RemoveConsole(ctx, p.Self.ID); err != nil {
		p.Log.InfoContext(ctx, "the other consoles take this one for one that is there, for some seconds", "err", err)
	}
}

// List returns the consoles that are there, this one among them also where the others are not known.
func (p *Presence) List(ctx context.Context) ([]store.Console, error) {
	if !p.Store.Shared() {
		return []store.Console{p.Self}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, presencePatience)
	defer cancel()
	list, err := p.Store.Consoles(ctx)
	for _, c := range list {
		if c.ID == p.Self.ID {
			return list, nil
		}
	}
	return append([]store.Console{p.Self}, list...), err // a moment after the start it has said nothing yet
}
