package gitwire

import (
	"iter"
	"maps"
	"net/url"

	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"

	"fairlead.dev/services/gitcache/internal/git"
)

// Listing is what upstream said its refs are.
type Listing struct {
	// Refs are objects by full ref name; HEAD is among them if it points to anything. A tag may point
	// to a tag object: see Peeled. Of those that upstream has all that were asked for are there, and maybe
	// more.
	Refs map[string]git.Hash
	// Peeled are the objects that tag objects among Refs stand for.
	Peeled map[string]git.Hash

	// Bytes that came for it.
	Bytes int64

	// The rest is for the fetcher that made the listing.

	Base     *url.URL // where the repository is after redirects
	Binary   bool     // a listing that came over the git binary goes on so
	Version2 bool     // of the protocol; what came over it goes on so
	Partial  bool     // upstream was asked for some refs only
	Others   bool     // upstream has refs, though none that it was asked for
	// Capabilities of upstream; nil over the git binary, which knows them itself, and in version 2, where each command
	// has its own, and those that matter are a must.
	Capabilities *capability.List
}

// Whole tells whether all refs of upstream are there, and not only those that were asked for.
func (l *Listing) Whole() bool { return !l.Partial }

// Empty tells whether upstream has no refs at all.
func (l *Listing) Empty() bool { return len(l.Refs) == 0 && !l.Others }

// Commit returns what a ref points to, tag objects followed.
func (l *Listing) Commit(ref string) (git.Hash, bool) {
	if id, ok := l.Peeled[ref]; ok {
		return id, true
	}
	id, ok := l.Refs[ref]
	return id, ok
}

// AllowsAny tells whether upstream may hand out commits that are not a ref's tip. In version 2, and over the git
// binary, that shows only when it is asked.
func (l *Listing) AllowsAny() bool {
	return l.Version2 || l.Binary || l.Capabilities.Supports(capability.AllowReachableSHA1InWant) ||
		l.Capabilities.Supports(allowAny)
}

// allowAny is a capability that go-git has no name for.
const allowAny capability.Capability = "allow-any-sha1-in-want"

// FindTips finds the objects to ask for where upstream hands out only refs, by what is wanted: the commit itself, or the
// tag object that stands for it. A listing may have a million refs: however many objects are wanted, it is read once.
func (l *Listing) FindTips(wanted iter.Seq[git.Hash]) map[git.Hash]git.Hash {
	tips := map[git.Hash]git.Hash{} // the zero hash: no ref has it so far
	for id := range wanted {
		tips[id] = git.Hash{}
	}
	if len(tips) == 0 {
		return tips
	}
	for tag, commit := range l.Peeled {
		if _, ok := tips[commit]; ok {
			tips[commit] = l.Refs[tag]
		}
	}
	for _, tip := range l.Refs {
		if _, ok := tips[tip]; ok {
			tips[tip] = tip
		}
	}
	maps.DeleteFunc(tips, func(_, tip git.Hash) bool { return tip.IsZero() })
	return tips
}
