// Package bound holds services within their projects: the sources, clusters, namespaces, kinds and accounts that a
// project allows, and the configuration sets and backends that are for the project. A write that breaks a bound is
// refused, whichever side of the bound changes.
package bound

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/accounts"
	"fairlead.dev/platform/refusal"
	"fairlead.dev/platform/wildcard"
	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/resource"
	"fairlead.dev/services/console/internal/state"
	"fairlead.dev/services/console/internal/store"
)

// defaultNamespace is where objects go that name none, in services that name none.
const defaultNamespace = "default"

// Hook refuses services that their project does not allow, and changes of projects that their services would break.
type Hook struct{}

// Wrote implements catalog.Hook.
func (Hook) Wrote(ctx context.Context, w *catalog.Write, before, after *store.Resource) error {
	if after == nil {
		return nil
	}
	if err := checkBackends(ctx, w.Tx, w.By, *after); err != nil {
		return err
	}
	switch {
	case after.Kind == store.KindBackend && before != nil:
		return checkBackend(ctx, w.Tx, w.By, *after)
	case after.Kind == store.KindService:
		return checkService(ctx, w.Tx, w.By, before, *after)
	case after.Kind == store.KindProject && before != nil:
		return checkProject(ctx, w.Tx, *after)
	case after.Kind == store.KindConfigSet && before != nil:
		return checkSet(ctx, w.Tx, w.By, *after)
	}
	return nil
}

// checkService refuses a service that its project does not allow. One that is out of bounds already, since its cluster
// got other labels, keeps its levers: these bring nothing else out of bounds.
func checkService(ctx context.Context, tx *store.Tx, by catalog.By, before *store.Resource, r store.Resource) error {
	var spec state.ServiceSpec
	if err := state.Decode(r, &spec); err != nil {
		return err
	}
	if err := checkSets(ctx, tx, by, r.Name, spec); err != nil || spec.Project == "" {
		return err
	}
	row, err := tx.Get(ctx, store.KindProject, spec.Project)
	if err != nil {
		return fmt.Errorf("read project %q: %w", spec.Project, err)
	}
	project, err := resource.Projects().Decode(row)
	if err != nil {
		return err
	}
	var cluster store.Resource
	if !spec.Catalog {
		if cluster, err = tx.Get(ctx, store.KindCluster, spec.Cluster); err != nil {
			return fmt.Errorf("read cluster %q: %w", spec.Cluster, err)
		}
	}
	faults, err := newFaults(&project.Spec, before, r, cluster.Labels)
	if err != nil || len(faults) == 0 {
		return err
	}
	return refusal.New(refusal.Precondition, "service %q: spec.%s: project %q does not allow %s: take another, or have the project changed", r.Name, faults[0].field, spec.Project, faults[0].what)
}

// newFaults returns what is out of bounds in a service, without what was so before a write that changes levers only.
func newFaults(p *resource.ProjectSpec, before *store.Resource, r store.Resource, labels map[string]string) ([]fault, error) {
	var was, is state.ServiceSpec
	if err := state.Decode(r, &is); err != nil {
		return nil, err
	}
	faults := refuses(p, is, labels)
	if len(faults) == 0 || before == nil || !bytes.Equal(before.Sealed, r.Sealed) {
		return faults, nil
	}
	same, err := state.SameButLevers(*before, r) // so the project and the cluster are the same, too
	if err != nil || !same {
		return faults, err
	}
	if err := state.Decode(*before, &was); err != nil {
		return nil, err
	}
	known := refuses(p, was, labels)
	return slices.DeleteFunc(faults, func(f fault) bool { return hasFault(known, f) }), nil
}

// checkSets refuses configuration sets of other projects. Administrators, who see everything, are told of which.
func checkSets(ctx context.Context, tx *store.Tx, by catalog.By, service string, spec state.ServiceSpec) error {
	if len(spec.ConfigSets) == 0 {
		return nil
	}
	sets, err := tx.Named(ctx, store.KindConfigSet, spec.ConfigSets)
	if err != nil {
		return err
	}
	for i, name := range spec.ConfigSets {
		set, err := resource.ConfigSets().Decode(sets[name])
		if err != nil {
			return err
		}
		if set.Spec.Project != "" && set.Spec.Project != spec.Project {
			whose := "another project"
			if by.SeesAll() {
				whose = fmt.Sprintf("project %q", set.Spec.Project)
			}
			return refusal.New(refusal.Precondition, "service %q: spec.configSets[%d]: configuration set %q is for services of %s: take it out, or put the service there", service, i, name, whose)
		}
	}
	return nil
}

