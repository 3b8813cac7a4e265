package plan

import (
	"maps"
	"slices"
	"strings"
	"time"

	"fairlead.dev/platform/catalog"
	"fairlead.dev/platform/delivery"
)

// Update changes the plan in one step: nobody sees half of it. An Update is valid within Plan.Update only.
type Update struct {
	plan   *Plan
	now    time.Time
	change Change
	good   int64               // changes up to this one were all known before
	dirty  map[*cluster]string // with the trace of the commit that made it so
	// configured are the clusters whose agents get another configuration.
	configured map[*cluster]struct{}
	trace      string              // of the commit that is being delivered
	lines      map[*line]struct{}  // lines that may be worth telling
	earlier    map[string]struct{} // services whose earlier digests are others
}

// Update runs fn and says what it did. fn must not call the plan.
func (p *Plan) Update(now time.Time, fn func(*Update)) Change {
	p.mu.Lock()
	defer p.mu.Unlock()
	u := &Update{
		plan: p, now: now, good: p.low, dirty: map[*cluster]string{}, configured: map[*cluster]struct{}{}, lines: map[*line]struct{}{},
		earlier: map[string]struct{}{},
		change:  Change{Clusters: map[string]string{}, Services: map[string]struct{}{}},
	}
	fn(u)
	u.settle()
	u.nudgeConfigured()
	u.tell()
	u.noteEarlier()
	return u.change
}

// At says which changes of the catalog are in: all up to low, and none above high. After the catalog was put back to an
// earlier state their numbers begin again behind low.
func (u *Update) At(low, high int64) {
	u.plan.low, u.plan.high = low, high
	if u.good != 0 && low >= u.good {
		return
	}
	for _, f := range u.plan.folders {
		if low < f.good {
			f.good = low
			u.noteGood(f)
		}
	}
}

// Loaded says that the whole catalog has been brought in: the plan is ready from now on. Contents that are remembered
// of services or folders that the catalog does not have are forgotten.
func (u *Update) Loaded() {
	u.plan.ready = true
	for key := range u.plan.last.Contents {
		u.change.Gone = append(u.change.Gone, key)
	}
	for _, a := range u.plan.last.Apart {
		a.Over = true
		u.change.Apart = append(u.change.Apart, a)
	}
	for name := range u.plan.last.Earlier {
		u.earlier[name] = struct{}{}
	}
	u.plan.last = Memory{}
}

// Current says that the catalog that is brought in is the console's, and not just what a disk had of it: the console
// is told everything, of which it was told nothing before that. A console that begins anew may have lost what it was
// told before, with its database put back to an earlier state: it is told everything again.
func (u *Update) Current() {
	u.tellAgain()
	u.plan.current = true
}

func (u *Update) tellAgain() {
	for name := range u.plan.services {
		u.change.Services[name] = struct{}{}
	}
	for _, s := range u.plan.sources {
		for _, l := range s.lines {
			l.told = ""
			u.lines[l] = struct{}{}
		}
	}
}

// Cluster says whether the catalog has a cluster.
func (u *Update) Cluster(name string, exists bool) {
	if c := u.plan.clusters[name]; c != nil || exists {
		c = u.cluster(name)
		c.exists = exists
		u.touch(c)
	}
}

// touch has the digest of a cluster computed anew.
func (u *Update) touch(c *cluster) {
	if u.trace != "" || u.dirty[c] == "" {
		u.dirty[c] = u.trace
	}
}

// Labels says which labels a cluster has: some services are rendered by them.
func (u *Update) Labels(name string, labels map[string]string) {
	c := u.plan.clusters[name]
	if c == nil || maps.Equal(c.labels, labels) && c.config != nil {
		return
	}
	same := maps.Equal(c.labels, labels)
	c.labels = labels
	u.configure(c)
	if same {
		return
	}
	for _, s := range c.services {
		if s.is.SeesLabels() {
			u.compute(s)
		}
	}
}

// Windows says what a cluster says of the times of its services.
func (u *Update) Windows(name, windows string) {
	c := u.plan.clusters[name]
	if c == nil || c.windows == windows {
		return
	}
	c.windows = windows
	for _, s := range c.services {
		u.compute(s)
	}
}

// Project says what a project bounds of its services' objects, and what it says of their times; empty: nothing, or it
// is gone.
func (u *Update) Project(name, rules, windows string) {
	if u.plan.rules[name] == rules && u.plan.windows[name] == windows {
		return
	}
	u.plan.rules[name], u.plan.windows[name] = rules, windows
	if rules == "" {
		delete(u.plan.rules, name)
	}
	if windows == "" {
		delete(u.plan.windows, name)
	}
	for _, s := range u.plan.services { // seldom, and nothing is asked for again
		if s.is.Project() == name {
			u.compute(s)
		}
	}
}

