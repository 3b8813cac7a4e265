package catalog

import (
	"cmp"
	"iter"
	"maps"
	"slices"
)

// uses are the services of a source. Which folders they want, and which refs they would follow without their pins, is counted, so that
// nobody who asks for that has to look at all services, of which there may be hundreds of thousands.
type uses struct {
	services map[*Service]struct{}
	folders  map[FolderID]int
	awaited  map[string]int
}

func (s *state) use(is *Service) {
	source := is.Folder().Source
	u := s.bySource[source]
	if u == nil {
		u = &uses{services: map[*Service]struct{}{}, folders: map[FolderID]int{}, awaited: map[string]int{}}
		s.bySource[source] = u
	}
	u.services[is] = struct{}{}
	u.folders[is.folder]++
	if is.pinned != nil {
		u.awaited[is.pinned.ref]++
	}
}

func (s *state) disuse(is *Service) {
	source := is.Folder().Source
	u := s.bySource[source]
	delete(u.services, is)
	if u.folders[is.folder]--; u.folders[is.folder] == 0 {
		delete(u.folders, is.folder)
	}
	if is.pinned != nil {
		if u.awaited[is.pinned.ref]--; u.awaited[is.pinned.ref] == 0 {
			delete(u.awaited, is.pinned.ref)
		}
	}
	if len(u.services) == 0 {
		delete(s.bySource, source)
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
