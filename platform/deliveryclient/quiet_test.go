package deliveryclient

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// The heartbeats of a stream make polls needless as long as they say what the last answer was about, and the agent
// would ask the same.
func TestPollsAreLeftOutWhileHeartbeatsSayTheSame(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := &busyHub{wanted: 7, begin: time.Now()}
		var newer atomic.Bool // the cluster was upgraded
		p, stop := running(t, h, func() string {
			if newer.Load() {
				return "v1.37.0"
			}
			return "v1.36.0"
		})
		polls := func(over time.Duration, heartbeat uint64) int {
			synctest.Wait()
			before := len(h.asked)
			for end := time.Now().Add(over); time.Now().Before(end); {
				if heartbeat != silent {
					p.quiet.hear(heartbeat)
				}
				<-time.After(45 * time.Second)
			}
			synctest.Wait()
			return len(h.asked) - before
		}
		if n := polls(time.Hour, 7); n < 4 || n > 6 {
			t.Errorf("%d polls in an hour with nothing new, want one in ten minutes or somewhat more", n)
		}
		if n := polls(time.Hour, 8); n < 25 || n > 34 {
			t.Errorf("%d polls in an hour in which each heartbeat says something else", n)
		}
		polls(5*time.Minute, 7)
		if n := polls(time.Hour, 0); n < 25 || n > 34 {
			t.Errorf("%d polls in an hour of heartbeats that say nothing", n)
		}
		polls(5*time.Minute, 7)
		if n := polls(time.Hour, silent); n < 25 || n > 34 {
			t.Errorf("%d polls in an hour without heartbeats", n)
		}
		polls(5*time.Minute, 7)
		newer.Store(true)
		if n := polls(150*time.Second, 7); n != 1 {
			t.Errorf("%d polls after the cluster was upgraded", n)
		}
		h.wanted = 0
		polls(12*time.Minute, 7)
		if n := polls(time.Hour, 7); n < 25 || n > 34 {
			t.Errorf("%d polls in an hour at a distributor that does not know", n)
		}
		h.wanted = 7
		polls(5*time.Minute, 7)
		before := len(h.asked)
		p.Soon()
		if synctest.Wait(); len(h.asked) != before+1 {
			t.Error("no poll when something may have been missed")
		}
		stop()
	})
}

// silent is a stream without heartbeats.
const silent = 1

// A stream that has just begun asks for a Sync. The Sync is not left out where the timer of the next poll fires at that
// moment: a heartbeat of the stream before knows nothing of nudges that came between the two.
func TestASyncThatAStreamAsksForIsNotLeftOut(t *testing.T) {
	t.Parallel()
	p := &Poller{soon: make(chan struct{}, 1), nudge: make(chan string, 1)}
	if _, nudged, asked := p.missed(); nudged || asked {
		t.Errorf("nobody has asked: nudged %t, asked %t", nudged, asked)
	}
	p.soon <- struct{}{}
	if _, nudged, asked := p.missed(); nudged || !asked {
		t.Errorf("a stream has asked: nudged %t, asked %t", nudged, asked)
	}
	p.soon <- struct{}{}
	p.nudge <- "trace"
	if within, nudged, asked := p.missed(); within != "trace" || !nudged || !asked {
		t.Errorf("a stream has asked, and a nudge has come: within %q, nudged %t, asked %t", within, nudged, asked)
	}
}
