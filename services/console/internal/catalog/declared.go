package catalog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	"fairlead.dev/platform/plural"
	"fairlead.dev/platform/refusal"
	"fairlead.dev/services/console/internal/resource"
	"fairlead.dev/services/console/internal/state"
	"fairlead.dev/services/console/internal/store"
)

// Declarations is a Hook: it keeps what comes of a service's folder from being changed past that, and deletes it with
// the service.
type Declarations struct{ Catalog *Catalog }

// Wrote refuses what the next commit would undo: only how a service is synced, and a freeze, are people's own.
func (Declarations) Wrote(ctx context.Context, w *Write, before, after *store.Resource) error {
	if w.By.Self() {
		return nil
	}
	if err := sameDestination(before, after); err != nil {
		return err
	}
	was, is := declarer(before), declarer(after)
	of := w.Declarer
	switch {
	case was == is && (was == "" || was == of), of != "" && was == "" && is == of, of != "" && was == of && is == "":
		return nil
	case was == "":
		return refusal.New(refusal.Invalid, "metadata.labels[%q]: is the console's own: leave it out", DeclaredLabel)
	case after == nil:
		return refusal.New(refusal.Precondition, "%s %q comes of the folder of service %q: take it out of there", before.Kind, before.Name, was)
	}
	if maps.Equal(before.Labels, after.Labels) {
		same, err := sameButLevers(before, after)
		if err != nil || same {
			return err
		}
	}
	return refusal.New(refusal.Precondition,
		"%s %q comes of the folder of service %q: change it there", before.Kind, before.Name, was)
}

func declarer(r *store.Resource) string {
	if r == nil {
		return ""
	}
	return r.Labels[DeclaredLabel]
}

// sameDestination refuses to send the folder of a service elsewhere: what it declared, or applied, would be nobody's.
func sameDestination(before, after *store.Resource) error {
	if before == nil || after == nil {
		return nil
	}
	was, errWas := catalogSpec(before)
	is, errIs := catalogSpec(after)
	if err := errors.Join(errWas, errIs); err != nil {
		return err
	}
	if (was == nil) != (is == nil) {
		return refusal.New(refusal.Precondition, "service %q: spec.catalog can't be changed: delete the service and create it anew", after.Name)
	}
	return nil
}

// Clear takes away what a service declared that is about to be deleted, with the rights of who deletes it.
func (d Declarations) Clear(ctx context.Context, w *Write, r store.Resource) error {
	spec, err := catalogSpec(&r)
	if err != nil || spec == nil {
		return err
	}
	list, err := w.Tx.Labelled(ctx, DeclaredLabel, r.Name)
	if err != nil || len(list) == 0 {
		return err
	}
	if w.Declarer == "" && !w.By.Self() {
		return refusal.New(refusal.Precondition, "service %q has declared %s, of which it has to be said what becomes: `fairlead delete service %s` shows them and asks", r.Name, plural.Of(len(list), "resource"), r.Name)
	}
	edits, err := leave(ctx, w.Tx, list, spec.KeepsObjects())
	if err != nil {
		return err
	}
	of := *w
	of.Declarer = r.Name
	return of.Put(ctx, w.By, edits)
}

// leave makes of what is declared no more that it is deleted, or stays on its own.
func leave(ctx context.Context, tx *store.Tx, list []store.Resource, stay bool) (edits []Edit, err error) {
	edits = make([]Edit, len(list))
	for i, r := range list {
		if !stay {
			edits[i] = Removal(r.Kind, r.Name, r.ETag())
			continue
		}
		if edits[i], err = release(ctx, tx.View, r); err != nil {
			return nil, err
		}
		if err := tx.Say(ctx, r.UID, ""); err != nil {
			return nil, err
		}
	}
	return edits, nil
}

// release takes the mark of a folder from a resource, which stays as it is otherwise.
func release(ctx context.Context, v store.View, r store.Resource) (Edit, error) {
	refs, err := v.RefsOf(ctx, r.UID)
	labels := maps.Clone(r.Labels)
	delete(labels, DeclaredLabel)
	return Edit{
		draft: store.Draft{Kind: r.Kind, Name: r.Name, Labels: labels, Refs: refs}, spec: json.RawMessage(r.Spec), want: Expectation{ETag: r.ETag()},
		finish: func(d *store.Draft, current *store.Resource) error {
			d.Sealed = current.Sealed
			return nil
		},
	}, err
}

// DeleteService removes a service, and with it its objects from the cluster, or what its folder declared from the
// catalog: the caller has to have seen that.
func (c *Catalog) DeleteService(ctx context.Context, by By, name, etag, confirmation string) error {
	if !resource.IsName(name) {
		return refusal.Missing(store.KindService, name)
	}
	var written []Written
	err := c.store.Write(ctx, by.Subject, func(ctx context.Context, tx *store.Tx) error {
		declarer, err := c.askDeclared(ctx, tx, by, name, confirmation)
		if err != nil {
			return err
		}
		written, err = c.PutIn(ctx, Write{Tx: tx, By: by, Declarer: declarer}, []Edit{Removal(store.KindService, name, etag)})
		return err
	})
	if err == nil {
		c.tell(ctx, by, written)
	}
	return err
}

// askDeclared asks before a service goes whose folder declared something. The declarer is that of a deletion that was
// confirmed.
func (c *Catalog) askDeclared(ctx context.Context, tx *store.Tx, by By, name, confirmation string) (declarer string, err error) {
	row, err := tx.Get(ctx, store.KindService, name)
	if errors.Is(err, store.ErrNotFound) {
		return "", nil // which is told by deleting it
	}
	if err == nil {
		err = c.guard.MayTouch(ctx, by, store.Ref{Kind: store.KindService, Name: name}, &row)
	}
	if err != nil {
		return "", err
	}
	spec, err := catalogSpec(&row)
	if err != nil || spec == nil {
		return "", err
	}
	list, err := tx.Labelled(ctx, DeclaredLabel, name)
	if err != nil || len(list) == 0 {
		return "", err
	}
	fate := "stays, on its own"
	if !spec.KeepsObjects() {
		fate = "is deleted"
		if list, err = withTaken(ctx, tx.View, list); err != nil {
			return "", err
		}
	}
	if err := c.mayDelete(ctx, by, append([]store.Resource{row}, list...)...); err != nil { // before they are told
		return "", err
	}
	stake, lines := []string{"delete service", name, row.ETag()}, []string(nil)
	for _, r := range list {
		stake, lines = append(stake, string(r.Kind), r.Name, r.ETag()), append(lines, fmt.Sprintf("%s %q %s", r.Kind, r.Name, fate))
	}
	if err := c.confirm(by, confirmation, stake, lines, "service %q has declared %s", name, plural.Of(len(list), "resource")); err != nil {
		return "", err
	}
	return name, nil
}

// sameButLevers says whether files say the same of a service, a project or a cluster, but for levers.
func sameButLevers(before, after *store.Resource) (bool, error) {
	switch before.Kind {
	case store.KindService:
		return state.SameButLevers(*before, *after)
	case store.KindProject, store.KindCluster:
		same, err := state.SameButFreeze(*before, *after)
		return same && bytes.Equal(before.Sealed, after.Sealed), err
	}
	return false, nil
}
