package pressure

import (
	"testing"
	"testing/synctest"
	"time"
)

// A line of 4,000 at 200 a second takes 20 s. Callers refused meanwhile come back after it, no faster than the line
// moves.
func TestRefusedCallersComeBackAsFastAsTheLineMoves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var p Pace
		pauses := func(waiting int64, callers int) (shortest, longest time.Duration) {
			shortest = time.Hour
			for range callers {
				pause := p.Pause(waiting)
				shortest, longest = min(shortest, pause), max(longest, pause)
			}
			return shortest, longest
		}
		if shortest, longest := pauses(4000, 1000); shortest < leastPause || longest > unknownPause || longest < unknownPause/2 {
			t.Errorf("while nothing is known: %s to %s", shortest, longest)
		}
		for range 100 {
			<-time.After(100 * time.Millisecond)
			p.Note(20, true)
		}
		if shortest, longest := pauses(4000, 2000); shortest < 8*time.Second || longest < 12*time.Second || longest > 15*time.Second {
			t.Errorf("2,000 callers after 10 s, two in the time of one at 200 a second: %s to %s", shortest, longest)
		}
		if shortest, longest := pauses(4000, 20_000); shortest < 10*time.Second || longest > longestPause || longest < longestPause/2 {
			t.Errorf("of far too many: %s to %s", shortest, longest)
		}
		p.Note(20, false) // all that waited are through, so what was refused comes in time
		if shortest, longest := pauses(0, 10); shortest < leastPause || longest > leastPause+time.Second {
			t.Errorf("of none: %s to %s", shortest, longest)
		}
	})
}

// A line that was empty for a while and gets one caller now and then is as quick as before.
func TestATimeWithoutALineIsNoPartOfItsPace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var p Pace
		for range 100 {
			<-time.After(100 * time.Millisecond)
			p.Note(20, true)
		}
		p.Note(20, false)
		for range 100 {
			<-time.After(10 * time.Second)
			p.Note(1, false)
		}
		<-time.After(50 * time.Second)
		p.Note(1, true) // the line fills
		longest := time.Duration(0)
		for range 1000 {
			longest = max(longest, p.Pause(4000))
		}
		if longest > 45*time.Second {
			t.Errorf("up to %s at 200 a second", longest)
		}
	})
}
