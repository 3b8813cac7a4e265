// Package notice gathers news of services: whoever brings it does not wait, and whoever takes it gets the news of
// a moment at once. A rollout changes a status many times a second.
package notice

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// Notices are the names of services of which there is news. Notices are safe for concurrent use.
type Notices struct {
	wait time.Duration
	due  chan struct{}

	mu       sync.Mutex // guards services
	services map[string]bool
}

// New returns a board that gathers news for as long as wait.
func New(wait time.Duration) *Notices {
	return &Notices{wait: wait, due: make(chan struct{}, 1), services: map[string]bool{}}
}

// Put says that there is news of a service. Put does not block.
func (b *Notices) Put(service string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.services) == 0 {
		time.AfterFunc(b.wait, func() {
			select {
			case b.due <- struct{}{}:
			default:
			}
		})
	}
	b.services[service] = true
}

// Due gets a value when there is something to take.
func (b *Notices) Due() <-chan struct{} { return b.due }

// Take returns the services of which there was news since the last time.
func (b *Notices) Take() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	services := slices.Sorted(maps.Keys(b.services))
	clear(b.services)
	return services
}
