// Package pulse says since when something that a service stands on, such as its database, answers or does not.
//
// Run asks one question after the other; Last never waits for one.
package pulse

import (
	"context"
	"sync"
	"time"
)

const (
	// every is the time between two questions: a page that shows the answer is looked at by people.
	every = 5 * time.Second
	// patience bounds one question.
	patience = 2 * time.Second
)

// Beat is how it was when it was asked last. The zero value: it was not asked yet.
type Beat struct {
	// Since is when it was first asked in the state of now: it answers, or it does not.
	Since time.Time
	// Problem is why there is no answer; nil: there is one.
	Problem error
	// Asked is when it was asked last, and Took how long the answer took.
	Asked time.Time
	Took  time.Duration
}

// Pulse asks something again and again.
type Pulse struct {
	ask func(context.Context) error

	mu   sync.Mutex // guards last
	last Beat
}

// New returns the pulse of what a question is answered by.
func New(ask func(context.Context) error) *Pulse { return &Pulse{ask: ask} }

// Run asks until ctx ends.
func (p *Pulse) Run(ctx context.Context) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		p.once(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

func (p *Pulse) once(ctx context.Context) {
	asking, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	began := time.Now()
	err := p.ask(asking)
	if ctx.Err() != nil {
		return // which says nothing of what was asked
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last.Asked.IsZero() || (p.last.Problem == nil) != (err == nil) {
		p.last.Since = began
	}
	p.last.Problem, p.last.Asked, p.last.Took = err, began, time.Since(began)
}

// Last is how it was when it was asked last.
func (p *Pulse) Last() Beat {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last
}
