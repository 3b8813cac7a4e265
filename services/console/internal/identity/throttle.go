package identity

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const (
	// A caller with a wrong credential may try this often: enough for somebody who mistypes,
	// and for services that start before the secret is right; far too few to guess 128 bits.
	failureBurst = 20
	failureEvery = 3 * time.Second
	// maxPeers bounds the memory; beyond it, new peers share one budget.
	maxPeers = 10_000
)

// throttle counts wrong credentials per peer.
type throttle struct {
	mu    sync.Mutex
	peers map[string]*rate.Limiter // guarded by mu, as the limiters are
	rest  *rate.Limiter
	// forgiven is when full budgets were last looked for: that walks over all peers.
	forgiven time.Time
}

func newThrottle() *throttle {
	return &throttle{peers: map[string]*rate.Limiter{}, rest: newLimiter()}
}

func newLimiter() *rate.Limiter { return rate.NewLimiter(rate.Every(failureEvery), failureBurst) }

// wait is how long a peer has to wait before its next try; 0: it may try.
func (t *throttle) wait(peer string, now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	limiter, ok := t.peers[peer]
	if !ok {
		if len(t.peers) < maxPeers {
			return 0
		}
		limiter = t.rest
	}
	if missing := 1 - limiter.TokensAt(now); missing > 0 {
		return time.Duration(missing * float64(failureEvery))
	}
	return 0
}

// failed counts a wrong credential.
func (t *throttle) failed(peer string, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	limiter, ok := t.peers[peer]
	if !ok {
		if len(t.peers) >= maxPeers {
			t.forgive(now)
		}
		if len(t.peers) >= maxPeers {
			limiter = t.rest
		} else {
			limiter = newLimiter()
			t.peers[peer] = limiter
		}
	}
	limiter.AllowN(now, 1)
}

// forgive forgets peers whose budget is full again. No budget fills faster than it is called.
func (t *throttle) forgive(now time.Time) {
	if now.Sub(t.forgiven) < failureEvery {
		return
	}
	t.forgiven = now
	for peer, limiter := range t.peers {
		if limiter.TokensAt(now) >= failureBurst {
			delete(t.peers, peer)
		}
	}
}
