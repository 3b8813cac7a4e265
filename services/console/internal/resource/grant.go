package resource

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"fairlead.dev/platform/access"
	"fairlead.dev/platform/refusal"
	"fairlead.dev/services/console/internal/state"
	"fairlead.dev/services/console/internal/store"
)

// Grant says who may do what at which clusters.
type Grant struct {
	Meta state.Meta
	Spec GrantSpec
}

// GrantSpec is whom, what and where. One of Names, Labels and All of the clusters is set.
type GrantSpec struct {
	Users           []string      `json:"users,omitempty"`
	Groups          []string      `json:"groups,omitempty"`
	ServiceAccounts []string      `json:"serviceAccounts,omitempty"`
	Role            string        `json:"role"`
	Clusters        GrantClusters `json:"clusters"`
	// Projects whose resources it is about; none: all, and the Kubernetes APIs.
	Projects []string `json:"projects,omitempty"`
	// Until is when it ends; zero: it does not.
	Until time.Time `json:"until,omitzero"`
}

// GrantClusters chooses clusters.
type GrantClusters struct {
	Names  []string          `json:"names,omitempty"`
	Labels map[string]string `json:"labels,omitempty"`
	All    bool              `json:"all,omitempty"`
}

// ReadGrant makes a grant of what is stored.
func ReadGrant(r store.Resource) (Grant, error) {
	g := Grant{Meta: state.MetaOf(r)}
	err := state.Decode(r, &g.Spec)
	return g, err
}

// RefsOfGrant checks the names in a grant, and returns the resources that they name: each exists, and can't go, and
// another get its name, while somebody has rights by it.
func RefsOfGrant(g *Grant) (refs []Reference, err error) {
	if !IsName(g.Meta.Name) {
		return nil, RefuseName(g.Meta.Name)
	}
	name := func(kind store.Kind, field string, names ...string) error {
		for _, n := range names {
			if !IsName(n) {
				return refusal.New(refusal.Invalid, "%s: %q is not a name of a %s", field, n, kind)
			}
			refs = append(refs, RefTo(kind, n, field))
		}
		return nil
	}
	err = errors.Join(
		name(store.KindCluster, "spec.clusters.names", g.Spec.Clusters.Names...),
		name(store.KindProject, "spec.projects", g.Spec.Projects...),
		name(store.KindServiceAccount, "spec.subjects", g.Spec.ServiceAccounts...))
	if !access.IsBuiltin(g.Spec.Role) {
		err = errors.Join(err, name(store.KindRole, "spec.role", g.Spec.Role))
	}
	if refused, ok := errors.AsType[*refusal.Error](err); ok {
		return nil, refused // the first of them
	}
	slices.SortFunc(refs, func(a, b Reference) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	return refs, nil
}
