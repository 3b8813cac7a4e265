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

// undoFor is how long a deletion can be undone. Longer than somebody needs to see what went, and short enough that what
// comes back is still what was meant.
const undoFor = time.Hour

// undeleted is what the history calls the write that undoes a deletion.
const undeleted = "undeleted"

// forgetEvery is how often the deployments of deleted services are looked at.
const forgetEvery = 10 * time.Minute

// RunForgetting removes the deployments of services whose deletion can't be undone any more, until the context ends.
// Every console does so: the first one does it.
func (c *Catalog) RunForgetting(ctx context.Context) error {
	ticker := time.NewTicker(forgetEvery)
	defer ticker.Stop()
	var away outage.Outage
	for {
		err := c.ForgetDeleted(ctx)
		switch {
		case err == nil:
			away.Over(ctx, c.log, c.now(), "deployments of deleted services are removed again")
		case ctx.Err() == nil:
			away.Failed(ctx, c.log, c.now(), "deployments of deleted services stay for now", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// ForgetDeleted removes the deployments of services whose deletion can't be undone any more. An undo that began within
// its hour may still be on its way: it finds them for another forgetEvery.
func (c *Catalog) ForgetDeleted(ctx context.Context) error {
	return c.store.ForgetDeleted(ctx, c.now().Add(-undoFor-forgetEvery))
}

// undone is why the audit trail has a resource made that was deleted.
const undone = "undoes its deletion"

// Deleted returns a resource as it was before it was deleted. The error says why its deletion can't be undone.
func (c *Catalog) Deleted(ctx context.Context, ref store.Ref) (store.Resource, error) {
	list, _, err := c.History(ctx, ref, Page{Size: 1})
	if err != nil {
		return store.Resource{}, err
	}
	if len(list) == 0 { // the caller has lost the right to see it a moment ago
		return store.Resource{}, c.guard.Missing(ctx, ref)
	}
	switch last := list[0]; {
	case last.After != nil:
		return store.Resource{}, refusal.New(refusal.Precondition, "%s %q is there: it was not deleted, or another one took its place", ref.Kind, ref.Name)
	case c.now().Sub(last.Time) > undoFor:
		return store.Resource{}, refusal.New(refusal.Precondition, "%s %q was deleted at %s: a deletion can be undone for an hour. Make it again: its history has what it was",
			ref.Kind, ref.Name, last.Time.UTC().Format(time.RFC3339))
	case last.Before == nil:
		return store.Resource{}, refusal.New(refusal.Precondition,
			"%s %q: nothing is kept of what it was", ref.Kind, ref.Name)
	case ref.Kind == store.KindSecret:
		return store.Resource{}, refusal.New(refusal.Precondition, "secret %q: its values went with it and are kept nowhere: write it again", ref.Name)
	default:
		return *last.Before, mayReturn(*last.Before)
	}
}

// mayReturn refuses what is made by another resource, which makes it again.
func mayReturn(was store.Resource) error {
	maker := ""
	if of := was.Labels[DeclaredLabel]; of != "" {
		maker = fmt.Sprintf("the folder of service %q", of)
	} else if of := was.Labels[GlobalLabel]; of != "" {
		maker = fmt.Sprintf("global service %q", of)
	} else {
		return nil
	}
	return refusal.New(refusal.Precondition, "%s %q comes of %s, which makes it again: undo the deletion of that, "+
		"or have it name the resource again", was.Kind, was.Name, maker)
}

// Restore writes a resource again that was deleted, with its freeze, unless that is over. The new resource has a uid of
// its own, and continues the history of the deleted one.
func (c *Catalog) Restore(ctx context.Context, by By, e Edit, was store.Resource) (Written, error) {
	if was.Kind == store.KindProject || was.Kind == store.KindCluster {
		f, err := state.FreezeOf(was)
		if err != nil {
			return Written{}, err
		}
		if !f.Over(c.now()) {
			e.before = &was
		}
	}
	e.draft.Action, e.draft.Continues = undeleted, was.UID
	by.Reason, e.want = undone, Expectation{ETag: MustBeNew, AllowMissing: true}
	written, err := c.PutAll(ctx, by, []Edit{e}, false)
	if err != nil {
		return Written{}, err
	}
	return written[0], nil
}

// DraftDeleted gets a service that was deleted ready to be written again, with the levers that stood then: but for
// those whose time is over and a pin that waited for a commit which is there by now. Requests that its agent got once
// are not made again.
func (c *Catalog) DraftDeleted(ctx context.Context, r store.Resource) (Edit, error) {
	s := state.Service{Meta: state.Meta{Name: r.Name, Labels: r.Labels}}
	if err := state.Decode(r, &s.Spec); err != nil {
		return Edit{}, err
	}
	p, err := state.PartsOf(s.Spec)
	if err != nil {
		return Edit{}, err
	}
	p.Asked = state.Requests{}
	over := func(l *state.Lever) bool { return l != nil && !l.Until.IsZero() && !l.Until.After(c.now()) }
	if over(p.Levers.Mode) {
		p.Levers.Mode = nil
	}
	if over(p.Levers.Pin) {
		p.Levers.Pin = nil
	}
	if pin := p.Levers.Pin; pin != nil && pin.After != "" {
		if at, err := c.headNow(ctx, &s); err == nil && at != pin.After {
			p.Levers.Pin = nil
		}
	}
	return draftPulled(&s, p, "")
}
