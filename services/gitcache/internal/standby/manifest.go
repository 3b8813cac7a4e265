// Package standby keeps warm copies of sources that other replicas own: the packs of the mirror as they
// are, its heads, what was built from it and the current artifacts. A copy is what makes a replica able
// to own a source without a clone, and to serve it when its owner and upstream are gone.
//
// Invariants: upstream is never asked; what comes from another replica is checked like what comes from
// upstream; a copy never loses a published commit that it has; a mirror is written by its owner or by one
// copy, never by both (Mirrors.Borrow).
package standby

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"fairlead.dev/services/gitcache/internal/build"
	"fairlead.dev/services/gitcache/internal/mirror"
)

// Manifest is what a replica has of a source.
type Manifest struct {
	Packs []string // names: hex checksums
	Heads []mirror.Head
	Built []build.Record
	// Copies are the replicas that are known to have a copy of all of it.
	Copies []string
}

// Request asks for what a replica has.
type Request struct {
	UID  string
	Have []string // packs that the caller has
	// Replica and State of the caller, so that the sender knows who has a copy.
	Replica, State string
	ManifestOnly   bool
}

// State is a hash of packs and heads: what it is equal for has the same content.
func State(packs []string, heads []mirror.Head) string {
	lines := slices.Clone(packs)
	for _, h := range heads {
		lines = append(lines, fmt.Sprintf("%s %s %s %s", h.Ref, h.Object, h.Commit, h.Resolved))
	}
	slices.Sort(lines)
	sum := sha256.Sum256([]byte(strings.Join(lines, "\n")))
	return hex.EncodeToString(sum[:])
}

func packNames(m *mirror.Mirror) ([]string, error) {
	packs, err := m.Packs()
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(packs))
	for _, p := range packs {
		names = append(names, p.Name)
	}
	return names, nil
}

func headsOf(m *mirror.Mirror) []mirror.Head {
	var heads []mirror.Head
	for _, h := range m.Heads() {
		heads = append(heads, h)
	}
	slices.SortFunc(heads, func(a, b mirror.Head) int { return strings.Compare(a.Ref, b.Ref) })
	return heads
}
