package views

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"
)

// Figures say what they were made of, sums are those of maps, and names live as long as a view has them.
func TestFiguresShareTheirNames(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // not for secrets
	var table nameTable
	func() {
		var total sum
		want := map[string]int64{}
		shapes := map[*names]bool{}
		for range 500 {
			by := map[string]int64{}
			for i := range 3 {
				if random.IntN(2) == 0 {
					by[fmt.Sprint("pods.", i)] = random.Int64N(9)
				}
			}
			f := table.figures(by)
			if got := maps.Collect(f.all()); !maps.Equal(got, by) {
				t.Fatalf("got %v, want %v", got, by)
			}
			wanted, has := by["pods.0"]
			if n, ok := f.get("pods.0"); n != wanted || ok != has {
				t.Fatalf("got %d, %v of %v", n, ok, by)
			}
			total.add(f)
			for name, n := range by {
				want[name] += n
			}
			shapes[f.names] = true
		}
		if got := total.byName(); !maps.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		if len(shapes) != 8 {
			t.Errorf("%d lists of names for 8 sets of figures", len(shapes))
		}
		runtime.KeepAlive(shapes)
	}()
	var none sum
	none.add(figures{})
	if got := none.byName(); len(got) != 0 {
		t.Errorf("no view comes to %v", got)
	}
	for deadline := time.Now().Add(time.Minute); ; {
		runtime.GC()
		table.mu.Lock()
		left := len(table.of)
		table.mu.Unlock()
		if left == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d lists of names stay though no view has them", left)
		}
	}
}
