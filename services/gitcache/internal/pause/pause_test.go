package pause

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

func nap(d time.Duration) { time.Sleep(d) } //nolint:forbidigo // fake time

// A repository whose packs break a limit is checked every few minutes at most, however often it is pushed to, and then
// ever more seldom.
func TestARepositoryOverALimitPausesWhateverIsPushed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, bad := Pauses{}, errors.New("too large")
		for n := range 12 {
			p.AddLong(fmt.Sprint("wants ", n), "repository", bad)
			bound := min(first<<(limitTimes+n), MostSpoiled)
			nap(bound/2 - 1)
			if err := p.Check("repository"); !errors.Is(err, bad) {
				t.Fatalf("after the %dth pack others are fetched within %s", n+1, bound/2)
			}
			nap(bound + 1)
			if err := p.Check("repository"); err != nil {
				t.Fatalf("after the %dth pack others wait longer than %s", n+1, bound*3/2)
			}
		}
		p.Clear("repository")
		p.AddLong("wants", "repository", bad)
		nap(first << limitTimes * 3 / 2)
		if p.Check("repository") != nil || p.Check("wants") == nil {
			t.Error("a repository that was fetched pauses as long as before, or the pack itself is not")
		}
	})
}

func TestWhatDoesNotWorkIsTriedEverMoreSeldom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, bad := Pauses{}, errors.New("bad")
		for n := range 30 {
			p.Add("x", bad, time.Hour)
			bound := min(first<<n, time.Hour)
			if n > 20 {
				bound = time.Hour
			}
			if err := p.Check("x"); !errors.Is(err, bad) {
				t.Fatalf("it is tried at once: %v", err)
			}
			nap(bound/2 - 1)
			if p.Check("x") == nil {
				t.Fatalf("the %dth pause is shorter than %s", n+1, bound/2)
			}
			nap(bound + 1)
			if err := p.Check("x"); err != nil {
				t.Fatalf("the %dth pause is longer than %s", n+1, bound*3/2)
			}
		}
		p.Clear("x")
		p.Add("x", bad, time.Hour)
		nap(first * 3 / 2)
		if err := p.Check("x"); err != nil {
			t.Error("what worked once pauses as long as before")
		}
		for i := range 3 * maxPauses {
			p.Add(string(rune(i)), bad, time.Hour)
		}
		if len(p) > maxPauses {
			t.Errorf("%d are remembered", len(p))
		}
	})
}
