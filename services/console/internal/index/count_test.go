package index

import (
	"math/rand/v2"
	"slices"
	"testing"

	"fairlead.dev/services/console/internal/store"
)

// Groups that come and go are in order in an answer, and have as many rows as a new count has. Who takes the changes
// since the first answer in has the same.
func TestGroupsFollowTheirRows(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // not for secrets
	by := []string{"name"}
	counts, told := map[string]int{}, map[string]int{}
	var g groups
	for range 4000 {
		name := string(rune('a' + random.IntN(26)))
		count := 1
		if counts[name] > 0 && random.IntN(2) == 0 {
			count = -1
		}
		counts[name] += count
		if random.IntN(100) == 0 { // all rows are counted anew
			var counted groups
			for name, n := range counts {
				for range n {
					add(t, &counted, name, by, 1)
				}
			}
			g.replace(counted)
		} else {
			add(t, &g, name, by, count)
		}
		if random.IntN(10) > 0 {
			continue
		}
		for _, c := range g.answerChanges() {
			if told[c.Values[0]] == c.Count {
				t.Errorf("%s is told though it has been %d", c.Values[0], c.Count)
			}
			told[c.Values[0]] = c.Count
		}
		want := sortedGroups(counts)
		if got := sortedGroups(told); !slices.EqualFunc(got, want, isSame) {
			t.Fatalf("changes make %v, want %v", got, want)
		}
		if random.IntN(2) == 0 {
			if got := g.answerAll(); !slices.EqualFunc(got, want, isSame) {
				t.Fatalf("got %v, want %v", got, want)
			}
		}
	}
}

func add(t *testing.T, g *groups, name string, by []string, count int) {
	t.Helper()
	if err := g.add(&row{kind: store.KindCluster, name: name}, by, count); err != nil {
		t.Fatal(err)
	}
}

func sortedGroups(counts map[string]int) (list []Group) {
	for name, n := range counts {
		if n > 0 {
			list = append(list, Group{[]string{name}, n})
		}
	}
	return inOrder(list)
}

func isSame(a, b Group) bool { return a.Count == b.Count && slices.Equal(a.Values, b.Values) }
