package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"fairlead.dev/services/console/internal/store"
)

// leverAttempts is how often a lever is pulled again when somebody else changed the service meanwhile.
const leverAttempts = 3

// ChangeService reads a service, has it changed, and writes it back: again, if it was changed by others in between.
func (c *Catalog) ChangeService(ctx context.Context, by By, name string, change func(*Service) error) (Service, error) {
	for attempt := 1; ; attempt++ {
		s, err := c.GetService(ctx, name)
		if err != nil {
			return Service{}, err
		}
		if err := change(&s); err != nil {
			return Service{}, err
		}
		out, _, err := c.UpdateService(ctx, by, s, Expectation{ETag: s.Meta.ETag})
		if refusal, ok := errors.AsType[*Error](err); ok && refusal.Reason == Conflict && attempt < leverAttempts {
			continue
		}
		return out, err
	}
}

// Guarded is an error unless the cluster's report has the guard with this id.
func (s *Service) Guarded(id string) error {
	switch r := s.Status.Cluster.Report; {
	case r == nil || r.Guard == nil:
		return refuse(Precondition, "service %q: nothing is to be confirmed any more", s.Meta.Name)
	case r.Guard.ID != id:
		return refuse(Precondition, "service %q: %d of %d objects would be removed now, which is not what guard %q is about: look at them, and confirm %s",
			s.Meta.Name, r.Guard.Removing, r.Guard.ObjectsTotal, id, r.Guard.ID)
	}
	return nil
}

// wishes are the parts of a service's sync options that the catalog itself looks at.
type wishes struct {
	Pin         string            `json:"pin"`
	DependsOn   []string          `json:"dependsOn"`
	Mode        string            `json:"mode"`
	Reason      string            `json:"reason"`
	Adoption    string            `json:"adoption"`
	OnDelete    string            `json:"onDelete"`
	Impersonate string            `json:"impersonate"`
	Ignore      []json.RawMessage `json:"ignore"`
	Health      []json.RawMessage `json:"health"`
	Prune       struct {
		Disabled   bool   `json:"disabled"`
		MaxPercent *int   `json:"maxPercent"`
		Confirmed  string `json:"confirmed"`
	} `json:"prune"`
}

// wishes reads them. What can't be read is as if it were not there: agents and distributors say so.
func (s *ServiceSpec) wishes() (w wishes) {
	if s.Sync != nil && json.Unmarshal(s.Sync, &w) != nil {
		return wishes{}
	}
	return w
}

// EffectiveRef is what is delivered from: the pin, or else the ref.
func (s *ServiceSpec) EffectiveRef() string {
	if pin := s.wishes().Pin; pin != "" {
		return pin
	}
	return s.Ref
}

// Dependencies is a Hook: the services that one waits for exist in its cluster, and none waits for itself.
type Dependencies struct{}

// Wrote looks at services.
func (Dependencies) Wrote(ctx context.Context, tx *store.Tx, _ By, _, after *store.Resource) error {
	if after == nil || after.Kind != store.KindService {
		return nil
	}
	var spec ServiceSpec
	if err := decode(*after, &spec); err != nil || len(spec.wishes().DependsOn) == 0 {
		return err
	}
	return (&chain{tx: tx, cluster: spec.Cluster, path: []string{after.Name}, done: map[string]bool{}}).follow(ctx, spec.wishes().DependsOn)
}

// chain walks along what services wait for.
type chain struct {
	tx      *store.Tx
	cluster string
	path    []string
	done    map[string]bool
}

func (c *chain) follow(ctx context.Context, names []string) error {
	found, err := c.tx.Named(ctx, store.KindService, names)
	if err != nil {
		return err
	}
	first := c.path[0]
	for _, name := range names {
		r, ok := found[name]
		var spec ServiceSpec
		switch {
		case name == first:
			return refuse(Precondition, "service %q: spec.sync.dependsOn: it would wait for itself: %s -> %s", first, strings.Join(c.path, " -> "), name)
		case c.done[name]:
			continue
		case !ok && len(c.path) == 1:
			return refuse(Precondition, "service %q: spec.sync.dependsOn: service %q does not exist: create it first", first, name)
		case !ok:
			continue // of another one, and gone since
		}
		if err := decode(r, &spec); err != nil {
			return err
		}
		if len(c.path) == 1 && spec.Cluster != c.cluster {
			return refuse(Precondition, "service %q: spec.sync.dependsOn: service %q is for cluster %q, and this one for %q: only services of one cluster can wait for each other",
				first, name, spec.Cluster, c.cluster)
		}
		c.path = append(c.path, name)
		if err := c.follow(ctx, spec.wishes().DependsOn); err != nil {
			return err
		}
		c.path = c.path[:len(c.path)-1]
		c.done[name] = true
	}
	return nil
}
