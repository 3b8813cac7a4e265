package condition

import (
	"context"
	"log/slog"
	"time"

	"fairlead.dev/services/console/internal/outage"
	"fairlead.dev/services/console/internal/store"
	"fairlead.dev/services/console/internal/store/database"
)

const (
	// recordEvery is between two signs of life of a console, so that two may be lost until it counts as gone.
	recordEvery = 10 * time.Second
	// recordPatience bounds a sign of life, and a look at those of the others.
	recordPatience = 2 * time.Second
)

// Consoles keeps this console among those that share its database. Its fields don't change once Run was called.
type Consoles struct {
	Store *store.Store
	Self  database.Console
	Log   *slog.Logger
}

// Run says that this console is there until ctx ends, and then that it is gone. A database that is not shared has one
// console, and is told nothing.
func (c *Consoles) Run(ctx context.Context) error {
	if !c.Store.Shared() {
		return nil
	}
	var away outage.Outage
	ticker := time.NewTicker(recordEvery)
	defer ticker.Stop()
	for {
		if err := c.keep(ctx); err == nil {
			away.Over(ctx, c.Log, time.Now(), "this console is recorded among the consoles again")
		} else if ctx.Err() == nil {
			away.Failed(ctx, c.Log, time.Now(), "this console is not recorded among the consoles", err)
		}
		select {
		case <-ctx.Done():
			c.leave(context.WithoutCancel(ctx))
			return nil
		case <-ticker.C:
		}
	}
}

func (c *Consoles) keep(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, recordPatience)
	defer cancel()
	return c.Store.KeepConsole(ctx, c.Self)
}

func (c *Consoles) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, recordPatience)
	defer cancel()
	if err := c.Store.RemoveConsole(ctx, c.Self.ID); err != nil {
		c.Log.InfoContext(ctx, "this console is listed for 30 s more: its row was not removed", "err", err)
	}
}

// List returns the consoles that are there, this one among them also where the others are not known.
func (c *Consoles) List(ctx context.Context) ([]database.Console, error) {
	if !c.Store.Shared() {
		return []database.Console{c.Self}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, recordPatience)
	defer cancel()
	list, err := c.Store.Consoles(ctx)
	for _, one := range list {
		if one.ID == c.Self.ID {
			return list, nil
		}
	}
	return append([]database.Console{c.Self}, list...), err // a moment after the start it has said nothing yet
}
