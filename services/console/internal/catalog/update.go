package catalog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"fairlead.dev/services/console/internal/store"
)

// Update is a resource to write, and what its caller believes.
type Update[T any] struct {
	Resource T
	Want     Expectation
}

// Result is what became of an update.
type Result[T any] struct {
	Resource T
	Outcome  Outcome
}

// UpdateSource writes a source.
func (c *Catalog) UpdateSource(ctx context.Context, actor string, in Source, want Expectation) (Source, Outcome, error) {
	if err := in.validate(); err != nil {
		return Source{}, "", err
	}
	d := store.Draft{Kind: store.KindSource, Name: in.Meta.Name, Labels: in.Meta.Labels, Refs: in.Spec.Git.secrets()}
	return update(ctx, c, actor, edit{draft: d, spec: in.Spec, want: want}, c.sources)
}

// UpdateCluster writes a cluster.
func (c *Catalog) UpdateCluster(ctx context.Context, actor string, in Cluster, want Expectation) (Cluster, Outcome, error) {
	e, err := in.edit(want)
	if err != nil {
		return Cluster{}, "", err
	}
	return update(ctx, c, actor, e, c.clusters)
}

// UpdateClusters writes clusters, all or none.
func (c *Catalog) UpdateClusters(ctx context.Context, actor string, in []Update[Cluster]) ([]Result[Cluster], error) {
	edits := make([]edit, len(in))
	for i := range in {
		var err error
		if edits[i], err = in[i].Resource.edit(in[i].Want); err != nil {
			return nil, about(store.KindCluster, in[i].Resource.Meta.Name, err)
		}
	}
	return updateAll(ctx, c, actor, edits, c.clusters)
}

func (c *Cluster) edit(want Expectation) (edit, error) {
	err := c.validate()
	return edit{draft: store.Draft{Kind: store.KindCluster, Name: c.Meta.Name, Labels: c.Meta.Labels}, spec: c.Spec, want: want}, err
}

// UpdateService writes a service.
func (c *Catalog) UpdateService(ctx context.Context, actor string, in Service, want Expectation) (Service, Outcome, error) {
	e, err := in.edit(want)
	if err != nil {
		return Service{}, "", err
	}
	return update(ctx, c, actor, e, c.services)
}

// UpdateServices writes services, all or none.
func (c *Catalog) UpdateServices(ctx context.Context, actor string, in []Update[Service]) ([]Result[Service], error) {
	edits := make([]edit, len(in))
	for i := range in {
		var err error
		if edits[i], err = in[i].Resource.edit(in[i].Want); err != nil {
			return nil, about(store.KindService, in[i].Resource.Meta.Name, err)
		}
	}
	return updateAll(ctx, c, actor, edits, c.services)
}

func (s *Service) edit(want Expectation) (edit, error) {
	err := s.validate()
	d := store.Draft{
		Kind: store.KindService, Name: s.Meta.Name, Labels: s.Meta.Labels,
		Refs: []store.Ref{{Kind: store.KindSource, Name: s.Spec.Source}, {Kind: store.KindCluster, Name: s.Spec.Cluster}},
	}
	return edit{draft: d, spec: s.Spec, want: want}, err
}

// UpdateSecret writes a secret. What is read has no values, so a key without a value keeps the one
// that it has: reading, editing and writing back loses nothing.
func (c *Catalog) UpdateSecret(ctx context.Context, actor string, in Secret, want Expectation) (Secret, Outcome, error) {
	if !dnsLabel.MatchString(in.Meta.Name) {
		return Secret{}, "", badName(in.Meta.Name)
	}
	return update(ctx, c, actor, edit{
		draft: store.Draft{Kind: store.KindSecret, Name: in.Meta.Name, Labels: in.Meta.Labels},
		spec:  secretSpec{Keys: slices.Sorted(maps.Keys(in.Data))},
		want:  want,
		finish: func(d *store.Draft, current *store.Resource) error {
			return c.sealInto(d, in.Data, current)
		},
	}, c.secrets)
}

// about says which resource of many an error is about.
func about(kind store.Kind, name string, err error) error {
	if refusal, ok := errors.AsType[*Error](err); ok {
		return refuse(refusal.Reason, "%s %q: %s", kind, name, refusal.Message)
	}
	return fmt.Errorf("%s %q: %w", kind, name, err)
}

// edit is a draft on its way into the store.
type edit struct {
	draft store.Draft
	// spec becomes that of the draft.
	spec any
	want Expectation
	// finish, if there is one, completes the draft when the current resource (nil: none) is known.
	finish func(*store.Draft, *store.Resource) error

	// What put finds out.
	current *store.Resource
	written store.Resource
	outcome Outcome
}

type loader[T any] func(context.Context, store.View, []store.Resource) ([]T, error)

// update writes one resource.
func update[T any](ctx context.Context, c *Catalog, actor string, e edit, load loader[T]) (out T, outcome Outcome, err error) {
	results, err := updateAll(ctx, c, actor, []edit{e}, load)
	if err != nil {
		return out, "", err
	}
	return results[0].Resource, results[0].Outcome, nil
}

