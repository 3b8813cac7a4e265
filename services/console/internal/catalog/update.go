package catalog

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"fairlead.dev/platform/refusal"
	"fairlead.dev/services/console/internal/resource"
	"fairlead.dev/services/console/internal/state"
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

// DraftSource gets a source ready to be written.
func DraftSource(s *state.Source, want Expectation) (Edit, error) {
	err := resource.CheckSource(s)
	d := store.Draft{Kind: store.KindSource, Name: s.Meta.Name, Labels: s.Meta.Labels}
	return Edit{draft: d, spec: s.Spec, want: want}.naming(resource.RefsOfSource(s.Spec)), err
}

// UpdateCluster writes a cluster.
func (c *Catalog) UpdateCluster(
	ctx context.Context, by By, in state.Cluster, want Expectation,
) (state.Cluster, Outcome, error) {
	e, err := DraftCluster(&in, want)
	if err != nil {
		return state.Cluster{}, "", err
	}
	return PutOne(ctx, c, by, e, c.Clusters)
}

// UpdateClusters writes clusters, all or none.
func (c *Catalog) UpdateClusters(
	ctx context.Context, by By, in []Update[state.Cluster],
) ([]Result[state.Cluster], error) {
	edits := make([]Edit, len(in))
	for i := range in {
		var err error
		if edits[i], err = DraftCluster(&in[i].Resource, in[i].Want); err != nil {
			return nil, about(store.KindCluster, in[i].Resource.Meta.Name, err)
		}
	}
	return updateAll(ctx, c, by, edits, c.Clusters)
}

// DraftCluster gets a cluster ready to be written.
func DraftCluster(c *state.Cluster, want Expectation) (Edit, error) {
	err := resource.CheckCluster(c)
	d := store.Draft{Kind: store.KindCluster, Name: c.Meta.Name, Labels: c.Meta.Labels}
	return Edit{draft: d, spec: c.Spec, want: want}.naming(resource.RefsOfField(c.Spec.Config, "spec.config")), err
}

// UpdateService writes a service.
func (c *Catalog) UpdateService(
	ctx context.Context, by By, in state.Service, want Expectation,
) (state.Service, Outcome, error) {
	e, err := DraftService(&in, want)
	if err != nil {
		return state.Service{}, "", err
	}
	return PutOne(ctx, c, by, e, c.Services)
}

// UpdateServices writes services, all or none.
func (c *Catalog) UpdateServices(
	ctx context.Context, by By, in []Update[state.Service],
) ([]Result[state.Service], error) {
	edits := make([]Edit, len(in))
	for i := range in {
		var err error
		if edits[i], err = DraftService(&in[i].Resource, in[i].Want); err != nil {
			return nil, about(store.KindService, in[i].Resource.Meta.Name, err)
		}
	}
	return updateAll(ctx, c, by, edits, c.Services)
}

// DraftService gets a service ready to be written.
func DraftService(s *state.Service, want Expectation) (Edit, error) {
	err := resource.CheckService(s)
	d := store.Draft{Kind: store.KindService, Name: s.Meta.Name, Labels: s.Meta.Labels}
	return Edit{draft: d, spec: s.Spec, want: want}.naming(resource.RefsOfService(&s.Spec, "spec")), err
}

// DraftSecret gets a secret ready to be written. A secret that is read has no values, so a key without a value keeps
// the one that it has: reading, editing and writing back loses nothing.
func (c *Catalog) DraftSecret(in resource.Secret, want Expectation) (Edit, error) {
	if !resource.IsName(in.Meta.Name) {
		return Edit{}, resource.RefuseName(in.Meta.Name)
	}
	return Edit{
		draft: store.Draft{Kind: store.KindSecret, Name: in.Meta.Name, Labels: in.Meta.Labels},
		spec:  resource.SecretSpec{Keys: slices.Sorted(maps.Keys(in.Data))},
		want:  want,
		finish: func(d *store.Draft, current *store.Resource) error {
			return c.sealInto(d, in.Data, current)
		},
	}, nil
}

// about says which resource of many an error is about.
func about(kind store.Kind, name string, err error) error {
	if refused, ok := errors.AsType[*refusal.Error](err); ok {
		return refusal.New(refused.Reason, "%s %q: %s", kind, name, refused.Message)
	}
	return fmt.Errorf("%s %q: %w", kind, name, err)
}