// options is what is delivered of a service besides its folder. The bounds of its project stand behind, where it is one
// with them, and so do the windows of its project and cluster.
func (p *Plan) options(c *cluster, s *catalog.Service) string {
	return s.Options(c.labels) + p.rules[s.Project()] + p.windows[s.Project()] + c.windows
}

// Only removes what does not exist.
func (u *Update) Only(service, cluster, source, project func(name string) bool) {
	for name := range u.plan.services {
		if !service(name) {
			u.Remove(name)
		}
	}
	for name := range u.plan.clusters {
		if !cluster(name) {
			u.Cluster(name, false)
		}
	}
	for _, of := range []map[string]string{u.plan.rules, u.plan.windows} {
		for name := range of {
			if !project(name) {
				u.Project(name, "", "")
			}
		}
	}
	for name := range u.plan.sources {
		if !source(name) {
			u.Source(name, nil)
		}
	}
}

// Service brings in a service as the catalog has it now.
func (u *Update) Service(is *catalog.Service) {
	s := u.plan.services[is.Name]
	if s != nil && s.is.UID != is.UID {
		u.Remove(is.Name)
		s = nil
	}
	if s == nil {
		s = &service{is: is}
		u.plan.services[is.Name] = s
		u.change.Services[is.Name] = struct{}{}
		u.join(s)
		u.attach(s)
		u.recall(s)
	}
	if s.is.Cluster() != is.Cluster() {
		u.leave(s)
		s.is = is
		u.join(s)
	}
	s.is = is
	if s.folder.key != normal(is.Folder()) {
		u.move(s)
	}
	u.compute(s)
}

// Remove takes out a service that the catalog does not have any more.
func (u *Update) Remove(name string) {
	s := u.plan.services[name]
	if s == nil {
		return
	}
	u.leave(s)
	u.unite(s)
	u.detach(s)
	u.dropEarlier(s)
	delete(u.plan.services, name)
	u.change.Services[name] = struct{}{}
}

// recall gives a service back what was delivered before a restart. A service that comes later to a folder whose newest
// content can't be had gets nothing.
func (u *Update) recall(s *service) {
	last, known := u.plan.last.Apart[s.is.Name]
	switch f := s.folder; {
	case known && last.UID == s.is.UID && !f.settled():
		delete(u.plan.last.Apart, s.is.Name)
		if last.Content == nil {
			last.Content = nothing
		}
		u.part(s, last.Content)
	case u.plan.ready && f.content != nil && !f.settled():
		u.part(s, nothing)
	}
	c, before := s.delivered(), u.plan.last.Earlier[s.is.Name]
	if c == nil || before.UID != s.is.UID || before.Artifact != c.Artifact.Digest || s.folder.settled() {
		return
	}
	delete(u.plan.last.Earlier, s.is.Name)
	for _, text := range slices.Backward(before.Digests) {
		if digest, ok := delivery.ParseDigest(text); ok {
			s.keepEarlier(digest)
		}
	}
}

// move brings a service to another folder. The service keeps what it is delivered until the folder has something.
func (u *Update) move(s *service) {
	was, from, settled := s.delivered(), *s.folder, s.folder.settled()
	u.unite(s)
	u.detach(s)
	u.attach(s)
	switch {
	case s.folder.settled():
		s.before = was
	case was != nil:
		s.folder.recalled, s.folder.restored = s.folder.recalled || from.recalled, s.folder.restored || from.restored
		if !settled { // agents may have newer than what the service had
			s.folder.good = min(s.folder.good, from.good)
			u.noteGood(s.folder)
		}
		u.part(s, was)
	case s.folder.content != nil:
		u.part(s, nothing)
	}
	u.change.Services[s.is.Name] = struct{}{}
}

// part gives a service something of its own.
func (u *Update) part(s *service, c *Content) {
	s.own = c
	a := Apart{Service: s.is.Name, UID: s.is.UID}
	if c != nothing {
		u.use(c)
		a.Content = c
	}
	if s.folder.apart == nil {
		s.folder.apart = map[*service]struct{}{}
	}
	s.folder.apart[s] = struct{}{}
	u.change.Apart = append(u.change.Apart, a)
}

// unite takes from a service what it has of its own.
func (u *Update) unite(s *service) {
	if s.own == nil {
		return
	}
	if s.own != nothing {
		u.release(s.own)
		s.before = s.own
	}
	s.own = nil
	delete(s.folder.apart, s)
	u.change.Apart = append(u.change.Apart, Apart{Service: s.is.Name, UID: s.is.UID, Over: true})
}

