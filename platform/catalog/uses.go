package catalog

import (
	"cmp"
	"iter"
	"maps"
	"slices"
)

// uses are the services of a source. Which folders they want, and which refs they would follow without their pins, is
// counted, so that no reader has to look at all services, of which there may be hundreds of thousands.
type uses struct {
	services map[*Service]struct{}
	folders  map[FolderID]int
	awaited  map[string]int
	// combinations are the refs of several sources of which the source is the first, how many services want each, and
	// what they are.
	combinations map[string]*combination
}

type combination struct {
	services int
	parts    []Part
}

func (s *state) use(is *Service) {
	for _, id := range is.folders() {
		u := s.usesOf(id.Value().Source)
		u.services[is] = struct{}{}
		u.folders[id]++
	}
	u := s.usesOf(is.Folder().Source)
	if is.pinned != nil {
		u.awaited[is.pinned.ref]++
	}
	if ref, _, ok := ParseCombinationRef(is.Folder().Ref); ok {
		if u.combinations[ref] == nil {
			u.combinations[ref] = &combination{parts: is.Parts()}
		}
		u.combinations[ref].services++
	}
}

func (s *state) usesOf(source string) *uses {
	u := s.bySource[source]
	if u == nil {
		u = &uses{services: map[*Service]struct{}{}, folders: map[FolderID]int{}, awaited: map[string]int{}, combinations: map[string]*combination{}}
		s.bySource[source] = u
	}
	return u
}

func (s *state) disuse(is *Service) {
	u := s.bySource[is.Folder().Source]
	if is.pinned != nil {
		if u.awaited[is.pinned.ref]--; u.awaited[is.pinned.ref] == 0 {
			delete(u.awaited, is.pinned.ref)
		}
	}
	if ref, _, ok := ParseCombinationRef(is.Folder().Ref); ok {
		if c := u.combinations[ref]; c.services == 1 {
			delete(u.combinations, ref)
		} else {
			c.services--
		}
	}
	for _, id := range is.folders() {
		u := s.usesOf(id.Value().Source)
		delete(u.services, is)
		if u.folders[id]--; u.folders[id] == 0 {
			delete(u.folders, id)
		}
		if len(u.services) == 0 {
			delete(s.bySource, id.Value().Source)
		}
	}
}

// servicesOf returns the services that name a source, in no order.
func (s *state) servicesOf(source string) iter.Seq[*Service] {
	if u := s.bySource[source]; u != nil {
		return maps.Keys(u.services)
	}
	return func(func(*Service) bool) {}
}

// ServicesOf returns the services that name a source, in the order of names.
func (c *Catalog) ServicesOf(source string) []*Service {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return slices.SortedFunc(c.live.servicesOf(source), func(a, b *Service) int { return cmp.Compare(a.Name, b.Name) })
}

// FoldersOf returns the folders of a source that services want, each once, and how many do.
func (c *Catalog) FoldersOf(source string) map[FolderID]int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if u := c.live.bySource[source]; u != nil {
		return maps.Clone(u.folders)
	}
	return nil
}

// CombinationsOf returns the refs of several sources of which this is the first, that services want, and the sources of
// each.
func (c *Catalog) CombinationsOf(source string) map[string][]Part {
	c.mu.RLock()
	defer c.mu.RUnlock()
	u := c.live.bySource[source]
	if u == nil || len(u.combinations) == 0 {
		return nil
	}
	all := make(map[string][]Part, len(u.combinations))
	for ref, is := range u.combinations {
		all[ref] = is.parts
	}
	return all
}

// RefsOf returns the canonical refs of a source that services follow, and how many do.
func (c *Catalog) RefsOf(source string) map[string]int {
	refs := map[string]int{}
	c.mu.RLock()
	defer c.mu.RUnlock()
	if u := c.live.bySource[source]; u != nil {
		for id, services := range u.folders {
			refs[CanonicalRef(id.Value().Ref)] += services
		}
		for ref, services := range u.awaited {
			refs[CanonicalRef(ref)] += services
		}
	}
	return refs
}
