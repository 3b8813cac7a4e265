package catalog

import (
	"maps"
	"slices"
	"sync/atomic"

	"google.golang.org/protobuf/proto"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
)

// resource is what all kinds have.
type resource interface {
	comparable
	proto.Message
	GetMetadata() *consolev1.Metadata
}

// state is the catalog at one moment, with the index that readers need.
type state struct {
	sources  map[string]*consolev1.Source
	clusters map[string]*consolev1.Cluster
	services map[string]*Service
	secrets  map[string]*consolev1.Secret
	grants   map[string]*consolev1.Grant
	projects map[string]*consolev1.Project
	roles    map[string]*consolev1.Role
	configs  map[string]*consolev1.AgentConfig
	sets     map[string]*consolev1.ViewSet

	bySource map[string]*uses
	// granted and allowed are grants and roles in the order of names, for callers that ask with every request; nil:
	// they have changed.
	granted atomic.Pointer[[]*consolev1.Grant]
	allowed atomic.Pointer[[]*consolev1.Role]
}

func newState() *state {
	return &state{
		sources: map[string]*consolev1.Source{}, clusters: map[string]*consolev1.Cluster{},
		services: map[string]*Service{}, secrets: map[string]*consolev1.Secret{},
		grants:   map[string]*consolev1.Grant{},
		projects: map[string]*consolev1.Project{}, roles: map[string]*consolev1.Role{}, configs: map[string]*consolev1.AgentConfig{},
		sets:     map[string]*consolev1.ViewSet{},
		bySource: map[string]*uses{},
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
	case *consolev1.Change_Grant:
		return consolev1.Kind_KIND_GRANT
	case *consolev1.Change_Project:
		return consolev1.Kind_KIND_PROJECT
	case *consolev1.Change_Role:
		return consolev1.Kind_KIND_ROLE
	case *consolev1.Change_AgentConfig:
		return consolev1.Kind_KIND_AGENT_CONFIG
	case *consolev1.Change_ViewSet:
		return consolev1.Kind_KIND_VIEW_SET
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
		kind, name = consolev1.Kind_KIND_SERVICE, c.Service.GetMetadata().GetName()
		if ok = name != ""; ok {
			s.put(NewService(c.Service))
		}
	case *consolev1.Change_Secret:
		kind, name, ok = set(s.secrets, consolev1.Kind_KIND_SECRET, withoutValues(c.Secret))
	case *consolev1.Change_Grant:
		kind, name, ok = set(s.grants, consolev1.Kind_KIND_GRANT, c.Grant)
		s.granted.Store(nil)
	case *consolev1.Change_Project:
		kind, name, ok = set(s.projects, consolev1.Kind_KIND_PROJECT, c.Project)
	case *consolev1.Change_Role:
		kind, name, ok = set(s.roles, consolev1.Kind_KIND_ROLE, c.Role)
		s.allowed.Store(nil)
	case *consolev1.Change_AgentConfig:
		kind, name, ok = set(s.configs, consolev1.Kind_KIND_AGENT_CONFIG, c.AgentConfig)
	case *consolev1.Change_ViewSet:
		kind, name, ok = set(s.sets, consolev1.Kind_KIND_VIEW_SET, c.ViewSet)
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
		is := s.services[d.GetName()]
		if ok = is != nil && (d.GetUid() == "" || is.UID == d.GetUid()); ok {
			s.take(is)
		}
	case consolev1.Kind_KIND_SECRET:
		ok = unset(s.secrets, d)
	case consolev1.Kind_KIND_GRANT:
		ok = unset(s.grants, d)
		s.granted.Store(nil)
	case consolev1.Kind_KIND_PROJECT:
		ok = unset(s.projects, d)
	case consolev1.Kind_KIND_ROLE:
		ok = unset(s.roles, d)
		s.allowed.Store(nil)
	case consolev1.Kind_KIND_AGENT_CONFIG:
		ok = unset(s.configs, d)
	case consolev1.Kind_KIND_VIEW_SET:
		ok = unset(s.sets, d)
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

func (s *state) put(is *Service) {
	if was := s.services[is.Name]; was != nil {
		s.take(was)
	}
	s.services[is.Name] = is
	s.use(is)
}

func (s *state) take(is *Service) {
	delete(s.services, is.Name)
	s.disuse(is)
}

// contents is what a snapshot is made of; none of it changes any more.
type contents struct {
	sources  []*consolev1.Source
	clusters []*consolev1.Cluster
	services []*Service
	secrets  []*consolev1.Secret
	grants   []*consolev1.Grant
	projects []*consolev1.Project
	roles    []*consolev1.Role
	configs  []*consolev1.AgentConfig
	sets     []*consolev1.ViewSet
}

func (s *state) contents() contents {
	return contents{
		sorted(s.sources), sorted(s.clusters), sorted(s.services), sorted(s.secrets), sorted(s.grants),
		sorted(s.projects), sorted(s.roles), sorted(s.configs), sorted(s.sets),
	}
}

// changes is the contents as a stream would bring them.
func (c contents) changes(yield func(*consolev1.Change) bool) {
	for _, r := range c.sources {
		if !yield(&consolev1.Change{Change: &consolev1.Change_Source{Source: r}}) {
			return
		}
	}
	for _, r := range c.clusters {
		if !yield(&consolev1.Change{Change: &consolev1.Change_Cluster{Cluster: r}}) {
			return
		}
	}
	for _, r := range c.services {
		if !yield(&consolev1.Change{Change: &consolev1.Change_Service{Service: r.message()}}) {
			return
		}
	}
	for _, r := range c.secrets {
		if !yield(&consolev1.Change{Change: &consolev1.Change_Secret{Secret: r}}) {
			return
		}
	}
	for _, r := range c.grants {
		if !yield(&consolev1.Change{Change: &consolev1.Change_Grant{Grant: r}}) {
			return
		}
	}
	for _, r := range c.projects {
		if !yield(&consolev1.Change{Change: &consolev1.Change_Project{Project: r}}) {
			return
		}
	}
	for _, r := range c.roles {
		if !yield(&consolev1.Change{Change: &consolev1.Change_Role{Role: r}}) {
			return
		}
	}
	for _, r := range c.configs {
		if !yield(&consolev1.Change{Change: &consolev1.Change_AgentConfig{AgentConfig: r}}) {
			return
		}
	}
	for _, r := range c.sets {
		if !yield(&consolev1.Change{Change: &consolev1.Change_ViewSet{ViewSet: r}}) {
			return
		}
	}
}

func sorted[R any](m map[string]R) []R {
	out := make([]R, 0, len(m))
	for _, name := range slices.Sorted(maps.Keys(m)) {
		out = append(out, m[name])
	}
	return out
}
