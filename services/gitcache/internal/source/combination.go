package source

import (
	"errors"
	"maps"
	"slices"

	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/mirror"
)

// Combination is what services want of several sources together.
type Combination struct {
	Parts []Part
	// Pins are commits of it that services are pinned to, in order.
	Pins []git.Hash
}

// Part is one of several sources.
type Part struct {
	Name        string // of its folder, and in messages
	Source, UID string
	Ref         string // canonical
	Folders     []PartFolder
	// Submodules and Dependencies belong to the content.
	Submodules, Dependencies bool
	// Head is what was published of another source; the zero value: nothing. Of this one the owner knows.
	Head mirror.Head
	// Problem is what is wrong at the source with this ref, in words; empty: nothing.
	Problem string
}

// PartFolder is a folder of a source by the rules of a service.
type PartFolder struct {
	Path            string
	Include, Ignore []string
}

// ErrCombined is told of services with one source that name a commit which was made of several.
var ErrCombined = errors.New("it was made of several sources, and is for services that name the same ones in spec.sources")

// SameCombinations compares combinations by ref.
func SameCombinations(a, b map[string]Combination) bool {
	return maps.EqualFunc(a, b, func(x, y Combination) bool {
		return slices.Equal(x.Pins, y.Pins) && slices.EqualFunc(x.Parts, y.Parts, func(p, q Part) bool {
			return p.UID == q.UID && p.Head.Commit == q.Head.Commit && p.Problem == q.Problem &&
				p.Submodules == q.Submodules && p.Dependencies == q.Dependencies
		}) // the rest is in the ref
	})
}
