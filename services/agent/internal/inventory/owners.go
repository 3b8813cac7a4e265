package inventory

import (
	"hash/maphash"

	"fairlead.dev/services/agent/internal/object"
)

// owners says which service an object belongs to, here or soon. Objects are many, and their names stand in the records:
// owners knows them by 64 bits of a sum with a seed of this process. Two objects of different services that share a sum
// (for 100,000 objects a chance of one in some billions) count as one until the agent restarts: a Claim of the second
// one is refused.
type owners struct {
	seed     maphash.Seed
	services map[uint64]string
}

func newOwners() owners { return owners{seed: maphash.MakeSeed(), services: map[uint64]string{}} }

func (o owners) sum(key object.Key) uint64 { return maphash.Comparable(o.seed, key) }

// of names the owner; "": there is none.
func (o owners) of(key object.Key) string { return o.services[o.sum(key)] }

func (o owners) set(key object.Key, service string) { o.services[o.sum(key)] = service }

// unset makes an object belong to the service no longer.
func (o owners) unset(key object.Key, service string) {
	if sum := o.sum(key); o.services[sum] == service {
		delete(o.services, sum)
	}
}
