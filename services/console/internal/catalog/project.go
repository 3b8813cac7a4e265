package catalog

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"fairlead.dev/platform/wildcard"
	"fairlead.dev/services/console/internal/store"
)

// ProjectSpec bounds what its services may be.
type ProjectSpec struct {
	Description string `json:"description,omitempty"`
	// Sources are names in which * stands for any text; none: no source.
	Sources []string `json:"sources,omitempty"`
	// Clusters is nil for none.
	Clusters *Selector `json:"clusters,omitempty"`
	// Config is the layer below all others of the configuration of its services.
	Config Settings `json:"config,omitempty"`
}

// Selector chooses clusters. One of its fields is set.
type Selector struct {
	Names  []string          `json:"names,omitempty"`
	Labels map[string]string `json:"labels,omitempty"`
	All    bool              `json:"all,omitempty"`
}

// Fits says whether a cluster is chosen.
func (s *Selector) Fits(name string, labels map[string]string) bool {
	if s == nil {
		return false
	}
	if s.All || slices.Contains(s.Names, name) {
		return true
	}
	for key, value := range s.Labels {
		if is, ok := labels[key]; !ok || is != value {
			return false
		}
	}
	return len(s.Labels) > 0
}

// Project is a bound for services.
type Project = Resource[ProjectSpec]

// Projects is their kind.
func Projects() Type[ProjectSpec] {
	return Type[ProjectSpec]{Kind: store.KindProject, Check: func(p *Project) error {
		for i, pattern := range p.Spec.Sources {
			if !dnsLabel.MatchString(strings.ReplaceAll(pattern, "*", "x")) {
				return refuse(Invalid, "spec.sources[%d] %q: must be a name, in which * stands for any text", i, pattern)
			}
		}
		return p.Spec.Config.check("config")
	}, Refs: func(p ProjectSpec) []store.Ref { return once(p.Config.refs()) }}
}

// CountServices says how many services name each of these resources.
func (c *Catalog) CountServices(ctx context.Context, kind store.Kind, names []string) (counts map[string]int, err error) {
	err = c.store.Read(ctx, func(ctx context.Context, v store.View) error {
		counts, err = v.CountReferrers(ctx, store.KindService, kind, names)
		return err
	})
	return counts, err
}

// Bounds is a Hook: it refuses services that their project does not allow, and changes of projects that their
// services would break.
type Bounds struct{}

// Wrote looks at services and projects.
func (Bounds) Wrote(ctx context.Context, tx *store.Tx, _ By, before, after *store.Resource) error {
	switch {
	case after == nil:
		return nil
	case after.Kind == store.KindService:
		return boundService(ctx, tx, *after)
	case after.Kind == store.KindProject && before != nil:
		return boundProject(ctx, tx, *after)
	case after.Kind == store.KindConfigSet && before != nil:
		return boundSet(ctx, tx, *after)
	}
	return nil
}

func boundService(ctx context.Context, tx *store.Tx, r store.Resource) error {
	var spec ServiceSpec
	if err := decode(r, &spec); err != nil {
		return err
	}
	if err := boundSets(ctx, tx, r.Name, spec); err != nil || spec.Project == "" {
		return err
	}
	row, err := tx.Get(ctx, store.KindProject, spec.Project)
	if err != nil {
		return fmt.Errorf("read project %q: %w", spec.Project, err)
	}
	project, err := Projects().Decode(row)
	if err != nil {
		return err
	}
	cluster, err := tx.Get(ctx, store.KindCluster, spec.Cluster)
	if err != nil {
		return fmt.Errorf("read cluster %q: %w", spec.Cluster, err)
	}
	if field, why := project.Spec.refuses(spec, cluster.Labels); why != "" {
		return refuse(Precondition, "service %q: spec.%s: project %q does not allow %s", r.Name, field, spec.Project, why)
	}
	return nil
}

// boundSets refuses configuration sets of other projects.
func boundSets(ctx context.Context, tx *store.Tx, service string, spec ServiceSpec) error {
	if len(spec.ConfigSets) == 0 {
		return nil
	}
	sets, err := tx.Named(ctx, store.KindConfigSet, spec.ConfigSets)
	if err != nil {
		return err
	}
	for i, name := range spec.ConfigSets {
		set, err := ConfigSets().Decode(sets[name])
		if err != nil {
			return err
		}
		if set.Spec.Project != "" && set.Spec.Project != spec.Project {
			return refuse(Precondition, "service %q: spec.configSets[%d]: configuration set %q is for services of project %q", service, i, name, set.Spec.Project)
		}
	}
	return nil
}

// boundSet refuses to take a configuration set away from services that name it.
func boundSet(ctx context.Context, tx *store.Tx, r store.Resource) error {
	set, err := ConfigSets().Decode(r)
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
		var spec ServiceSpec
		if err := decode(services[name], &spec); err != nil {
			return err
		}
		if spec.Project != set.Spec.Project {
			return refuse(Precondition, "configuration set %q: spec.project: service %q names it and is not of project %q: change it first", r.Name, name, set.Spec.Project)
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
func (p *ProjectSpec) refuses(s ServiceSpec, labels map[string]string) (field, why string) {
	switch {
	case !wildcard.Any(p.Sources, s.Source):
		return "source", fmt.Sprintf("source %q", s.Source)
	case !p.Clusters.Fits(s.Cluster, labels):
		return "cluster", fmt.Sprintf("cluster %q", s.Cluster)
	}
	return "", ""
}

func boundProject(ctx context.Context, tx *store.Tx, r store.Resource) error {
	project, err := Projects().Decode(r)
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
	specs, clusterNames := make([]ServiceSpec, len(names)), map[string]bool{}
	for i, name := range names {
		if err := decode(services[name], &specs[i]); err != nil {
			return err
		}
		clusterNames[specs[i].Cluster] = true
	}
	clusters, err := tx.Named(ctx, store.KindCluster, trueKeys(clusterNames))
	if err != nil {
		return err
	}
	var broken []string
	for i, spec := range specs {
		if _, why := project.Spec.refuses(spec, clusters[spec.Cluster].Labels); why != "" {
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
	return refuse(Precondition, "project %q has services that it would not allow any more: %s%s. Change or move them first", r.Name, strings.Join(shown, ", "), more)
}
