package pressure

import (
	"testing"
	"testing/synctest"
	"time"
)

// A line of 4,000 at 200 a second takes 20 s: its callers come back within 40 s, spread over them.
func TestRefusedCallersComeBackAsFastAsTheLineMoves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var p Pace
		longest := func(waiting int64) (longest time.Duration) {
			for range 1000 {
				pause := p.Pause(waiting)
				if pause < leastPause {
					t.Fatalf("pause of %s", pause)
				}
				longest = max(longest, pause)
			}
			return longest
		}
		if got := longest(4000); got > unknownPause || got < unknownPause/2 {
			t.Errorf("while nothing is known: up to %s", got)
		}
		for range 100 {
			<-time.After(100 * time.Millisecond)
			p.Note(20, true)
		}
		if got := longest(4000); got < 35*time.Second || got > 45*time.Second {
			t.Errorf("at 200 a second: up to %s", got)
		}
		if got := longest(4_000_000); got > longestPause || got < longestPause/2 {
			t.Errorf("of far too many: up to %s", got)
		}
		if got := longest(0); got > leastPause+time.Second {
			t.Errorf("of none: up to %s", got)
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
