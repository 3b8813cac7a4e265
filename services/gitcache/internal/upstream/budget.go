package upstream

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"
)

const (
	// hostRate and hostBurst of requests to one host. 1,000 repositories at the default interval of
	// 2 minutes are 8.3/s: there is room for their fetches and for catching up after a pause.
	hostRate  = 20 // per second
	hostBurst = 40

	// Per host, at once: polls are short; packs cost the host much and can last, so they have places of
	// their own, and never keep polls from being made.
	hostLists = 8
	hostPacks = 2
	// Over all hosts, at once: a bound for descriptors. Many times what one host can take, so that hosts
	// that hang leave places for others.
	allLists = 256
	allPacks = 64
	// allChecks of packs that are here, at once: each takes up to some 300 MiB of memory.
	allChecks = 4
	// hostChecks of one host's packs: some can take as long as a fetch may.
	hostChecks = 2

	// waitOut is how long a pause that a host asked for is waited out in line. For longer ones the
	// answer is an error at once, so that nobody is kept waiting and the status says why.
	waitOut = 2 * time.Second
	// A host that throttles without saying for how long gets a pause that doubles from firstPause.
	firstPause = 5 * time.Second
	mostPause  = 5 * time.Minute

	// manyHosts in memory make the budget look for those that it can forget.
	manyHosts = 1024
)

// Lane is what a request is for.
type Lane int

// The lanes.
const (
	Lists Lane = iota // polls
	Packs             // what is downloaded
	lanes             // how many there are
)

// Budget is how much is asked of each Git host, by all sources together: requests at once and per second,
// and pauses that the host asked for. A request that waits for one host delays no request to another one. In line it is
// first come, first served.
type Budget struct {
	all    [lanes]*semaphore.Weighted
	checks *semaphore.Weighted

	mu    sync.Mutex // guards hosts, and what is in them but for places, checks and rate
	hosts map[string]*hostBudget
}

type hostBudget struct {
	places [lanes]*semaphore.Weighted // first in, first out
	checks *semaphore.Weighted
	rate   *rate.Limiter
	users  int       // waiting or at work
	until  time.Time // of the pause
	pauses int       // in a row that the host did not say the length of
}

// NewBudget makes a budget that is not used yet.
func NewBudget() *Budget {
	return &Budget{
		all:    [lanes]*semaphore.Weighted{semaphore.NewWeighted(allLists), semaphore.NewWeighted(allPacks)},
		checks: semaphore.NewWeighted(allChecks),
		hosts:  map[string]*hostBudget{},
	}
}

// EnterHost waits until the host (see DoorOf) may be asked. leave must be called once. The error is the context's, or
// an *Error while the host wants to be left alone.
func (b *Budget) EnterHost(ctx context.Context, host string, l Lane) (leave func(), err error) {
	h := b.hostOf(host)
	defer func() {
		if err != nil {
			b.forgetHost(h)
		}
	}()
	if err := b.waitPause(ctx, host, h); err != nil { // before the line: who is in it has been told already
		return nil, err
	}
	if err := h.places[l].Acquire(ctx, 1); err != nil {
		return nil, ctx.Err()
	}
	if err := b.waitTurn(ctx, host, h, l); err != nil {
		h.places[l].Release(1)
		return nil, err
	}
	return sync.OnceFunc(func() {
		b.all[l].Release(1)
		h.places[l].Release(1)
		b.forgetHost(h)
	}), nil
}

// waitTurn waits, with a place at the host, for the host's rate and for a place among all. The place among all
// comes last: nobody waits with it.
func (b *Budget) waitTurn(ctx context.Context, host string, h *hostBudget, l Lane) error {
	if err := b.waitPause(ctx, host, h); err != nil {
		return err
	}
	r := h.rate.Reserve()
	if err := sleepFor(ctx, r.Delay()); err != nil {
		r.Cancel()
		return err
	}
	// The host may have asked for one since.
	if err := b.waitPause(ctx, host, h); err != nil {
		return err
	}
	if err := b.all[l].Acquire(ctx, 1); err != nil {
		return ctx.Err()
	}
	return nil
}

// waitPause waits out a short pause and says no for a long one.
func (b *Budget) waitPause(ctx context.Context, host string, h *hostBudget) error {
	b.mu.Lock()
	left := time.Until(h.until)
	b.mu.Unlock()
	if left > waitOut {
		return &Error{Kind: KindThrottled, RetryAfter: left, Message: fmt.Sprintf(
			"%s asked to be left alone for a while: too many requests. Fairlead asks again in %s; a longer interval helps", placeOf(host), left.Round(time.Second))}
	}
	return sleepFor(ctx, left)
}

// notePauses takes in what a host's answer says about pauses.
func (b *Budget) notePauses(host string, resp *http.Response) {
	b.mu.Lock()
	defer b.mu.Unlock()
	h, ok := b.hosts[host]
	if !ok {
		return
	}
	d, asked := pauseOf(resp)
	switch {
	case !IsThrottled(resp):
		h.pauses = 0
		return
	case !asked:
		d = min(firstPause<<min(h.pauses, 16), mostPause)
		h.pauses++
	}
	if until := time.Now().Add(d); until.After(h.until) {
		h.until = until
	}
}

func (b *Budget) hostOf(name string) *hostBudget {
	b.mu.Lock()
	defer b.mu.Unlock()
	h, ok := b.hosts[name]
	if !ok {
		b.sweepHosts()
		h = &hostBudget{
			places: [lanes]*semaphore.Weighted{semaphore.NewWeighted(hostLists), semaphore.NewWeighted(hostPacks)},
			checks: semaphore.NewWeighted(hostChecks),
			rate:   rate.NewLimiter(hostRate, hostBurst),
		}
		b.hosts[name] = h
	}
	h.users++
	return h
}

func (b *Budget) forgetHost(h *hostBudget) {
	b.mu.Lock()
	defer b.mu.Unlock()
	h.users--
}

// sweepHosts drops hosts of which nothing has to be remembered.
func (b *Budget) sweepHosts() {
	if len(b.hosts) < manyHosts {
		return
	}
	for name, h := range b.hosts {
		if h.users == 0 && time.Now().After(h.until) && h.rate.Tokens() >= hostBurst {
			delete(b.hosts, name)
		}
	}
}

func sleepFor(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

type counterKey struct{}

// WithCounter makes every request to upstream that is made under the context add one.
func WithCounter(ctx context.Context, n *atomic.Int64) context.Context {
	return context.WithValue(ctx, counterKey{}, n)
}

// CountRequest is called for each request to upstream.
func CountRequest(ctx context.Context) {
	if n, ok := ctx.Value(counterKey{}).(*atomic.Int64); ok {
		n.Add(1)
	}
}
