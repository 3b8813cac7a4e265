package catalog

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/accounts"
	"fairlead.dev/platform/wildcard"
	"fairlead.dev/services/console/internal/refusal"
	"fairlead.dev/services/console/internal/resource"
	"fairlead.dev/services/console/internal/state"
	"fairlead.dev/services/console/internal/store"
)

// boundBackends refuses configuration of backends that are for other projects. Administrators are told of which.
func boundBackends(ctx context.Context, tx *store.Tx, by By, r store.Resource) error {
	refs, err := resource.RefsOfSettings(&r)
	if err != nil {
		return err
	}
	var names []string
	for _, ref := range refs {
		if ref.Kind == store.KindBackend {
			names = append(names, ref.Name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	rows, err := tx.Named(ctx, store.KindBackend, names)
	if err != nil {
		return err
	}
	project, err := resource.ProjectOf(r)
	if err != nil {
		return err
	}
	for _, name := range names {
		backend, err := resource.Backends().Decode(rows[name])
		if err != nil {
			return err
		}
		if !serves(backend.Spec, project) {
			whose := "other projects"
			if by.all() {
				whose = fmt.Sprintf("projects %s only", strings.Join(backend.Spec.Projects, ", "))
			}
			return refusal.New(refusal.Precondition, "%s %q: backend %q is for configuration of %s", r.Kind, r.Name, name, whose)
		}
	}
	return nil
}

func serves(s resource.BackendSpec, project string) bool {
	return len(s.Projects) == 0 || slices.Contains(s.Projects, project)
}

// boundBackend refuses to take a backend away from configuration that names it.
func boundBackend(ctx context.Context, tx *store.Tx, by By, r store.Resource) error {
	backend, err := resource.Backends().Decode(r)
	if err != nil || len(backend.Spec.Projects) == 0 {
		return err
	}
	refs, err := tx.Referrers(ctx, store.Ref{Kind: r.Kind, Name: r.Name}, maxReferrers)
	if err != nil {
		return err
	}
	byKind := map[store.Kind][]string{}
	for _, ref := range refs {
		byKind[ref.Kind] = append(byKind[ref.Kind], ref.Name)
	}
	for _, kind := range store.Kinds() {
		rows, err := tx.Named(ctx, kind, byKind[kind])
		if err != nil {
			return err
		}
		for _, name := range byKind[kind] {
			project, err := resource.ProjectOf(rows[name])
			if err != nil {
				return err
			}
			if !serves(backend.Spec, project) {
				who := "something"
				if by.all() {
					who = fmt.Sprintf("%s %q", kind, name)
				}
				return refusal.New(refusal.Precondition, "backend %q: spec.projects: %s names it and is of none of them: change it first", r.Name, who)
			}
		}
	}
	return nil
}

// defaultNamespace is where objects go that name none, in services that name none.
const defaultNamespace = "default"

// Bounds is a Hook: it refuses services that their project does not allow, and changes of projects that their
// services would break.
type Bounds struct{}

// Wrote looks at services and projects.
func (Bounds) Wrote(ctx context.Context, w *Write, before, after *store.Resource) error {
	if after == nil {
		return nil
	}
	if err := boundBackends(ctx, w.Tx, w.By, *after); err != nil {
		return err
	}
	switch {
	case after.Kind == store.KindBackend && before != nil:
		return boundBackend(ctx, w.Tx, w.By, *after)
	case after.Kind == store.KindService:
		return boundService(ctx, w.Tx, w.By, *after)
	case after.Kind == store.KindProject && before != nil:
		return boundProject(ctx, w.Tx, *after)
	case after.Kind == store.KindConfigSet && before != nil:
		return boundSet(ctx, w.Tx, w.By, *after)
	}
	return nil
}

func boundService(ctx context.Context, tx *store.Tx, by By, r store.Resource) error {
	var spec state.ServiceSpec
	if err := state.Decode(r, &spec); err != nil {
		return err
	}
	if err := boundSets(ctx, tx, by, r.Name, spec); err != nil || spec.Project == "" {
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
	if field, why := refuses(&project.Spec, spec, cluster.Labels); why != "" {
		return refusal.New(refusal.Precondition, "service %q: spec.%s: project %q does not allow %s: take another, or have the project changed", r.Name, field, spec.Project, why)
	}
	return nil
}

// boundSets refuses configuration sets of other projects. Administrators, who see everything, are told of which.
func boundSets(ctx context.Context, tx *store.Tx, by By, service string, spec state.ServiceSpec) error {
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
			if by.all() {
				whose = fmt.Sprintf("project %q", set.Spec.Project)
			}
			return refusal.New(refusal.Precondition, "service %q: spec.configSets[%d]: configuration set %q is for services of %s: take it out, or put the service there", service, i, name, whose)
		}
	}
	return nil
}

// boundSet refuses to take a configuration set away from services that name it.
func boundSet(ctx context.Context, tx *store.Tx, by By, r store.Resource) error {
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
			if by.all() {
				who = fmt.Sprintf("service %q", name)
			}
			return refusal.New(refusal.Precondition, "configset %q: spec.project: %s names it and is not of project %q: change it first", r.Name, who, set.Spec.Project)
		}
	}
	return nil
}

func servicesNaming(ctx context.Context, tx *store.Tx, to store.Ref) (names []string, err error) {
	refs, err := tx.Referrers(ctx, to, maxReferrers)
	for _, ref := range refs {
		if ref.Kind == store.KindService {
			names = append(names, ref.Name)
		}
	}
	return names, err
}

// refuses says which field of a service is out of bounds, and how.
func refuses(p *resource.ProjectSpec, s state.ServiceSpec, labels map[string]string) (field, why string) {
	for i, is := range s.Sources {
		if !wildcard.Any(p.Sources, is.Source) {
			return fmt.Sprintf("sources[%d].source", i), fmt.Sprintf("source %q", is.Source)
		}
	}
	switch {
	case !wildcard.Any(p.Sources, s.Source):
		return "source", fmt.Sprintf("source %q", s.Source)
	case s.Catalog: // the content of the folder is bounded by itself
	case !p.Clusters.Fits(s.Cluster, labels):
		return "cluster", fmt.Sprintf("cluster %q", s.Cluster)
	case len(p.Namespaces) > 0 && !wildcard.Any(p.Namespaces, cmp.Or(s.Namespace, defaultNamespace)):
		return "namespace", fmt.Sprintf("namespace %q", cmp.Or(s.Namespace, defaultNamespace))
	}
	account := s.Wishes().Impersonate
	rules := &deliveryv1.ObjectRules{Namespaces: p.Namespaces, Kinds: p.Kinds, DeniedKinds: p.DeniedKinds, Accounts: p.Accounts}
	if !s.Catalog && accounts.Refused(rules, cmp.Or(s.Namespace, defaultNamespace), account) {
		return "sync.impersonate", fmt.Sprintf("account %q", account)
	}
	return "", ""
}

func boundProject(ctx context.Context, tx *store.Tx, r store.Resource) error {
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
		if _, why := refuses(&project.Spec, spec, clusters[spec.Cluster].Labels); why != "" {
			broken = append(broken, fmt.Sprintf("service %q (%s)", names[i], why))
		}
	}
	if len(broken) == 0 {
		return nil
	}
	shown := broken[:min(len(broken), shownReferrers)]
	more := ""
	if n := len(broken) - len(shown); n > 0 {
		more = fmt.Sprintf(" and %d more", n)
	}
	return refusal.New(refusal.Precondition, "project %q has services that it would not allow any more: %s%s. Change or move them first", r.Name, strings.Join(shown, ", "), more)
}
