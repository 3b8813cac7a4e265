package status

import "fairlead.dev/services/gitcache/internal/mirror"

// Copied tells whether a mirror here has all that was published of a source.
func Copied(mirrors *mirror.Mirrors) func(Published) bool {
	return func(p Published) bool {
		m, ok := mirrors.Lookup(p.UID)
		if !ok || len(p.Heads) == 0 || m.Doubted() {
			return false
		}
		for _, h := range p.Heads {
			if have, ok := m.Head(h.Ref); !ok || have.Commit != h.Commit {
				return false
			}
		}
		return true
	}
}
