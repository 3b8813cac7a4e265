package identity

import (
	"fmt"
	"hash/maphash"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"fairlead.dev/platform/refusal"
)

const (
	// A caller with a wrong credential may try this often: enough for somebody who mistypes,
	// and for services that start before the secret is right; far too few to guess 128 bits.
	failureBurst = 20
	failureEvery = 3 * time.Second
	// maxPeers bounds the memory; beyond it, new peers share the budgets of wider networks.
	maxPeers = 10_000
	// maxCrowds bounds those: strangers with very many addresses have them in few wide networks, so that others still
	// log in.
	maxCrowds = 1024
	// crowd4 and crowd6 are how wide they are: what one provider hands out to one customer, and more.
	crowd4, crowd6 = 16, 32
)

// throttle counts wrong credentials per peer.
type throttle struct {
	mu    sync.Mutex
	peers map[string]*rate.Limiter // guarded by mu, as the limiters are
	// crowds are for peers beyond maxPeers.
	crowds [maxCrowds]*rate.Limiter
	seed   maphash.Seed
	// forgiven is when full budgets were last looked for: that walks over all peers.
	forgiven time.Time
}

func newThrottle() *throttle {
	return &throttle{peers: map[string]*rate.Limiter{}, seed: maphash.MakeSeed()}
}

// crowd is the budget of the wide network that a peer is in. The caller holds mu.
func (t *throttle) crowd(peer string) *rate.Limiter {
	i := maphash.String(t.seed, wide(peer)) % maxCrowds
	if t.crowds[i] == nil {
		t.crowds[i] = newLimiter()
	}
	return t.crowds[i]
}

// wide is the wide network of a peer, as addresses.Network names it.
func wide(peer string) string {
	bits := crowd4
	addr, err := netip.ParseAddr(peer)
	if err != nil {
		prefix, err := netip.ParsePrefix(peer)
		if err != nil {
			return peer
		}
		addr, bits = prefix.Addr(), crowd6
	}
	of, err := addr.Prefix(bits)
	if err != nil {
		return peer
	}
	return of.String()
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
		limiter = t.crowd(peer)
	}
	if missing := 1 - limiter.TokensAt(now); missing > 0 {
		return time.Duration(missing * float64(failureEvery))
	}
	return 0
}

// tooMany refuses a caller that has to wait.
func tooMany(what string, wait time.Duration) error {
	return &refusal.Error{
		Reason: refusal.Exhausted, RetryAfter: wait,
		Message: fmt.Sprintf("too many %s: try again in %d s", what, int(wait.Seconds())+1),
	}
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
			limiter = t.crowd(peer)
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