func (u *Update) attach(s *service) {
	f := u.folder(normal(s.is.Folder()))
	s.folder, s.place = f, int32(len(f.services))
	f.services = append(f.services, s)
}

func (u *Update) detach(s *service) {
	f := s.folder
	last := f.services[len(f.services)-1]
	f.services[s.place], last.place = last, s.place
	f.services[len(f.services)-1] = nil
	f.services = f.services[:len(f.services)-1]
	if len(f.services) == 0 {
		u.forget(f)
	}
}

func (u *Update) cluster(name string) *cluster {
	c := u.plan.clusters[name]
	if c == nil {
		c = &cluster{name: name, changed: u.now}
		u.plan.clusters[name] = c
	}
	return c
}

// find looks for a service's place in its cluster.
func (c *cluster) find(name string) (int, bool) {
	return slices.BinarySearchFunc(c.services, name, func(s *service, name string) int { return strings.Compare(s.is.Name, name) })
}

func (u *Update) join(s *service) {
	c := u.cluster(s.is.Cluster())
	i, _ := c.find(s.is.Name)
	c.services = slices.Insert(c.services, i, s)
	u.touch(c)
}

func (u *Update) leave(s *service) {
	c := u.cluster(s.is.Cluster())
	if i, ok := c.find(s.is.Name); ok {
		c.services = slices.Delete(c.services, i, i+1)
	}
	u.touch(c)
}

// defaultNamespace is where objects go that name none, in services that name none.
const defaultNamespace = "default"

func namespace(s *catalog.Service) string {
	if ns := s.Namespace(); ns != "" {
		return ns
	}
	return defaultNamespace
}

// compute gives a service its digest. While the folder is not settled, the content stays and only the options or the
// configuration differ.
func (u *Update) compute(s *service) {
	var digest delivery.Digest
	if c := s.delivered(); c != nil {
		digest = s.digestOf(c, u.plan.options(u.cluster(s.is.Cluster()), s.is))
	}
	if digest != s.digest {
		if s.folder.settled() {
			u.dropEarlier(s)
		} else if s.digest != (delivery.Digest{}) {
			s.keepEarlier(s.digest)
			u.earlier[s.is.Name] = struct{}{}
		}
		s.digest = digest
		u.change.Services[s.is.Name] = struct{}{}
		u.touch(u.cluster(s.is.Cluster()))
	}
}

// keepEarlier puts a digest first among the earlier ones. A digest that comes again, as that of a hold does, takes one
// place.
func (s *service) keepEarlier(digest delivery.Digest) {
	if s.earlier == nil {
		s.earlier = new([maxEarlier]delivery.Digest)
	}
	place := slices.Index(s.earlier[:], digest)
	if place < 0 {
		place = maxEarlier - 1
	}
	copy(s.earlier[1:place+1], s.earlier[:place])
	s.earlier[0] = digest
}

func (u *Update) dropEarlier(s *service) {
	if s.earlier != nil {
		s.earlier = nil
		u.earlier[s.is.Name] = struct{}{}
	}
}

// noteEarlier has the disk keep the earlier digests that are others now.
func (u *Update) noteEarlier() {
	for name := range u.earlier {
		e := Earlier{Service: name}
		if s := u.plan.services[name]; s != nil && s.earlier != nil && s.delivered() != nil {
			e.UID, e.Artifact = s.is.UID, s.delivered().Artifact.Digest
			for _, digest := range s.earlier {
				if digest != (delivery.Digest{}) {
					e.Digests = append(e.Digests, digest.String())
				}
			}
		}
		u.change.Earlier = append(u.change.Earlier, e)
	}
}

func (u *Update) use(c *Content) { u.plan.inUse[c.Artifact.Digest]++ }

func (u *Update) release(c *Content) {
	d := c.Artifact.Digest
	if u.plan.inUse[d]--; u.plan.inUse[d] <= 0 {
		delete(u.plan.inUse, d)
	}
}

// settle computes the digests of the clusters that changed, and notes the clusters whose agents have something to do.
func (u *Update) settle() {
	for c, trace := range u.dirty {
		if !c.exists && len(c.services) == 0 {
			delete(u.plan.clusters, c.name)
			continue
		}
		digest := delivery.OrderedSetDigest(func(yield func(string, delivery.Digest) bool) {
			for _, s := range c.services {
				if s.delivered() != nil && !yield(s.is.Name, s.digest) {
					return
				}
			}
		})
		if digest != c.digest {
			c.digest, c.changed, c.revision = digest, u.now, u.plan.high
			u.change.Clusters[c.name] = trace
		}
	}
}
