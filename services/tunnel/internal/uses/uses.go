// Package uses reports to the console with which tokens agents began sessions. A token that is used after it was
// renewed is in a second hand; a copy that asks no distributor shows itself here only.
package uses

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/retry"
)

const (
	// pause is between two reports: a storm of agents is one call.
	pause = 2 * time.Second
	// callTimeout bounds one report, and maxWait the wait after failures.
	callTimeout, maxWait = 10 * time.Second, 30 * time.Second
	// maxWaiting bounds the uses that wait for the console, which takes as many in one call. Later ones are left out:
	// an agent that goes on with a copy begins sessions again.
	maxWaiting = 10_000
)

// Console takes reports in.
type Console interface {
	RecordTokenUses(context.Context, *consolev1.RecordTokenUsesRequest) (*consolev1.RecordTokenUsesResponse, error)
}

// use is what is reported once, however often it was seen since the last report.
type use struct{ cluster, token string }

// Reporter reports uses. Safe for concurrent use.
type Reporter struct {
	console Console
	log     *slog.Logger
	signal  chan struct{} // capacity 1

	mu      sync.Mutex // guards waiting
	waiting map[use]time.Time
}

// New returns a Reporter; Run works.
func New(c Console, log *slog.Logger) *Reporter {
	return &Reporter{console: c, log: log, signal: make(chan struct{}, 1), waiting: map[use]time.Time{}}
}

// Note notes that an agent began a session.
func (r *Reporter) Note(by identity.Identity, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	of := use{by.Name, by.TokenID}
	if _, known := r.waiting[of]; !known && len(r.waiting) >= maxWaiting {
		return
	}
	r.waiting[of] = at
	select {
	case r.signal <- struct{}{}:
	default:
	}
}

// Run reports until ctx ends. Uses that the console did not take in stay.
func (r *Reporter) Run(ctx context.Context) error {
	backoff := retry.Backoff{Floor: pause, Max: maxWait}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.signal:
		}
		wait := pause
		if err := r.report(ctx); err != nil && ctx.Err() == nil {
			r.log.InfoContext(ctx, "report tokens of agents to the console", "err", err)
			wait = backoff.After(err)
		} else {
			backoff = retry.Backoff{Floor: pause, Max: maxWait}
		}
		if !retry.Sleep(ctx, wait) {
			return nil
		}
	}
}

func (r *Reporter) report(ctx context.Context) error {
	r.mu.Lock()
	taken := r.waiting
	r.waiting = map[use]time.Time{}
	r.mu.Unlock()
	req := &consolev1.RecordTokenUsesRequest{}
	for of, at := range taken {
		req.Uses = append(req.Uses, &consolev1.AgentTokenUse{Cluster: of.cluster, Token: of.token, Time: timestamppb.New(at)})
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := r.console.RecordTokenUses(ctx, req)
	if err != nil {
		r.putBack(taken)
	}
	return err
}

// putBack keeps what was not reported, within the bound, unless there is newer.
func (r *Reporter) putBack(taken map[use]time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for of, at := range taken {
		if _, newer := r.waiting[of]; !newer && len(r.waiting) < maxWaiting {
			r.waiting[of] = at
		}
	}
	select {
	case r.signal <- struct{}{}:
	default:
	}
}
