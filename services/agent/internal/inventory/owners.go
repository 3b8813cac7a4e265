package inventory

import (
	"hash/maphash"

	"fairlead.dev/services/agent/internal/object"
)

// owners says which service an object belongs to, here or soon. Objects are many, and their names stand in the records: owners
// knows them by 64 bits of a sum whose seed no one can know. Objects of two services that share a sum, of 100,000 a chance of one
// to some billions, are taken for one: the later service is refused what it may have until the agent starts again, and no object ever has two owners.
type owners struct {
	seed     maphash.Seed
	services map[uint64]string
}

func newOwners() owners { return owners{seed: maphash.MakeSeed(), services: map[uint64]string{}} }

func (o owners) sum(key object.Key) uint64 { return maphash.Comparable(o.seed, key) }

// of names the owner; "": there is none.
func (o owners) of(key object.Key) string { return o.services[o.sum(key)] }

func (o owners) give(key object.Key, service string) { o.services[o.sum(key)] = service }

// take makes an object belong to the service no longer.
func (o owners) take(key object.Key, service string) {
	if sum := o.sum(key); o.services[sum] == service {
		delete(o.services, sum)
	}
}
