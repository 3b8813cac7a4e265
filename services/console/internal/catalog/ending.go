package catalog

import (
	"context"
	"fmt"
	"time"

	"fairlead.dev/platform/refusal"
	"fairlead.dev/services/console/internal/outage"
	"fairlead.dev/services/console/internal/state"
	"fairlead.dev/services/console/internal/store"
)

const (
	// endingEvery is how often it is looked for levers whose time has come: a few rows of an index.
	endingEvery = 5 * time.Second
	// endingSoon is how long before its end a lever is announced to end. A lever that was pulled for less than twice
	// that is not.
	endingSoon = 10 * time.Minute
	// clockAuthor is who the history says ended a lever whose time came.
	clockAuthor = "clock"
)

// RunEndings ends levers when their time has come, until the context ends. Every console does so: the first one does
// it.
func (c *Catalog) RunEndings(ctx context.Context) error {
	ticker := time.NewTicker(endingEvery)
	defer ticker.Stop()
	var away outage.Outage
	for {
		err := c.EndLevers(ctx)
		switch {
		case err == nil:
			away.Over(ctx, c.log, c.now(), "levers end by their own time again")
		case ctx.Err() == nil:
			away.Failed(ctx, c.log, c.now(), "levers whose time has come stay for now", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// EndLevers ends the levers whose time has come, and announces those that end soon.
func (c *Catalog) EndLevers(ctx context.Context) error {
	now := c.now()
	var due []state.Service
	var thawing []store.Resource
	var soon []store.Event
	err := c.store.Read(ctx, func(ctx context.Context, v store.View) error {
		rows, err := v.Ending(ctx)
		if err != nil {
			return err
		}
		for _, row := range rows {
			if row.Kind != store.KindService {
				f, err := state.FreezeOf(row)
				switch {
				case err != nil:
					return err
				case f == nil || f.Until.IsZero():
				case f.Over(now):
					thawing = append(thawing, row)
				case announces(f.Since, f.Until, now) && c.observer != nil:
					soon = append(soon, c.observer.FreezeEnding(row, *f)...)
				}
				continue
			}
			s := state.Service{Meta: state.MetaOf(row)}
			if err := state.Decode(row, &s.Spec); err != nil {
				return err
			}
			over := false // of one or both
			for _, l := range leversIn(s.Spec.Levers) {
				switch {
				case l.Until.IsZero():
				case !l.Until.After(now):
					over = true
				case announces(l.Since, l.Until, now) && c.observer != nil:
					soon = append(soon, c.observer.LeverEnding(s, *l)...)
				}
			}
			if over {
				due = append(due, s)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, s := range due {
		if err := c.endLevers(ctx, s); err != nil {
			c.log.WarnContext(ctx, "a lever whose time has come stays for now", "service", s.Meta.Name, "err", err)
		}
	}
	for _, row := range thawing {
		if err := c.thaw(ctx, row); err != nil {
			c.log.WarnContext(ctx, "a freeze whose time has come stays for now; agents judge it by their clocks",
				"kind", row.Kind, "name", row.Name, "err", err)
		}
	}
	return c.store.AddEvents(ctx, soon...)
}

// announces tells whether the end of a lever is to be announced now.
func announces(since, until, now time.Time) bool {
	return until.Sub(now) <= endingSoon && until.Sub(since) >= 2*endingSoon
}

// endLevers ends the levers of one service whose time has come.
func (c *Catalog) endLevers(ctx context.Context, s state.Service) error {
	p, err := state.PartsOf(s.Spec)
	if err != nil {
		return err
	}
	action := released
	for _, l := range []**state.Lever{&p.Levers.Mode, &p.Levers.Pin} {
		if *l != nil && !(*l).Until.IsZero() && !(*l).Until.After(c.now()) {
			if (*l).Mode != "" {
				action = resumed
			}
			*l = nil
		}
	}
	edit, err := draftPulled(&s, p, action)
	if err != nil {
		return err
	}
	_, err = c.PutAll(ctx, Self(clockAuthor), []Edit{edit}, false)
	if refusal.Is(err, refusal.Conflict) {
		return nil // another console ended them, or somebody changed the service: it is looked at again in seconds
	}
	if err != nil {
		return fmt.Errorf("end levers of service %q: %w", s.Meta.Name, err)
	}
	return nil
}

// leversIn returns the levers that are set.
func leversIn(l *state.Levers) (out []*state.Lever) {
	if l == nil {
		return nil
	}
	for _, one := range []*state.Lever{l.Mode, l.Pin} {
		if one != nil {
			out = append(out, one)
		}
	}
	return out
}
