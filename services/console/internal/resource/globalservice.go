package resource

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"fairlead.dev/platform/refusal"
	"fairlead.dev/services/console/internal/state"
	"fairlead.dev/services/console/internal/store"
)

// GlobalSpec is one service for each cluster of a choice.
type GlobalSpec struct {
	Clusters  *Selector         `json:"clusters"`
	Template  state.ServiceSpec `json:"template"`
	Overrides []GlobalOverride  `json:"overrides,omitempty"`
	// Detach leaves the service of a cluster that is not chosen any more as it is, on its own; else it goes.
	Detach bool `json:"detach,omitempty"`
	// MaxDeletions within guardWindow; 0: a tenth, but at least one.
	MaxDeletions int `json:"maxDeletions,omitempty"`
}

// GlobalOverride is what is different at some clusters; what is empty stays.
type GlobalOverride struct {
	Clusters  *Selector `json:"clusters"`
	Ref       string    `json:"ref,omitempty"`
	Path      string    `json:"path,omitempty"`
	Namespace string    `json:"namespace,omitempty"`
	// ConfigSets come behind those of the template, and Config is over its own.
	ConfigSets []string       `json:"configSets,omitempty"`
	Config     state.Settings `json:"config,omitempty"`
}

// GlobalService is such a resource.
type GlobalService = Of[GlobalSpec]

// GlobalServices is their kind.
func GlobalServices() Type[GlobalSpec] {
	return Type[GlobalSpec]{
		Kind: store.KindGlobalService,
		Check: func(g *GlobalService) error {
			if g.Spec.Template.Cluster != "" {
				return refusal.New(refusal.Invalid, "spec.template.cluster %q: leave it out: each cluster that is chosen gets one", g.Spec.Template.Cluster)
			}
			if g.Spec.Template.Catalog {
				return refusal.New(refusal.Invalid, "spec.template.catalog: a folder of the catalog is for no cluster: make a service of its own for it")
			}
			g.Spec.Template.TestRequest = nil // services are asked, one by one
			if err := checkTests(&g.Spec.Template); err != nil {
				return atTemplate(err, "spec.template.")
			}
			if err := g.Spec.check(GlobalOverride{}, "spec.template."); err != nil {
				return err
			}
			for i, o := range g.Spec.Overrides {
				if err := g.Spec.check(o, fmt.Sprintf("spec.overrides[%d].", i)); err != nil {
					return err
				}
			}
			return nil
		},
		Refs: func(g GlobalSpec) []Reference {
			refs := RefsOfService(&g.Template, "spec.template")
			for i, o := range g.Overrides {
				at := fmt.Sprintf("spec.overrides[%d]", i)
				refs = append(refs, eachTo(store.KindConfigSet, o.ConfigSets, at+".configSets")...)
				refs = append(refs, RefsOfField(o.Config, at+".config")...)
			}
			return slices.DeleteFunc(refs, func(r Reference) bool { return r.Kind == store.KindCluster })
		},
	}
}

// check looks at the template with what an override brings, which is where what is wrong is written.
func (g *GlobalSpec) check(o GlobalOverride, field string) error {
	spec := g.Template
	o.over(&spec)
	spec.Cluster = "any"
	s := state.Service{Meta: state.Meta{Name: "any"}, Spec: spec}
	if err := CheckService(&s); err != nil {
		return atTemplate(err, field)
	}
	for _, name := range slices.Sorted(maps.Keys(spec.Config)) {
		if spec.Config[name].Secret {
			return refusal.New(refusal.Invalid, "%sconfig[%q].secret: a global service keeps no secrets: put it into a configuration set that it names", field, name)
		}
	}
	return nil
}

// atTemplate says of what is wrong with the spec of a service where it is written.
func atTemplate(err error, field string) error {
	if refused, ok := errors.AsType[*refusal.Error](err); ok {
		return refusal.New(refused.Reason, "%s%s", field, strings.TrimPrefix(refused.Message, "spec."))
	}
	return err
}

func (o *GlobalOverride) over(s *state.ServiceSpec) {
	for to, value := range map[*string]string{&s.Ref: o.Ref, &s.Path: o.Path, &s.Namespace: o.Namespace} {
		if value != "" {
			*to = value
		}
	}
	for _, name := range o.ConfigSets {
		if !slices.Contains(s.ConfigSets, name) {
			s.ConfigSets = append(slices.Clip(s.ConfigSets), name)
		}
	}
	if len(o.Config) > 0 {
		all := maps.Clone(s.Config)
		if all == nil {
			all = state.Settings{}
		}
		maps.Copy(all, o.Config)
		s.Config = all
	}
}

// At is the spec of the service at a cluster.
func (g *GlobalSpec) At(cluster store.Resource) state.ServiceSpec {
	spec := g.Template
	spec.Cluster = cluster.Name
	for _, o := range g.Overrides {
		if o.Clusters.Fits(cluster.Name, cluster.Labels) {
			o.over(&spec)
		}
	}
	return spec
}
