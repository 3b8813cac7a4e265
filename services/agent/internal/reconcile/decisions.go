package reconcile

import (
	"sync"
	"time"

	"fairlead.dev/services/agent/internal/desired"
	"fairlead.dev/services/agent/internal/object"
	"fairlead.dev/services/agent/internal/prune"
	"fairlead.dev/services/agent/internal/set"
)

// decisionPatience is how long a removal of data waits for other services to say what they have: one that can't be
// fetched or rendered must not keep it for ever.
const decisionPatience = 2 * time.Minute

// decisions says of which wanted services it is known which objects they have: a service that was renamed comes with
// the removal of the old name, and is to take over its data. The zero value knows of none.
type decisions struct {
	mu sync.Mutex // guards what follows
	// contents are those of which it is known, by service.
	contents map[string]string
	// waiting is since when a removal of data waits for other services, by the service that removes.
	waiting map[string]time.Time
}

// note notes that it is known which objects a service has with this content, and returns the services that wait for
// such a word.
func (d *decisions) note(service, content string) (waiting []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.contents == nil {
		d.contents = map[string]string{}
	}
	d.contents[service] = content
	for name, since := range d.waiting {
		if time.Since(since) < decisionPatience {
			waiting = append(waiting, name)
		}
	}
	return waiting
}

func (d *decisions) has(service, content string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.contents[service] == content
}

// wait tells whether the removals of a service still wait for others, which they do from the first time on.
func (d *decisions) wait(service string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	since, ok := d.waiting[service]
	if !ok {
		if d.waiting == nil {
			d.waiting = map[string]time.Time{}
		}
		since = time.Now()
		d.waiting[service] = since
	}
	return time.Since(since) < decisionPatience
}

// forget drops all of a service, of which something else is wanted.
func (d *decisions) forget(service string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.contents, service)
	delete(d.waiting, service)
}

// Undecided names a service that is wanted, or doubted after another agent led, and of which this process does not know
// yet which objects it has; "": there is none, or the service that asks, which removes data, has waited long enough.
func (c *Controller) Undecided(removing string) string {
	name := c.firstUndecided(removing)
	if name == "" || !c.decisions.wait(removing) {
		return ""
	}
	return name
}

func (c *Controller) firstUndecided(removing string) string {
	for _, name := range c.Desired.Doubted() {
		if name != removing {
			return name
		}
	}
	for _, name := range c.Desired.Names() {
		service, what := c.Desired.Get(name)
		if name == removing || what != desired.Apply {
			continue
		}
		record, _ := c.Inventory.Glance(name)
		isApplied := record.Has(service.Digest) || record.Complete && record.Applied.Set == setOf(service).String()
		if !isApplied && !c.decisions.has(name, setOf(service).String()) {
			return name
		}
	}
	return ""
}

// awaitInheritance notes which objects a service has that nothing new is applied of now: others that leave them are not
// to take them along.
func (s *site) awaitInheritance(service desired.Service, objects *set.Set) error {
	items, err := objects.Items()
	if err != nil {
		return err
	}
	var wanted []object.Key
	for _, item := range keptItems(items) {
		if prune.Inherits(item.GVK().GroupKind()) {
			wanted = append(wanted, item.Key)
		}
	}
	s.controller.Inventory.Want(s.name, wanted)
	s.noteDecided(service)
	return nil
}

// noteDecided notes that it is known which objects the service has: it owns them all, waits for those that others have,
// or is kept back. Removals of data that wait for that look again.
func (s *site) noteDecided(service desired.Service) {
	for _, name := range s.controller.decisions.note(s.name, setOf(service).String()) {
		s.controller.Notice(name)
	}
}
