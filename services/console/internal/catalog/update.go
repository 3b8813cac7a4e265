package catalog

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"fairlead.dev/services/console/internal/refusal"
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
	err := checkSource(s)
	d := store.Draft{Kind: store.KindSource, Name: s.Meta.Name, Labels: s.Meta.Labels}
	return Edit{draft: d, spec: s.Spec, want: want}.naming(refsOfSource(s.Spec)), err
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
	err := checkCluster(c)
	d := store.Draft{Kind: store.KindCluster, Name: c.Meta.Name, Labels: c.Meta.Labels}
	return Edit{draft: d, spec: c.Spec, want: want}.naming(refsOfField(c.Spec.Config, "spec.config")), err
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
	err := checkService(s)
	d := store.Draft{Kind: store.KindService, Name: s.Meta.Name, Labels: s.Meta.Labels}
	return Edit{draft: d, spec: s.Spec, want: want}.naming(refsOfService(&s.Spec, "spec")), err
}

// refsOfService are the resources that a service names, whose spec is this field.
func refsOfService(s *state.ServiceSpec, field string) []Reference {
	refs := refsToSources(s, field)
	if s.Catalog {
		refs = append(refs, RefTo(store.KindServiceAccount, s.ServiceAccount, field+".serviceAccount"))
	} else {
		refs = append(refs, RefTo(store.KindCluster, s.Cluster, field+".cluster"))
	}
	if s.Project != "" {
		refs = append(refs, RefTo(store.KindProject, s.Project, field+".project"))
	}
	refs = append(refs, eachTo(store.KindConfigSet, s.ConfigSets, field+".configSets")...)
	return append(refs, refsOfField(s.Config, field+".config")...)
}

// refsToSources are the sources that a service names.
func refsToSources(s *state.ServiceSpec, field string) []Reference {
	if len(s.Sources) == 0 {
		return []Reference{RefTo(store.KindSource, s.Source, field+".source")}
	}
	var refs []Reference
	for i, is := range s.Sources {
		refs = append(refs, RefTo(store.KindSource, is.Source, fmt.Sprintf("%s.sources[%d].source", field, i)))
	}
	return refs
}

// DraftSecret gets a secret ready to be written. A secret that is read has no values, so a key without a value keeps
// the one that it has: reading, editing and writing back loses nothing.
func (c *Catalog) DraftSecret(in Secret, want Expectation) (Edit, error) {
	if !dnsLabel.MatchString(in.Meta.Name) {
		return Edit{}, badName(in.Meta.Name)
	}
	return Edit{
		draft: store.Draft{Kind: store.KindSecret, Name: in.Meta.Name, Labels: in.Meta.Labels},
		spec:  secretSpec{Keys: slices.Sorted(maps.Keys(in.Data))},
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