// updateAll writes resources of one kind in one transaction and returns them as load shows them.
func updateAll[T any](ctx context.Context, c *Catalog, actor string, edits []edit, load loader[T]) ([]Result[T], error) {
	for i := range edits {
		e := &edits[i]
		var err error
		if e.draft.Spec, err = json.Marshal(e.spec); err != nil {
			return nil, fmt.Errorf("encode %s %q: %w", e.draft.Kind, e.draft.Name, err)
		}
	}
	var shown []T
	err := c.store.Write(ctx, actor, func(ctx context.Context, tx *store.Tx) error {
		if err := put(ctx, tx, edits); err != nil {
			return err
		}
		rows := make([]store.Resource, len(edits))
		for i, e := range edits {
			rows[i] = e.written
		}
		var err error
		shown, err = load(ctx, tx.View, rows)
		return err
	})
	if err != nil {
		return nil, err
	}
	results := make([]Result[T], len(edits))
	for i, e := range edits {
		results[i] = Result[T]{shown[i], e.outcome}
		if e.outcome != Unchanged {
			c.log.InfoContext(ctx, "catalog written", "actor", actor, "kind", e.draft.Kind, "name", e.draft.Name, "outcome", e.outcome, "revision", e.written.Revision)
		}
	}
	return results, nil
}

// put writes what differs from what is there.
func put(ctx context.Context, tx *store.Tx, edits []edit) error {
	if err := find(ctx, tx, edits); err != nil {
		return err
	}
	var create, change []*edit
	for i := range edits {
		e := &edits[i]
		switch {
		case e.current == nil:
			create = append(create, e)
		case e.same():
			e.written, e.outcome = *e.current, Unchanged
		default:
			change = append(change, e)
		}
	}
	if err := checkRefs(ctx, tx, slices.Concat(create, change)); err != nil {
		return err
	}
	drafts := make([]store.Draft, len(create))
	for i, e := range create {
		drafts[i] = e.draft
	}
	created, err := tx.Create(ctx, drafts...)
	if err != nil {
		return err
	}
	for i, e := range create {
		e.written, e.outcome = created[i], Created
	}
	for _, e := range change {
		if err := forgetMoved(ctx, tx, *e.current, e.draft); err != nil {
			return err
		}
		if e.written, err = tx.Update(ctx, *e.current, e.draft); err != nil {
			return err
		}
		e.outcome = Updated
	}
	return nil
}

func (e *edit) same() bool {
	return bytes.Equal(e.current.Spec, e.draft.Spec) && bytes.Equal(e.current.Sealed, e.draft.Sealed) && maps.Equal(e.current.Labels, e.draft.Labels)
}

// find looks for the resources that are to be changed, and completes the drafts.
func find(ctx context.Context, tx *store.Tx, edits []edit) error {
	names := make([]string, len(edits))
	twice := make(map[string]bool, len(edits))
	for i, e := range edits {
		if names[i] = e.draft.Name; twice[names[i]] {
			return refuse(Invalid, "%s %q is there twice: a batch writes each once", e.draft.Kind, names[i])
		}
		twice[names[i]] = true
	}
	found, err := tx.Named(ctx, edits[0].draft.Kind, names)
	if err != nil {
		return err
	}
	for i := range edits {
		e := &edits[i]
		if current, ok := found[e.draft.Name]; ok {
			e.current = &current
		}
		if err := e.expected(); err != nil {
			return err
		}
		if e.finish != nil {
			if err := e.finish(&e.draft, e.current); err != nil {
				return err
			}
		}
	}
	return nil
}

// expected compares what is there with what the caller believes.
func (e *edit) expected() error {
	switch {
	case e.current != nil:
		return checkETag(*e.current, e.want.ETag)
	case e.want.ETag != "":
		return refuse(Conflict, "%s %q was deleted in the meantime: read it again", e.draft.Kind, e.draft.Name)
	case !e.want.AllowMissing:
		return missing(e.draft.Kind, e.draft.Name)
	}
	return nil
}

// checkRefs refuses drafts that name what does not exist.
func checkRefs(ctx context.Context, tx *store.Tx, edits []*edit) error {
	named := map[store.Kind]map[string]bool{}
	for _, e := range edits {
		for _, ref := range e.draft.Refs {
			if named[ref.Kind] == nil {
				named[ref.Kind] = map[string]bool{}
			}
			named[ref.Kind][ref.Name] = true
		}
	}
	exists := map[store.Ref]bool{}
	for kind, names := range named {
		found, err := tx.Named(ctx, kind, trueKeys(names))
		if err != nil {
			return err
		}
		for name := range found {
			exists[store.Ref{Kind: kind, Name: name}] = true
		}
	}
	for _, e := range edits {
		for _, ref := range e.draft.Refs {
			if !exists[ref] {
				return refuse(Precondition, "%s %q names %s %q, which does not exist: create it first", e.draft.Kind, e.draft.Name, ref.Kind, ref.Name)
			}
		}
	}
	return nil
}
