package placement_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"fairlead.dev/services/gitcache/internal/placement"
)

func replicas() *rapid.Generator[[]placement.Candidate] {
	return rapid.Custom(func(t *rapid.T) []placement.Candidate {
		names := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z0-9-]{1,12}`), 1, 8, rapid.ID).Draw(t, "names")
		all := make([]placement.Candidate, 0, len(names))
		for _, n := range names {
			all = append(all, placement.Candidate{Name: n, Draining: rapid.Bool().Draw(t, "draining")})
		}
		return all
	})
}

func TestEverybodyComputesTheSame(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		all, key := replicas().Draw(t, "replicas"), rapid.String().Draw(t, "key")
		rank := placement.Rank(key, all)
		if other := placement.Rank(key, rapid.Permutation(all).Draw(t, "in another order")); !slices.Equal(rank, other) {
			t.Fatalf("%v and %v", rank, other)
		}
		want := 0
		for _, r := range placement.Eligible(all) {
			want++
			if !slices.Contains(rank, r.Name) {
				t.Fatalf("%q is not in %v", r.Name, rank)
			}
		}
		if len(rank) != want {
			t.Fatalf("%d of %d replicas are ranked", len(rank), want)
		}
	})
}

func TestOneThatGoesMovesOnlyItsOwn(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		all, key := replicas().Filter(func(r []placement.Candidate) bool { return len(placement.Eligible(r)) > 1 }).Draw(t, "replicas"), rapid.String().Draw(t, "key")
		before := placement.Rank(key, all)
		gone := rapid.SampledFrom(before).Draw(t, "gone")
		less := slices.DeleteFunc(slices.Clone(all), func(r placement.Candidate) bool { return r.Name == gone })
		drained := slices.Clone(all)
		for i := range drained {
			drained[i].Draining = drained[i].Draining || drained[i].Name == gone
		}
		want := slices.DeleteFunc(slices.Clone(before), func(n string) bool { return n == gone })
		if after := placement.Rank(key, less); !slices.Equal(after, want) {
			t.Fatalf("without %q: %v, want %v", gone, after, want)
		}
		all = slices.DeleteFunc(all, func(r placement.Candidate) bool { return !r.Draining })
		if after := placement.Rank(key, drained); len(all) < len(drained) && !slices.Equal(after, want) {
			t.Fatalf("with %q draining: %v, want %v", gone, after, want)
		}
	})
}

func TestOneThatDrainsTakesNothingUnlessAllDo(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		all := replicas().Draw(t, "replicas")
		rank := placement.Rank("key", all)
		drain := 0
		for _, r := range all {
			if r.Draining {
				drain++
			}
		}
		if len(rank) == 0 || drain < len(all) && len(rank) != len(all)-drain ||
			drain == len(all) && len(rank) != len(all) {
			t.Fatalf("%d of %d drain, ranked are %v", drain, len(all), rank)
		}
	})
}

func TestSharesAreEven(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 8).Draw(t, "replicas")
		prefix := rapid.StringMatching(`[a-z]{0,8}`).Draw(t, "prefix")
		var all []placement.Candidate
		for i := range n {
			all = append(all, placement.Candidate{Name: fmt.Sprintf("%s-%d", prefix, i)})
		}
		const keys = 2000
		owned, copies := map[string]int{}, map[string]int{}
		for i := range keys {
			rank := placement.Rank(fmt.Sprintf("uid-%d", i), all)
			owned[rank[0]]++
			copies[rank[1]]++
		}
		// Six standard deviations: it fails once in a thousand million.
		share := keys / n
		for _, r := range all {
			for _, got := range []int{owned[r.Name], copies[r.Name]} {
				if d := got - share; d*d > 36*share {
					t.Fatalf("%s has %d, a share is %d: %v %v", r.Name, got, share, owned, copies)
				}
			}
		}
	})
}

// The ranking that is written here must never change: see score.
func TestTheRankingIsTheSameInEveryRelease(t *testing.T) {
	t.Parallel()
	got := placement.Rank("5d1b4b1e-0000-4000-8000-000000000002",
		[]placement.Candidate{{Name: "gitcache-0"}, {Name: "gitcache-1"}, {Name: "gitcache-2"}})
	if want := []string{"gitcache-0", "gitcache-2", "gitcache-1"}; !slices.Equal(got, want) {
		t.Errorf("ranked %v, want %v", got, want)
	}
}
