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
	"fairlead.dev/services/console/internal/state"
	"fairlead.dev/services/console/internal/store"
)

// ProjectSpec bounds what its services may be.
type ProjectSpec struct {
	Description string `json:"description,omitempty"`
	// Sources are names in which * stands for any text; none: no source.
	Sources []string `json:"sources,omitempty"`
	// Clusters is nil for none.
	Clusters *Selector `json:"clusters,omitempty"`
	// Namespaces that objects may be in, as patterns; none: any.
	Namespaces []string `json:"namespaces,omitempty"`
	// Kinds that objects may be of, as patterns of Kind.group; none: any that is in a namespace, if anything else is
	// said of objects. Agents hold these, and DeniedKinds.
	Kinds       []string `json:"kinds,omitempty"`
	DeniedKinds []string `json:"deniedKinds,omitempty"`
	// Accounts that services may be applied as, as patterns of namespace/name; none: see package accounts.
	Accounts []string `json:"accounts,omitempty"`
	// Config is the layer below all others of the configuration of its services.
	Config state.Settings `json:"config,omitempty"`
	// Windows say when new content of its services may be applied; Freeze, an operator's lever, that none may.
	Windows state.Windows `json:"windows,omitempty"`
	Freeze  *state.Freeze `json:"freeze,omitempty"`
	// Recording says what becomes of shells in its pods, as the API's enum; 0: they are not recorded.
	Recording int32 `json:"recording,omitempty"`
}

// defaultNamespace is where objects go that name none, in services that name none.
const defaultNamespace = "default"

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
				return refusal.New(refusal.Invalid,
					"spec.sources[%d] %q: must be a name, in which * stands for any text", i, pattern)
			}
		}
		for i, pattern := range p.Spec.Namespaces {
			if !dnsLabel.MatchString(strings.ReplaceAll(pattern, "*", "x")) {
				return refusal.New(refusal.Invalid,
					"spec.namespaces[%d] %q: must be a namespace, in which * stands for any text", i, pattern)
			}
		}
		if err := checkKinds("spec.kinds", p.Spec.Kinds); err != nil {
			return err
		}
		if err := checkKinds("spec.deniedKinds", p.Spec.DeniedKinds); err != nil {
			return err
		}
		for i, pattern := range p.Spec.Accounts {
			if !accountName.MatchString(strings.ReplaceAll(pattern, "*", "x")) {
				return refusal.New(refusal.Invalid, "spec.accounts[%d] %q: must be namespace/name of a Kubernetes service account, in which * stands for any text", i, pattern)
			}
		}
		if err := checkWindows(p.Spec.Windows, "windows"); err != nil {
			return err
		}
		return checkSettings(p.Spec.Config, "config")
	}, Refs: func(p ProjectSpec) []Reference { return refsOfField(p.Config, "spec.config") }}
}

func checkKinds(field string, patterns []string) error {
	for i, pattern := range patterns {
		if !kindPattern.MatchString(pattern) {
			return refusal.New(refusal.Invalid, "%s[%d] %q: must be a kind with its group, as Deployment.apps or ConfigMap, in which * stands for any text", field, i, pattern)
		}
	}
	return nil
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
	project, err := Projects().Decode(row)
	if err != nil {
		return err
	}
	var cluster store.Resource
	if !spec.Catalog {
		if cluster, err = tx.Get(ctx, store.KindCluster, spec.Cluster); err != nil {
			return fmt.Errorf("read cluster %q: %w", spec.Cluster, err)
		}
	}
	if field, why := project.Spec.refuses(spec, cluster.Labels); why != "" {
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
		set, err := ConfigSets().Decode(sets[name])
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
func (p *ProjectSpec) refuses(s state.ServiceSpec, labels map[string]string) (field, why string) {
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
	return refusal.New(refusal.Precondition, "project %q has services that it would not allow any more: %s%s. Change or move them first", r.Name, strings.Join(shown, ", "), more)
}
