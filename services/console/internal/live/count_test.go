package live

import (
	"math/rand/v2"
	"slices"
	"testing"

	"fairlead.dev/services/console/internal/store"
)

// Groups that come and go among others stay in order, and have as many rows as a new count has.
func TestGroupsStayInOrder(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // not for secrets
	by := []string{"name"}
	counts := map[string]int{}
	var g groups
	for range 2000 {
		name := string(rune('a' + random.IntN(26)))
		count := 1
		if counts[name] > 0 && random.IntN(2) == 0 {
			count = -1
		}
		counts[name] += count
		if err := g.add(&row{kind: store.KindCluster, name: name}, by, count); err != nil {
			t.Fatal(err)
		}
		if random.IntN(10) > 0 {
			continue
		}
		var want []Group
		for name, n := range counts {
			if n > 0 {
				want = append(want, Group{[]string{name}, n})
			}
		}
		slices.SortFunc(want, func(a, b Group) int { return inOrder(&a, &b) })
		if got := g.sorted(); !slices.EqualFunc(got, want, func(a, b Group) bool { return a.Count == b.Count && slices.Equal(a.Values, b.Values) }) {
			t.Fatalf("got %v, want %v", got, want)
		}
	}
}
