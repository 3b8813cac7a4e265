package mirror

import (
	"bytes"
	"maps"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
)

func sortHeads(heads []Head) {
	slices.SortFunc(heads, func(a, b Head) int { return strings.Compare(a.Ref, b.Ref) })
}

func sortedIDs(set map[plumbing.Hash]bool) []plumbing.Hash {
	return slices.SortedFunc(maps.Keys(set), func(a, b plumbing.Hash) int { return bytes.Compare(a[:], b[:]) })
}
