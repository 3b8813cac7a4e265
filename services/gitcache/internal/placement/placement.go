// Package placement says which replica should own a source. Every replica computes the same from the
// same names, so nobody has to be asked: it is rendezvous hashing, in which a replica that comes or goes
// moves only what becomes or was its own.
package placement

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"
)

// Candidate is one that may own sources.
type Candidate struct {
	Name     string
	Draining bool // takes nothing, unless there are no others
}

// Rank returns the names of replicas that may own a key, the best first. The first should own it and the
// second keeps a copy. Replicas that drain are left out, unless all do.
func Rank(key string, replicas []Candidate) []string {
	type scored struct {
		name  string
		score [sha256.Size]byte
	}
	all := make([]scored, 0, len(replicas))
	for _, r := range Eligible(replicas) {
		all = append(all, scored{r.Name, score(key, r.Name)})
	}
	slices.SortFunc(all, func(a, b scored) int {
		return cmp.Or(bytes.Compare(b.score[:], a.score[:]), cmp.Compare(a.name, b.name))
	})
	names := make([]string, 0, len(all))
	for _, s := range all {
		names = append(names, s.name)
	}
	return slices.Compact(names)
}

// Eligible are the replicas that may own something.
func Eligible(replicas []Candidate) []Candidate {
	stay := slices.DeleteFunc(slices.Clone(replicas), func(r Candidate) bool { return r.Draining })
	if len(stay) == 0 {
		return replicas
	}
	return stay
}

// score must never change: replicas of two releases work side by side. The length keeps apart what would
// be the same bytes.
func score(key, name string) [sha256.Size]byte {
	b := binary.BigEndian.AppendUint64(nil, uint64(len(key)))
	return sha256.Sum256(append(append(b, key...), name...))
}