// Load reads resources of one kind, in their order.
type Load[T any] func(context.Context, store.View, []store.Resource) ([]T, error)

// PutOne writes one resource, and returns it as load reads it.
func PutOne[T any](ctx context.Context, c *Catalog, by By, e Edit, load Load[T]) (out T, outcome Outcome, err error) {
	results, err := updateAll(ctx, c, by, []Edit{e}, load)
	if err != nil {
		return out, "", err
	}
	return results[0].Resource, results[0].Outcome, nil
}

// updateAll writes resources of one kind in one transaction and returns them as load shows them.
func updateAll[T any](ctx context.Context, c *Catalog, by By, edits []Edit, load Load[T]) ([]Result[T], error) {
	var shown []T
	var written []Written
	err := c.store.Write(ctx, by.Subject, func(ctx context.Context, tx *store.Tx) (err error) {
		if written, err = c.PutIn(ctx, Write{Tx: tx, By: by}, edits); err != nil {
			return err
		}
		rows := make([]store.Resource, len(written))
		for i, w := range written {
			rows[i] = *w.After
		}
		shown, err = load(ctx, tx.View, rows)
		return err
	})
	if err != nil {
		return nil, err
	}
	results := make([]Result[T], len(edits))
	for i, w := range written {
		results[i] = Result[T]{shown[i], w.Outcome}
	}
	c.tell(ctx, by, written)
	return results, nil
}

// checkNamespace refuses a service that asks the agent to make a namespace and does not name it. Earlier consoles
// stored such services: their levers work, and a write that leaves the fault as it is passes.
func (e *Edit) checkNamespace(current *store.Resource) error {
	spec, ok := e.spec.(state.ServiceSpec)
	if !ok || e.pulls || e.planned || !resource.LacksNamespace(&spec) {
		return nil
	}
	if current != nil {
		var before state.ServiceSpec
		if err := state.Decode(*current, &before); err != nil {
			return err
		}
		if resource.LacksNamespace(&before) {
			return nil
		}
	}
	return refusal.New(refusal.Invalid, "spec.sync.createNamespace: goes with spec.namespace, which names the namespace that the agent makes")
}

// Draft gets a resource ready to be written.
func Draft[S any](t resource.Type[S], in resource.Of[S], want Expectation) (Edit, error) {
	if !resource.IsName(in.Meta.Name) {
		return Edit{}, resource.RefuseName(in.Meta.Name)
	}
	if t.Check != nil {
		if err := t.Check(&in); err != nil {
			return Edit{}, err
		}
	}
	e := Edit{draft: store.Draft{Kind: t.Kind, Name: in.Meta.Name, Labels: in.Meta.Labels}, spec: in.Spec, want: want}
	if t.Refs != nil {
		e = e.naming(t.Refs(in.Spec))
	}
	return e, nil
}

// Put writes a resource.
func Put[S any](ctx context.Context, c *Catalog, by By, t resource.Type[S], in resource.Of[S], want Expectation) (resource.Of[S], Outcome, error) {
	e, err := Draft(t, in, want)
	if err != nil {
		return resource.Of[S]{}, "", err
	}
	return PutOne(ctx, c, by, e, t.Load)
}

// DraftGrant gets a grant ready to be written.
func DraftGrant(g *resource.Grant, want Expectation) (Edit, error) {
	refs, err := resource.RefsOfGrant(g)
	if err != nil {
		return Edit{}, err
	}
	d := store.Draft{Kind: store.KindGrant, Name: g.Meta.Name, Labels: g.Meta.Labels}
	return Edit{draft: d, spec: g.Spec, want: want}.naming(refs), nil
}

// keepLevers makes of an edit of what files say one of the spec in force.
func (e *Edit) keepLevers(current *store.Resource) error {
	spec, ok := e.spec.(state.ServiceSpec)
	if !ok || e.pulls || e.requests {
		return nil
	}
	var is *state.ServiceSpec
	if current != nil {
		is = &state.ServiceSpec{}
		if err := state.Decode(*current, is); err != nil {
			return err
		}
	}
	out, notes, err := state.InForce(spec, is, e.said)
	e.spec, e.notes = out, notes
	*e = e.naming(refsOfStored(&out))
	return err
}
