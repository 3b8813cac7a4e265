package build

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"
)

// await yields until something is so.
func await(t *testing.T, so func() bool) {
	t.Helper()
	for !so() {
		if t.Context().Err() != nil {
			t.FailNow()
		}
		runtime.Gosched()
	}
}

// waiting are the looks of "u1" that wait or are at work.
func (t *turns) waiting() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if own, ok := t.sources["u1"]; ok {
		return own.users
	}
	return 0
}

func TestAPlaceIsLookedUpOnceHoweverManyAsk(t *testing.T) {
	t.Parallel()
	b, commit := newBuilder(t)
	for range lookers {
		b.looks.all <- struct{}{} // all lookers are busy
	}
	const callers = 10
	deploy, root := Place{Source: "u1", Commit: commit, Path: "deploy"}, Place{Source: "u1", Commit: commit}
	done := make(chan error, callers)
	asked := make(chan struct{}, callers)
	for range callers {
		go func() {
			asked <- struct{}{}
			_, err := b.Resolve(t.Context(), deploy)
			done <- err
		}()
	}
	for range callers {
		<-asked
	}
	for range 1000 {
		runtime.Gosched()
	}
	await(t, func() bool { return b.looks.waiting() > 0 })
	if n := b.looks.waiting(); n != 1 {
		t.Errorf("%d looks for one place", n)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.Resolve(gone, deploy); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that gave up got %v", err)
	}
	other := make(chan error, 1)
	go func() {
		_, err := b.Resolve(t.Context(), root)
		other <- err
	}()
	await(t, func() bool { return b.looks.waiting() == 2 })
	for range lookers {
		<-b.looks.all
	}
	for range callers {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if err := <-other; err != nil {
		t.Error(err)
	}
}

func TestSlowLooksOfASourceAreInNobodysWay(t *testing.T) {
	t.Parallel()
	b, commit := newBuilder(t)
	for range sourceLookers {
		leave, err := b.looks.takeTurn(t.Context(), "evil")
		if err != nil {
			t.Fatal(err)
		}
		defer leave()
	}
	evil := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_, err := b.looks.takeTurn(ctx, "evil")
		evil <- err
	}()
	if _, err := b.Resolve(t.Context(), Place{Source: "u1", Commit: commit, Path: "deploy"}); err != nil {
		t.Error(err)
	}
	cancel()
	if err := <-evil; !errors.Is(err, context.Canceled) {
		t.Errorf("one more look of the same source: %v", err)
	}
}

func TestALookThatTakesTooLongIsNotTriedAgainAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	p := place(w.commit(overlayFiles()), overlay)
	now := time.Now()
	w.builder.places.now = func() time.Time { return now }
	w.builder.lookTime = time.Nanosecond
	for range 2 { // the second time it would be in time
		_, err := w.builder.Resolve(t.Context(), p)
		if !errors.Is(err, context.DeadlineExceeded) ||
			!strings.Contains(err.Error(), `folder "deploy/overlays/dev" refers to takes longer than the limit of 1ns`) {
			t.Errorf("got %v", err)
		}
		w.builder.lookTime = reachTime
	}
	now = now.Add(reachPause)
	w.resolve(p)
}

func TestPinEndsWithItsContextAndChangesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	commit := w.commit(overlayFiles())
	w.resolve(place(commit, overlay))
	w.builder.Pin(t.Context(), []Place{place(commit, overlay)})
	for range lookers {
		w.builder.looks.all <- struct{}{}
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.builder.Pin(ctx, []Place{place(commit, "deploy"), place(commit, "far")})
	}()
	await(t, func() bool { return w.builder.looks.waiting() == 2 }) // side by side
	cancel()
	<-done
	for range lookers {
		<-w.builder.looks.all
	}
	w.builder.pins.Lock()
	defer w.builder.pins.Unlock()
	if n := len(w.builder.pinned["u1"]); n != 1 {
		t.Errorf("%d contents are pinned", n)
	}
}
