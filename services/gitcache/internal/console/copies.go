package console

import (
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/catalog"
	"fairlead.dev/platform/pathrules"
	"fairlead.dev/services/gitcache/internal/build"
	"fairlead.dev/services/gitcache/internal/mirror"
	"fairlead.dev/services/gitcache/internal/shards"
)

// Copies is standby.Catalog over the hub's catalog.
type Copies struct {
	catalog *catalog.Catalog
	changes *catalog.Subscription
}

// NewCopies subscribes to changes; Close ends that.
func NewCopies(c *catalog.Catalog) *Copies { return &Copies{c, c.Subscribe()} }

// Close ends the subscription.
func (c *Copies) Close() { c.changes.Close() }

// Changed receives after changes.
func (c *Copies) Changed() <-chan struct{} { return c.changes.C() }

// Names are those of all sources by uid.
func (c *Copies) Names() map[string]string {
	c.changes.Take() // first: what changes from here on is told again
	names := map[string]string{}
	for _, s := range c.catalog.Sources() {
		names[s.GetMetadata().GetUid()] = s.GetMetadata().GetName()
	}
	return names
}

// Shards are all sources with their epochs.
func (c *Copies) Shards() []shards.Source {
	sources := c.catalog.Sources()
	all := make([]shards.Source, 0, len(sources))
	for _, s := range sources {
		all = append(all, shards.Source{Name: s.GetMetadata().GetName(), UID: s.GetMetadata().GetUid(), Epoch: s.GetStatus().GetEpoch()})
	}
	return all
}

// Heads are those that were published last.
func (c *Copies) Heads(name string) []mirror.Head {
	s, _ := c.catalog.Source(name)
	return Heads(s.GetStatus().GetHeads())
}

// Places are the folders that services use, at the published heads.
func (c *Copies) Places(name string) []build.Place {
	s, ok := c.catalog.Source(name)
	if !ok {
		return nil
	}
	var places []build.Place
	seen := map[build.Place]bool{}
	for id := range c.catalog.FoldersOf(name) {
		p, ok := placeOf(s, id.Value())
		if ok && !seen[p] {
			seen[p] = true
			places = append(places, p)
		}
	}
	return places
}

// placeOf is what services of a folder get; false: it can't get anything yet.
func placeOf(s *consolev1.Source, folder catalog.Folder) (build.Place, bool) {
	head, published := catalog.Head(s, folder.Ref)
	rules, err := pathrules.Parse(folder.Include.Lines(), folder.Ignore.Lines())
	if !published || err != nil {
		return build.Place{}, false
	}
	heads := Heads([]*consolev1.Head{head})
	if len(heads) == 0 {
		return build.Place{}, false
	}
	return build.Place{
		Source: s.GetMetadata().GetUid(), Commit: heads[0].Commit, Path: folder.Path,
		Filter: rules.Canonical(), Submodules: s.GetSpec().GetGit().GetSubmodules(), Dependencies: catalog.HasDependencies(s.GetSpec()),
	}, true
}