// checkSet refuses to take a configuration set away from services that name it.
func checkSet(ctx context.Context, tx *store.Tx, by catalog.By, r store.Resource) error {
	set, err := resource.ConfigSets().Decode(r)
	if err != nil || set.Spec.Project == "" {
		return err
	}
	names, err := servicesNaming(ctx, tx, store.Ref{Kind: r.Kind, Name: r.Name})
	if err != nil {
		return err
	}
	services, err := tx.Named(ctx, store.KindService, names)
	if err != nil {
		return err
	}
	for _, name := range names {
		var spec state.ServiceSpec
		if err := state.Decode(services[name], &spec); err != nil {
			return err
		}
		if spec.Project != set.Spec.Project {
			who := "a service"
			if by.SeesAll() {
				who = fmt.Sprintf("service %q", name)
			}
			return refusal.New(refusal.Precondition, "configset %q: spec.project: %s names it and is not of project %q: change it first", r.Name, who, set.Spec.Project)
		}
	}
	return nil
}

func servicesNaming(ctx context.Context, tx *store.Tx, to store.Ref) (names []string, err error) {
	refs, err := tx.Referrers(ctx, to, catalog.MaxReferrers)
	for _, ref := range refs {
		if ref.Kind == store.KindService {
			names = append(names, ref.Name)
		}
	}
	return names, err
}

// fault is a field of a service that its project does not allow, and what is there.
type fault struct{ field, what string }

// hasFault says whether something is among faults, in whichever field.
func hasFault(faults []fault, is fault) bool {
	return slices.ContainsFunc(faults, func(f fault) bool { return f.what == is.what })
}

// refuses returns all that is out of bounds in a service.
func refuses(p *resource.ProjectSpec, s state.ServiceSpec, labels map[string]string) (faults []fault) {
	add := func(refused bool, field, kind, name string) {
		if refused {
			faults = append(faults, fault{field, fmt.Sprintf("%s %q", kind, name)})
		}
	}
	for i, is := range s.Sources {
		add(!wildcard.Any(p.Sources, is.Source), fmt.Sprintf("sources[%d].source", i), "source", is.Source)
	}
	if len(s.Sources) == 0 {
		add(!wildcard.Any(p.Sources, s.Source), "source", "source", s.Source)
	}
	if s.Catalog { // the content of the folder is bounded by itself
		return faults
	}
	namespace, account := cmp.Or(s.Namespace, defaultNamespace), s.Wishes().Impersonate
	rules := &deliveryv1.ObjectRules{Namespaces: p.Namespaces, Kinds: p.Kinds, DeniedKinds: p.DeniedKinds, Accounts: p.Accounts}
	add(!p.Clusters.Fits(s.Cluster, labels), "cluster", "cluster", s.Cluster)
	add(len(p.Namespaces) > 0 && !wildcard.Any(p.Namespaces, namespace), "namespace", "namespace", namespace)
	add(accounts.Refused(rules, namespace, account), "sync.impersonate", "account", account)
	return faults
}

func checkProject(ctx context.Context, tx *store.Tx, r store.Resource) error {
	project, err := resource.Projects().Decode(r)
	if err != nil {
		return err
	}
	names, err := servicesNaming(ctx, tx, store.Ref{Kind: store.KindProject, Name: r.Name})
	if err != nil {
		return err
	}
	services, err := tx.Named(ctx, store.KindService, names)
	if err != nil {
		return err
	}
	specs, clusterNames := make([]state.ServiceSpec, len(names)), map[string]bool{}
	for i, name := range names {
		if err := state.Decode(services[name], &specs[i]); err != nil {
			return err
		}
		clusterNames[specs[i].Cluster] = !specs[i].Catalog
	}
	clusters, err := tx.Named(ctx, store.KindCluster, state.TrueKeys(clusterNames))
	if err != nil {
		return err
	}
	var broken []string
	for i, spec := range specs {
		if faults := refuses(&project.Spec, spec, clusters[spec.Cluster].Labels); len(faults) > 0 {
			broken = append(broken, fmt.Sprintf("service %q (%s)", names[i], faults[0].what))
		}
	}
	if len(broken) == 0 {
		return nil
	}
	shown := broken[:min(len(broken), catalog.ShownReferrers)]
	more := ""
	if n := len(broken) - len(shown); n > 0 {
		more = fmt.Sprintf(" and %d more", n)
	}
	return refusal.New(refusal.Precondition, "project %q has services that it would not allow any more: %s%s. Change or move them first", r.Name, strings.Join(shown, ", "), more)
}
