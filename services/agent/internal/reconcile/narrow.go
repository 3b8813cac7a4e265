package reconcile

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"

	"fairlead.dev/platform/accounts"
)

// Narrower is what the hub narrows of what services may, below what the agent's flags say. The zero value narrows
// nothing.
type Narrower struct {
	// Concurrency is how many services are applied or removed at the same time; 0: as many as usual.
	Concurrency int
	// RequireAccount refuses services that name no account to be applied as.
	RequireAccount bool
	// Accounts are lists of patterns, one of each of which has to fit.
	Accounts [][]string
	// Registries are lists of registries, one of each of which has to have an image.
	Registries [][]string
}

// Narrow puts it in force. What waits because of what was in force before is tried again as what failed is.
func (c *Controller) Narrow(to Narrower) {
	c.narrower.Store(&to)
	c.turns.narrowSlots(to.Concurrency)
}

func (c *Controller) currentNarrower() Narrower {
	if n := c.narrower.Load(); n != nil {
		return *n
	}
	return Narrower{}
}

// allowsAccount tells whether each list has a pattern for an account.
func (n Narrower) allowsAccount(account string) bool {
	for _, patterns := range n.Accounts {
		if !accounts.Allowed(patterns, account) {
			return false
		}
	}
	return true
}

// turns are the slots at the cluster.
type turns struct {
	slots *semaphore.Weighted // of workers; those above the limit are kept taken

	mu    sync.Mutex // guards what follows
	limit int
	taken int // by nobody, to keep the limit
}

func newTurns() *turns { return &turns{slots: semaphore.NewWeighted(workers), limit: workers} }

// takeSlot waits for a slot. Without an error give must be called.
func (t *turns) takeSlot(ctx context.Context) (give func(), err error) {
	if err := t.slots.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	return t.giveSlot, nil
}

func (t *turns) giveSlot() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.taken < workers-t.limit {
		t.taken++
		return
	}
	t.slots.Release(1)
}

func (t *turns) narrowSlots(most int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.limit = workers; most > 0 {
		t.limit = min(most, workers)
	}
	for t.taken < workers-t.limit && t.slots.TryAcquire(1) {
		t.taken++
	}
	for t.taken > workers-t.limit {
		t.slots.Release(1)
		t.taken--
	}
}
