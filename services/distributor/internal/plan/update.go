package plan

import (
	"time"

	"fairlead.dev/platform/artifact"
	"fairlead.dev/platform/delivery"
)

// Update changes the plan in one step: nobody sees half of it. It is valid within Plan.Update only.
type Update struct {
	plan   *Plan
	now    time.Time
	change Change
	dirty  map[*cluster]string // clusters to compute anew, with their names
}

// Update runs fn and says what it did. fn must not call the plan.
func (p *Plan) Update(now time.Time, fn func(*Update)) Change {
	p.mu.Lock()
	defer p.mu.Unlock()
	u := &Update{
		plan: p, now: now, dirty: map[*cluster]string{},
		change: Change{Clusters: map[string]struct{}{}, Services: map[string]struct{}{}},
	}
	fn(u)
	u.settle()
	return u.change
}

// Loaded says that the whole catalog has been brought in: the plan is ready from now on. What was
// remembered of services that the catalog does not have is forgotten.
func (u *Update) Loaded() {
	u.plan.ready = true
	for name := range u.plan.last {
		u.change.Gone = append(u.change.Gone, name)
	}
	clear(u.plan.last)
}

// Current says that the catalog that is brought in is the console's, and not just what a disk had of it.
func (u *Update) Current() { u.plan.current = true }

// Cluster says whether the catalog has a cluster.
func (u *Update) Cluster(name string, exists bool) {
	if c := u.plan.clusters[name]; c != nil || exists {
		c = u.cluster(name)
		c.exists = exists
		u.dirty[c] = name
	}
}

// Only removes the services and clusters that are not named.
func (u *Update) Only(services, clusters map[string]struct{}) {
	for name := range u.plan.services {
		if _, ok := services[name]; !ok {
			u.Remove(name)
		}
	}
	for name := range u.plan.clusters {
		if _, ok := clusters[name]; !ok {
			u.Cluster(name, false)
		}
	}
}

// Service brings in a service as the catalog has it now, and where its ref points (a zero revision:
// nowhere yet).
func (u *Update) Service(spec Spec, head Revision) {
	s := u.plan.services[spec.Name]
	if s != nil && s.spec.UID != spec.UID {
		u.Remove(spec.Name)
		s = nil
	}
	if s == nil {
		s = &service{spec: spec}
		u.plan.services[spec.Name] = s
		u.change.Services[spec.Name] = struct{}{}
		u.recall(s)
		u.join(s)
	}
	if s.spec.Cluster != spec.Cluster {
		u.leave(s)
		s.spec.Cluster = spec.Cluster
		u.join(s)
	}
	s.spec, s.head = spec, head
	u.ask(s)
	u.deliver(s)
}

// Remove takes out a service that the catalog does not have any more.
func (u *Update) Remove(name string) {
	s := u.plan.services[name]
	if s == nil {
		return
	}
	u.leave(s)
	u.drop(s)
	if s.delivered != nil {
		u.release(s.delivered.Artifact.Digest)
	}
	delete(u.plan.services, name)
	u.change.Gone = append(u.change.Gone, name)
	u.change.Services[name] = struct{}{}
}

// recall gives a service back what was delivered before a restart.
func (u *Update) recall(s *service) {
	d := u.plan.last[s.spec.Name]
	delete(u.plan.last, s.spec.Name)
	if d == nil || d.UID != s.spec.UID {
		return
	}
	s.delivered, s.recalled = d, true
	u.plan.inUse[d.Artifact.Digest]++
}

