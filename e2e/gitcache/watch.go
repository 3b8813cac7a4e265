package gitcache

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"fairlead.dev/e2e/process"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/retry"
)

// Published is what the console says of a source.
type Published struct {
	Time    time.Time // when it was first seen
	Commit  string    // of the default branch
	Number  int       // of the push that it came with
	Epoch   int64
	Owner   string
	Problem string
}

// Watch keeps what the console published, and judges it: a head was pushed, and neither heads nor
// epochs go back.
type Watch struct {
	fleet *Fleet
	repos map[string]*Repo

	mu      sync.Mutex // guards what follows
	last    map[string]Published
	history map[string][]Published // heads only, by source
	epochs  map[string]int         // how often each source was claimed
	wrong   []error
}

// Watch follows the console until ctx ends; it is told by the function what went wrong.
func (f *Fleet) Watch(ctx context.Context) (w *Watch, end func() error) {
	w = &Watch{
		fleet: f, repos: map[string]*Repo{}, last: map[string]Published{},
		history: map[string][]Published{}, epochs: map[string]int{},
	}
	for _, r := range f.Repos() {
		w.repos[r.Name] = r
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			if err := w.follow(ctx); ctx.Err() == nil {
				w.complain(fmt.Errorf("watch the console: %w", err)) // no test stops the console
				retry.Sleep(ctx, time.Second)
			}
		}
	}()
	return w, func() error {
		cancel()
		<-done
		w.mu.Lock()
		defer w.mu.Unlock()
		return errors.Join(w.wrong...)
	}
}

func (w *Watch) follow(ctx context.Context) error {
	stream, err := w.fleet.api.catalog.Watch(ctx, &consolev1.WatchRequest{})
	if err != nil {
		return err
	}
	defer stream.Close()
	for stream.Receive() {
		for _, c := range stream.Msg().GetChanges().GetChanges() {
			if s := c.GetSource(); s != nil {
				w.take(s)
			}
		}
	}
	return stream.Err()
}

func (w *Watch) take(s *consolev1.Source) {
	name := s.GetMetadata().GetName()
	repo := w.repos[name]
	if repo == nil {
		return
	}
	now := Published{
		Time: time.Now(), Epoch: s.GetStatus().GetEpoch(), Owner: s.GetStatus().GetOwner(),
		Problem: s.GetStatus().GetProblem().GetMessage(), Number: -1,
	}
	for _, h := range s.GetStatus().GetHeads() {
		if h.GetRef() != "HEAD" {
			continue
		}
		number, ok := repo.Number(h.GetRevision().GetCommit())
		if !ok {
			w.complain(fmt.Errorf("%s: head %s was never pushed", name, h.GetRevision().GetCommit()))
		}
		now.Commit, now.Number = h.GetRevision().GetCommit(), number
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	before, known := w.last[name]
	if known && (now.Number < before.Number || now.Epoch < before.Epoch) {
		w.wrong = append(w.wrong, fmt.Errorf("%s went back: from push %d in epoch %d to push %d in epoch %d by %s",
			name, before.Number, before.Epoch, now.Number, now.Epoch, now.Owner))
	}
	if known && now.Epoch > before.Epoch {
		w.epochs[name] += int(now.Epoch - before.Epoch)
	}
	if now.Number >= 0 && (!known || now.Number > before.Number) {
		w.history[name] = append(w.history[name], now)
	}
	w.last[name] = now
}

func (w *Watch) complain(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wrong = append(w.wrong, err)
}

// Last is what the console said last of a source.
func (w *Watch) Last(source string) Published {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last[source]
}

// Heads are the heads that a source had, the oldest first.
func (w *Watch) Heads(source string) []Published {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clip(w.history[source])
}

// Claims are how often each source got another epoch since the watch began.
func (w *Watch) Claims() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.epochs)
}

// Current waits until every head is where its repository is.
func (w *Watch) Current(ctx context.Context) error {
	return process.Await(ctx, "every head is current", func(context.Context) error {
		behind, first := 0, ""
		for name, r := range w.repos {
			if is, want := w.Last(name), r.Last(); is.Commit != want.ID {
				if behind++; first == "" {
					first = fmt.Sprintf("%s is at push %d of %d, epoch %d of %q, problem %q", name, is.Number, want.Number, is.Epoch, is.Owner, is.Problem)
				}
			}
		}
		if behind > 0 {
			return fmt.Errorf("%d are behind: %s", behind, first)
		}
		return nil
	})
}

// Owners counts the sources that each replica published last.
func (w *Watch) Owners() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	owners := map[string]int{}
	for _, p := range w.last {
		owners[p.Owner]++
	}
	return owners
}
