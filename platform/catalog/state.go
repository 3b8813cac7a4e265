package catalog

import (
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
)

// resource is what all kinds have.
type resource interface {
	comparable
	proto.Message
	GetMetadata() *consolev1.Metadata
}

// state is the catalog at one moment, with the indexes that readers need.
type state struct {
	sources  map[string]*consolev1.Source
	clusters map[string]*consolev1.Cluster
	services map[string]*consolev1.Service
	secrets  map[string]*consolev1.Secret

	bySource  index // names of services by the source they name
	byCluster index // names of services by the cluster they are for
}

func newState() *state {
	return &state{
		sources: map[string]*consolev1.Source{}, clusters: map[string]*consolev1.Cluster{},
		services: map[string]*consolev1.Service{}, secrets: map[string]*consolev1.Secret{},
		bySource: index{}, byCluster: index{},
	}
}

func kindOf(ch *consolev1.Change) consolev1.Kind {
	switch c := ch.GetChange().(type) {
	case *consolev1.Change_Source:
		return consolev1.Kind_KIND_SOURCE
	case *consolev1.Change_Cluster:
		return consolev1.Kind_KIND_CLUSTER
	case *consolev1.Change_Service:
		return consolev1.Kind_KIND_SERVICE
	case *consolev1.Change_Secret:
		return consolev1.Kind_KIND_SECRET
	case *consolev1.Change_Deleted:
		return c.Deleted.GetKind()
	}
	return consolev1.Kind_KIND_UNSPECIFIED
}

// apply takes one change in. ok is false when it changes nothing.
func (s *state) apply(ch *consolev1.Change) (kind consolev1.Kind, name string, ok bool) {
	switch c := ch.GetChange().(type) {
	case *consolev1.Change_Source:
		kind, name, ok = set(s.sources, consolev1.Kind_KIND_SOURCE, c.Source)
	case *consolev1.Change_Cluster:
		kind, name, ok = set(s.clusters, consolev1.Kind_KIND_CLUSTER, c.Cluster)
	case *consolev1.Change_Service:
		s.unindex(c.Service.GetMetadata().GetName())
		kind, name, ok = set(s.services, consolev1.Kind_KIND_SERVICE, c.Service)
		s.reindex(c.Service.GetMetadata().GetName())
	case *consolev1.Change_Secret:
		kind, name, ok = set(s.secrets, consolev1.Kind_KIND_SECRET, withoutValues(c.Secret))
	case *consolev1.Change_Deleted:
		return s.remove(c.Deleted)
	}
	return kind, name, ok
}

func set[R resource](m map[string]R, kind consolev1.Kind, r R) (consolev1.Kind, string, bool) {
	name := r.GetMetadata().GetName()
	if name == "" {
		return kind, "", false
	}
	m[name] = r
	return kind, name, true
}

// withoutValues is a belt to the console's braces: what is not in memory can't get to the disk.
func withoutValues(s *consolev1.Secret) *consolev1.Secret {
	for k := range s.GetData() {
		s.Data[k] = ""
	}
	return s
}

func (s *state) remove(d *consolev1.Deleted) (consolev1.Kind, string, bool) {
	ok := false
	switch d.GetKind() {
	case consolev1.Kind_KIND_SOURCE:
		ok = unset(s.sources, d)
	case consolev1.Kind_KIND_CLUSTER:
		ok = unset(s.clusters, d)
	case consolev1.Kind_KIND_SERVICE:
		if ok = holds(s.services, d); ok {
			s.unindex(d.GetName())
			delete(s.services, d.GetName())
		}
	case consolev1.Kind_KIND_SECRET:
		ok = unset(s.secrets, d)
	}
	return d.GetKind(), d.GetName(), ok
}

// holds says whether m has the very resource that was deleted: its name may have been given again.
func holds[R resource](m map[string]R, d *consolev1.Deleted) bool {
	r, ok := m[d.GetName()]
	return ok && (d.GetUid() == "" || r.GetMetadata().GetUid() == d.GetUid())
}

func unset[R resource](m map[string]R, d *consolev1.Deleted) bool {
	if !holds(m, d) {
		return false
	}
	delete(m, d.GetName())
	return true
}

func (s *state) unindex(service string) {
	if was, ok := s.services[service]; ok {
		s.bySource.remove(was.GetSpec().GetSource(), service)
		s.byCluster.remove(was.GetSpec().GetCluster(), service)
	}
}

func (s *state) reindex(service string) {
	if is, ok := s.services[service]; ok {
		s.bySource.add(is.GetSpec().GetSource(), service)
		s.byCluster.add(is.GetSpec().GetCluster(), service)
	}
}

// named returns the services that have these names, in order.
func (s *state) named(names map[string]struct{}) []*consolev1.Service {
	out := make([]*consolev1.Service, 0, len(names))
	for _, name := range slices.Sorted(maps.Keys(names)) {
		out = append(out, s.services[name])
	}
	return out
}

// changes is the state as a stream would bring it.
func (s *state) changes() []*consolev1.Change {
	out := make([]*consolev1.Change, 0, len(s.sources)+len(s.clusters)+len(s.services)+len(s.secrets))
	for _, r := range sorted(s.sources) {
		out = append(out, &consolev1.Change{Change: &consolev1.Change_Source{Source: r}})
	}
	for _, r := range sorted(s.clusters) {
		out = append(out, &consolev1.Change{Change: &consolev1.Change_Cluster{Cluster: r}})
	}
	for _, r := range sorted(s.services) {
		out = append(out, &consolev1.Change{Change: &consolev1.Change_Service{Service: r}})
	}
	for _, r := range sorted(s.secrets) {
		out = append(out, &consolev1.Change{Change: &consolev1.Change_Secret{Secret: r}})
	}
	return out
}

func sorted[R resource](m map[string]R) []R {
	out := make([]R, 0, len(m))
	for _, name := range slices.Sorted(maps.Keys(m)) {
		out = append(out, m[name])
	}
	return out
}

// index holds sets of names by a key.
type index map[string]map[string]struct{}

func (x index) add(key, name string) {
	if x[key] == nil {
		x[key] = map[string]struct{}{}
	}
	x[key][name] = struct{}{}
}

func (x index) remove(key, name string) {
	delete(x[key], name)
	if len(x[key]) == 0 {
		delete(x, key)
	}
}
