package catalog

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"fairlead.dev/platform/plural"
	"fairlead.dev/platform/refusal"
	"fairlead.dev/services/console/internal/store"
)

const (
	// SetLabel says which set a resource was applied with.
	SetLabel = "fairlead.dev/set"
	// prunedFreely is how many resources of a set go without a confirmation, if they are no more than a tenth of it,
	// or but one.
	prunedFreely = 10
	// shownConsequences of a confirmation.
	shownConsequences = 100
)

// Application is what is written at once.
type Application struct {
	Edits []Edit
	// Set is a label for all of them; empty: none.
	Set string
	// Prune deletes what else has that label.
	Prune bool
	// Dry writes nothing.
	Dry bool
	// Confirmation is what the call before asked for; empty: nothing.
	Confirmation string
}

// Applied is what became of an application.
type Applied struct {
	// Written is in the order of the edits; pruned resources stand behind them.
	Written []Written
	// Touched are the services that were there before and get another configuration because of it, by name, as far as
	// the caller sees them; Total counts the others, too.
	Touched []store.Reconfigured
	Total   int
}

// Apply writes all of it or nothing.
func (c *Catalog) Apply(ctx context.Context, by By, a Application) (out Applied, err error) {
	if a.Prune && a.Set == "" {
		return out, refusal.New(refusal.Invalid, "prune: needs the name of a set, so that nothing else is removed")
	}
	if a.Set != "" {
		for i := range a.Edits {
			a.Edits[i].Label(SetLabel, a.Set)
		}
	}
	sees, err := c.guard.Sees(ctx)
	if err != nil {
		return out, err
	}
	err = c.store.Write(ctx, by.Subject, func(ctx context.Context, tx *store.Tx) error {
		out = Applied{}
		edits := a.Edits
		if a.Prune {
			old, total, err := leftover(ctx, tx, a)
			if err != nil {
				return err
			}
			if err := c.mayDelete(ctx, by, old...); err != nil {
				return err
			}
			lost, err := withTaken(ctx, tx.View, old)
			if err != nil {
				return err
			}
			if err := c.mayPrune(by, a, lost, total+len(lost)-len(old)); err != nil {
				return err
			}
			for _, r := range old {
				edits = append(edits, Removal(r.Kind, r.Name, r.ETag()))
			}
		}
		written, err := c.PutIn(ctx, Write{Tx: tx, By: by}, edits)
		out.Written = written
		out.Touched, out.Total = touchedBy(tx.Reconfigured(), sees)
		if err == nil && a.Dry {
			err = errDry
		}
		return err
	})
	switch {
	case errors.Is(err, errDry):
		return out, nil
	case err != nil:
		return Applied{}, err
	}
	c.tell(ctx, by, out.Written)
	return out, nil
}

// touchedBy returns each service once, by name, as far as they are seen, and how many there are. A service whose
// configuration is computed twice within a write is as it was computed last, with the entries of both times.
func touchedBy(list []store.Reconfigured, sees func(store.Resource) bool) (out []store.Reconfigured, total int) {
	byName := map[string]store.Reconfigured{}
	for _, r := range list {
		if before, twice := byName[r.Service.Name]; twice {
			r.Entries = slices.Compact(slices.Sorted(slices.Values(append(slices.Clip(before.Entries), r.Entries...))))
		}
		byName[r.Service.Name] = r
	}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		if sees == nil || sees(byName[name].Service) {
			out = append(out, byName[name])
		}
	}
	return out, len(byName)
}

// leftover is what has the label of the set and is not applied any more.
func leftover(ctx context.Context, tx *store.Tx, a Application) (old []store.Resource, total int, err error) {
	all, err := tx.Labelled(ctx, SetLabel, a.Set)
	if err != nil {
		return nil, 0, err
	}
	stays := make(map[store.Ref]bool, len(a.Edits))
	for i := range a.Edits {
		stays[a.Edits[i].ref()] = true
	}
	old = slices.DeleteFunc(slices.Clone(all), func(r store.Resource) bool { return stays[store.Ref{Kind: r.Kind, Name: r.Name}] })
	return old, len(all), nil
}

// mayDelete comes before what would go is told. A resource that the caller does not even see is not named.
func (c *Catalog) mayDelete(ctx context.Context, by By, old ...store.Resource) error {
	sees, err := c.guard.Sees(ctx)
	if err != nil {
		return err
	}
	for _, r := range old {
		if sees != nil && !sees(r) {
			return refusal.New(refusal.Forbidden, "resources would be deleted that you may not see: ask an administrator")
		}
		if err := c.guard.MayDelete(ctx, by, r); err != nil {
			return err
		}
	}
	return nil
}

func (c *Catalog) mayPrune(by By, a Application, old []store.Resource, total int) error {
	if a.Dry || len(old) <= 1 || len(old) <= prunedFreely && len(old)*10 <= total {
		return nil
	}
	stake := []string{"prune", a.Set}
	var lines []string
	for _, r := range old {
		stake = append(stake, string(r.Kind), r.Name, r.ETag())
		lines = append(lines, fmt.Sprintf("%s %q is deleted", r.Kind, r.Name))
	}
	return c.confirm(by, a.Confirmation, stake, lines, "set %q: %d of its %s would be deleted", a.Set, len(old), plural.Of(total, "resource"))
}

// confirm is nil if the caller has confirmed what is at stake; else the error that asks for it.
func (c *Catalog) confirm(by By, token string, stake, consequences []string, format string, args ...any) error {
	if token != "" && c.desk.Holds(token, by.Subject, stake) {
		return nil
	}
	if more := len(consequences) - shownConsequences; more > 0 {
		consequences = append(consequences[:shownConsequences-1:shownConsequences-1], fmt.Sprintf("and %d more", more+1))
	}
	return &refusal.Error{
		Reason: refusal.Precondition, Message: fmt.Sprintf(format, args...) + ": confirm it",
		Confirmation: c.desk.Token(by.Subject, stake), Consequences: consequences,
	}
}
