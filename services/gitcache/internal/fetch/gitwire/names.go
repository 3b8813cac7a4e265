package gitwire

import (
	"slices"
	"strings"
)

// Names are the refs that a caller needs of a listing. The zero value: all of them. A listing may have more.
type Names struct {
	Refs     []string // by their full names
	Prefixes []string // and all refs whose names begin so
}

func (n Names) wantsAll() bool { return len(n.Refs)+len(n.Prefixes) == 0 }

// maxPrefixes of one request. Hosts may ignore longer lists and send all refs.
const maxPrefixes = 256

// refPrefixes are what version 2 of the protocol is asked by; none: all refs are asked for. There is no way to ask
// for one ref only: its name is a prefix, too, of others.
func (n Names) refPrefixes() []string {
	asked := shortestPrefixes(append(slices.Clone(n.Refs), n.Prefixes...))
	if len(asked) <= maxPrefixes {
		return asked
	}
	for i, name := range asked { // too many of them: whole namespaces
		if parts := strings.SplitAfterN(name, "/", 3); len(parts) == 3 {
			asked[i] = parts[0] + parts[1]
		}
	}
	if asked = shortestPrefixes(asked); len(asked) > maxPrefixes {
		return nil
	}
	return asked
}

// shortestPrefixes leaves out names that begin with another one.
func shortestPrefixes(names []string) []string {
	slices.Sort(names)
	short := names[:0]
	for _, name := range names {
		if len(short) == 0 || !strings.HasPrefix(name, short[len(short)-1]) {
			short = append(short, name)
		}
	}
	return short
}

// refFilter tells whether a ref is one of the names: hosts send more.
func (n Names) refFilter() func(ref string) bool {
	if n.wantsAll() {
		return func(string) bool { return true }
	}
	refs := make(map[string]bool, len(n.Refs))
	for _, ref := range n.Refs {
		refs[ref] = true
	}
	return func(ref string) bool {
		return refs[ref] || slices.ContainsFunc(n.Prefixes, func(prefix string) bool { return strings.HasPrefix(ref, prefix) })
	}
}