// ask makes a service's want the one that its spec and head give.
func (u *Update) ask(s *service) {
	if s.head.Commit == "" || s.spec.SourceUID == "" {
		u.drop(s)
		return
	}
	key := Want{
		Source: s.spec.Source, SourceUID: s.spec.SourceUID, Commit: s.head.Commit, Path: s.spec.Path,
		Include: s.spec.Include, Ignore: s.spec.Ignore, Submodules: s.spec.Submodules,
	}
	if s.want != nil && s.want.key == key {
		return
	}
	u.drop(s)
	w := u.plan.wants[key]
	if w == nil {
		w = &want{key: key, services: map[*service]struct{}{}}
		u.plan.wants[key] = w
	}
	w.services[s] = struct{}{}
	s.want = w
	if d := s.delivered; d != nil && d.Want == key && !w.answered {
		// Resolved before a restart: content at a commit does not change.
		w.answered, w.artifact, w.problem = true, d.Artifact, nil
		for other := range w.services {
			u.deliver(other)
		}
	}
}

// drop ends a service's want, and the want itself with its last service.
func (u *Update) drop(s *service) {
	if s.want == nil {
		return
	}
	delete(s.want.services, s)
	if len(s.want.services) == 0 {
		delete(u.plan.wants, s.want.key)
	}
	s.want = nil
}

func (u *Update) cluster(name string) *cluster {
	c := u.plan.clusters[name]
	if c == nil {
		c = &cluster{services: map[string]*service{}, changed: u.now}
		u.plan.clusters[name] = c
	}
	return c
}

func (u *Update) join(s *service) {
	c := u.cluster(s.spec.Cluster)
	c.services[s.spec.Name] = s
	u.dirty[c] = s.spec.Cluster
}

func (u *Update) leave(s *service) {
	c := u.cluster(s.spec.Cluster)
	delete(c.services, s.spec.Name)
	u.dirty[c] = s.spec.Cluster
}

// deliver makes the newest content that there is what the service's cluster should have.
func (u *Update) deliver(s *service) {
	u.setProblem(s)
	w := s.want
	if w == nil || !w.answered || w.problem != nil {
		return
	}
	if s.recalled && u.plan.current {
		s.recalled = false
		u.change.Clusters[s.spec.Cluster] = struct{}{} // an agent may wait for this
	}
	d := &Delivery{
		Service: s.spec.Name, UID: s.spec.UID, Want: w.key, Namespace: s.spec.Namespace, Revision: s.head, Artifact: w.artifact,
	}
	was := s.delivered
	if was != nil {
		d.Digest = was.Digest
		if *was == *d {
			return
		}
	}
	d.seal()
	s.delivered = d
	u.plan.inUse[d.Artifact.Digest]++
	if was != nil {
		u.release(was.Artifact.Digest)
		if was.Artifact.Digest != d.Artifact.Digest {
			s.before = was.Artifact.Digest
		}
	}
	u.change.Services[s.spec.Name] = struct{}{}
	u.change.Delivered = append(u.change.Delivered, d)
	u.dirty[u.cluster(s.spec.Cluster)] = s.spec.Cluster
}

func (u *Update) release(d artifact.Digest) {
	if u.plan.inUse[d]--; u.plan.inUse[d] <= 0 {
		delete(u.plan.inUse, d)
	}
}

// setProblem says why the service's newest content can't be delivered, if it can't.
func (u *Update) setProblem(s *service) {
	var p Problem
	switch {
	case s.spec.SourceUID == "":
		p = Problem{Text: missingSource(s.spec), From: u.now}
		if s.problem.Text == p.Text {
			p.From = s.problem.From
		}
	case s.want != nil && s.want.problem != nil:
		p = Problem{Text: s.want.problem(s.spec.Name), From: s.want.from}
	}
	if p != s.problem {
		s.problem = p
		u.change.Services[s.spec.Name] = struct{}{}
	}
}

// settle computes the digests of the clusters that changed, and who has something to do.
func (u *Update) settle() {
	for c, name := range u.dirty {
		if !c.exists && len(c.services) == 0 {
			delete(u.plan.clusters, name)
			continue
		}
		set := make(map[string]string, len(c.services))
		for _, s := range c.services {
			if s.delivered != nil {
				set[s.spec.Name] = s.delivered.Digest
			}
		}
		if digest := delivery.SetDigest(set); digest != c.digest {
			c.digest, c.changed = digest, u.now
			u.change.Clusters[name] = struct{}{}
		}
	}
}
